"""Collectives on torch tensors in the background: each returns a handle for poll() and synchronize().

`name`: the ranks find each other's call by it; without one by kind and order. `process_set`: all ranks by default.
Until a handle is done its tensors must not be changed; the handle keeps them. Tensors need not be contiguous: a copy is
made, and what is in place is written when the handle is waited for.

Errors: those of hvd.errors. A mistake that needs no other rank to see it (a type that there is not, a name that this
rank has in flight) is raised at once, the others by synchronize(), on all ranks.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from ctypes import Array, c_size_t
from functools import partial
from typing import Any, Optional, Union

import torch

from .. import _collectives, errors
from .._collectives import Handle, share_of_rows
from ..process_sets import ProcessSet, global_process_set
from ..types import Average, ReduceOp, Sum
from .handles import HandleGroup
from .tensors import (Output, Rows, data_type, dense, device_of, empty_rows, one_device, options, refuse_leaf, rows_of,
                      stream_of)

Splits = Union[Sequence[int], torch.Tensor]


def op_of(op: Optional[ReduceOp], average: Optional[bool]) -> ReduceOp:
    """What an allreduce is to do; `average` is Horovod's argument from before there was `op`."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("hvd: both op and average are given; op alone says all")
    warnings.warn("hvd: average=True is op=hvd.Average, average=False is op=hvd.Sum", DeprecationWarning, stacklevel=3)
    return Average if average else Sum


# ---- allreduce ----------------------------------------------------------------------------------


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """A new tensor, the ranks' tensors reduced element by element; the same shape and type on all ranks.

    op: hvd.Average when None. average: deprecated. The factors, not for bool: each tensor is multiplied by
    prescale_factor before, the result by postscale_factor.
    """
    source = dense(tensor)
    result = torch.empty(source.shape, dtype=source.dtype, device=source.device)
    return _allreduce(source, result, result, op_of(op, average), name, prescale_factor, postscale_factor, process_set)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """As allreduce_async(), in place: the result is `tensor`."""
    buffer = dense(tensor)
    refuse_leaf(tensor)
    return _allreduce(buffer, buffer, tensor, op_of(op, average), name, prescale_factor, postscale_factor, process_set)


def _allreduce(source: torch.Tensor, result: torch.Tensor, target: torch.Tensor, op: ReduceOp, name: Optional[str],
               prescale: float, postscale: float, process_set: ProcessSet) -> Handle[torch.Tensor]:
    stream = stream_of(source)
    with device_of(source):
        number = _collectives.allreduce(source.data_ptr(), result.data_ptr(), source.numel(), data_type(source), op,
                                        options(stream, source.shape, name, process_set, prescale, postscale))
    return Handle(number, Output(result, target, stream), source)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                            postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
                            ) -> HandleGroup[list[torch.Tensor]]:
    """New tensors, those of each place in the list reduced. Those of one type are carried out as one: when the ranks
    do not agree on all of them, none is written. All on one device."""
    sources = [dense(tensor) for tensor in tensors]
    results = [torch.empty(source.shape, dtype=source.dtype, device=source.device) for source in sources]
    return _grouped_allreduce(sources, results, results, op_of(op, average), name, prescale_factor, postscale_factor,
                              process_set)


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
                             ) -> HandleGroup[list[torch.Tensor]]:
    """As grouped_allreduce_async(), in place: the results are `tensors`."""
    buffers = [dense(tensor) for tensor in tensors]
    for tensor in tensors:
        refuse_leaf(tensor)
    return _grouped_allreduce(buffers, buffers, tensors, op_of(op, average), name, prescale_factor, postscale_factor,
                              process_set)


def _grouped_allreduce(sources: Sequence[torch.Tensor], results: Sequence[torch.Tensor],
                       targets: Sequence[torch.Tensor], op: ReduceOp, name: Optional[str], prescale: float,
                       postscale: float, process_set: ProcessSet) -> HandleGroup[list[torch.Tensor]]:
    one_device(sources, "a grouped allreduce")
    places: dict[int, list[int]] = {}
    for index, source in enumerate(sources):
        places.setdefault(data_type(source), []).append(index)
    handles: list[Handle[Any]] = []
    for kind, chosen in places.items():
        stream = stream_of(sources[chosen[0]])
        group_name = name if name is None or len(places) == 1 else f"{name}.{sources[chosen[0]].dtype}"
        with device_of(sources[chosen[0]]):
            number = _collectives.grouped_allreduce(
                [sources[index].data_ptr() for index in chosen], [results[index].data_ptr() for index in chosen],
                [sources[index].numel() for index in chosen], kind, op,
                options(stream, None, group_name, process_set, prescale, postscale))
        outputs = [Output(results[index], targets[index], stream) for index in chosen]
        handles.append(Handle(number, partial(_finished, outputs), sources))
    order = [index for chosen in places.values() for index in chosen]
    return HandleGroup(handles, lambda found: _in_places(order, [tensor for part in found for tensor in part]))


def _finished(outputs: Sequence[Output]) -> list[torch.Tensor]:
    return [output() for output in outputs]


def _in_places(order: Sequence[int], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    by_place = dict(zip(order, tensors))
    return [by_place[index] for index in range(len(order))]


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: ReduceOp,
                           process_set: ProcessSet = global_process_set) -> HandleGroup[torch.Tensor]:
    """The sum (hvd.Sum) or average (hvd.Average) of sparse COO tensors of one shape: a sparse COO tensor with the
    entries of all ranks, not coalesced. The handle may also be called, as Horovod's: handle() waits for the result."""
    if not (isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo):
        raise errors.InvalidArgumentError("hvd: sparse_allreduce_async takes a sparse COO tensor")
    if op not in (Average, Sum):
        raise errors.InvalidArgumentError(f"hvd: {ReduceOp(op).name} of sparse tensors: there are Average and Sum only")
    indices, values = tensor._indices(), tensor._values()
    handles = [
        allgather_async(indices.t(), None if name is None else f"{name}.indices", process_set),
        allgather_async(values, None if name is None else f"{name}.values", process_set),
    ]
    divisor = process_set.size() if op == Average else 1
    shape = tensor.shape
    return HandleGroup(handles, lambda found: _sparse(found[0], found[1], divisor, shape))


def _sparse(rows: torch.Tensor, values: torch.Tensor, divisor: int, shape: torch.Size) -> torch.Tensor:
    if divisor != 1:
        whole = None if values.is_floating_point() else "trunc"
        values = torch.div(values, divisor, rounding_mode=whole)
    return torch.sparse_coo_tensor(rows.t(), values, shape)


# ---- allgather ----------------------------------------------------------------------------------


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """A new tensor, the rows of all ranks, one rank's after the other's. Only the first dimension may differ."""
    return allgather_counted(tensor, name, process_set, None)


def allgather_counted(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet,
                      rows_by_rank: Optional[Array[c_size_t]]) -> Handle[torch.Tensor]:
    """allgather_async() that also tells how many rows came from each rank of the set."""
    source = dense(tensor)
    rows, row_size = rows_of(source, "allgather")
    stream = stream_of(source)
    output = Rows(source, stream)
    with device_of(source):
        return _collectives.allgather(source.data_ptr(), rows, row_size, data_type(source), output.allocate,
                                      rows_by_rank, options(stream, source.shape[1:], name, process_set), output,
                                      source)


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> HandleGroup[list[torch.Tensor]]:
    """allgather_async() of each tensor. All on one device."""
    return grouped_allgather_counted(tensors, name, process_set, [None] * len(tensors))


def grouped_allgather_counted(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet,
                              rows_by_rank: Sequence[Optional[Array[c_size_t]]]) -> HandleGroup[list[torch.Tensor]]:
    """grouped_allgather_async() that also tells how many rows came from each rank of the set."""
    sources = _checked_rows(tensors, "allgather")
    handles = [allgather_counted(tensor, _name_of_part(name, index), process_set, counts)
               for index, (tensor, counts) in enumerate(zip(sources, rows_by_rank))]
    return HandleGroup(handles, list)


def _checked_rows(tensors: Sequence[torch.Tensor], what: str) -> list[torch.Tensor]:
    """dense() of all, once nothing speaks against any of them: then all are on their way or none is."""
    sources = [dense(tensor) for tensor in tensors]
    one_device(sources, f"a grouped {what}")
    for source in sources:
        rows_of(source, what)
        data_type(source)
    return sources


def _name_of_part(name: Optional[str], index: int) -> Optional[str]:
    return None if name is None else f"{name}.{index}"


# ---- broadcast ----------------------------------------------------------------------------------


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """A new tensor, that of `root_rank` (a rank of all, in the process set); the same shape on all ranks."""
    source = dense(tensor)
    with torch.no_grad():
        copy = torch.empty(source.shape, dtype=source.dtype, device=source.device).copy_(source)
    return _broadcast(copy, copy, root_rank, name, process_set)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """As broadcast_async(), in place: the result is `tensor`, which may be a parameter."""
    return _broadcast(dense(tensor), tensor, root_rank, name, process_set)


def _broadcast(buffer: torch.Tensor, target: torch.Tensor, root: int, name: Optional[str],
               process_set: ProcessSet) -> Handle[torch.Tensor]:
    stream = stream_of(buffer)
    with device_of(buffer):
        number = _collectives.broadcast(buffer.data_ptr(), buffer.numel(), data_type(buffer), root,
                                        options(stream, buffer.shape, name, process_set))
    return Handle(number, Output(buffer, target, stream), buffer)


# ---- alltoall -----------------------------------------------------------------------------------


def alltoall_async(tensor: torch.Tensor, splits: Optional[Splits] = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle[tuple[torch.Tensor, torch.Tensor]]:
    """Gives splits[r] rows to rank r (of the set), as many to each without splits. The handle's result: the rows that
    came, rank 0's first, and how many came from each rank (int32, on the device of `splits`).

    splits: integers, which add up to the rows; of a tensor on a GPU the CPU waits for them.
    """
    source = dense(tensor)
    rows, row_size = rows_of(source, "alltoall")
    stream = stream_of(source)
    call = options(stream, source.shape[1:], name, process_set)
    counts = _counts(splits)
    size = process_set.size()
    _collectives.check_splits(counts, size)
    received = (c_size_t * size)()
    output = Rows(source, stream)
    device = splits.device if isinstance(splits, torch.Tensor) else torch.device("cpu")
    with device_of(source):
        return _collectives.alltoall(
            source.data_ptr(), counts, rows, row_size, data_type(source), output.allocate, received, call,
            lambda: (output(), torch.tensor(received[:], dtype=torch.int32, device=device)), source)


def _counts(splits: Optional[Splits]) -> Optional[list[int]]:
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        splits = torch.as_tensor(splits, dtype=None if len(splits) else torch.int32, device="cpu")
    if splits.dim() != 1 or splits.is_floating_point() or splits.is_complex() or splits.dtype is torch.bool:
        raise errors.InvalidArgumentError(
            f"hvd: splits of {splits.dtype} and shape {list(splits.shape)}; they are a list of integers, one a rank")
    return splits.tolist()


# ---- reducescatter ------------------------------------------------------------------------------


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: ReduceOp = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle[torch.Tensor]:
    """A new tensor, this rank's rows of the ranks' tensors reduced: as many for each, one more for the first ones where
    they do not divide evenly. The same shape on all ranks. The factors: as of allreduce_async()."""
    source = dense(tensor)
    rows, row_size = rows_of(source, "reducescatter")
    stream = stream_of(source)
    call = options(stream, source.shape, name, process_set, prescale_factor, postscale_factor)
    result = empty_rows(source, share_of_rows(rows, process_set.rank(), process_set.size()))
    with device_of(source):
        number = _collectives.reducescatter(source.data_ptr(), rows, row_size, data_type(source), op,
                                            result.data_ptr(), call)
    return Handle(number, Output(result, result, stream), source)


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: ReduceOp = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> HandleGroup[list[torch.Tensor]]:
    """reducescatter_async() of each tensor. All on one device."""
    sources = _checked_rows(tensors, "reducescatter")
    handles = [reducescatter_async(tensor, _name_of_part(name, index), op, process_set, prescale_factor,
                                   postscale_factor)
               for index, tensor in enumerate(sources)]
    return HandleGroup(handles, list)
