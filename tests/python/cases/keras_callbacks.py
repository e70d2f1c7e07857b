"""The callbacks of hvd.tensorflow.keras, with Keras 3 and Keras 2."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _expect import raises
from _keras import fit, model_of, optimizers, same

FRAMEWORK = "tensorflow"
SIZES = (1, 2)


def case_the_broadcast_callback_copies_the_roots_variables() -> None:
    root = hvd.size() - 1
    alone = model_of(seed=5 + root)
    fit(alone, tf.keras.optimizers.Adam(0.01), whole=True)
    together = model_of(seed=5 + hvd.rank())
    fit(together, hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.01)),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(root)])
    same(together, alone)


def case_the_broadcast_callback_works_with_a_model_built_by_its_first_batch() -> None:
    tf.keras.utils.set_random_seed(hvd.rank())
    layers = [tf.keras.layers.Dense(3), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    fit(model, hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    kernels = hvd.allgather_object(model.get_weights()[0].tolist())
    np.testing.assert_allclose(kernels, [kernels[0]] * hvd.size(), rtol=1e-6)


def case_the_metric_callback_averages_metrics() -> None:
    seen = {}

    class After(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.update(logs)

    class Before(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["rank"] = float(hvd.rank())

    history = fit(model_of(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.0)), epochs=1,
                  callbacks=[Before(), hvd.callbacks.MetricAverageCallback(), After()])
    assert seen["rank"] == (hvd.size() - 1) / 2 and history.history["rank"] == [seen["rank"]]
    losses = hvd.allgather_object(seen["loss"])
    assert losses == [losses[0]] * hvd.size()


def case_the_warmup_callback_raises_the_learning_rate() -> None:
    rates = []

    class Rates(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(float(np.asarray(self.model.optimizer.learning_rate)))

    history = fit(model_of(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1e-3, momentum=0.5)), epochs=3,
                  callbacks=[hvd.callbacks.LearningRateWarmupCallback(1e-2, warmup_epochs=2), Rates()])
    size, steps = hvd.size(), 4
    expected = [1e-2 / size * ((step + 1) / steps * (size - 1) / 2 + 1) for step in range(2 * steps)] + [1e-2] * steps
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    np.testing.assert_allclose(history.history["lr"], [expected[3], 1e-2, 1e-2], rtol=1e-5)


def case_the_schedule_callback_corrects_the_momentum() -> None:
    """Velocities are scaled as if they had been computed with the new learning rate."""
    for optimizer in [entry for entry in optimizers() if "SGD" in type(entry).__name__]:
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False,
                                                                                kernel_initializer="ones")])
        model.compile(hvd.DistributedOptimizer(type(optimizer)(0.1, momentum=0.5)), loss=lambda _, y: tf.reduce_mean(y))
        model.fit(np.ones((8 // hvd.size(), 1)), np.ones((8 // hvd.size(), 1)), batch_size=8 // hvd.size(), epochs=3,
                  verbose=0, callbacks=[hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 10.0**-epoch)])
        # The gradient is 1, so a velocity is the previous one times 0.5 times the change of the rate, plus the rate.
        velocity = weight = 0.0
        for epoch in range(3):
            velocity = velocity * 0.5 * (0.1 if epoch else 1.0) + 0.1 * 10.0**-epoch
            weight += velocity
        np.testing.assert_allclose(model.get_weights()[0], [[1.0 - weight]], rtol=1e-5)


def case_the_schedule_callback_takes_a_constant_multiplier() -> None:
    history = fit(model_of(), hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1)), epochs=4,
                  callbacks=[hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5, start_epoch=1, end_epoch=3)])
    np.testing.assert_allclose(history.history["lr"], [0.1, 0.1, 0.05, 0.05], rtol=1e-6)


def case_rank_0_saves_the_best_model() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.keras"
        fit(model_of(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)),
            callbacks=[hvd.callbacks.BestModelCheckpoint(monitor="loss", filepath=str(path))])
        assert path.exists() == (hvd.rank() == 0)
    with raises(ValueError, "filepath"):
        fit(model_of(), tf.keras.optimizers.SGD(0.1), callbacks=[hvd.callbacks.BestModelCheckpoint()])


def case_callbacks_switch_xla_off() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = model_of()
        fit(model, hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), jit_compile=True,
            callbacks=[hvd.callbacks.MetricAverageCallback()])
    assert not model.jit_compile and any("jit_compile" in str(entry.message) for entry in caught)
    if hvd.size() > 1:
        with raises(Exception, "XLA cannot compile", "jit_compile=False"):
            fit(model_of(), hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), jit_compile=True)
