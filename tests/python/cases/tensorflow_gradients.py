"""hvd.tensorflow: gradients of the collectives, DistributedGradientTape, SyncBatchNormalization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

import hvd.tensorflow as hvd
from _expect import raises

FRAMEWORK = "tensorflow"
SIZES = (1, 2)


def both_ways(function: Callable[..., object], *arguments: tf.Tensor) -> list[object]:
    """Returns the function's results, eager and as a tf.function."""
    return [function(*arguments), tf.function(function)(*arguments)]


def gradient_of(collective: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, weight: float) -> list[np.ndarray]:
    """Returns the gradient of the sum of the collective's result times `weight`, eager and as a tf.function."""
    def gradient(value: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(value)
            loss = tf.reduce_sum(collective(value)) * weight
        return tape.gradient(loss, value)

    return [result.numpy() for result in both_ways(gradient, x)]


def weights() -> np.ndarray:
    return np.arange(1.0, hvd.size() + 1)


def case_reductions_have_the_right_gradients() -> None:
    rank, size = hvd.rank(), hvd.size()
    x = tf.ones((2 * size, 2))
    for op, expected in ((hvd.Sum, weights().sum()), (hvd.Average, weights().mean())):
        for got in gradient_of(lambda value: hvd.allreduce(value, op=op, name="reduced"), x, rank + 1.0):
            np.testing.assert_allclose(got, np.full(x.shape, expected))
        for got in gradient_of(lambda value: hvd.grouped_allreduce([value, 2 * value], op=op, name="group")[1], x,
                               rank + 1.0):
            np.testing.assert_allclose(got, np.full(x.shape, 2 * expected))
        scattered = np.repeat(weights(), 2)[:, None] * np.ones((1, 2)) * (size if op == hvd.Sum else 1)
        for got in gradient_of(lambda value: hvd.reducescatter(value, op=op, name="scattered"), x, rank + 1.0):
            np.testing.assert_allclose(got, scattered)
    with raises(hvd.errors.UnsupportedError, "Max"):
        gradient_of(lambda value: hvd.allreduce(value, op=hvd.Max, name="max"), x, 1.0)


def case_allgather_broadcast_and_alltoall_have_the_right_gradients() -> None:
    rank, size = hvd.rank(), hvd.size()
    x = tf.ones((rank + 1, 2))
    for got in gradient_of(lambda value: hvd.allgather(value, name="gathered"), x, rank + 1.0):
        np.testing.assert_allclose(got, np.full(x.shape, weights().mean()))
    for got in gradient_of(lambda value: hvd.broadcast(value, 0, name="sent"), tf.ones(3), rank + 1.0):
        np.testing.assert_allclose(got, np.full(3, weights().mean() if rank == 0 else 0.0))
    splits = [1] * size
    for got in gradient_of(lambda value: hvd.alltoall(value, splits, name="exchanged")[0], tf.ones((size, 2)),
                           rank + 1.0):
        np.testing.assert_allclose(got, weights()[:, None] * np.ones((1, 2)))


def case_several_gradients_through_one_collective_are_right() -> None:
    """Each is a separate call of the collective's gradient, with its own name."""
    rank, size = hvd.rank(), hvd.size()
    variable = tf.Variable(tf.ones((size, 2)))
    normalize = hvd.SyncBatchNormalization()
    normalize.build((None, 2))
    collectives: list[Callable[[tf.Tensor], tf.Tensor]] = [
        lambda x: hvd.allreduce(x, name="reduced"), lambda x: tf.add_n(hvd.grouped_allreduce([x, x], name="group")) / 2,
        lambda x: hvd.allgather(x, name="gathered"), lambda x: hvd.broadcast(x, 0, name="sent") * size,
        lambda x: hvd.alltoall(x, name="exchanged"), lambda x: hvd.reducescatter(x, name="scattered"),
        lambda x: normalize(x * tf.random.normal(x.shape), training=True)]
    mean = (size + 1) / 2
    everyones = np.arange(1.0, size + 1)[:, None]
    expected = [mean, mean, mean, mean * size * (rank == 0), everyones, everyones, None]

    @tf.function
    def step() -> list[tuple[tf.Tensor, tf.Tensor]]:
        with tf.GradientTape(persistent=True) as tape:
            losses = [(tf.reduce_sum(result) * (rank + 1.0), tf.reduce_sum(2.0 * result) * (rank + 1.0))
                      for result in (collective(variable) for collective in collectives)]
        return [(tape.gradient(first, variable), tape.gradient(second, variable)) for first, second in losses]

    for _ in range(5):
        for (first, second), value in zip(step(), expected):
            if value is not None:
                np.testing.assert_allclose(first, value * np.ones((size, 2)))
                np.testing.assert_allclose(second, 2 * first)


def case_gradients_through_compression_and_allgather_are_right() -> None:
    def collective(value: tf.Tensor) -> tf.Tensor:
        return tf.gather(hvd.allreduce(value, op=hvd.Sum, compression=hvd.Compression.fp16, name="half"), [0, 2])

    for got in gradient_of(collective, tf.ones((3, 2)), 1.0):
        np.testing.assert_allclose(got, [[hvd.size()] * 2, [0, 0], [hvd.size()] * 2])


def case_the_distributed_tape_reduces_gradients() -> None:
    dense, embedding, unused = tf.Variable([1.0, 2.0]), tf.Variable(tf.ones((4, 2))), tf.Variable(1.0)
    sources = [dense, embedding, unused]
    factor = float(hvd.rank() + 1)

    def step(sparse_as_dense: bool, groups: object) -> list[object]:
        with tf.GradientTape() as tape:
            rows = tf.gather(embedding, [0, hvd.rank()])
            loss = factor * (tf.reduce_sum(dense * dense) + tf.reduce_sum(rows))
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense, groups=groups)
        return tape.gradient(loss, sources)

    rows = np.zeros((4, 2))
    for rank in range(hvd.size()):
        rows[0] += (rank + 1) / hvd.size()
        rows[rank] += (rank + 1) / hvd.size()
    for sparse_as_dense in (False, True):
        for groups in (None, 1, [[dense, embedding]]):
            for first, second, third in both_ways(lambda: step(sparse_as_dense, groups)):
                np.testing.assert_allclose(first, 2 * np.array([1.0, 2.0]) * weights().mean())
                assert isinstance(second, tf.IndexedSlices) == (not sparse_as_dense)
                np.testing.assert_allclose(tf.convert_to_tensor(second), rows, rtol=1e-6)
                assert third is None


def case_the_distributed_tape_applies_its_options() -> None:
    variable = tf.Variable([2.0])
    factor = float(hvd.rank() + 1)

    def gradient(**options: object) -> float:
        with tf.GradientTape() as tape:
            loss = factor * variable
        return float(hvd.DistributedGradientTape(tape, **options).gradient(loss, variable)[0])

    assert gradient(op=hvd.Sum) == weights().sum()
    np.testing.assert_allclose(gradient(gradient_predivide_factor=4.0), weights().mean(), rtol=1e-6)
    assert gradient(compression=hvd.Compression.bf16) == weights().mean()
    with raises(ValueError, "gradient_predivide_factor"):
        gradient(op=hvd.Sum, gradient_predivide_factor=2.0)
    with raises(ValueError, "groups"):
        gradient(groups=-1)
    with tf.GradientTape() as tape:
        tape = hvd.DistributedGradientTape(tape)
    with raises(ValueError, "already"):
        hvd.DistributedGradientTape(tape)


def case_the_distributed_tape_leaves_local_layers_alone() -> None:
    shared, local = tf.keras.layers.Dense(1, use_bias=False), tf.keras.layers.Dense(1, use_bias=False)
    for layer in (shared, local):
        layer.build((None, 1))
    for scale, divisor in ((True, hvd.size()), (False, 1)):
        with tf.GradientTape() as tape:
            loss = (hvd.rank() + 1.0) * tf.reduce_sum(shared(tf.ones((1, 1))) + local(tf.ones((1, 1))))
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=local, scale_local_gradients=scale)
        first, second = tape.gradient(loss, [shared.trainable_weights[0], local.trainable_weights[0]])
        assert first.numpy().item() == weights().mean() and second.numpy().item() == (hvd.rank() + 1) / divisor
    with raises(ValueError, "no Keras layer"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=[3])


def case_second_gradients_through_a_collective_are_right() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = x * x * x
        first = hvd.DistributedGradientTape(inner).gradient(loss, x)
    np.testing.assert_allclose([first, outer.gradient(first, x)], [27.0, 18.0])


def case_a_second_gradient_through_a_distributed_tape_is_right() -> None:
    """Differentiates through the gradients that a distributed tape has reduced."""
    x = tf.Variable(2.0)

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape(persistent=True) as outer:
            with tf.GradientTape() as inner:
                loss = x * x * x
            first = hvd.DistributedGradientTape(inner).gradient(loss, x)
            losses = [first * factor for factor in range(20)]
        return [outer.gradient(entry, x) for entry in losses]

    for _ in range(10):
        np.testing.assert_allclose(step(), [12.0 * factor for factor in range(20)])


def case_batch_normalization_uses_the_samples_of_all_ranks() -> None:
    rank, size = hvd.rank(), hvd.size()
    generator = np.random.default_rng(7)
    whole = generator.normal(size=(6 * size, 2, 3)).astype(np.float32)
    bounds = [0, *(6 * (other + 1) - 2 * (other < size - 1) for other in range(size))]  # batches of 4 and of 8 rows
    parts = slice(bounds[rank], bounds[rank + 1])

    def step(layer: tf.keras.layers.Layer, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            result = layer(batch, training=True)
            loss = tf.reduce_sum(result**3)
        return result, tape.gradient(loss, batch)

    plain = tf.keras.layers.BatchNormalization()
    expected, expected_gradient = step(plain, tf.constant(whole))
    for traced in (False, True):
        layer = hvd.SyncBatchNormalization()
        layer.build((None, 2, 3))
        run = tf.function(step) if traced else step
        got, gradient = run(layer, tf.constant(whole[parts]))
        np.testing.assert_allclose(got, expected[parts], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradient, expected_gradient[parts], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(layer.moving_mean, plain.moving_mean, rtol=1e-4, atol=1e-6)
    again = hvd.SyncBatchNormalization.from_config(layer.get_config())
    assert again.momentum == layer.momentum
    with raises(ValueError, "fused"):
        hvd.SyncBatchNormalization(fused=True)


def case_batch_normalization_is_exact_for_values_far_from_zero() -> None:
    """There, sums of squares would lose the variance, which might become negative."""
    rank, size = hvd.rank(), hvd.size()
    whole = (4096.0 + np.random.default_rng(8).normal(size=(32 * size, 3))).astype(np.float32)
    layer = hvd.SyncBatchNormalization(momentum=0.0, epsilon=0.0)
    layer.build((None, 3))
    got = layer(tf.constant(whole[32 * rank : 32 * (rank + 1)]), training=True).numpy()
    wide = whole.astype(np.float64)
    expected = (wide - wide.mean(0)) / wide.std(0)
    np.testing.assert_allclose(layer.moving_variance, wide.var(0), rtol=1e-3)
    np.testing.assert_allclose(got, expected[32 * rank : 32 * (rank + 1)], atol=5e-3)


def case_batch_normalization_works_with_a_rank_without_samples() -> None:
    rank, size = hvd.rank(), hvd.size()
    whole = tf.constant(np.random.default_rng(9).normal(size=(8, 3)).astype(np.float32))
    layer, plain = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    layer.build((None, 3))
    expected = plain(whole, training=True)
    for run in (layer, tf.function(layer)):
        batch = whole if rank == size - 1 else whole[:0]
        with tf.GradientTape() as tape:
            tape.watch(batch)
            result = run(batch, training=True)
            loss = tf.reduce_sum(result**3)
        gradient = tape.gradient(loss, batch)
        np.testing.assert_allclose(result, expected if rank == size - 1 else expected[:0], rtol=1e-4, atol=1e-5)
        assert np.isfinite(gradient.numpy()).all()
    np.testing.assert_equal(np.isfinite(np.asarray(layer.moving_mean)), True)
