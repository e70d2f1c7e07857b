"""hvd.tensorflow in the graph of a Session, as in TensorFlow 1. TensorFlow has one thread for operations, so a collective
that blocks it would hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow as hvd
from _expect import raises

FRAMEWORK = "tensorflow"
SIZES = (1, 2)
# A collective that blocks a thread while it waits would block the only one.
ENVIRONMENT = {"TF_NUM_INTEROP_THREADS": "1"}


@contextmanager
def session() -> Iterator[tf.compat.v1.Session]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as own:
        yield own


def case_training_works_in_a_graph_of_tensorflow_1() -> None:
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("weights", initializer=tf.constant([float(hvd.rank())] * 2))
        reduced = hvd.allreduce(variable + 1.0, op=hvd.Sum, name="session")
        hook = hvd.BroadcastGlobalVariablesHook(hvd.size() - 1)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0), op=hvd.Sum)
        train = optimizer.minimize(tf.reduce_sum(variable))
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            np.testing.assert_array_equal(session.run(variable), [hvd.size() - 1.0] * 2)
            np.testing.assert_array_equal(session.run(reduced), [hvd.size() * hvd.size()] * 2)
            session.run(train)
            np.testing.assert_array_equal(session.run(variable), [-1.0] * 2)


def case_many_collectives_in_one_run_match_in_opposite_orders() -> None:
    with session() as own:
        results = {}
        for number in sorted(range(20), reverse=hvd.rank() % 2 == 1):
            results[number] = hvd.allreduce(tf.random.uniform([50]) * 0.0 + number, op=hvd.Sum, name=f"tensor {number}")
        for _ in range(5):
            got = own.run(results)
            for number, result in got.items():
                np.testing.assert_array_equal(result, [number * hvd.size()] * 50)


def case_every_collective_works_in_one_run() -> None:
    rank, size = hvd.rank(), hvd.size()
    with session() as own:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        fetches = [hvd.allreduce(x, op=hvd.Sum), *hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum), hvd.allgather(x),
                   hvd.broadcast(x, size - 1), hvd.alltoall(x), hvd.reducescatter(x, op=hvd.Sum),
                   hvd.barrier(), hvd.rank_op()]
        for factor in (1.0, 2.0):
            got = own.run(fetches, {x: [factor * (rank + 1)] * size})
            total = factor * size * (size + 1) / 2
            everyones = [factor * (other + 1) for other in range(size)]
            for result, expected in zip(got, ([total] * size, [total] * size, [2 * total] * size,
                                              np.repeat(everyones, size), [factor * size] * size, everyones, [total],
                                              None, rank)):
                np.testing.assert_array_equal(result, expected)


def case_collectives_work_in_a_loop_and_a_condition() -> None:
    with session() as own:
        flag = tf.compat.v1.placeholder(tf.bool, [])
        total = tf.while_loop(lambda number, x: number < 5,
                              lambda number, x: (number + 1, hvd.allreduce(x, op=hvd.Sum, name="in a loop")),
                              [0, tf.ones(2)])[1]
        chosen = tf.cond(flag, lambda: hvd.allreduce(total, op=hvd.Sum, name="in a condition"), lambda: total)
        for value, power in ((True, 6), (False, 5)):
            np.testing.assert_array_equal(own.run(chosen, {flag: value}), [hvd.size() ** power] * 2)


def case_collectives_in_parallel_branches_match() -> None:
    """Tensors of a branch may have the names of tensors outside and run at the same time, and so may their gradients."""
    with session() as own:
        flag = tf.compat.v1.placeholder(tf.bool, [])
        x = tf.ones(2)
        results = [hvd.allreduce(x * 2.0, op=hvd.Sum)]
        for factor in (3.0, 4.0):
            results.append(tf.cond(flag, lambda factor=factor: hvd.allreduce(x * factor, op=hvd.Sum), lambda: x))
        fetches = [results, *([tf.gradients(result, x)[0] for result in results] for _ in range(2))]
        for _ in range(5):
            for got in own.run(fetches, {flag: True}):
                np.testing.assert_array_equal(got, [[factor * hvd.size()] * 2 for factor in (2.0, 3.0, 4.0)])


def case_one_call_can_run_several_times_in_order() -> None:
    """Two calls with one name cannot be in flight at once, so the program orders its calls."""
    with session() as own:
        total = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
        first = total(tf.ones(2))
        with tf.control_dependencies([first]):
            second = total(2.0 * tf.ones(2))
        mapped = tf.map_fn(lambda x: hvd.allreduce(x, op=hvd.Sum), tf.range(5.0), parallel_iterations=1)
        for _ in range(3):
            for got, expected in zip(own.run([first, second, mapped]), ([1, 1], [2, 2], range(5))):
                np.testing.assert_array_equal(got, hvd.size() * np.array(expected))


def case_two_sessions_can_run_one_graph() -> None:
    with session() as own, tf.compat.v1.Session() as other:
        x = tf.compat.v1.placeholder(tf.float32, [2])
        total = hvd.allreduce(x, op=hvd.Sum)
        for value, running in enumerate([own, other, own]):
            np.testing.assert_array_equal(running.run(total, {x: [value, 1]}), [value * hvd.size(), hvd.size()])


def gradients_of(collective: Callable[[tf.Tensor], tf.Tensor], count: int = 1) -> list[np.ndarray]:
    """Returns the gradients of several sums through one call of the collective, from one run."""
    with session() as own:
        x = tf.ones((2 * hvd.size(), 3))
        result = collective(x)
        weights = [hvd.rank() + number for number in range(1, count + 1)]
        return own.run([tf.gradients(result * weight, x)[0] for weight in weights])


def case_gradients_of_collectives_are_right_in_a_session() -> None:
    rank, size = hvd.rank(), hvd.size()
    mean = (size + 1) / 2
    for root in range(size):
        [got] = gradients_of(lambda x: hvd.broadcast(x, root))
        np.testing.assert_allclose(got, np.full((2 * size, 3), mean if rank == root else 0.0))
    for collective in (hvd.allreduce, hvd.allgather, lambda x: hvd.grouped_allreduce([x, x])[1]):
        for number, got in enumerate(gradients_of(collective, count=3)):
            np.testing.assert_allclose(got, np.full((2 * size, 3), mean + number))


def case_an_error_has_the_message_of_libhvd() -> None:
    if hvd.size() == 1:
        return
    with session() as own:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        total = hvd.allreduce(x, op=hvd.Sum, name="differs")
        other = hvd.allreduce(tf.ones(2), op=hvd.Sum, name="agrees")
        for _ in range(2):
            with raises(tf.errors.FailedPreconditionError, "MismatchError", "differs", "rank 0"):
                own.run([total, other], {x: np.zeros(3 + hvd.rank())})
        for result in own.run([total, other], {x: np.ones(2)}):
            np.testing.assert_array_equal(result, [hvd.size()] * 2)


def case_an_unknown_process_set_is_an_error_when_the_graph_is_built() -> None:
    fake = hvd.ProcessSet([0])
    fake.process_set_id = 99
    for collective in (lambda x: hvd.allreduce(x, process_set=fake), lambda x: hvd.allgather(x, process_set=fake),
                       lambda x: hvd.grouped_allreduce([x], process_set=fake),
                       lambda x: hvd.broadcast(x, 0, process_set=fake), lambda x: hvd.alltoall(x, process_set=fake)):
        with session(), raises(ValueError, "no process set 99"):
            collective(tf.ones(hvd.size()))  # raised while the graph is built


def case_calls_work_after_an_error_of_another_operation() -> None:
    with session() as own:
        x = tf.compat.v1.placeholder(tf.float32, [2])
        positive = tf.compat.v1.assert_positive(x)
        total = hvd.allreduce(x, op=hvd.Sum, name="beside an error")
        for value in (1.0, 2.0):
            with raises(tf.errors.InvalidArgumentError, "x > 0"):
                own.run([positive, total], {x: [value, -value]})
            hvd.allgather_object(None)  # the ranks wait for each other
            np.testing.assert_array_equal(own.run([positive, total], {x: [value] * 2})[1], [value * hvd.size()] * 2)


def case_gradients_of_many_variables_and_a_metric_are_reduced_in_one_run() -> None:
    with session() as own:
        variables: list[Any] = [tf.compat.v1.get_variable(f"variable{number}", initializer=tf.ones(2) * number)
                                for number in range(12)]
        loss = tf.add_n([tf.reduce_sum(variable * variable) for variable in variables]) * (hvd.rank() + 1.0)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss)
        metrics = [hvd.allreduce(tf.constant(hvd.rank() + 1.0) * number) for number in range(4)]
        own.run(tf.compat.v1.global_variables_initializer())
        mean = (hvd.size() + 1) / 2
        for step in range(1, 4):
            _, got = own.run([train, metrics])
            np.testing.assert_allclose(got, [mean * number for number in range(4)])
            np.testing.assert_allclose(own.run(variables[3]), [3 * (1 - 0.2 * mean) ** step] * 2, rtol=1e-5)
