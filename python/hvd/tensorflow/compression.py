"""Compression of tensors of TensorFlow for sending: the `compression` argument of the optimizers and collectives."""

from __future__ import annotations

import tensorflow as tf

from .. import _compression
from .._compression import (CastCompressor, Compressor, NoneCompressor, WireBF16Compressor, WireFP16Compressor,
                            WireInt8Compressor)

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor", "WireBF16Compressor",
           "WireFP16Compressor", "WireInt8Compressor"]


class _CastCompressor(CastCompressor):
    @staticmethod
    def is_floating(kind: tf.DType) -> bool:
        return kind.is_floating

    @staticmethod
    def cast(tensor: tf.Tensor, kind: tf.DType) -> tf.Tensor:
        return tf.cast(tensor, kind)


class FP16Compressor(_CastCompressor):
    """Sends as float16: 11 bits of precision, values up to 65504."""

    sent_as = tf.float16


class BF16Compressor(_CastCompressor):
    """Sends as bfloat16: 8 bits of precision, the range of float32."""

    sent_as = tf.bfloat16


class Compression(_compression.Compression):
    fp16 = FP16Compressor
    bf16 = BF16Compressor
