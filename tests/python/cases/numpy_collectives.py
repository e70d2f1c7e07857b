"""hvd.numpy: results of each collective for every type, and errors."""

from __future__ import annotations

import numpy as np

import hvd
import hvd.numpy as hvn
from _expect import raises
from hvd import errors

TYPES = ["uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"]


def mine(shape: tuple[int, ...], kind: str = "float32") -> np.ndarray:
    """Returns an array that differs between ranks, whose sums are exact in all types."""
    return (np.arange(np.prod(shape)).reshape(shape) % 5 + hvd.rank()).astype(kind)


def of_all(shape: tuple[int, ...], kind: str = "float32") -> list[np.ndarray]:
    return [(np.arange(np.prod(shape)).reshape(shape) % 5 + rank).astype(kind) for rank in range(hvd.size())]


def case_allreduce_works_with_every_type() -> None:
    for kind in TYPES:
        expected = np.sum(of_all((3, 4), kind), axis=0, dtype=kind)
        got = hvn.allreduce(mine((3, 4), kind), op=hvd.Sum, name=f"sum {kind}")
        assert got.dtype == kind
        np.testing.assert_array_equal(got, expected)


def case_allreduce_works_with_every_reduction() -> None:
    arrays = of_all((6,))
    for op, expected in ((hvd.Average, np.mean(arrays, axis=0)), (hvd.Sum, np.sum(arrays, axis=0)),
                         (hvd.Min, np.min(arrays, axis=0)), (hvd.Max, np.max(arrays, axis=0)),
                         (hvd.Product, np.prod(arrays, axis=0))):
        np.testing.assert_allclose(hvn.allreduce(mine((6,)), op=op), expected, rtol=1e-6)


def case_reductions_of_bool_are_or_and_and() -> None:
    own = np.array([hvd.rank() == 0, True, False])
    assert hvn.allreduce(own, op=hvd.Sum).tolist() == [True, True, False]
    assert hvn.allreduce(own, op=hvd.Min).tolist() == [hvd.size() == 1, True, False]


def case_allreduce_in_place_writes_a_strided_view() -> None:
    whole = np.zeros((4, 6), np.float32)
    view = whole[::2, ::3]
    view[...] = hvd.rank() + 1
    result = hvn.allreduce_(view, op=hvd.Sum)
    assert result is view
    assert (whole[::2, ::3] == sum(range(1, hvd.size() + 1))).all() and whole.sum() == 4 * whole[0, 0]


def case_allreduce_multiplies_by_its_factors() -> None:
    got = hvn.allreduce(mine((3,)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    np.testing.assert_allclose(got, 2 * np.sum(of_all((3,)), axis=0))
    for kind, value in (("float32", 1), ("float64", 1e305), ("int64", 7), ("float16", 1)):
        own = np.full(3, value, kind)
        for factor in ("prescale_factor", "postscale_factor"):
            got = hvn.allreduce(own, op=hvd.Max, **{factor: 0.0})
            assert not got.any(), f"{factor} 0 of {kind} was ignored: {got}"
    with raises(TypeError, "hvd.numpy.allreduce: prescale_factor is None, not a number"):
        hvn.allreduce(mine((3,)), prescale_factor=None)


def case_a_masked_array_is_an_error() -> None:
    own = np.ma.masked_array(mine((3,)), mask=[True, False, False])
    for call in (hvn.allreduce, hvn.allreduce_, hvn.allgather, hvn.alltoall, hvn.reducescatter):
        with raises(TypeError, "mask"):
            call(own)
    for call in (hvn.broadcast, hvn.broadcast_):
        with raises(TypeError, "mask"):
            call(own, 0)


def case_numbers_out_of_range_are_errors() -> None:
    for root in (2**32, -2**32, 2**70):
        with raises(ValueError, f"the root is {root}, which is out of range"):
            hvn.broadcast(mine((3,)), root)
        with raises(ValueError, "out of range"):
            hvd.on_root(lambda: 1, root)
    for number in (-1, 2**70):
        for report in (hvd.set_epoch, hvd.set_step, hvd.add_samples, hvd.agree_stop):
            with raises(ValueError, "out of range"):
                report(number)


def case_named_calls_in_different_orders_on_ranks_match() -> None:
    names = [f"tensor {number}" for number in range(20)]
    handles = {name: hvn.allreduce_async(np.full(3, float(index)), name, hvd.Sum)
               for index, name in sorted(enumerate(names), reverse=hvd.rank() % 2 == 1)}
    for index, name in enumerate(names):
        assert handles[name].wait().tolist() == [index * hvd.size()] * 3
        assert handles[name].poll() and handles[name].wait().tolist() == [index * hvd.size()] * 3


def case_collectives_work_with_empty_arrays_and_scalars() -> None:
    assert hvn.allreduce(np.empty((0, 3))).shape == (0, 3)
    assert hvn.allreduce(np.float64(2)) == 2.0
    assert hvn.allgather(np.empty((0, 3))).shape == (0, 3)
    assert hvn.broadcast(np.empty(0), 0).shape == (0,)


def case_grouped_allreduce_works() -> None:
    got = hvn.grouped_allreduce([mine((2,)), mine((3, 3))], op=hvd.Sum)
    np.testing.assert_array_equal(got[0], np.sum(of_all((2,)), axis=0))
    np.testing.assert_array_equal(got[1], np.sum(of_all((3, 3)), axis=0))
    with raises(TypeError, "one type"):
        hvn.grouped_allreduce([np.zeros(1, np.float32), np.zeros(1)])


def case_broadcast_works_from_each_root() -> None:
    for root in range(hvd.size()):
        own = mine((2, 2))
        np.testing.assert_array_equal(hvn.broadcast(own, root), of_all((2, 2))[root])
        np.testing.assert_array_equal(own, mine((2, 2)))
        hvn.broadcast_(own, root)
        np.testing.assert_array_equal(own, of_all((2, 2))[root])


def case_allgather_works_with_different_numbers_of_rows() -> None:
    own = np.full((hvd.rank() * 2, 3), hvd.rank(), np.int32)
    expected = np.concatenate([np.full((rank * 2, 3), rank, np.int32) for rank in range(hvd.size())])
    np.testing.assert_array_equal(hvn.allgather(own), expected)


def case_allgathers_can_be_awaited_in_opposite_orders() -> None:
    handles = [hvn.allgather_async(np.full(hvd.rank() + 1, index), f"gather {index}") for index in range(4)]
    for handle in handles if hvd.rank() % 2 == 0 else reversed(handles):
        assert len(handle.wait()) == sum(range(1, hvd.size() + 1))


def case_alltoall_exchanges_equal_and_given_numbers_of_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows, received = hvn.alltoall(np.arange(size) + 10 * rank)
    assert rows.tolist() == [10 * other + rank for other in range(size)] and received.tolist() == [1] * size
    splits = [to + 1 for to in range(size)]
    rows, received = hvn.alltoall(np.full((sum(splits), 2), rank), splits)
    assert received.tolist() == [rank + 1] * size
    assert rows[:, 0].tolist() == [other for other in range(size) for _ in range(rank + 1)]
    with raises(ValueError, "splits"):
        hvn.alltoall(np.zeros(4), [1] * (size + 1))


def case_reducescatter_gives_each_rank_its_rows_of_the_sum() -> None:
    rows = 2 * hvd.size() + 1
    whole = np.sum(of_all((rows, 2)), axis=0)
    got = hvn.reducescatter(mine((rows, 2)), op=hvd.Sum)
    begin = 2 * hvd.rank() + min(hvd.rank(), 1)
    np.testing.assert_array_equal(got, whole[begin : begin + 2 + (hvd.rank() == 0)])


def case_collectives_work_on_a_process_set() -> None:
    last = hvd.size() - 1
    some = hvd.add_process_set([last])
    assert some.included() == (hvd.rank() == last) and some.size() == 1 and some.ranks == [last]
    if some.included():
        assert some.rank() == 0
        assert hvn.allreduce(np.array([5.0]), op=hvd.Sum, process_set=some).tolist() == [5.0]
    else:
        with raises(hvd.errors.InvalidArgumentError, "process set"):
            hvn.allreduce(np.array([5.0]), process_set=some)
    assert hvd.remove_process_set(some) and some.process_set_id is None
    assert not hvd.remove_process_set(some) and not hvd.remove_process_set(hvd.global_process_set)


def case_different_arguments_of_ranks_are_an_error_on_all_ranks() -> None:
    if hvd.size() == 1:
        return
    rank = hvd.rank()
    with raises(hvd.errors.MismatchError, "count", "rank 0"):
        hvn.allreduce(np.zeros(3 + rank), "count")
    with raises(hvd.errors.MismatchError, "the shape", "[2, 3] on rank 0"):
        hvn.allreduce(np.zeros((2, 3) if rank == 0 else (3, 2)), "shape")
    with raises(hvd.errors.MismatchError, "the type", "rank 0"):
        hvn.allreduce(np.zeros(3, np.float32 if rank == 0 else np.float64), "type")
    with raises(hvd.errors.MismatchError, "the op", "rank 0"):
        hvn.allreduce(np.zeros(3), "op", op=hvd.Sum if rank == 0 else hvd.Max)
    with raises(hvd.errors.MismatchError, "the root", "rank 0"):
        hvn.broadcast(np.zeros(3), rank, "root")
    with raises(hvd.errors.MismatchError, "the row size", "rank 0"):
        hvn.allgather(np.zeros((2, 3 + rank)), "rows")
    assert hvn.allreduce(np.ones(1), op=hvd.Sum).tolist() == [hvd.size()], "the next call failed"


def case_invalid_arguments_are_errors() -> None:
    with raises(TypeError, "complex64"):
        hvn.allreduce(np.zeros(3, np.complex64))
    with raises(ValueError, "dimension"):
        hvn.allgather(np.float32(1))
    with raises(ValueError, "Adasum"):
        hvn.allreduce(np.zeros(3, np.int32), op=hvd.Adasum)
    with raises(hvd.errors.InvalidArgumentError, "root"):
        hvn.broadcast(np.zeros(3), hvd.size())
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    with raises(ValueError, "read-only"):
        hvn.allreduce_(read_only)


def case_objects_of_any_size_are_broadcast_and_gathered() -> None:
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"rank": hvd.rank(), "text": "ü" * 1000}, root)["rank"] == root
    assert hvd.allgather_object(("x" * hvd.rank(), hvd.rank())) == [("x" * rank, rank) for rank in range(hvd.size())]


def case_sent_bytes_is_the_traffic_of_each_collective() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = np.ones((2 * size, 4), np.float32)
    total = rows.nbytes
    for name, call, expected in (
            ("allreduce", lambda: hvn.allreduce(rows), 2 * total * (size - 1) // size),
            ("grouped", lambda: hvn.grouped_allreduce([rows, rows]), 4 * total * (size - 1) // size),
            ("reducescatter", lambda: hvn.reducescatter(rows), total * (size - 1) // size),
            ("broadcast", lambda: hvn.broadcast(rows, 0), total * (size - 1) if rank == 0 else 0),
            ("allgather", lambda: hvn.allgather(rows), total * (size - 1)),
            ("alltoall", lambda: hvn.alltoall(rows), total * (size - 1) // size),
            ("splits", lambda: hvn.alltoall(rows, [2 * size] + [0] * (size - 1)), 0 if rank == 0 else total)):
        before = hvd.sent_bytes()
        call()
        assert hvd.sent_bytes() - before == expected, (name, hvd.sent_bytes() - before, expected)


def case_a_handle_from_before_shutdown_is_an_error() -> None:
    old = hvn.allreduce_async(mine((3,)), "before")
    hvd.shutdown()
    hvd.init()
    now = hvn.allreduce_async(mine((3,)), "after", hvd.Sum)
    for call in (old.poll, old.wait, old.wait):
        with raises(errors.NotInitializedError, "is of generation 1, which is over; this is generation 2"):
            call()
    np.testing.assert_array_equal(now.wait(), np.sum(of_all((3,)), axis=0))
