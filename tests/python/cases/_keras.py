"""For cases of Keras: a small model, its data, and training it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd

KERAS_3 = hasattr(tf.keras, "version")

_generator = np.random.default_rng(3)
INPUTS = _generator.normal(size=(32, 4)).astype(np.float32)
TARGETS = (INPUTS @ _generator.normal(size=(4, 1)) + 0.5).astype(np.float32)


def part(array: np.ndarray) -> np.ndarray:
    """This rank's rows: half of every batch of 8 at two ranks."""
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
