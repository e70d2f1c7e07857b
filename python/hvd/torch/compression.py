"""Compression of gradients for sending: the `compression` argument of DistributedOptimizer and allreduce()."""

from __future__ import annotations

from typing import Any

import torch

from .. import _wire


class Compressor:
    """Turns a tensor into the tensor that is sent, and back. Subclass it for another compression.

    The methods are called on the class, without an instance. The tensor that compress() returns must have the same
    shape and type on all ranks, and is reduced in place.

    wire: how libhvd sends that tensor to other hosts, one of HVD_COMPRESSION_... in hvd/hvd.h; 0: as it is.
    """

    wire = _wire.NONE

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


class WireFP16Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as float16, and adds in float32."""

    wire = _wire.FLOAT16


class WireBF16Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as bfloat16, and adds in float32."""

    wire = _wire.BFLOAT16


class WireInt8Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as int8 with a scale for each 256 elements.

    What an allreduce of a name has left out is added in the next one of that name: error feedback (S. P. Karimireddy et
    al., arXiv:1901.09847). Infinities and NaN are an error on all ranks.
    """

    wire = _wire.INT8


class Compression:
    """The compressions that hvd provides. The default is `none`.

    fp16 and bf16 change the type of the tensor, so that it is also added in that type's precision. wire_... are
    libhvd's: for sums and averages of floating point types by allreduce. They change nothing within one host.
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    wire_fp16 = WireFP16Compressor
    wire_bf16 = WireBF16Compressor
    wire_int8 = WireInt8Compressor
