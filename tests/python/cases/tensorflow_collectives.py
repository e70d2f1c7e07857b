"""hvd.tensorflow, eager: results of each collective for every type, and errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import hvd.tensorflow as hvd
from _adasum import adasum
from _expect import raises

FRAMEWORK = "tensorflow"

TYPES = [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64]


def of_rank(rank: int, shape: tuple[int, ...], kind: tf.DType = tf.float32) -> tf.Tensor:
    """Returns a tensor that differs between ranks, whose sums are exact in all types."""
    return tf.cast(tf.constant(np.arange(np.prod(shape)).reshape(shape) % 5 + rank), kind)


def mine(shape: tuple[int, ...], kind: tf.DType = tf.float32) -> tf.Tensor:
    return of_rank(hvd.rank(), shape, kind)


def of_all(shape: tuple[int, ...], kind: tf.DType = tf.float32) -> list[np.ndarray]:
    return [of_rank(rank, shape, kind).numpy() for rank in range(hvd.size())]


def equal(got: tf.Tensor, expected: object) -> None:
    np.testing.assert_array_equal(got.numpy(), expected)


def case_allreduce_works_with_every_type() -> None:
    for kind in TYPES:
        got = hvd.allreduce(mine((3, 4), kind), op=hvd.Sum, name=f"sum {kind.name}")
        assert got.dtype == kind
        equal(got, sum(of_all((3, 4), kind)))


def case_allreduce_works_with_every_reduction() -> None:
    arrays = of_all((6,))
    for op, expected in ((hvd.Average, np.mean(arrays, axis=0)), (hvd.Sum, np.sum(arrays, axis=0)),
                         (hvd.Min, np.min(arrays, axis=0)), (hvd.Max, np.max(arrays, axis=0)),
                         (hvd.Product, np.prod(arrays, axis=0))):
        np.testing.assert_allclose(hvd.allreduce(mine((6,)), op=op), expected, rtol=1e-6)
    np.testing.assert_allclose(hvd.allreduce(mine((6,))), np.mean(arrays, axis=0), rtol=1e-6)


def case_reductions_work_with_bool() -> None:
    own = tf.constant([hvd.rank() == 0, True, False])
    equal(hvd.allreduce(own, op=hvd.Sum), [True, True, False])
    equal(hvd.broadcast(own, 0), [True, True, False])


def case_allreduce_takes_factors_and_the_deprecated_average() -> None:
    total = np.sum(of_all((3,)), axis=0)
    equal(hvd.allreduce(mine((3,)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total)
    equal(hvd.allreduce(mine((3,)), average=False), total)
    with raises(ValueError, "average"):
        hvd.allreduce(mine((3,)), average=True, op=hvd.Sum)


def case_allreduce_takes_lists_variables_and_empty_tensors() -> None:
    equal(hvd.allreduce([1.0, 2.0], op=hvd.Sum), [hvd.size(), 2.0 * hvd.size()])
    equal(hvd.allreduce(tf.Variable(3.0), op=hvd.Max), 3.0)
    assert hvd.allreduce(tf.zeros((0, 3))).shape == (0, 3)
    assert hvd.broadcast(tf.zeros((0,)), 0).shape == (0,)


def case_allreduce_works_with_each_compression() -> None:
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16, hvd.Compression.none):
        got = hvd.allreduce(mine((5,)), op=hvd.Sum, compression=compression)
        assert got.dtype == tf.float32
        equal(got, np.sum(of_all((5,)), axis=0))
        assert hvd.allreduce(mine((5,), tf.int32), op=hvd.Sum, compression=compression).dtype == tf.int32


def case_allreduce_works_with_indexed_slices() -> None:
    rank, size = hvd.rank(), hvd.size()
    own = tf.IndexedSlices(tf.fill((rank + 1, 2), float(rank)), tf.range(rank + 1, dtype=tf.int64),
                           tf.constant([size, 2], tf.int64))
    expected = np.zeros((size, 2))
    for other in range(size):
        expected[: other + 1] += other
    for op, divisor in ((hvd.Sum, 1), (hvd.Average, size)):
        got = hvd.allreduce(own, op=op)
        assert isinstance(got, tf.IndexedSlices)
        np.testing.assert_allclose(tf.convert_to_tensor(got), expected / divisor, rtol=1e-6)
    with raises(NotImplementedError, "Max"):
        hvd.allreduce(own, op=hvd.Max)
    got = hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5)
    np.testing.assert_allclose(tf.convert_to_tensor(got), expected / 2, rtol=1e-6)
    whole = tf.IndexedSlices(tf.ones((1, 3), tf.int32), tf.constant([0]))
    for factor in ("prescale_factor", "postscale_factor"):
        with raises(NotImplementedError, factor):
            hvd.allreduce(whole, op=hvd.Sum, **{factor: 0.5})


def case_grouped_collectives_work() -> None:
    slices = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([3, 2]))
    first, sparse, second = hvd.grouped_allreduce([mine((2,)), slices, mine((3, 3))], op=hvd.Sum)
    equal(first, np.sum(of_all((2,)), axis=0))
    equal(second, np.sum(of_all((3, 3)), axis=0))
    equal(tf.convert_to_tensor(sparse), [[hvd.size()] * 2, [0, 0], [0, 0]])
    assert hvd.grouped_allreduce([]) == []
    with raises(TypeError, "one type"):
        hvd.grouped_allreduce([tf.zeros(1), tf.zeros(1, tf.float64)])


def case_broadcast_works_from_each_root() -> None:
    for root in range(hvd.size()):
        equal(hvd.broadcast(mine((2, 2)), root), of_all((2, 2))[root])


def case_variables_are_broadcast() -> None:
    kinds = [tf.float32, tf.int64, tf.uint32, tf.uint64, tf.bool]
    variables = [tf.Variable(tf.cast([hvd.rank(), 2], kind)) for kind in kinds]
    hvd.broadcast_variables(variables, root_rank=hvd.size() - 1)
    for kind, variable in zip(kinds, variables):
        equal(variable, tf.cast([hvd.size() - 1, 2], kind).numpy())
    scalar = tf.Variable(float(hvd.rank()))
    equal(hvd.broadcast_([scalar], 0)[0], 0.0)
    equal(scalar, 0.0)


def case_allgather_works_with_different_numbers_of_rows() -> None:
    size = hvd.size()
    for kind in (*TYPES, tf.bool):
        expected = np.concatenate([np.full((rank * 2, 3), rank) for rank in range(size)]).astype(kind.as_numpy_dtype)
        equal(hvd.allgather(tf.cast(tf.fill((hvd.rank() * 2, 3), hvd.rank()), kind)), expected)
    first, second = hvd.grouped_allgather([tf.fill((1, 2), hvd.rank()), tf.fill((2,), 0.5)])
    equal(first, [[rank] * 2 for rank in range(size)])
    equal(second, [0.5] * 2 * size)


def case_alltoall_exchanges_equal_and_given_numbers_of_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = hvd.alltoall(tf.range(size) + 10 * rank)
    equal(rows, [10 * other + rank for other in range(size)])
    splits = [to + 1 for to in range(size)]
    rows, received = hvd.alltoall(tf.fill((sum(splits), 2), rank), splits)
    equal(received, [rank + 1] * size)
    equal(rows[:, 0], [other for other in range(size) for _ in range(rank + 1)])
    with raises(ValueError, "splits"):
        hvd.alltoall(tf.zeros(4), [1] * (size + 1))


def case_reducescatter_gives_each_rank_its_rows() -> None:
    rows = 2 * hvd.size() + 1
    whole = np.sum(of_all((rows, 2)), axis=0)
    begin = 2 * hvd.rank() + min(hvd.rank(), 1)
    end = begin + 2 + (hvd.rank() == 0)
    equal(hvd.reducescatter(mine((rows, 2)), op=hvd.Sum), whole[begin:end])
    first, second = hvd.grouped_reducescatter([mine((rows, 2)), mine((hvd.size(),))], op=hvd.Sum,
                                              compression=hvd.Compression.fp16)
    equal(first, whole[begin:end])
    assert second.shape == (1,) and first.dtype == tf.float32


def case_collectives_work_on_a_process_set() -> None:
    last = hvd.size() - 1
    some = hvd.add_process_set([last])
    included = hvd.rank() == last
    equal(hvd.process_set_included_op(some.process_set_id), int(included))
    equal(hvd.process_set_included_op(99), -3)
    equal(hvd.size_op(some.process_set_id), 1)
    if included:
        equal(hvd.allreduce(tf.constant([5.0]), op=hvd.Sum, process_set=some), [5.0])
        equal(hvd.allgather(tf.constant([5.0]), process_set=some), [5.0])
    hvd.remove_process_set(some)


def case_objects_are_broadcast_and_gathered() -> None:
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"rank": hvd.rank()}, root)["rank"] == root
        assert hvd.broadcast_object_fn(root)(hvd.rank()) == root
    assert hvd.allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]


def case_rank_and_size_are_available_as_operations() -> None:
    assert hvd.rank_op().numpy() == hvd.rank() and hvd.size_op().numpy() == hvd.size()
    assert hvd.local_rank_op().numpy() == hvd.local_rank() and hvd.local_size_op().dtype == tf.int32
    assert hvd.is_initialized() and hvd.is_homogeneous() and not hvd.mpi_enabled()


def case_a_joined_rank_contributes_zeros() -> None:
    hvd.barrier()
    if hvd.rank() > 0:
        # Rank 0 has joined, so it contributes zeros.
        equal(hvd.allreduce(tf.constant([1.0]), op=hvd.Sum, name="after rank 0"), [hvd.size() - 1])
    assert 0 <= int(hvd.join()) < hvd.size()


def case_adasum_works_with_a_power_of_two_of_ranks() -> None:
    if hvd.size() == 3:
        with raises(ValueError, "power of two, not for 3"):
            hvd.allreduce(mine((3,)), op=hvd.Adasum)
        return
    expected = adasum(of_all((4, 3)))
    own = mine((4, 3))
    one, twice = hvd.grouped_allreduce([own, 2 * own], op=hvd.Adasum)
    for got in (hvd.allreduce(own, op=hvd.Adasum), one, twice / 2):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def case_invalid_arguments_are_errors() -> None:
    with raises(TypeError, "complex64"):
        hvd.allreduce(tf.zeros(3, tf.complex64))
    with raises(ValueError, "dimension"):
        hvd.allgather(tf.constant(1.0))
    with raises(ValueError, "Adasum"):
        hvd.allreduce(tf.zeros(3, tf.int32), op=hvd.Adasum)
    with raises(hvd.errors.UnsupportedError, "device_dense", "/gpu:0"):
        hvd.allreduce(tf.zeros(3), device_dense="/gpu:0")
    with raises(RuntimeError, "broadcast_variables"):
        hvd.broadcast_global_variables(0)
    with raises(RuntimeError, "Session", "checkpoint"):
        hvd.elastic.TensorFlowState([], session=1)


def case_different_shapes_of_ranks_are_an_error_on_all_ranks() -> None:
    if hvd.size() == 1:
        return
    with raises(hvd.errors.MismatchError, "count", "rank 0"):
        hvd.allreduce(tf.zeros(3 + hvd.rank()), name="shape")
    equal(hvd.allreduce(tf.ones(1), op=hvd.Sum), [hvd.size()])


def case_errors_are_also_of_tensorflows_classes() -> None:
    """Programs for Horovod catch TensorFlow's classes."""
    precondition, argument = tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError
    last = hvd.add_process_set([hvd.size() - 1])
    fake = hvd.ProcessSet([0])
    fake.process_set_id = 99
    wrong: list[tuple[Callable[[], object], type[Exception], type[Exception]]] = [
        (lambda: hvd.alltoall(tf.zeros(hvd.size()), [2] * hvd.size()), argument, hvd.errors.InvalidArgumentError),
        (lambda: hvd.alltoall(tf.zeros(4), [1] * (hvd.size() + 1)), argument, hvd.errors.InvalidArgumentError),
        (lambda: hvd.allgather(tf.constant(1.0)), precondition, ValueError),
        (lambda: hvd.reducescatter(tf.constant(1.0)), argument, ValueError),
        (lambda: hvd.broadcast(tf.zeros(2), hvd.size()), argument, hvd.errors.InvalidArgumentError),
        (lambda: hvd.allreduce(tf.zeros(2), process_set=fake), argument, ValueError)]
    if hvd.size() > 1:
        wrong += [
            (lambda: hvd.allreduce(tf.zeros(3 + hvd.rank())), precondition, hvd.errors.MismatchError),
            (lambda: hvd.allreduce(tf.zeros(3, tf.int32 if hvd.rank() else tf.float32)), precondition, ValueError),
            (lambda: hvd.broadcast(tf.zeros(3), hvd.rank()), precondition, hvd.Error),
            (lambda: hvd.broadcast_variables([tf.Variable(tf.zeros(3 + hvd.rank()))], 0), precondition, RuntimeError)]
        if hvd.rank() < hvd.size() - 1:
            wrong += [(lambda: hvd.reducescatter(tf.zeros(3), process_set=last), argument, ValueError)]
    for call, theirs, ours in wrong:
        for kind in (theirs, ours):
            with raises(kind):
                call()
    hvd.remove_process_set(last)


def case_errors_can_be_pickled() -> None:
    try:
        hvd.broadcast(tf.zeros(2), hvd.size())
    except hvd.Error as error:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and (str(again), again.status) == (str(error), error.status)
        assert again.error_code == tf.errors.INVALID_ARGUMENT and type(error).__module__ == "hvd.errors"
    else:
        raise AssertionError("no error")
