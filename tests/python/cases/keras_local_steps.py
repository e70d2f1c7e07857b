"""LocalSGD, DiLoCo and Gossip of hvd.tensorflow.keras, with Keras 3 and Keras 2: in model.fit(), eagerly, in a tf.function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _expect import raises
from _keras import (KERAS_3, Flat, again, check_equal_on_all_ranks, batch, continue_from_checkpoint, fit_batches, flat, model_of,
                    near, optimizers, put, train)
from hvd import errors, schedule

FRAMEWORK = "tensorflow"
SIZES = (2, 3)

STEPS = 9
Rule = Callable[[list[Flat], int], list[Flat]]


def simulated(optimizer: Any, every: int, rule: Rule, steps: int = STEPS) -> Flat:
    """Trains a model for each rank, and calls rule(weights, number) after each period. Returns this rank's weights."""
    models = [model_of() for _ in range(hvd.size())]
    own = [again(optimizer) for _ in models]
    for step in range(steps):
        for rank, (model, each) in enumerate(zip(models, own)):
            train(model, each, range(step, step + 1), rank)
        if (step + 1) % every == 0:
            for model, vector in zip(models, rule([flat(model) for model in models], step // every)):
                put(model, vector)
    return flat(models[hvd.rank()])


def mean(vectors: list[Flat], _: int = 0) -> list[Flat]:
    return [np.mean(vectors, axis=0)] * len(vectors)


class Nesterov:
    """A reference of DiLoCo's outer step."""

    def __init__(self, rate: float = 0.7, momentum: float = 0.9) -> None:
        self.rate, self.momentum = rate, momentum
        self.common = flat(model_of())
        self.velocity = np.zeros_like(self.common)

    def after(self, change: Flat) -> Flat:
        self.velocity = self.momentum * self.velocity - change
        self.common = self.common - self.rate * (self.momentum * self.velocity - change)
        return self.common

    def at_once(self, vectors: list[Flat], _: int) -> list[Flat]:
        return [self.after(np.mean(vectors, axis=0) - self.common)] * len(vectors)

    def one_period_late(self) -> Rule:
        begin = [self.common] * hvd.size()
        changes: list[Flat] = []

        def rule(vectors: list[Flat], _: int) -> list[Flat]:
            now = [vector - before for vector, before in zip(vectors, begin)]
            if changes:
                common = self.after(np.mean(changes, axis=0))
                vectors = [common + change for change in now]
            begin[:], changes[:] = vectors, now
            return vectors

        return rule


def case_weights_are_averaged_after_each_period() -> None:
    for kind in optimizers():
        expected = simulated(kind, 4, mean)
        for graph in (False, True):
            model = model_of()
            train(model, hvd.LocalSGD(again(kind), every=4), range(STEPS), graph=graph)
            near(model, expected)
        model = model_of()
        fit_batches(model, hvd.LocalSGD(again(kind), every=4), STEPS)
        near(model, expected)


def case_background_averages_are_applied_one_period_late() -> None:
    for kind in optimizers():
        model = model_of()
        fit_batches(model, hvd.LocalSGD(again(kind), every=3, background=True), 11)
        near(model, simulated(kind, 3, Nesterov(1.0, 0.0).one_period_late(), 11))


def case_a_period_of_one_step_gives_the_bits_of_distributed_optimizer() -> None:
    for kind in optimizers():
        model, other = model_of(), model_of()
        fit_batches(model, hvd.LocalSGD(again(kind), every=1), STEPS)
        fit_batches(other, hvd.DistributedOptimizer(again(kind)), STEPS)
        assert np.array_equal(flat(model), flat(other))


def case_diloco_takes_outer_steps() -> None:
    kind = optimizers()[0]
    for graph in (False, True):
        model = model_of()
        train(model, hvd.DiLoCo(again(kind), every=3), range(STEPS), graph=graph)
        near(model, simulated(kind, 3, Nesterov().at_once))
        check_equal_on_all_ranks(model)
    model = model_of()
    fit_batches(model, hvd.DiLoCo(again(kind), every=3, outer_rate=0.5, outer_momentum=0.6, background=True), 11)
    near(model, simulated(kind, 3, Nesterov(0.5, 0.6).one_period_late(), 11))


def case_diloco_starts_from_the_weights_of_rank_0() -> None:
    for graph in (False, True):
        model = model_of(seed=1 + hvd.rank())
        train(model, hvd.DiLoCo(tf.keras.optimizers.SGD(0.0), every=5), range(1), graph=graph)
        near(model, flat(model_of()))


def case_gossip_averages_with_one_partner() -> None:
    def rule(vectors: list[Flat], period: int) -> list[Flat]:
        partners = [schedule.partner(rank, hvd.size(), period) for rank in range(hvd.size())]
        return [vector if other is None else (vector + vectors[other]) / 2 for vector, other in zip(vectors, partners)]

    kind = optimizers()[0]
    model = model_of()
    optimizer = hvd.Gossip(again(kind), every=2)
    fit_batches(model, optimizer, STEPS)
    near(model, simulated(kind, 2, rule))
    optimizer.synchronize()
    check_equal_on_all_ranks(model)


def case_weights_can_be_sent_in_another_type() -> None:
    """The first two steps have a learning rate of 0, so the exchange only rounds the weights."""
    for compression, precision in ((hvd.Compression.fp16, 2**-11), (hvd.Compression.bf16, 2**-8)):
        for graph in (False, True):
            model = model_of()
            begin = np.linspace(0.5, 1.5, flat(model).size)
            put(model, begin + hvd.rank())
            optimizer = hvd.LocalSGD(tf.keras.optimizers.SGD(0.0), every=2, compression=compression)
            train(model, optimizer, range(2), graph=graph)
            exact = begin + (hvd.size() - 1) / 2
            off = np.abs(flat(model) - exact).max()
            assert precision / 50 < off < 8 * precision, (compression, off)
            check_equal_on_all_ranks(model)
            put(model, begin + hvd.rank())
            optimizer.synchronize()
            near(model, exact)
        model, other = model_of(), model_of()
        fit_batches(model, hvd.DiLoCo(again(optimizers()[0]), every=3, compression=compression), STEPS)
        fit_batches(other, hvd.DiLoCo(again(optimizers()[0]), every=3), STEPS)
        learned = np.abs(flat(other) - flat(model_of())).max()
        assert 0 < np.abs(flat(model) - flat(other)).max() < 0.1 * learned
        check_equal_on_all_ranks(model)


def case_synchronize_ends_a_period_early() -> None:
    for background in (False, True):
        model = model_of()
        optimizer = hvd.LocalSGD(optimizers()[0], every=4, background=background)
        train(model, optimizer, range(6), graph=True)
        optimizer.synchronize()
        check_equal_on_all_ranks(model)
        train(model, optimizer, range(6, 9), graph=True)
        weights = hvd.allgather_object(flat(model))
        assert not np.array_equal(weights[0], weights[1]), "weights were exchanged within a period"


def case_a_joined_rank_is_left_out_of_the_average() -> None:
    for background in (False, True):
        model = model_of()
        put(model, np.full(flat(model).shape, hvd.rank() + 1.0))
        optimizer = hvd.LocalSGD(tf.keras.optimizers.SGD(0.0), every=2, background=background)
        if hvd.rank() == hvd.size() - 1:
            train(model, optimizer, range(1))  # in the first step all ranks compare their weights
        else:
            train(model, optimizer, range(4), graph=True)
            near(model, np.full(flat(model).shape, hvd.size() / 2))
        hvd.join()


def case_the_training_continues_from_a_checkpoint() -> None:
    makes: list[Callable[[], Any]] = [
        lambda: hvd.LocalSGD(tf.keras.optimizers.Adam(0.01), every=3),
        lambda: hvd.LocalSGD(tf.keras.optimizers.SGD(0.05, momentum=0.9), every=3, background=True),
        lambda: hvd.DiLoCo(tf.keras.optimizers.Adam(0.01), every=3, background=True),
        lambda: hvd.DiLoCo(tf.keras.optimizers.Adam(0.01), every=3),
        lambda: hvd.Gossip(tf.keras.optimizers.Adam(0.01), every=3, background=True)]
    for make in makes:
        continue_from_checkpoint(make, range(7), range(7, 14))


def case_a_state_of_another_number_of_ranks_starts_from_the_average() -> None:
    model = model_of()
    optimizer = hvd.LocalSGD(tf.keras.optimizers.SGD(0.0), every=3)
    train(model, optimizer, range(1))
    state = optimizer.full_state_dict()
    vector = flat(model)
    state["ranks"] = [{**state["ranks"][0], "parameters": [np.full(weight.shape, value, weight.dtype)
                                                           for weight in model.get_weights()]} for value in range(5)]
    optimizer.load_state_dict(state, model.trainable_variables)
    near(model, np.full(vector.shape, 2.0))


def case_different_settings_of_ranks_are_an_error() -> None:
    last = hvd.size() - 1
    wrong = hvd.rank() == last

    def sgd() -> Any:
        return tf.keras.optimizers.SGD(0.1)

    with raises(errors.MismatchError, "LocalSGD: every differs", f"4 on rank {last}"):
        hvd.LocalSGD(sgd(), every=4 if wrong else 8)
    with raises(ValueError, "LocalSGD: every is 0, but must be at least 1", f"on rank {last}"):
        hvd.LocalSGD(sgd(), every=0 if wrong else 8)
    with raises(ValueError, "DiLoCo: outer_momentum is 1.5", f"on rank {last}"):
        hvd.DiLoCo(sgd(), outer_momentum=1.5 if wrong else 0.5)
    with raises(errors.MismatchError, "DiLoCo: outer_rate differs"):
        hvd.DiLoCo(sgd(), outer_rate=0.5 if wrong else 0.7)
    with raises(errors.MismatchError, "compression differs"):
        hvd.LocalSGD(sgd(), 2, compression=hvd.Compression.wire_fp16 if wrong else hvd.Compression.none)
    model = model_of()
    if hvd.rank() == 0:
        model = tf.keras.Sequential([model, tf.keras.layers.Dense(1)])
        model.build((None, 4))
    with raises(errors.MismatchError, f"only rank 0 of {hvd.size()} has the parameter 4"):
        train(model, hvd.LocalSGD(sgd(), every=2), range(1))
    optimizer = hvd.LocalSGD(sgd(), every=2)
    with raises(ValueError, "this SGD is a LocalSGD already"):
        hvd.DistributedOptimizer(optimizer)
    with raises(errors.UnsupportedError, "not for those of TensorFlow 1"):
        hvd.Gossip(tf.compat.v1.train.GradientDescentOptimizer(0.1))


def case_loading_a_state_with_other_settings_is_an_error() -> None:
    model = model_of()
    optimizer = hvd.LocalSGD(tf.keras.optimizers.SGD(0.1), every=3)
    with raises(ValueError, "has made no step"):
        optimizer.full_state_dict()
    train(model, optimizer, range(4))
    state = optimizer.full_state_dict()
    other = hvd.LocalSGD(tf.keras.optimizers.SGD(0.1), every=2)
    with raises(ValueError, "LocalSGD: the state was saved with every = 3", "every = 2"):
        other.load_state_dict(state, model.trainable_variables)
    with raises(ValueError, "saved with method = LocalSGD"):
        hvd.Gossip(tf.keras.optimizers.SGD(0.1), every=3).load_state_dict(state, model.trainable_variables)
    adam = hvd.LocalSGD(tf.keras.optimizers.Adam(0.1), every=3)
    with raises(ValueError, "variables of the optimizer"):
        adam.load_state_dict(state, model.trainable_variables)
    model.layers[0].trainable = False
    with raises(ValueError, "other weights than before"):
        train(model, optimizer, range(1))


def case_an_error_in_an_exchange_keeps_its_text_in_a_tf_function() -> None:
    model = model_of()
    optimizer = hvd.LocalSGD(tf.keras.optimizers.SGD(0.1), every=2, compression=hvd.Compression.wire_int8)
    train(model, optimizer, range(1), graph=True)
    if hvd.rank() == 1:
        put(model, np.full(flat(model).shape, np.inf))
    with raises(Exception, "rank 1", "finite numbers"):
        train(model, optimizer, range(1, 2), graph=True)


def case_loss_scaling_works_only_inside_a_method() -> None:
    model = model_of()
    inner = hvd.LocalSGD(tf.keras.optimizers.SGD(0.1), every=2)
    outer = tf.keras.mixed_precision.LossScaleOptimizer(inner)
    with raises(errors.UnsupportedError, "the other way round"):
        train(model, outer, range(1))
    scaled = hvd.LocalSGD(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.0)), every=2)
    put(model, np.full(flat(model).shape, float(hvd.rank())))
    if KERAS_3:
        train(model, scaled, range(2))
        near(model, np.full(flat(model).shape, (hvd.size() - 1) / 2))
