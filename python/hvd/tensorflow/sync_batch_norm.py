"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import job
from ..process_sets import global_process_set
from . import _requests
from ._calls import as_written, name_of, numbered, run
from .collectives import sum_over_ranks


@tf.keras.utils.register_keras_serializable(package="hvd")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with the mean and variance of all ranks' batches together in training.

    The batches may differ in size. Each layer makes one allgather in the forward pass and one allreduce in the backward pass.
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
    """Returns mean and variance over all ranks' elements. `count`: the number of this rank's elements per mean.

    Gathers each rank's count, mean and variance, and merges them (Chan, Golub, LeVeque 1979). Unlike sums of squares,
    this keeps its precision when the mean is far from 0, and is never negative.
    """
    name = name_of("sync_batch_normalization", "", None, ignore_name_scope=True)

    @tf.custom_gradient
    def merged(own_mean: tf.Tensor, own_variance: tf.Tensor) -> Any:
        channels = tf.size(own_mean)
        row = tf.concat([tf.reshape(own_mean, [-1]), tf.reshape(own_variance, [-1]), [count]], 0)
        gathered = run([_requests.allgather(row[tf.newaxis], name, global_process_set)])[0][0]
        total = tf.reduce_sum(gathered[:, -1])
        shares = gathered[:, -1:] / total
        means = gathered[:, :channels]
        # A rank without elements has no mean: NaN, which must not become that of all.
        all_mean = tf.reduce_sum(tf.math.multiply_no_nan(means, shares), 0)
        spread = gathered[:, channels:-1] + tf.square(means - all_mean)
        all_variance = tf.reduce_sum(tf.math.multiply_no_nan(spread, shares), 0)
        mean_of_all, variance_of_all = tf.reshape(all_mean, tf.shape(mean)), tf.reshape(all_variance, tf.shape(mean))

        def gradient(of_mean: tf.Tensor, of_variance: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_both = sum_over_ranks(tf.stack([of_mean, of_variance]), name and numbered(f"{name}.gradient"))
            share = count / total
            away = tf.math.multiply_no_nan(own_mean - mean_of_all, share)
            return share * of_both[0] + 2.0 * away * of_both[1], share * of_both[1]

        return (mean_of_all, variance_of_all), gradient

    all_mean, all_variance = merged(mean, variance)
    all_mean.set_shape(mean.shape)
    all_variance.set_shape(mean.shape)
    return all_mean, all_variance
