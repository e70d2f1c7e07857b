"""DistributedOptimizer(shard=True) of hvd.tensorflow.keras, with Keras 3: in model.fit(), eagerly, in a tf.function."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _expect import raises
from _keras import (KERAS_3, again, continue_from_checkpoint, expect_equal_on_all_ranks, fit_batches, flat, model_of, near,
                    train)
from hvd import errors
from hvd.tensorflow.optimizer import state_of

FRAMEWORK = "tensorflow"
SIZES = (1, 2, 3)

STEPS = range(6)


def kinds() -> list[Any]:
    if not KERAS_3:
        return []
    make = tf.keras.optimizers
    decay = make.schedules.ExponentialDecay(0.01, 2, 0.5)
    return [make.SGD(0.1, momentum=0.9, nesterov=True), make.Adam(decay), make.RMSprop(0.01),
            make.AdamW(0.01, weight_decay=0.1, clipvalue=0.5), make.Nadam(0.01)]


def pair(kind: Any) -> tuple[Any, Any]:
    """Returns a sharded optimizer and an unsharded one."""
    return hvd.DistributedOptimizer(again(kind), shard=True), hvd.DistributedOptimizer(again(kind))


def case_weights_equal_those_of_the_unsharded_optimizer() -> None:
    for kind in kinds():
        for graph in (False, True):
            sharded, whole = pair(kind)
            model, other = model_of(), model_of()
            train(model, sharded, STEPS, graph=graph)
            train(other, whole, STEPS, graph=graph)
            near(model, flat(other))
            expect_equal_on_all_ranks(model)
            assert int(sharded.iterations) == len(STEPS)


def case_fit_works_with_a_changed_learning_rate() -> None:
    for kind in kinds()[:1]:
        models = []
        for optimizer in pair(kind):
            models.append(model_of())
            fit_batches(models[-1], optimizer, 5)
            optimizer.learning_rate = 0.01
            fit_batches(models[-1], optimizer, 5)
        near(models[0], flat(models[1]))


def case_each_rank_has_its_part_of_the_state() -> None:
    for kind in kinds()[:2]:
        sharded, _ = pair(kind)
        model = model_of()
        train(model, sharded, STEPS)
        total = flat(model).size
        per_weight = 1 if isinstance(kind, tf.keras.optimizers.SGD) else 2
        own = sum(variable.numpy().size for variable in state_of(sharded)._state())
        assert own in {per_weight * (total // hvd.size() + more) for more in (0, 1)}, own
        assert sum(np.size(variable) for variable in sharded.variables) <= 2


def case_training_continues_from_a_checkpoint() -> None:
    for kind in kinds()[:2]:
        continue_from_checkpoint(lambda kind=kind: pair(kind)[0], range(4), range(4, 7))


def case_the_saved_state_does_not_depend_on_the_number_of_ranks() -> None:
    for kind in kinds()[:1]:
        sharded, whole = pair(kind)
        model, other = model_of(), model_of()
        train(model, sharded, STEPS)
        train(other, whole, STEPS)
        state = sharded.full_state_dict()
        [(_, momentum)] = state["state"]
        expected = np.concatenate([np.reshape(variable, -1) for variable in whole.variables if np.ndim(variable) > 0])
        np.testing.assert_allclose(momentum, expected, rtol=1e-4, atol=1e-5)


def case_an_elastic_state_refuses_it_with_advice() -> None:
    for kind in kinds()[:1]:
        with raises(errors.UnsupportedError, "KerasState with a DistributedOptimizer(shard=True)", "--max-restarts"):
            hvd.elastic.KerasState(model_of(), pair(kind)[0], batch=0)


def case_optimizers_that_cannot_be_sharded_are_errors() -> None:
    if not KERAS_3:
        with raises(errors.InvalidArgumentError, "needs an optimizer of Keras 3"):
            hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), shard=True)
        return
    make = tf.keras.optimizers
    with raises(errors.InvalidArgumentError, "a Lamb is not known to treat each element by itself"):
        hvd.DistributedOptimizer(make.Lamb(0.1), shard=True)
    with raises(errors.InvalidArgumentError, "clipnorm is not possible with an optimizer that is sharded"):
        hvd.DistributedOptimizer(make.SGD(0.1, clipnorm=1.0), shard=True)
    with raises(errors.UnsupportedError, "takes no other argument but `op`"):
        hvd.DistributedOptimizer(make.SGD(0.1), shard=True, backward_passes_per_step=2)
    model = model_of()
    with raises(ValueError, "has made no step"):
        hvd.DistributedOptimizer(make.SGD(0.1), shard=True).full_state_dict()
    built = make.SGD(0.1)
    built.build(model.trainable_variables)
    with raises(errors.InvalidArgumentError, "the optimizer has state already"):
        hvd.DistributedOptimizer(built, shard=True)
    if hvd.size() > 1:
        with raises(errors.MismatchError, "the optimizer's class differs between ranks"):
            hvd.DistributedOptimizer(make.SGD(0.1) if hvd.rank() == 0 else make.Adam(0.1), shard=True)
    decaying = hvd.DistributedOptimizer(make.AdamW(0.1), shard=True)
    decaying.exclude_from_weight_decay(var_names=["bias"])
    with raises(errors.UnsupportedError, "exclude_from_weight_decay"):
        train(model, decaying, STEPS)
    sharded = hvd.DistributedOptimizer(make.SGD(0.1, momentum=0.9), shard=True)
    train(model, sharded, STEPS)
    state = sharded.full_state_dict()
    with raises(ValueError, "the state was saved with 1 variables of the optimizer, but this one has 2"):
        hvd.DistributedOptimizer(make.Adam(0.1), shard=True).load_state_dict(state, model.trainable_variables)
