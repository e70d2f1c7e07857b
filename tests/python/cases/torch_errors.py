"""hvd.torch: invalid calls raise an exception with the right class and text, and the next call works."""

from __future__ import annotations


import torch

import hvd.torch as hvd
from _expect import raises
from hvd.torch.tensors import one_device


def works() -> None:
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).tolist() == [hvd.size()], "the next call failed"


def case_tensors_of_complex_types_are_errors() -> None:
    for kind in (torch.complex64, torch.complex128):
        tensor = torch.ones(2, dtype=kind)
        for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter,
                     lambda x: hvd.broadcast(x, 0), lambda x: hvd.broadcast_(x, 0),
                     lambda x: hvd.grouped_allreduce([x]),
                     lambda x: hvd.grouped_allgather([torch.ones(1), x]),
                     lambda x: hvd.grouped_reducescatter([torch.ones(1), x])):
            with raises(ValueError, str(kind)):
                call(tensor)
    works()


def case_values_that_are_no_dense_tensors_are_errors() -> None:
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with raises(TypeError, "torch.Tensor"):
            call([1.0, 2.0])
    for call in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather, hvd.grouped_reducescatter):
        with raises(TypeError, "torch.Tensor"):
            call([torch.ones(1), 2.0])
    with raises(ValueError, "sparse_allreduce_async"):
        hvd.allreduce(torch.eye(2).to_sparse())
    with raises(ValueError, "meta"):
        hvd.allreduce(torch.ones(2, device="meta"))
    with raises(ValueError, "COO"):
        hvd.sparse_allreduce_async(torch.ones(2), "dense", hvd.Sum)
    works()


def case_a_group_on_several_devices_is_an_error() -> None:
    tensors = [torch.ones(2), torch.ones(2), torch.ones(2, device="meta")]
    for call in (hvd.grouped_allgather, hvd.grouped_reducescatter, hvd.grouped_allreduce, hvd.grouped_allreduce_):
        with raises(ValueError, "meta"):
            call(tensors)
    with raises(ValueError, "tensor 0 is on cpu", "tensor 2 on meta"):  # as for cpu and cuda
        one_device(tensors, "a group")
    works()


def case_row_collectives_of_a_scalar_are_errors() -> None:
    for call in (hvd.allgather, hvd.alltoall, hvd.reducescatter, lambda x: hvd.grouped_allgather([x]),
                 lambda x: hvd.grouped_reducescatter([x])):
        with raises(ValueError, "dimension"):
            call(torch.tensor(1.0))
    works()


def case_adasum_of_integers_or_three_ranks_is_an_error() -> None:
    tensor = torch.ones(2 * hvd.size())
    with raises(ValueError, "Adasum is for floating point types, not for int64"):
        hvd.allreduce(tensor.long(), op=hvd.Adasum)
    for call in (hvd.reducescatter, lambda x, op: hvd.grouped_reducescatter([x], op=op),
                 lambda x, op: hvd.sparse_allreduce_async(x.to_sparse(), "sparse", op)):
        with raises(ValueError, "Adasum"):
            call(tensor, op=hvd.Adasum)
    if hvd.size() == 3:
        for call in (hvd.allreduce, hvd.allreduce_, lambda x, op: hvd.grouped_allreduce([x, x], op=op)):
            with raises(ValueError, "power of two, not for 3"):
                call(tensor, op=hvd.Adasum)
    works()


def case_unknown_reductions_are_errors() -> None:
    with raises(ValueError, "Max"):
        hvd.sparse_allreduce_async(torch.ones(2).to_sparse(), "sparse", hvd.Max)
    with raises(ValueError, "op"):
        hvd.allreduce(torch.ones(2), op=17)
    works()


def case_a_second_call_with_a_name_in_flight_is_an_error() -> None:
    if hvd.size() == 1:
        return  # calls end at once
    first = hvd.rank() == 0
    if first:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
        assert not hvd.poll(handle), "the call ended without the other ranks"
        with raises(ValueError, "twice"):
            hvd.allreduce_async(torch.ones(2), name="twice")
    hvd.barrier()
    if not first:
        handle = hvd.allreduce_async(torch.ones(2), name="twice")
    with raises(hvd.HorovodInternalError, "twice", "rank 0"):
        hvd.synchronize(handle)
    assert hvd.allreduce(torch.ones(2), name="twice").tolist() == [1.0, 1.0], "the name cannot be used again"


def case_values_that_are_no_handles_are_errors() -> None:
    for handle in (None, 3, torch.ones(1)):
        with raises(TypeError, "handle"):
            hvd.poll(handle)
        with raises(TypeError, "handle"):
            hvd.synchronize(handle)


def case_roots_out_of_range_are_errors() -> None:
    for root in (-1, hvd.size()):
        with raises(ValueError, "root"):
            hvd.broadcast(torch.ones(2), root)
        with raises(ValueError, "root"):
            hvd.broadcast_(torch.ones(2), root)
    works()


def case_invalid_splits_of_alltoall_are_errors() -> None:
    size = hvd.size()
    rows = torch.ones(2 * size)
    with raises(ValueError, f"{size + 1} splits"):
        hvd.alltoall(rows, [1] * (size + 1))
    with raises(ValueError, "splits"):
        hvd.alltoall(rows, [])
    with raises(ValueError, "negative"):
        hvd.alltoall(rows, [-1] * size)
    with raises(ValueError, "integers"):
        hvd.alltoall(rows, torch.ones(size))
    with raises(ValueError, "integers"):
        hvd.alltoall(rows, torch.ones(size, 1, dtype=torch.int32))
    with raises(ValueError, "split"):
        hvd.alltoall(rows, [3] * size)  # an error on all ranks
    with raises(ValueError, "split"):
        hvd.alltoall(rows, [2] * size if hvd.rank() > 0 else [1] * size)
    if size > 1:
        with raises(ValueError, "rows"):
            hvd.alltoall(torch.ones(2 * size + 1))
    works()


def case_values_that_are_no_known_process_set_are_errors() -> None:
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter,
                 lambda x, process_set: hvd.broadcast(x, 0, process_set=process_set)):
        with raises(TypeError, "ProcessSet"):
            call(torch.ones(hvd.size()), process_set=[0])
        with raises(ValueError, "add_process_set"):
            call(torch.ones(hvd.size()), process_set=hvd.ProcessSet([0]))
    works()


def case_different_arguments_of_ranks_are_an_error_on_all_ranks() -> None:
    if hvd.size() == 1:
        return
    rank = hvd.rank()
    mine = torch.float32 if rank == 0 else torch.float64
    with raises(ValueError, "count", "rank 0"):
        hvd.allreduce(torch.ones(3 + rank), name="shape")
    with raises(hvd.HorovodInternalError, "type", "rank 0"):
        hvd.allreduce_(torch.ones(3, dtype=mine), name="type")
    with raises(hvd.HorovodInternalError, "op", "rank 0"):
        hvd.allreduce(torch.ones(3), name="op", op=hvd.Sum if rank == 0 else hvd.Max)
    with raises(hvd.HorovodInternalError, "rank 0"):
        hvd.allreduce(torch.ones(3), name="factor", prescale_factor=1.0 + rank)
    with raises(hvd.HorovodInternalError, "root", "rank 0"):
        hvd.broadcast(torch.ones(3), rank, name="root")
    with raises(hvd.HorovodInternalError, "rank 0"):
        hvd.broadcast_(torch.ones(3 + rank), 0, name="root's shape")
    with raises(hvd.HorovodInternalError, "row size", "rank 0"):
        hvd.allgather(torch.ones(2, 3 + rank), name="rows")
    with raises(hvd.HorovodInternalError, "type", "rank 0"):
        hvd.alltoall(torch.ones(hvd.size(), dtype=mine), name="rows' type")
    with raises(hvd.HorovodInternalError, "rank 0"):
        hvd.reducescatter(torch.ones(hvd.size() + rank), name="share")
    with raises(hvd.HorovodInternalError, "rank 0"):
        hvd.grouped_allreduce([torch.ones(3 + rank), torch.ones(1)], name="group")
    tensors = [torch.ones(3), torch.ones(2 + rank)]
    with raises(hvd.HorovodInternalError, "rank 0"):
        hvd.grouped_allreduce_(tensors, name="group in place", op=hvd.Sum)
    assert tensors[0].tolist() == [1.0] * 3, "a failed group has written a tensor"
    works()


def case_an_error_of_one_tensor_of_a_group_names_it() -> None:
    if hvd.size() == 1:
        return
    tensors = [torch.ones(2, 2), torch.ones(2, 3 + hvd.rank()), torch.ones(1)]
    handle = hvd.grouped_allgather_async(tensors, name="parts")
    with raises(hvd.HorovodInternalError, "parts.1", "rank 0"):
        hvd.synchronize(handle)
    assert hvd.poll(handle)
    works()


def case_starting_and_stopping_the_timeline_wrongly_is_an_error() -> None:
    with raises(ValueError, "timeline"):
        hvd.stop_timeline()
    with raises(hvd.HorovodInternalError, "no-such-folder"):
        hvd.start_timeline("no-such-folder/timeline.json")
    works()


def case_a_process_set_from_an_mpi_communicator_is_an_error() -> None:
    with raises(NotImplementedError, "ranks"):
        hvd.ProcessSet(object())
