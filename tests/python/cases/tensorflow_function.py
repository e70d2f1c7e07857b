"""hvd.tensorflow in a tf.function. TensorFlow has one thread for operations, so a collective that blocks it would hang."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

import hvd.tensorflow as hvd
from _expect import raises

FRAMEWORK = "tensorflow"
SIZES = (1, 2)
# A collective that blocks a thread while it waits would block the only one.
ENVIRONMENT = {"TF_NUM_INTEROP_THREADS": "1"}

ANY = [tf.TensorSpec(None, tf.float32)]


def case_shapes_are_known_where_they_can_be() -> None:
    shapes = {}

    @tf.function
    def step(x: tf.Tensor) -> None:
        shapes["allreduce"] = hvd.allreduce(x).shape
        shapes["broadcast"] = hvd.broadcast(x, 0).shape
        shapes["allgather"] = hvd.allgather(x).shape
        rows, received = hvd.alltoall(x, [4] + [0] * (hvd.size() - 1))
        shapes["alltoall"], shapes["received"] = rows.shape, received.shape
        shapes["reducescatter"] = hvd.reducescatter(x).shape

    step(tf.zeros((4, 3)))
    assert shapes["allreduce"] == (4, 3) and shapes["broadcast"] == (4, 3)
    assert shapes["allgather"].as_list() == [None, 3] and shapes["alltoall"].as_list() == [None, 3]
    assert shapes["received"] == (hvd.size(),) and shapes["reducescatter"] == (4 // hvd.size(), 3)


def case_collectives_work_with_shapes_known_only_at_run_time() -> None:
    @tf.function(input_signature=ANY)
    def step(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return hvd.allreduce(x, op=hvd.Sum), hvd.broadcast(x, 0), hvd.allgather(x), hvd.reducescatter(x, op=hvd.Sum)

    size = hvd.size()
    for rows in (0, 2, 4):
        reduced, sent, gathered, scattered = step(tf.ones((rows, 2)))
        np.testing.assert_array_equal(reduced, np.full((rows, 2), size))
        assert sent.shape == (rows, 2) and gathered.shape == (rows * size, 2)
        assert scattered.shape == (rows // size, 2)


def case_collectives_work_with_every_type() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return hvd.allreduce(x, op=hvd.Sum), hvd.broadcast(x, 0)

    for kind in (tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32,
                 tf.float64, tf.bool):
        reduced, sent = step(tf.cast([1, 0, 1], kind))
        assert reduced.dtype == kind and sent.dtype == kind
        np.testing.assert_array_equal(reduced, tf.cast([1, 0, 1], kind) if kind == tf.bool
                                      else tf.cast([hvd.size(), 0, hvd.size()], kind))


def case_collectives_in_opposite_orders_on_two_ranks_match() -> None:
    """Some have operations between them that a tf.function executes in the program's order."""
    seen = tf.Variable(tf.zeros(2))

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        results = {}
        for name in sorted("ab", reverse=hvd.rank() % 2 == 1):
            results[name] = hvd.allreduce(x + ord(name), op=hvd.Sum, name=name)
            seen.assign_add(results[name][:2])
            tf.print(name, results[name], output_stream="file:///dev/null")
        return [results["a"], results["b"]]

    for _ in range(3):
        a, b = step(tf.zeros(4))
        np.testing.assert_array_equal(a, [hvd.size() * ord("a")] * 4)
        np.testing.assert_array_equal(b, [hvd.size() * ord("b")] * 4)


def case_functions_called_in_opposite_orders_match() -> None:
    totals = {name: tf.function(lambda x, name=name: hvd.allreduce(x, op=hvd.Sum, name=name)) for name in "ab"}

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        results = {name: totals[name](x + ord(name)) for name in sorted("ab", reverse=hvd.rank() % 2 == 1)}
        return [results["a"], results["b"]]

    for name, got in zip("ab", step(tf.zeros(2))):
        np.testing.assert_array_equal(got, [hvd.size() * ord(name)] * 2)


def case_many_collectives_in_opposite_orders_match() -> None:
    names = [f"tensor {number}" for number in range(20)]

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        order = sorted(enumerate(names), reverse=hvd.rank() % 2 == 1)
        results = {index: hvd.allreduce(x * index, op=hvd.Sum, name=name) for index, name in order}
        return tf.stack([results[index] for index in range(len(names))])

    np.testing.assert_array_equal(step(tf.constant(1.0)), [index * hvd.size() for index in range(len(names))])


def case_a_collective_can_use_the_result_of_another() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        for number in range(5):
            x = hvd.allreduce(x, op=hvd.Sum, name=f"step {number}")
        return x

    np.testing.assert_array_equal(step(tf.ones(2)), [hvd.size() ** 5] * 2)


def case_collectives_work_in_a_loop_and_a_condition() -> None:
    @tf.function
    def step(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        for number in tf.range(count):
            if number % 2 == 0:
                x = hvd.allreduce(x, op=hvd.Sum)
            else:
                x = x + 1.0
        return x

    got = step(tf.zeros(2), tf.constant(4))
    np.testing.assert_array_equal(got, [hvd.size() + 1.0] * 2)


def case_a_function_can_be_called_twice_in_another() -> None:
    @tf.function
    def total(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x, op=hvd.Sum)

    @tf.function
    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return total(x), total(2 * x)

    one, two = step(tf.ones(2))
    np.testing.assert_array_equal(one, [hvd.size()] * 2)
    np.testing.assert_array_equal(two, [2 * hvd.size()] * 2)


def case_functions_can_use_the_same_names_of_tensors() -> None:
    """Two calls with one name cannot be in flight at once, so calls in these functions and their callers run in order."""
    def factor(number: float) -> Callable[[tf.Tensor], tf.Tensor]:
        return tf.function(lambda x: hvd.allreduce(x * number, op=hvd.Sum, name="shared"))

    double, triple = factor(2.0), factor(3.0)

    @tf.function
    def step(x: tf.Tensor, flag: tf.Tensor) -> list[tf.Tensor]:
        results = [double(x), hvd.allreduce(x, op=hvd.Sum, name="shared"), triple(x)]
        if flag:
            x = hvd.allreduce(4.0 * x, op=hvd.Sum, name="shared")
        return [*results, x]

    for _ in range(10):
        np.testing.assert_array_equal(step(tf.constant(1.0), tf.constant(True)),
                                      [hvd.size() * number for number in (2.0, 1.0, 3.0, 4.0)])


def case_names_that_end_with_numbers_are_not_confused() -> None:
    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        return [hvd.allreduce(x * number, op=hvd.Sum, name=name)
                for number, name in enumerate(["value", "value_1", "value", "value_1"])]

    for _ in range(10):
        np.testing.assert_array_equal(step(tf.constant(1.0)), [hvd.size() * number for number in range(4)])


def case_a_collective_with_an_unused_result_runs() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        hvd.allreduce(x + hvd.rank(), name="unused")
        return x

    for _ in range(3):
        step(tf.ones(2))


def case_sparse_and_grouped_allreduce_work() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        slices = tf.IndexedSlices(x, tf.constant([0, 2]), tf.constant([3, 2]))
        reduced = hvd.allreduce(slices, op=hvd.Sum)
        dense, sparse = hvd.grouped_allreduce([x, slices], op=hvd.Sum)
        return tf.convert_to_tensor(reduced), dense + tf.gather(tf.convert_to_tensor(sparse), [0, 2])

    size = hvd.size()
    reduced, both = step(tf.ones((2, 2)))
    np.testing.assert_array_equal(reduced, [[size] * 2, [0, 0], [size] * 2])
    np.testing.assert_array_equal(both, np.full((2, 2), 2 * size))


def case_variables_rank_operations_and_barrier_work() -> None:
    variables = [tf.Variable(float(hvd.rank())), tf.Variable([hvd.rank()])]

    @tf.function
    def step() -> tf.Tensor:
        hvd.broadcast_variables(variables, 0)
        hvd.barrier()
        return tf.stack([hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op()])

    assert step().numpy().tolist() == [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]
    assert [float(variables[0]), variables[1].numpy().tolist()] == [0.0, [0]]


def case_an_error_has_the_message_of_libhvd() -> None:
    if hvd.size() == 1:
        return

    @tf.function(input_signature=ANY)
    def step(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x, op=hvd.Sum, name="differs")

    for _ in range(2):
        with raises(tf.errors.FailedPreconditionError, "MismatchError", "differs", "rank 0"):
            step(tf.zeros(3 + hvd.rank()))
    np.testing.assert_array_equal(step(tf.ones(3)), [hvd.size()] * 3)


def case_calls_work_after_an_error_of_another_operation() -> None:
    @tf.function
    def step(x: tf.Tensor, fail: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.assert_equal(fail, False)]):
            other = tf.identity(x)
        return hvd.allreduce(x, op=hvd.Sum, name="beside an error") + other

    for value in (1.0, 2.0):
        with raises(tf.errors.InvalidArgumentError):
            step(tf.fill((2,), value), tf.constant(True))
        hvd.barrier()
        np.testing.assert_array_equal(step(tf.fill((2,), value + 5), tf.constant(False)),
                                      [(value + 5) * (hvd.size() + 1)] * 2)


def case_jit_compile_is_an_error() -> None:
    @tf.function(jit_compile=True)
    def step(x: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(x)

    with raises(Exception, "XLA cannot compile", "jit_compile"):  # tf.function wraps the error
        step(tf.ones(2))
