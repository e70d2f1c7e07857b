"""Compression: what floating-point tensors are cast to on their way between the ranks."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf


class Compressor:
    """compress() gives a tensor and what decompress() needs to give it back in its own type."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, context: Any) -> tf.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """As it is."""

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
    """float16."""

    to = tf.float16


class BF16Compressor(_Cast):
    """bfloat16: the range of float32, fewer digits."""

    to = tf.bfloat16


class Compression:
    """What `compression=` takes."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
