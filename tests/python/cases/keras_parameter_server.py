"""ParameterServer of hvd.tensorflow.keras, with Keras 3 and Keras 2: in model.fit(), eagerly, in a tf.function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _expect import raises
from _keras import (KERAS_3, again, check_equal_on_all_ranks, batch, continue_from_checkpoint, fit_batches, flat, model_of, near,
                    optimizers, put, train)
from hvd import errors, schedule

FRAMEWORK = "tensorflow"
SIZES = (2, 3)

STEPS = 6


def sgd(rate: Any = 0.1) -> Any:
    return tf.keras.optimizers.SGD(rate)


def loss_of(model: Any) -> float:
    """Returns the loss of the first batch of all ranks."""
    parts = [batch(rank, 0) for rank in range(hvd.size())]
    return float(np.mean([np.mean((model(inputs).numpy() - targets) ** 2) for inputs, targets in parts]))


def case_staleness_0_gives_the_synchronous_result() -> None:
    for kind in optimizers():
        other = model_of()
        train(other, hvd.DistributedOptimizer(again(kind)), range(STEPS))
        for graph in (False, True):
            model = model_of()
            train(model, hvd.ParameterServer(again(kind), staleness=0), range(STEPS), graph=graph)
            near(model, flat(other))
            check_equal_on_all_ranks(model)
        model = model_of()
        fit_batches(model, hvd.ParameterServer(again(kind)), STEPS)
        near(model, flat(other))


def case_all_ranks_start_from_the_weights_of_rank_0() -> None:
    for graph in (False, True):
        model = model_of(seed=1 + hvd.rank())
        train(model, hvd.ParameterServer(sgd(0.0)), range(1), graph=graph)
        near(model, flat(model_of()))


def case_with_staleness_each_gradient_makes_a_step() -> None:
    """The gradients do not depend on the weights, so with plain SGD their order does not matter."""
    for graph in (False, True):
        weight = tf.Variable([1.0, 2.0])
        optimizer = hvd.ParameterServer(sgd(), staleness=2)

        def step(value: tf.Tensor) -> None:
            optimizer.apply_gradients([(tf.fill([2], value), weight)])

        call = tf.function(step) if graph else step
        for number in range(5):
            call(tf.constant(hvd.rank() + 1.0 + number))
        optimizer.synchronize()
        total = sum(rank + 1.0 + number for rank in range(hvd.size()) for number in range(5))
        np.testing.assert_allclose(weight.numpy(), np.array([1.0, 2.0]) - 0.1 * total / hvd.size(), rtol=1e-5, atol=1e-5)


def case_training_with_staleness_reduces_the_loss() -> None:
    model = model_of()
    before = loss_of(model)
    optimizer = hvd.ParameterServer(sgd(0.02), staleness=2)
    fit_batches(model, optimizer, 40)
    optimizer.synchronize()
    assert loss_of(model) < 0.7 * before, (loss_of(model), before)
    check_equal_on_all_ranks(model)


def case_a_rank_may_be_ahead_by_at_most_the_staleness() -> None:
    """The last rank makes all permitted steps while the others make none. Its next step waits for theirs."""
    staleness, last = 2, hvd.size() - 1
    made: list[schedule.Clocks] = []

    class Clocks(schedule.Clocks):
        def __init__(self, workers: int, staleness: int) -> None:
            super().__init__(workers, staleness)
            made.append(self)

    model = model_of()
    with mock.patch.object(schedule, "Clocks", Clocks):
        optimizer = hvd.ParameterServer(sgd(), staleness=staleness)
        train(model, optimizer, range(1))
    if hvd.rank() == last:
        train(model, optimizer, range(1, 1 + staleness))
    hvd.broadcast(tf.zeros(1), last, name="ahead")
    if hvd.rank() == last:
        train(model, optimizer, range(1 + staleness, 2 + staleness))
    elif hvd.rank() == 0:
        clocks, = made
        with clocks.changed:
            assert clocks.changed.wait_for(lambda: clocks.steps[last] == staleness + 2, timeout=60)
            assert not clocks.may_continue(last), clocks.steps
    if hvd.rank() != last:
        train(model, optimizer, range(1, 2))
    optimizer.synchronize()
    check_equal_on_all_ranks(model)


def case_a_rank_with_less_data_does_not_block_the_others() -> None:
    for staleness in (0, 1):
        model = model_of()
        optimizer = hvd.ParameterServer(sgd(), staleness=staleness)
        last = hvd.size() - 1
        train(model, optimizer, range(2 if hvd.rank() == last else 6), graph=True)
        optimizer.synchronize()
        check_equal_on_all_ranks(model)
        train(model, optimizer, range(6, 8), graph=True)
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def case_the_server_uses_the_learning_rate_of_rank_0() -> None:
    model, other = model_of(), model_of()
    optimizer, plain = hvd.ParameterServer(sgd()), hvd.DistributedOptimizer(sgd())
    for number in range(3):
        optimizer.learning_rate = 0.1 / (number + 1) if hvd.rank() == 0 else 7.0
        plain.learning_rate = 0.1 / (number + 1)
        train(model, optimizer, range(number, number + 1))
        train(other, plain, range(number, number + 1))
    near(model, flat(other))
    model, other = model_of(), model_of()
    for kind, each in ((hvd.ParameterServer, model), (hvd.DistributedOptimizer, other)):
        train(each, kind(sgd(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5))), range(4), graph=True)
    near(model, flat(other))


def case_constraints_missing_gradients_and_weight_decay_work() -> None:
    def trained(kind: Any) -> list[np.ndarray]:
        make = tf.keras.Variable if KERAS_3 and hasattr(tf.keras, "Variable") else tf.Variable
        weights = [make([1.0, -2.0], name="one"), make([3.0], name="two"), make([5.0], name="unused")]
        weights[0] = tf.Variable([1.0, -2.0], constraint=lambda value: tf.maximum(value, 0.0))
        plain = tf.keras.optimizers.AdamW(0.1, weight_decay=0.5)
        plain.exclude_from_weight_decay(var_list=[weights[1]])
        optimizer = kind(plain)
        for number in range(3):
            optimizer.apply_gradients([(tf.constant([0.5, -1.0 - hvd.rank()]), weights[0]),
                                       (tf.constant([2.0 + number]), weights[1]), (tf.zeros([1]), weights[2])])
        return [np.asarray(weight) for weight in weights]

    for got, expected in zip(trained(hvd.ParameterServer), trained(hvd.DistributedOptimizer)):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    weight, other = tf.Variable([1.0]), tf.Variable([[1.0], [2.0]])
    optimizer = hvd.ParameterServer(sgd(1.0))
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([1]), tf.constant([2, 1]))
    optimizer.apply_gradients([(None if hvd.rank() else tf.constant([0.5]), weight), (slices, other)])
    np.testing.assert_allclose(weight.numpy(), [1 - 0.5 / hvd.size()], rtol=1e-6)
    np.testing.assert_allclose(other.numpy(), [[1.0], [1.0]], rtol=1e-6)


def case_only_the_server_has_optimizer_state() -> None:
    if not KERAS_3:
        return
    model = model_of()
    optimizer = hvd.ParameterServer(tf.keras.optimizers.Adam(0.01))
    fit_batches(model, optimizer, 2)
    assert len(optimizer.variables) == 2, "the optimizer has more variables than iterations and rate"
    assert int(optimizer.iterations.numpy()) == 2
    state = optimizer.full_state_dict()
    assert len(state["optimizer"]) == 2 + 2 * len(model.trainable_variables)


def case_the_training_continues_from_a_checkpoint() -> None:
    for make in (lambda: hvd.ParameterServer(tf.keras.optimizers.Adam(0.01)),
                 lambda: hvd.ParameterServer(tf.keras.optimizers.SGD(0.05, momentum=0.9))):
        other, continued, loaded = continue_from_checkpoint(make, range(3), range(3, 6))
        expected = flat(other)
        # Also right after the first step, once all are synchronized.
        continued.synchronize()
        continued.load_state_dict(loaded["optimizer"], other.trainable_variables)
        train(other, continued, range(3, 6), graph=True)
        near(other, expected)


def case_the_server_takes_over_the_state_of_a_used_optimizer() -> None:
    kind = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    model, other = model_of(), model_of()
    for each in (model, other):
        own = again(kind)
        train(each, own, range(2), rank=0)
        train(each, hvd.ParameterServer(own) if each is model else hvd.DistributedOptimizer(own), range(2, 5))
    near(model, flat(other))


def case_invalid_arguments_are_errors() -> None:
    last = hvd.size() - 1
    wrong = hvd.rank() == last
    for staleness, words in ((-1, "staleness is -1, but must be at least 0"), (0.5, "whole number")):
        with raises(ValueError, "ParameterServer", words, f"on rank {last}"):
            hvd.ParameterServer(sgd(), staleness if wrong else 1)
    with raises(errors.MismatchError, "ParameterServer: staleness differs", f"3 on rank {last}"):
        hvd.ParameterServer(sgd(), 3 if wrong else 0)
    with raises(errors.MismatchError, "per_host differs"):
        hvd.ParameterServer(sgd(), per_host=wrong)
    with raises(ValueError, "every is for a server on each host"):
        hvd.ParameterServer(sgd(), every=2)
    with raises(ValueError, "use_ema is not supported", f"on rank {last}"):
        hvd.ParameterServer(tf.keras.optimizers.SGD(0.1, use_ema=wrong))
    with raises(ValueError, "LossScaleOptimizer is not supported"):
        hvd.ParameterServer(tf.keras.mixed_precision.LossScaleOptimizer(sgd()))
    with raises(errors.UnsupportedError, "not for those of TensorFlow 1"):
        hvd.ParameterServer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
    model = model_of()
    if hvd.rank() == 0:
        model = tf.keras.Sequential([model, tf.keras.layers.Dense(1)])
        model.build((None, 4))
    with raises(errors.MismatchError, f"only rank 0 of {hvd.size()} has the parameter 4"):
        train(model, hvd.ParameterServer(sgd()), range(1))
    optimizer = hvd.ParameterServer(sgd())
    with raises(ValueError, "this SGD is a ParameterServer already"):
        hvd.LocalSGD(optimizer, 2)
    with raises(ValueError, "has made no step"):
        optimizer.full_state_dict()


def case_loading_a_state_with_other_settings_is_an_error() -> None:
    model = model_of()
    optimizer = hvd.ParameterServer(sgd(), staleness=1)
    train(model, optimizer, range(2))
    state = optimizer.full_state_dict()
    variables = model.trainable_variables
    makes: list[tuple[Callable[[], Any], str]] = [
        (lambda: hvd.ParameterServer(sgd(), staleness=2), "staleness = 1, but this optimizer has staleness = 2"),
        (lambda: hvd.ParameterServer(tf.keras.optimizers.Adam(), staleness=1), "class = SGD"),
        (lambda: hvd.LocalSGD(sgd(), every=2), "method = ParameterServer")]
    for make, words in makes:
        with raises(ValueError, "the state was saved with", words):
            make().load_state_dict(state, variables)
    with raises(ValueError, "saved with method = LocalSGD"):
        local = hvd.LocalSGD(sgd(), every=2)
        train(model, local, range(1))
        hvd.ParameterServer(sgd()).load_state_dict(local.full_state_dict(), variables)
    adam = hvd.ParameterServer(tf.keras.optimizers.Adam(amsgrad=True))
    train(model, adam, range(1))
    with raises(ValueError, "variables of the optimizer", "on rank 0"):
        hvd.ParameterServer(tf.keras.optimizers.Adam()).load_state_dict(adam.full_state_dict(), variables)
    put(model, np.zeros_like(flat(model)))
    optimizer.load_state_dict(state, variables)
    assert np.abs(flat(model)).max() > 0


