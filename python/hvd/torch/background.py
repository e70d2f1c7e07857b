"""Asynchronous collectives on torch tensors: each returns a handle for poll() and synchronize().

`name`: matches the ranks' calls; calls without a name are matched by kind and order. `process_set`: all ranks by
default. The tensors must not be changed until the handle is done; the handle keeps references to them. A tensor that is
not contiguous is copied; a call in place then writes its tensor when the handle is waited for.

Errors: those of hvd.errors. An error that one rank can find by itself (an unsupported type, a name that this rank has
in flight) is raised by the call, and on the other ranks by synchronize(). Others are raised by synchronize(), on all
ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, c_size_t
from functools import partial
from typing import Any, Optional, Union

import torch

from .. import _collectives, errors
from .._collectives import Handle, share_of_rows, shares_failure
from .._retired import op_of
from ..process_sets import ProcessSet, global_process_set
from ..types import Average, ReduceOp, Sum
from .handles import HandleGroup
from .tensors import (Output, Rows, data_type, dense, device_of, empty_rows, one_device, options, refuse_leaf, rows_of,
                      stream_of)

Splits = Union[Sequence[int], torch.Tensor]


# ---- allreduce ----------------------------------------------------------------------------------


@shares_failure("allreduce")
def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set, compression: Any = None) -> Handle[torch.Tensor]:
    """Reduces the ranks' tensors element by element into a new tensor. Shape and type must be the same on all ranks.

    op: None is hvd.Average.
    average: deprecated.
    prescale_factor, postscale_factor: each tensor is multiplied by the first before the reduction, the result by the
    second. Not for bool.
    compression: one of hvd.Compression.wire_...; others have no effect here.
    """
    source = dense(tensor)
    result = torch.empty(source.shape, dtype=source.dtype, device=source.device)
    return _allreduce(source, result, result, op_of(op, average), name, prescale_factor, postscale_factor, process_set,
                      compression)


@shares_failure("allreduce")
def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set, compression: Any = None) -> Handle[torch.Tensor]:
    """Like allreduce_async(), in place: the result is `tensor`."""
    buffer = dense(tensor)
    refuse_leaf(tensor)
    return _allreduce(buffer, buffer, tensor, op_of(op, average), name, prescale_factor, postscale_factor, process_set,
                      compression)


def _allreduce(source: torch.Tensor, result: torch.Tensor, target: torch.Tensor, op: ReduceOp, name: Optional[str],
               prescale: float, postscale: float, process_set: ProcessSet, compression: Any) -> Handle[torch.Tensor]:
    stream = stream_of(source)
    with device_of(source):
        number = _collectives.allreduce(source.data_ptr(), result.data_ptr(), source.numel(), data_type(source), op,
                                        options(stream, source.shape, name, process_set, prescale, postscale,
                                                compression))
    return Handle(number, Output(result, target, stream), source)


@shares_failure("grouped_allreduce")
def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                            postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                            compression: Any = None) -> HandleGroup[list[torch.Tensor]]:
    """Reduces each tensor of the list into a new one. All must be on one device.

    Tensors of one type are one operation: if the ranks disagree about one of them, none is written.
    """
    sources = [dense(tensor) for tensor in tensors]
    results = [torch.empty(source.shape, dtype=source.dtype, device=source.device) for source in sources]
    return _grouped_allreduce(sources, results, results, op_of(op, average), name, prescale_factor, postscale_factor,
                              process_set, compression)


@shares_failure("grouped_allreduce")
def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
                             compression: Any = None) -> HandleGroup[list[torch.Tensor]]:
    """Like grouped_allreduce_async(), in place: the results are `tensors`."""
    buffers = [dense(tensor) for tensor in tensors]
    for tensor in tensors:
        refuse_leaf(tensor)
    return _grouped_allreduce(buffers, buffers, tensors, op_of(op, average), name, prescale_factor, postscale_factor,
                              process_set, compression)


def _grouped_allreduce(sources: Sequence[torch.Tensor], results: Sequence[torch.Tensor],
                       targets: Sequence[torch.Tensor], op: ReduceOp, name: Optional[str], prescale: float,
                       postscale: float, process_set: ProcessSet, compression: Any
                       ) -> HandleGroup[list[torch.Tensor]]:
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
                options(stream, None, group_name, process_set, prescale, postscale, compression))
        outputs = [Output(results[index], targets[index], stream) for index in chosen]
        handles.append(Handle(number, partial(_finished, outputs), sources))
    order = [index for chosen in places.values() for index in chosen]
    return HandleGroup(handles, lambda found: _in_places(order, [tensor for part in found for tensor in part]))


def _finished(outputs: Sequence[Output]) -> list[torch.Tensor]:
    return [output() for output in outputs]


def _in_places(order: Sequence[int], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    by_place = dict(zip(order, tensors))
    return [by_place[index] for index in range(len(order))]


@shares_failure("allgather", lambda _, name: _names_of_sparse(name))
def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: ReduceOp,
                           process_set: ProcessSet = global_process_set) -> HandleGroup[torch.Tensor]:
    """Sums (hvd.Sum) or averages (hvd.Average) sparse COO tensors of one shape.

    The result is a sparse COO tensor with the entries of all ranks, not coalesced. The handle may also be called, as
    Horovod's: handle() waits for the result.
    """
    if not (isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo):
        raise errors.InvalidArgumentError("hvd: sparse_allreduce_async takes a sparse COO tensor")
    if op not in (Average, Sum):
        raise errors.InvalidArgumentError(f"hvd: {ReduceOp(op).name} of sparse tensors: there are Average and Sum only")
    indices, values = tensor._indices(), tensor._values()
    name_of_indices, name_of_values = _names_of_sparse(name)
    handles = [
        allgather_async(indices.t(), name_of_indices, process_set),
        allgather_async(values, name_of_values, process_set),
    ]
    divisor = process_set.size() if op == Average else 1
    shape = tensor.shape
    return HandleGroup(handles, lambda found: _sparse(found[0], found[1], divisor, shape))


def _names_of_sparse(name: Optional[str]) -> list[Optional[str]]:
    return [None, None] if name is None else [f"{name}.indices", f"{name}.values"]


def _sparse(rows: torch.Tensor, values: torch.Tensor, divisor: int, shape: torch.Size) -> torch.Tensor:
    if divisor != 1:
        whole = None if values.is_floating_point() else "trunc"
        values = torch.div(values, divisor, rounding_mode=whole)
    return torch.sparse_coo_tensor(rows.t(), values, shape)


# ---- allgather ----------------------------------------------------------------------------------


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """Concatenates the rows of all ranks into a new tensor, in order of rank. Only the first dimension may differ."""
    return allgather_counted(tensor, name, process_set, None)


@shares_failure("allgather")
def allgather_counted(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet,
                      rows_by_rank: Optional[Array[c_size_t]]) -> Handle[torch.Tensor]:
    """Like allgather_async(); `rows_by_rank` is filled with the number of rows from each rank of the set."""
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


@shares_failure("allgather", lambda tensors, name: names_of_parts(tensors, name))
def grouped_allgather_counted(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet,
                              rows_by_rank: Sequence[Optional[Array[c_size_t]]]) -> HandleGroup[list[torch.Tensor]]:
    """Like grouped_allgather_async(); `rows_by_rank` is filled as by allgather_counted(), one array per tensor."""
    sources = _checked_rows(tensors, "allgather")
    handles = [allgather_counted(tensor, _name_of_part(name, index), process_set, rows)
               for index, (tensor, rows) in enumerate(zip(sources, rows_by_rank))]
    return HandleGroup(handles, list)


def _checked_rows(tensors: Sequence[torch.Tensor], what: str) -> list[torch.Tensor]:
    """Returns dense() of all tensors, after checking each: so either all collectives are started or none."""
    sources = [dense(tensor) for tensor in tensors]
    one_device(sources, f"a grouped {what}")
    for source in sources:
        rows_of(source, what)
        data_type(source)
    return sources


def _name_of_part(name: Optional[str], index: int) -> Optional[str]:
    return None if name is None else f"{name}.{index}"


def names_of_parts(tensors: Any, name: Optional[str]) -> list[Optional[str]]:
    """Returns the names of the collectives of a grouped call, whatever the tensors are."""
    return [_name_of_part(name, index) for index in range(len(tensors) if hasattr(tensors, "__len__") else 1)]


# ---- broadcast ----------------------------------------------------------------------------------


@shares_failure("broadcast")
def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """Returns the tensor of `root_rank` as a new tensor. The shape must be the same on all ranks.

    root_rank: a number among all ranks of the job; it must be a member of the process set.
    """
    source = dense(tensor)
    with torch.no_grad():
        copy = torch.empty(source.shape, dtype=source.dtype, device=source.device).copy_(source)
    return _broadcast(copy, copy, root_rank, name, process_set)


@shares_failure("broadcast")
def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle[torch.Tensor]:
    """Like broadcast_async(), in place: the result is `tensor`, which may be a parameter."""
    return _broadcast(dense(tensor), tensor, root_rank, name, process_set)


def _broadcast(buffer: torch.Tensor, target: torch.Tensor, root: int, name: Optional[str],
               process_set: ProcessSet) -> Handle[torch.Tensor]:
    stream = stream_of(buffer)
    with device_of(buffer):
        number = _collectives.broadcast(buffer.data_ptr(), buffer.numel(), data_type(buffer), root,
                                        options(stream, buffer.shape, name, process_set))
    return Handle(number, Output(buffer, target, stream), buffer)


# ---- alltoall -----------------------------------------------------------------------------------


@shares_failure("alltoall")
def alltoall_async(tensor: torch.Tensor, splits: Optional[Splits] = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle[tuple[torch.Tensor, torch.Tensor]]:
    """Sends splits[r] rows to rank r of the set, or equally many to each without `splits`.

    The handle's result: the received rows in order of rank, and the number of rows from each rank (int32, on the device
    of `splits`).
    splits: integers whose sum is the number of rows. If it is a tensor on a GPU, the CPU waits for its values.
    """
    source = dense(tensor)
    rows, row_size = rows_of(source, "alltoall")
    stream = stream_of(source)
    call = options(stream, source.shape[1:], name, process_set)
    rows_to_send = _integers(splits)
    size = process_set.size()
    _collectives.check_splits(rows_to_send, size)
    received = (c_size_t * size)()
    output = Rows(source, stream)
    device = splits.device if isinstance(splits, torch.Tensor) else torch.device("cpu")
    with device_of(source):
        return _collectives.alltoall(
            source.data_ptr(), rows_to_send, rows, row_size, data_type(source), output.allocate, received, call,
            lambda: (output(), torch.tensor(received[:], dtype=torch.int32, device=device)), source)


def _integers(splits: Optional[Splits]) -> Optional[list[int]]:
    if splits is None:
        return None
    numbers: Any = splits
    if not isinstance(splits, torch.Tensor):
        numbers = torch.as_tensor(splits, dtype=None if len(splits) else torch.int32, device="cpu")
    if numbers.dim() != 1 or numbers.is_floating_point() or numbers.is_complex() or numbers.dtype is torch.bool:
        raise errors.InvalidArgumentError(
            f"hvd: splits of {numbers.dtype} and shape {list(numbers.shape)}; they are a list of integers, one a rank")
    return numbers.tolist()


# ---- reducescatter ------------------------------------------------------------------------------


@shares_failure("reducescatter")
def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: ReduceOp = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle[torch.Tensor]:
    """Reduces the ranks' tensors and returns this rank's rows of the result as a new tensor.

    The rows are divided evenly; if that leaves a remainder, the first ranks get one row more. The shape must be the
    same on all ranks. prescale_factor, postscale_factor: as for allreduce_async().
    """
    source = dense(tensor)
    rows, row_size = rows_of(source, "reducescatter")
    stream = stream_of(source)
    call = options(stream, source.shape, name, process_set, prescale_factor, postscale_factor)
    result = empty_rows(source, share_of_rows(rows, process_set.rank(), process_set.size()))
    with device_of(source):
        number = _collectives.reducescatter(source.data_ptr(), rows, row_size, data_type(source), op,
                                            result.data_ptr(), call)
    return Handle(number, Output(result, result, stream), source)


@shares_failure("reducescatter", lambda tensors, name: names_of_parts(tensors, name))
def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: ReduceOp = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> HandleGroup[list[torch.Tensor]]:
    """reducescatter_async() of each tensor. All on one device."""
    sources = _checked_rows(tensors, "reducescatter")
    handles = [reducescatter_async(tensor, _name_of_part(name, index), op, process_set, prescale_factor,
                                   postscale_factor)
               for index, tensor in enumerate(sources)]
    return HandleGroup(handles, list)
