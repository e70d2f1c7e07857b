"""hvd.tensorflow.keras: model.fit(), the distributed optimizer, saving and loading; with Keras 3 and Keras 2."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow.keras as hvd
from _expect import raises
from _keras import INPUTS, KERAS_3, TARGETS, fit, model_of, optimizers, part, same

FRAMEWORK = "tensorflow"
SIZES = (1, 2)


def case_fit_with_divided_batches_gives_the_weights_of_whole_batches() -> None:
    for optimizer in optimizers():
        alone, together = model_of(), model_of()
        fit(alone, type(optimizer).from_config(optimizer.get_config()), whole=True)
        fit(together, hvd.DistributedOptimizer(optimizer))
        same(together, alone)


def case_options_of_the_optimizer_change_the_reduction_as_documented() -> None:
    def applied(**options: Any) -> tuple[np.ndarray, np.ndarray]:
        first, second = tf.Variable([0.0]), tf.Variable([[0.0], [0.0]])
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), **options)
        optimizer.build([first, second])
        gradients = tf.constant([hvd.rank() + 1.0]), tf.constant([[2.0], [4.0]]) * (hvd.rank() + 1.0)
        optimizer.apply_gradients(zip(gradients, [first, second]))
        return -first.numpy(), -second.numpy()

    mean = np.mean(np.arange(1.0, hvd.size() + 1))
    for options in ({}, {"groups": 1}, {"groups": 2}, {"gradient_predivide_factor": 2.0}, {"op": hvd.Sum},
                    {"compression": hvd.Compression.bf16}, {"sparse_as_dense": True}):
        factor = hvd.size() if "op" in options else 1
        first, second = applied(**options)
        np.testing.assert_allclose(first, [mean * factor], rtol=1e-6)
        np.testing.assert_allclose(second, [[2 * mean * factor], [4 * mean * factor]], rtol=1e-6)


def case_compute_gradients_reduces_and_apply_gradients_does_not_reduce_again() -> None:
    """A program can therefore clip reduced gradients."""
    rank, size = hvd.rank(), hvd.size()
    mean = (1.0 + 2.0 * size - 1.0) / 2

    def step(optimizer: Any, variable: tf.Variable, limit: float) -> tf.Tensor:
        [(gradient, same_variable)] = optimizer.compute_gradients(lambda: variable * (1.0 + 2.0 * rank), [variable])
        assert same_variable is variable
        optimizer.apply_gradients([(tf.clip_by_value(gradient, -limit, limit), variable)])
        return gradient

    for base in optimizers():
        for wrapped in (step, tf.function(step)):
            kind = type(base)
            optimizer = hvd.DistributedOptimizer(kind.from_config({**base.get_config(), "learning_rate": 0.5}),
                                                 op=hvd.Sum)
            plain = kind.from_config({**base.get_config(), "learning_rate": 0.5})
            variable, expected = tf.Variable(2.0), tf.Variable(2.0)
            if hasattr(optimizer, "build"):
                optimizer.build([variable])
            for limit in (0.5 * size, 100.0):
                np.testing.assert_allclose(wrapped(optimizer, variable, limit), mean * size)
                plain.apply_gradients([(tf.constant(min(limit, mean * size)), expected)])
                np.testing.assert_allclose(variable, expected, rtol=1e-6)


def case_compute_gradients_works_with_a_tape_and_local_variables() -> None:
    rank, size = hvd.rank(), hvd.size()
    shared, local = tf.Variable([1.0]), tf.Variable([1.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
    optimizer.build([shared, local])
    optimizer.register_local_var(local)
    with tf.GradientTape() as tape:
        loss = (rank + 1.0) * (shared + local)
    pairs = optimizer.compute_gradients(loss, [shared, local], tape=tape)
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose([1.0 - shared[0], 1.0 - local[0]], [(size + 1) / 2, (rank + 1) / size])


def case_applying_other_gradients_after_compute_gradients_is_a_warning() -> None:
    variable = tf.Variable([1.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
    optimizer.build([variable])
    optimizer.apply_gradients(optimizer.compute_gradients(lambda: variable, [variable]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        optimizer.apply_gradients([(tf.constant([float(hvd.rank())]), variable)])
    assert any("compute_gradients()" in str(entry.message) for entry in seen)


def case_compute_gradients_works_with_loss_scaling() -> None:
    optimizer = hvd.DistributedOptimizer(tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(1.0)))
    variable = tf.Variable([1.0])
    optimizer.build([variable])
    if KERAS_3:
        with raises(hvd.errors.UnsupportedError, "scale"):
            optimizer.compute_gradients(lambda: variable, [variable])
        return
    pairs = optimizer.compute_gradients(lambda: variable * (hvd.rank() + 1.0), [variable])
    np.testing.assert_allclose(pairs[0][0], [(hvd.size() + 1) / 2])
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(1.0 - variable[0], (hvd.size() + 1) / 2)


def case_get_gradients_reduces_in_a_graph() -> None:
    """Keras calls get_gradients() of legacy optimizers in graphs."""
    if KERAS_3:
        return
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("weight", initializer=tf.constant([2.0]), use_resource=True)
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(1.0))
        [gradient] = optimizer.get_gradients(tf.reduce_sum(variable * (hvd.rank() + 1.0)), [variable])
        train = optimizer.apply_gradients([(tf.minimum(gradient, 1.0), variable)])
        session.run(tf.compat.v1.global_variables_initializer())
        np.testing.assert_allclose(session.run(gradient), [(hvd.size() + 1) / 2])
        session.run(train)
        np.testing.assert_allclose(session.run(variable), [1.0])


def case_sparse_gradients_of_embeddings_are_reduced() -> None:
    def model() -> Any:
        tf.keras.utils.set_random_seed(1)
        return tf.keras.Sequential([tf.keras.Input((2,), dtype="int32"), tf.keras.layers.Embedding(6, 2),
                                    tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])

    words = np.arange(32).reshape(16, 2) % 6
    alone, together = model(), model()
    for entry, optimizer, count in ((alone, tf.keras.optimizers.SGD(0.1), 1),
                                    (together, hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), hvd.size())):
        entry.compile(optimizer, "mse")
        own = words.reshape(count, -1, 2)[hvd.rank() % count]
        entry.fit(own, np.ones((len(own), 1)), batch_size=len(own), verbose=0)
    same(together, alone)


def case_gradients_of_several_passes_are_reduced_once_per_step() -> None:
    alone = model_of()
    fit(alone, tf.keras.optimizers.SGD(0.1), whole=True)
    together = model_of()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), backward_passes_per_step=2,
                                         average_aggregated_gradients=True)
    together.compile(optimizer, "mse")
    half = 4 // hvd.size()
    together.fit(part(INPUTS), part(TARGETS), batch_size=half, epochs=2, shuffle=False, verbose=0)
    same(together, alone)
    assert int(np.asarray(optimizer.iterations)) == 2 * 32 // 4


def case_passes_with_gradients_of_other_variables_are_not_mixed() -> None:
    """The passes have the same number of gradients, but of different variables."""
    first, second = tf.Variable(0.0), tf.Variable(0.0)

    def new() -> Any:
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2)
        if hasattr(optimizer, "build"):
            optimizer.build([first, second])
        return optimizer

    optimizer = new()
    optimizer.apply_gradients([(tf.constant(1.0), first), (None, second)])
    with raises(ValueError, "same variables"):
        optimizer.apply_gradients([(None, first), (tf.constant(2.0), second)])
    optimizer = new()
    optimizer.apply_gradients([(tf.constant(1.0), first), (tf.constant(10.0), second)])
    optimizer.apply_gradients([(tf.constant(20.0), second), (tf.constant(2.0), first)])
    assert (float(first), float(second)) == (-3.0, -30.0)


def case_apply_gradients_reduces_eagerly_and_in_a_function() -> None:
    def step(optimizer: Any, variable: Any) -> None:
        optimizer.apply_gradients([(tf.constant([hvd.rank() + 1.0]), variable)])

    expected = -np.mean(np.arange(1.0, hvd.size() + 1))
    for run in (step, tf.function(step)):
        variable = tf.Variable([0.0])
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
        optimizer.build([variable])
        run(optimizer, variable)
        np.testing.assert_allclose(variable, [expected])
        optimizer.register_local_var(variable)


def case_local_layers_are_trained_without_reduction() -> None:
    model = model_of(seed=1 + hvd.rank())
    local = model.layers[-1]
    before = [weight.copy() for weight in local.get_weights()]
    fit(model, hvd.PartialDistributedOptimizer(tf.keras.optimizers.SGD(0.1), local_layers=local),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=local.weights)])
    shared = [weight.tolist() for weight in model.layers[0].get_weights()]
    assert all(other == shared for other in hvd.allgather_object(shared))
    kernels = hvd.allgather_object(local.get_weights()[0].tolist())
    assert hvd.size() == 1 or kernels[0] != kernels[1], "the local layers are equal on the ranks"
    assert not np.array_equal(before[0], local.get_weights()[0]), "the local layer was not trained"


def case_the_distributed_optimizer_keeps_class_and_configuration() -> None:
    optimizer = tf.keras.optimizers.Adam(0.25)
    config = optimizer.get_config()
    distributed = hvd.DistributedOptimizer(optimizer)
    assert distributed is optimizer and isinstance(distributed, tf.keras.optimizers.Adam)
    assert distributed.get_config() == config
    again = type(distributed).from_config(config)
    assert isinstance(again, tf.keras.optimizers.Adam) and hasattr(again, "register_local_var")
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(distributed)
    with raises(ValueError, "Average and Sum"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), op=hvd.Max)
    with raises(ValueError, "backward_passes_per_step"):
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(), backward_passes_per_step=0)
    with raises(TypeError, "no optimizer"):
        hvd.DistributedOptimizer(3)


def case_a_model_with_the_optimizer_can_be_saved_and_loaded() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.keras")
        model = model_of()
        fit(model, hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)))
        model.save(path)
        plain = tf.keras.models.load_model(path)
        assert type(plain.optimizer) is tf.keras.optimizers.SGD, "the saved model loads without hvd with another optimizer class"
        loaded = hvd.load_model(path)
        assert type(loaded.optimizer) is not tf.keras.optimizers.SGD
        assert isinstance(loaded.optimizer, tf.keras.optimizers.SGD)
        for entry, whole in ((plain, True), (loaded, False)):
            x, y = (INPUTS, TARGETS) if whole else (part(INPUTS), part(TARGETS))
            entry.fit(x, y, batch_size=8 if whole else 8 // hvd.size(), shuffle=False, verbose=0)
        same(loaded, plain)


def case_an_overflow_on_one_rank_skips_the_step_on_all() -> None:
    scaling = tf.keras.mixed_precision.LossScaleOptimizer
    variable = tf.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(scaling(tf.keras.optimizers.SGD(1.0)))
    optimizer.build([variable])
    step = tf.function(lambda gradient: optimizer.apply_gradients([(gradient, variable)]))
    step(tf.constant([np.inf if hvd.rank() == 0 else 1.0]))
    np.testing.assert_array_equal(variable, [0.0])
    step(tf.constant([1.0]))
    assert np.isfinite(variable.numpy()).all() and variable.numpy()[0] != 0.0
    outside = scaling(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0)))
    outside.build([variable])
    with raises(hvd.errors.UnsupportedError, "LossScaleOptimizer"):
        outside.apply_gradients([(tf.constant([1.0]), variable)])


def case_collectives_take_python_numbers_and_arrays() -> None:
    size = hvd.size()
    assert float(hvd.allreduce(hvd.rank() + 1.0, op=hvd.Sum)) == size * (size + 1) / 2
    assert np.asarray(hvd.allgather([hvd.rank()])).tolist() == list(range(size))
    assert float(hvd.broadcast(hvd.rank(), size - 1)) == size - 1
    assert np.asarray(hvd.reducescatter(np.ones(size), op=hvd.Sum)).tolist() == [size]
    assert issubclass(hvd.elastic.KerasState, hvd.elastic.TensorFlowKerasState)


def case_hvd_keras_has_the_same_functions() -> None:
    import hvd.keras as other

    assert other.DistributedOptimizer is hvd.DistributedOptimizer and other.rank() == hvd.rank()
    assert other.callbacks.MetricAverageCallback is hvd.callbacks.MetricAverageCallback
