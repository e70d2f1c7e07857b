"""Compression of floating-point tensors for sending: the `compression` argument of the collectives."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf


class Compressor:
    """compress() returns the tensor to send, and a context from which decompress() restores the original type."""

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


class Compression:
    """The compressions that hvd provides."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
