"""Compression of gradients for sending: the `compression` argument of DistributedOptimizer and allreduce()."""

from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """Turns a tensor into the tensor that is sent, and back. Subclass it for another compression.

    The methods are called on the class, without an instance. The tensor that compress() returns must have the same
    shape and type on all ranks, and is reduced in place.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor to send, and a context for decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the reduced tensor in its form before compress(). `ctx`: the context that compress() returned."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _CastCompressor(Compressor):
    """Sends floating point tensors in another type, all others as they are."""

    sent_as: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return (tensor.to(cls.sent_as) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Sends as float16: 11 bits of precision, values up to 65504."""

    sent_as = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends as bfloat16: 8 bits of precision, the range of float32."""

    sent_as = torch.bfloat16


class Compression:
    """The compressions that hvd provides. The default is `none`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
