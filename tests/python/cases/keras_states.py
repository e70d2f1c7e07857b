"""Training with the methods of hvd.keras does not change states that the program has loaded or fetched."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _keras import KERAS_3, model_of, train

FRAMEWORK = "tensorflow"
SIZES = (2,)


def adam() -> Any:
    return tf.keras.optimizers.Adam(0.01)


MADE: dict[str, Callable[[], Any]] = {
    "LocalSGD": lambda: hvd.LocalSGD(adam(), every=2),
    "DiLoCo": lambda: hvd.DiLoCo(adam(), every=2),
    "DiLoCo in the background": lambda: hvd.DiLoCo(adam(), every=2, background=True),
    "Gossip": lambda: hvd.Gossip(adam(), every=2),
    "ParameterServer": lambda: hvd.ParameterServer(adam()),
    **({"shard": lambda: hvd.DistributedOptimizer(adam(), shard=True)} if KERAS_3 else {}),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return all(same(*pair) for pair in zip(one, other))
    return bool(np.array_equal(one, other))


def case_training_does_not_change_loaded_or_fetched_states() -> None:
    for name, make in MADE.items():
        model = model_of()
        optimizer = make()
        train(model, optimizer, range(5))
        state = optimizer.full_state_dict()
        before = copy.deepcopy(state)
        train(model, optimizer, range(5, 9))
        assert same(state, before), f"{name}: a full state"
        optimizer.load_state_dict(state, model.trainable_variables)
        train(model, optimizer, range(9, 13))
        assert same(state, before), f"{name}: a loaded state"
