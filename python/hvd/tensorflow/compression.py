"""Compression of floating-point tensors for sending: the `compression` argument of the collectives."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from .. import _wire


class Compressor:
    """compress() returns the tensor to send, and a context from which decompress() restores the original type.

    wire: how libhvd sends that tensor to other hosts, one of hvd._wire.
    """

    wire = _wire.NONE

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, context: Any) -> tf.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Optional[tf.DType]]:
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, context: Optional[tf.DType]) -> tf.Tensor:
        return tensor


class _Cast(Compressor):
    to: tf.DType

    @classmethod
    def compress(cls, tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType]:
        kind = tensor.dtype
        return (tf.cast(tensor, cls.to) if kind.is_floating else tensor), kind

    @classmethod
    def decompress(cls, tensor: tf.Tensor, context: tf.DType) -> tf.Tensor:
        return tf.cast(tensor, context) if context.is_floating else tensor


class FP16Compressor(_Cast):
    """Sends as float16: 11 bits of precision, values up to 65504."""

    to = tf.float16


class BF16Compressor(_Cast):
    """Sends as bfloat16: 8 bits of precision, the range of float32."""

    to = tf.bfloat16


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
