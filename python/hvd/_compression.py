"""Compression of tensors for sending, in every framework: what the classes of its `Compression` do.

hvd.torch.compression and hvd.tensorflow.compression add the classes that change a tensor's type. All methods run on the
thread that calls them, and are called on the class, without an instance.
"""

from __future__ import annotations

from typing import Any

# How libhvd sends a tensor to other hosts: HVD_COMPRESSION_... in hvd/hvd.h.
NONE = 0
FLOAT16 = 1
BFLOAT16 = 2
INT8 = 3


class Compressor:
    """Turns a tensor into the tensor that is sent, and back. Subclass it for another compression.

    The tensor that compress() returns must have the same shape and type on all ranks, and may be reduced in place.

    wire: how libhvd sends that tensor to other hosts, one of HVD_COMPRESSION_... in hvd/hvd.h; 0: as it is.
    """

    wire = NONE

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Returns the tensor to send, and a context for decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the reduced tensor in its form before compress(). `ctx`: the context that compress() returned."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


class CastCompressor(Compressor):
    """Sends floating point tensors in another type, all others as they are."""

    sent_as: Any  # the type, the framework's

    @staticmethod
    def is_floating(kind: Any) -> bool:
        """Returns whether this type of the framework is a floating point type."""
        raise NotImplementedError

    @staticmethod
    def cast(tensor: Any, kind: Any) -> Any:
        """Returns the tensor in this type of the framework; the tensor itself if it has that type."""
        raise NotImplementedError

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        return (cls.cast(tensor, cls.sent_as) if cls.is_floating(tensor.dtype) else tensor), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        return cls.cast(tensor, ctx)


class WireFP16Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as float16, and adds in float32."""

    wire = FLOAT16


class WireBF16Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as bfloat16, and adds in float32."""

    wire = BFLOAT16


class WireInt8Compressor(NoneCompressor):
    """Leaves the tensor as it is. libhvd sends it to other hosts as int8 with a scale for each 256 elements.

    What an allreduce of a name has left out is added in the next one of that name: error feedback (S. P. Karimireddy et
    al., arXiv:1901.09847). Infinities and NaN are an error on all ranks.
    """

    wire = INT8


class Compression:
    """The compressions that hvd provides. The default is `none`.

    fp16 and bf16 change the type of the tensor, so that it is also added in that type's precision. wire_... are
    libhvd's: for sums and averages of floating point types by allreduce. They change nothing within one host.
    """

    none = NoneCompressor
    wire_fp16 = WireFP16Compressor
    wire_bf16 = WireBF16Compressor
    wire_int8 = WireInt8Compressor
    fp16: type[CastCompressor]  # of the framework, as bf16
    bf16: type[CastCompressor]


def wire_of(compression: Any) -> int:
    """Returns the compression as libhvd does it. A class that is no Compressor may have none."""
    return getattr(compression, "wire", NONE)


def name_of(compression: Any) -> str:
    """Returns the compression's name, to compare ranks."""
    return getattr(compression, "__name__", str(compression))


def refuse_wire(compression: Any, what: str) -> None:
    """Raises ValueError for a compression of libhvd, which is for allreduces only."""
    if wire_of(compression):
        raise ValueError(f"hvd: {compression.__name__} is for sums and averages by allreduce, not for {what}")
