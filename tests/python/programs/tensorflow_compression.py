"""Checks compressed allreduces of TensorFlow between hosts: prints the names of the checks that pass, or raises."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvk
import hvd.tensorflow as hvd
from hvd import errors, sent_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cases"))
from _expect import raises  # noqa: E402

COUNT = 40_000
WIRE = {hvd.Compression.wire_fp16: 2**-11, hvd.Compression.wire_bf16: 2**-8, hvd.Compression.wire_int8: 1 / 254}


def values_of(rank: int) -> np.ndarray:
    """Returns a rank's values, between -1 and 1."""
    return np.random.default_rng(rank).uniform(-1, 1, COUNT).astype(np.float32)


def of_all() -> np.ndarray:
    return np.stack([values_of(rank).astype(np.float64) for rank in range(hvd.size())])


def near_but_rounded(got: Any, expected: np.ndarray, precision: float, what: str) -> None:
    off = np.abs(np.asarray(got, np.float64) - expected).max()
    assert precision / 50 < off < 2 * precision * hvd.size() * 1.01, f"{what}: off by {off}"
    assert np.array_equal(got, hvd.broadcast(got, 0, name=f"same {what}")), what


def check_allreduce() -> None:
    tensor = tf.constant(values_of(hvd.rank()))
    for compression, precision in WIRE.items():
        what = compression.__name__

        @tf.function
        def in_graph(values: tf.Tensor) -> tf.Tensor:
            return hvd.allreduce(values, op=hvd.Sum, name=f"{what} graph", compression=compression)

        before = sent_bytes()
        got = hvd.allreduce(tensor, op=hvd.Average, name=what, compression=compression)
        sent = sent_bytes() - before
        assert sent < 4 * COUNT * 0.51 * 2 * (hvd.size() - 1) / hvd.size(), sent
        near_but_rounded(got, of_all().mean(0), precision, what)
        near_but_rounded(in_graph(tensor), of_all().sum(0), precision, f"{what} in a graph")
        several = hvd.grouped_allreduce([tensor, tensor[:100]], op=hvd.Sum, name=f"{what} group", compression=compression)
        near_but_rounded(several[0], of_all().sum(0), precision, f"{what} group")


def check_gradient() -> None:
    tensor = tf.Variable(values_of(hvd.rank()))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(hvd.allreduce(tensor, op=hvd.Sum, name="forward", compression=hvd.Compression.wire_fp16))
    np.testing.assert_array_equal(tape.gradient(loss, tensor), np.full(COUNT, float(hvd.size())))


def check_errors() -> None:
    tensor = values_of(0)
    if hvd.rank() == 1:
        tensor[7] = np.inf
    with raises(errors.InvalidArgumentError, "rank 1: compression in int8 is for finite numbers: element 7 is"):
        hvd.allreduce(tf.constant(tensor), name="inf", compression=hvd.Compression.wire_int8)
    with raises(errors.InvalidArgumentError, "compression in int8 is for floating point types, not for int32"):
        hvd.allreduce(tf.ones(COUNT, tf.int32), op=hvd.Sum, name="int", compression=hvd.Compression.wire_int8)
    with raises(errors.MismatchError, "the compression is"):
        own = hvd.Compression.wire_int8 if hvd.rank() == 0 else hvd.Compression.wire_fp16
        hvd.allreduce(tf.constant(values_of(0)), name="other", compression=own)
    with raises(ValueError, "not for reducescatter"):
        hvd.reducescatter(tf.constant(values_of(0)), compression=hvd.Compression.wire_bf16)
    with raises(ValueError, "not for op=Adasum"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), compression=hvd.Compression.wire_int8, op=hvd.Adasum)


def trained(wrap: Any) -> np.ndarray:
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input((100,)), tf.keras.layers.Dense(300, activation="tanh"),
                                 tf.keras.layers.Dense(10)])
    inputs = np.random.default_rng(hvd.rank()).normal(size=(128, 100)).astype(np.float32)
    model.compile(optimizer=wrap(tf.keras.optimizers.SGD(0.5)), loss="mse")
    model.fit(inputs, inputs[:, :10], batch_size=8, epochs=1, shuffle=False, verbose=0)
    return np.concatenate([weight.reshape(-1) for weight in model.get_weights()])


def check_training() -> None:
    """Weights after training must be equal on all ranks, and near those without compression but not equal to them."""
    begun = trained(lambda optimizer: type(optimizer)(0.0))
    for groups in (None, 1):
        expected = trained(lambda optimizer: hvk.DistributedOptimizer(optimizer, groups=groups))
        for compression in WIRE:
            got = trained(lambda optimizer: hvk.DistributedOptimizer(optimizer, compression=compression, groups=groups))
            off, learned = np.abs(got - expected).max(), np.abs(expected - begun).max()
            assert 0 < off < 0.1 * learned, f"{compression.__name__}: off by {off} of {learned}"
            assert np.array_equal(got, hvd.broadcast(got, 0, name=f"same {groups} {compression.__name__}"))


hvd.init()
for check in (check_allreduce, check_gradient, check_errors, check_training):
    check()
    print(check.__name__, flush=True)
hvd.shutdown()
