"""hvd.torch: every collective on a process set, gradients, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import hvd.torch as hvd
from _expect import raises

GATE_SIZE = 3  # with two ranks, a set would have one rank or all


@contextmanager
def a_set(*ranks: int) -> Iterator[hvd.ProcessSet]:
    """Adds a process set for the time of the block."""
    process_set = hvd.add_process_set(hvd.ProcessSet(ranks))
    try:
        yield process_set
    finally:
        assert hvd.remove_process_set(process_set)


def upper() -> tuple[int, ...]:
    """Returns all ranks except the first, so that ranks within the set and in the job differ; with one rank, this one."""
    return tuple(range(1, hvd.size())) or (0,)


def total(ranks: tuple[int, ...]) -> float:
    """Returns the sum of the ranks' values, which are rank + 1."""
    return float(sum(rank + 1 for rank in ranks))


def case_a_set_has_its_ranks_size_and_id() -> None:
    ranks = upper()
    with a_set(*reversed(ranks)) as some:
        assert some.ranks == list(ranks) and some.size() == len(ranks) and some.process_set_id > 0
        assert some.included() == (hvd.rank() in ranks)
        if some.included():
            assert some.rank() == ranks.index(hvd.rank())
    assert some.process_set_id is None
    assert not hvd.remove_process_set(some) and not hvd.remove_process_set(hvd.global_process_set)
    everyone = hvd.global_process_set
    assert everyone.process_set_id == 0 and everyone.included() and everyone.ranks == list(range(hvd.size()))
    assert everyone.rank() == hvd.rank() and everyone.size() == hvd.size()


def case_add_process_set_takes_a_list_of_ranks() -> None:
    some = hvd.add_process_set([0])
    assert some.ranks == [0]
    with raises(ValueError, "already"):
        hvd.add_process_set(some)
    hvd.remove_process_set(some)


def case_reductions_work_on_a_set() -> None:
    ranks = upper()
    with a_set(*ranks) as some:
        if not some.included():
            return
        own = torch.full((3,), float(hvd.rank() + 1))
        for got in (hvd.allreduce(own, op=hvd.Sum, process_set=some),
                    hvd.synchronize(hvd.allreduce_async(own, op=hvd.Sum, process_set=some, name="background")),
                    hvd.allreduce_(own.clone(), op=hvd.Sum, process_set=some),
                    *hvd.grouped_allreduce([own], op=hvd.Sum, process_set=some),
                    *hvd.grouped_allreduce_([own.clone()], op=hvd.Sum, process_set=some),
                    hvd.sparse_allreduce_async(own.to_sparse(), "sparse", hvd.Sum, process_set=some)().to_dense()):
            assert got.tolist() == [total(ranks)] * 3
        average = hvd.allreduce(own, process_set=some)
        assert torch.allclose(average, torch.full((3,), total(ranks) / len(ranks)))
        average = hvd.sparse_allreduce_async(own.to_sparse(), "sparse", hvd.Average, process_set=some)().to_dense()
        assert torch.allclose(average, torch.full((3,), total(ranks) / len(ranks)))


def case_row_collectives_work_on_a_set() -> None:
    ranks = upper()
    with a_set(*ranks) as some:
        if not some.included():
            return
        place, size = some.rank(), some.size()
        own = torch.full((size, 2), float(hvd.rank() + 1))
        expected = [float(rank + 1) for rank in ranks]
        assert hvd.allgather(own[:1], process_set=some)[:, 0].tolist() == expected
        assert hvd.grouped_allgather([own[:1]], process_set=some)[0][:, 0].tolist() == expected
        assert hvd.alltoall(own, process_set=some)[:, 0].tolist() == expected
        output, received = hvd.alltoall(own[:1], [int(place == to) for to in range(size)], process_set=some)
        assert output[:, 0].tolist() == [hvd.rank() + 1.0]
        assert received.tolist() == [int(place == other) for other in range(size)]
        for got in (hvd.reducescatter(own, op=hvd.Sum, process_set=some),
                    *hvd.grouped_reducescatter([own], op=hvd.Sum, process_set=some)):
            assert got.tolist() == [[total(ranks)] * 2]


def case_a_root_is_given_by_its_rank_in_the_job() -> None:
    ranks = upper()
    with a_set(*ranks) as some:
        if not some.included():
            return
        for root in ranks:
            own = torch.tensor([hvd.rank()])
            assert hvd.broadcast(own, root, process_set=some).tolist() == [root]
            assert hvd.broadcast_(own, root, process_set=some).tolist() == [root]
        if hvd.size() > 1:
            with raises(ValueError, "root"):
                hvd.broadcast(torch.ones(1), 0, process_set=some)


def case_barrier_and_objects_work_on_a_set() -> None:
    ranks = upper()
    with a_set(*ranks) as some:
        if some.included():
            hvd.barrier(process_set=some)
            assert hvd.broadcast_object(hvd.rank(), ranks[-1], process_set=some) == ranks[-1]
            assert hvd.allgather_object(hvd.rank(), process_set=some) == list(ranks)


def case_gradients_are_right_on_a_set() -> None:
    ranks = upper()
    with a_set(*ranks) as some:
        if not some.included():
            return
        size, place = some.size(), some.rank()
        scale = float(hvd.rank() + 1)

        def gradient(function, shape: tuple[int, ...]) -> torch.Tensor:
            tensor = torch.ones(shape, requires_grad=True)
            (function(tensor) * scale).sum().backward()
            return tensor.grad

        average = total(ranks) / size
        for function, shape, expected in (
                (lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=some), (2,), total(ranks)),
                (lambda x: hvd.allgather(x, process_set=some), (place + 1,), average),
                (lambda x: hvd.broadcast(x, ranks[-1], process_set=some), (2,),
                 average if hvd.rank() == ranks[-1] else 0.0)):
            assert torch.allclose(gradient(function, shape), torch.full(shape, expected))
        by_rank = torch.tensor([rank + 1.0 for rank in ranks])
        assert torch.equal(gradient(lambda x: hvd.alltoall(x, process_set=some), (size,)), by_rank)
        assert torch.equal(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum, process_set=some), (size,)),
                           by_rank * size)


def case_collectives_on_a_set_without_this_rank_are_errors() -> None:
    if hvd.size() == 1:
        return
    with a_set(*upper()) as some:
        if some.included():
            return
        tensor = torch.ones(2)
        for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter,
                     lambda x, process_set: hvd.broadcast(x, 1, process_set=process_set),
                     lambda x, process_set: hvd.grouped_allreduce([x], process_set=process_set),
                     lambda x, process_set: hvd.barrier(process_set=process_set)):
            with raises(ValueError, "process set"):
                call(tensor, process_set=some)


def case_two_sets_can_use_the_same_name_at_once() -> None:
    even, odd = range(0, hvd.size(), 2), range(1, hvd.size(), 2)
    if not odd:
        return
    with a_set(*even) as first, a_set(*odd) as second:
        mine = first if first.included() else second
        got = hvd.allreduce(torch.tensor([float(hvd.rank())]), name="the same name", op=hvd.Sum, process_set=mine)
        assert got.tolist() == [float(sum(mine.ranks))]


def case_invalid_sets_are_errors() -> None:
    with raises(ValueError):
        hvd.add_process_set([hvd.size()])
    with raises(ValueError):
        hvd.add_process_set([0, 0])
    if hvd.size() > 1:
        with raises(hvd.HorovodInternalError):
            hvd.add_process_set([hvd.rank()])
    with a_set(0):
        pass
