"""Gradients in fewer bits on their way: what DistributedOptimizer and allreduce() take as `compression`."""

from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """Turns a tensor into what is sent, and back. Subclass it for a way of one's own; it is used without an instance.

    What compress() returns must have the same shape and type on all ranks, and is reduced in place.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """What is sent, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The reduced tensor as it was before compress(). `ctx`: what that returned."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """The tensor itself."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _CastCompressor(Compressor):
    """Floating point tensors in another type. Others, integers among them, stay as they are."""

    sent_as: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return (tensor.to(cls.sent_as) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """As float16: 11 bits of precision, nothing above 65504."""

    sent_as = torch.float16


class BF16Compressor(_CastCompressor):
    """As bfloat16: 8 bits of precision, the range of float32."""

    sent_as = torch.bfloat16


class Compression:
    """The ways there are. The default is none."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
