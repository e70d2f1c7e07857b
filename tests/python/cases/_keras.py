"""For cases of Keras: a small model, its data, and its training by fit() or step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _folder import shared_folder
from hvd.checkpoint import Checkpoints

KERAS_3 = hasattr(tf.keras, "version")

_generator = np.random.default_rng(3)
INPUTS = _generator.normal(size=(32, 4)).astype(np.float32)
TARGETS = (INPUTS @ _generator.normal(size=(4, 1)) + 0.5).astype(np.float32)


def part(array: np.ndarray) -> np.ndarray:
    """Returns this rank's rows: with two ranks, half of each batch of 8."""
    size, rank = hvd.size(), hvd.rank()
    return array.reshape(-1, size, 8 // size, array.shape[-1])[:, rank].reshape(-1, array.shape[-1])


def model_of(seed: int = 1) -> Any:
    tf.keras.utils.set_random_seed(seed)
    return tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="tanh"),
                                tf.keras.layers.Dense(1)])


def fit(model: Any, optimizer: Any, whole: bool = False, epochs: int = 2, callbacks: Any = (), **options: Any) -> Any:
    model.compile(optimizer=optimizer, loss="mse", **options)
    x, y = (INPUTS, TARGETS) if whole else (part(INPUTS), part(TARGETS))
    return model.fit(x, y, batch_size=8 if whole else 8 // hvd.size(), epochs=epochs, shuffle=False, verbose=0,
                     callbacks=list(callbacks))


def same(model: Any, other: Any, tolerance: float = 1e-5) -> None:
    for got, expected in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def optimizers() -> list[Any]:
    kinds = [tf.keras.optimizers.SGD(0.1, momentum=0.9), tf.keras.optimizers.Adam(0.01)]
    if not KERAS_3:
        kinds.append(tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9))
    return kinds


Flat = np.ndarray  # all weights of a model


def batch(rank: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(100 * step + rank).normal(size=(4, 4)).astype(np.float32)
    return inputs, inputs.sum(1, keepdims=True) + rank


def flat(model: Any) -> Flat:
    return np.concatenate([weight.reshape(-1) for weight in model.get_weights()]).astype(np.float64)


def put(model: Any, vector: Flat) -> None:
    sizes = [weight.size for weight in model.get_weights()]
    parts = np.split(vector.astype(np.float32), np.cumsum(sizes)[:-1])
    model.set_weights([part.reshape(weight.shape) for part, weight in zip(parts, model.get_weights())])


def step_of(model: Any, optimizer: Any) -> Callable[..., None]:
    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs) - targets) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    return step


def train(model: Any, optimizer: Any, steps: range, rank: int = -1, graph: bool = False) -> None:
    rank = hvd.rank() if rank < 0 else rank
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(model.trainable_variables)
    step = step_of(model, optimizer)
    if graph:
        step = tf.function(step)
    for number in steps:
        step(*map(tf.constant, batch(rank, number)))


def fit_batches(model: Any, optimizer: Any, steps: int) -> None:
    batches = [batch(hvd.rank(), step) for step in range(steps)]
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches]), batch_size=4, epochs=1,
              shuffle=False, verbose=0)


def again(optimizer: Any) -> Any:
    return type(optimizer).from_config(optimizer.get_config())


def near(model: Any, expected: Flat) -> None:
    np.testing.assert_allclose(flat(model), expected, rtol=1e-4, atol=1e-5)


def check_equal_on_all_ranks(model: Any) -> None:
    weights = hvd.allgather_object(flat(model))
    assert all(np.array_equal(vector, weights[0]) for vector in weights)


def continue_from_checkpoint(make: Callable[[], Any], before: range, after: range) -> tuple[Any, Any, dict[str, Any]]:
    """Trains a model, and another one that continues from a checkpoint of the first; checks that both end equal. Returns the
    other model, its optimizer, and the content of the checkpoint."""
    model, other = model_of(), model_of(seed=9)
    optimizer, continued = make(), make()
    train(model, optimizer, before)
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        checkpoints.save({"optimizer": optimizer.full_state_dict()}, before.stop)
        checkpoints.wait()
        loaded = checkpoints.load()
    assert loaded is not None
    train(model, optimizer, after)
    continued.load_state_dict(loaded["optimizer"], other.trainable_variables)
    train(other, continued, after)
    assert np.array_equal(flat(other), flat(model))
    return other, continued, loaded
