"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import job
from ._calls import as_written, name_of
from .collectives import sum_over_ranks


@tf.keras.utils.register_keras_serializable(package="hvd")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with the mean and variance of all ranks' batches together in training.

    The batches may differ in size. Each layer makes one allreduce in the forward pass and one in the backward pass.
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused is not False:
            raise ValueError("hvd: SyncBatchNormalization does not go with fused=True")
        if _KERAS_2:
            kwargs["fused"] = False
        kwargs["name"] = kwargs.get("name") or "sync_batch_normalization"
        super().__init__(**kwargs)

    def get_config(self) -> dict[str, Any]:
        return {key: value for key, value in super().get_config().items() if key != "fused"}

    def _moments(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if job.size() == 1:
            return mean, variance
        mask = kwargs.get("mask") if _KERAS_2 else args[0]
        count = tf.cast(tf.size(inputs) / tf.size(mean), mean.dtype)
        if mask is not None:
            count *= tf.reduce_mean(tf.cast(mask, mean.dtype))
        return _of_all_ranks(mean, variance, count)


_KERAS_2 = not hasattr(tf.keras, "version")


@as_written
def _of_all_ranks(mean: tf.Tensor, variance: tf.Tensor, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and variance over all ranks' elements. `count`: the number of this rank's elements per mean."""
    sums = [tf.reshape(mean, [-1]) * count, tf.reshape(variance + tf.square(mean), [-1]) * count, [count]]
    name = name_of("sync_batch_normalization", "", None, ignore_name_scope=True)
    total = sum_over_ranks(tf.concat(sums, 0), name)
    channels = tf.size(mean)
    all_mean = tf.reshape(total[:channels] / total[-1], tf.shape(mean))
    all_squares = tf.reshape(total[channels:-1] / total[-1], tf.shape(mean))
    all_mean.set_shape(mean.shape)
    all_squares.set_shape(mean.shape)
    return all_mean, all_squares - tf.square(all_mean)
