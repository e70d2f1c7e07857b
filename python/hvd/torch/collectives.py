"""Blocking collectives on torch tensors. Those that return a new tensor are differentiable (hvd.torch.autograd).

Arguments and errors are those of the asynchronous functions (hvd.torch.background). `compression`: one of
hvd.Compression, the form in which tensors are sent; None sends them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import torch

from .. import _collectives
from .._collectives import Handle, sharing_failure
from .._compression import refuse_wire
from .._retired import op_of
from ..process_sets import ProcessSet, global_process_set, id_of
from ..types import Average, ReduceOp
from . import autograd
from .background import (Splits, allgather_async, allreduce_async, allreduce_async_, alltoall_async, broadcast_async,
                         broadcast_async_, grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_,
                         grouped_reducescatter_async, names_of_parts, reducescatter_async)


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, compression: Any = None,
              op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduces the ranks' tensors element by element into a new tensor of the same shape and type.

    tensor: of any shape and of a type of docs/frameworks/hvd-torch.md, on a CPU or a GPU. Both are the same on all ranks.
    op: hvd.Average (the default), Sum, Min, Max, Product or Adasum. average: its deprecated name, True or False.
    name: by which the ranks match the call, in any order; without one they match it by its number.
    compression: the form in which it is sent, such as hvd.Compression.fp16.
    prescale_factor, postscale_factor: each rank's tensor is multiplied by the first before the reduction, the result by
    the second. Integers are multiplied in float64 and truncated. Not for bool.
    process_set: the ranks that take part; all by default. Average divides by their number.

    Differentiable for Average and Sum. Errors: those of hvd.errors, on all ranks; TypeError for a wrong argument.
    """
    op = op_of(op, average)
    if compression is not None:
        with sharing_failure("allreduce", name, process_set):
            tensor, context = compression.compress(tensor)
    if autograd.is_followed((tensor,)):
        result = autograd.Allreduce.apply(tensor, name, op, prescale_factor, postscale_factor, process_set, compression)
    else:
        result = allreduce_async(tensor, None, name, op, prescale_factor, postscale_factor, process_set,
                                 compression).wait()
    return result if compression is None else compression.decompress(result, context)


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Like allreduce(), in place: returns `tensor`, which then has the result. Not differentiable."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
                      ) -> list[torch.Tensor]:
    """Reduces several tensors as one operation. Returns a list of new ones, in the same order.

    tensors: of one device, of any shapes. Either all are reduced, or none if the ranks disagree about one. The other
    arguments are those of allreduce(). Differentiable for Average and Sum.
    """
    op = op_of(op, average)
    with sharing_failure("grouped_allreduce", name, process_set):
        tensors, contexts = _compressed(tensors, compression)
    if autograd.is_followed(tensors):
        results = autograd.GroupedAllreduce.apply(name, op, prescale_factor, postscale_factor, process_set, compression,
                                                  *tensors)
    else:
        results = grouped_allreduce_async(tensors, None, name, op, prescale_factor, postscale_factor, process_set,
                                          compression).wait()
    return _decompressed(results, contexts, compression)


def _compressed(tensors: Sequence[torch.Tensor], compression: Any) -> tuple[Sequence[torch.Tensor], Sequence[Any]]:
    if compression is None or not tensors:
        return tensors, ()
    pairs = [compression.compress(tensor) for tensor in tensors]
    return [tensor for tensor, _ in pairs], [context for _, context in pairs]


def _decompressed(tensors: Sequence[torch.Tensor], contexts: Sequence[Any], compression: Any) -> list[torch.Tensor]:
    if compression is None:
        return list(tensors)
    return [compression.decompress(tensor, context) for tensor, context in zip(tensors, contexts)]


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """Like grouped_allreduce(), in place: returns `tensors`, which then have the results."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Concatenates the rows of all ranks into a new tensor, in order of rank.

    tensor: [rows, ...]. The number of rows may differ between ranks and may be 0; the other dimensions and the type may
    not. The result has the sum of all rows. Differentiable.
    """
    if autograd.is_followed((tensor,)):
        return autograd.Allgather.apply(tensor, name, process_set)
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """Returns the list of allgather() of each tensor, in one call. All are on one device. Differentiable."""
    if autograd.is_followed(tensors):
        return list(autograd.GroupedAllgather.apply(name, process_set, *tensors))
    return grouped_allgather_async(tensors, name, process_set).wait()


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Returns the tensor of `root_rank` as a new tensor.

    tensor: of the same shape and type on all ranks; the others' values are not used.
    root_rank: a number among all ranks of the job, also with a process set. Differentiable.
    """
    if autograd.is_followed((tensor,)):
        return autograd.Broadcast.apply(tensor, root_rank, name, process_set)
    return broadcast_async(tensor, root_rank, name, process_set).wait()


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Like broadcast(), in place: returns `tensor`, which may be a parameter."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def alltoall(tensor: torch.Tensor, splits: Optional[Splits] = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Sends each rank its part of the rows. Returns the received rows, in the order of the ranks that sent them.

    tensor: [rows, ...]. The number of rows may differ between ranks; the other dimensions and the type may not.
    splits: how many rows go to each rank of the set: a list, or a tensor, of as many integers as there are ranks. Their
    sum is the number of rows. Without it all ranks get equally many, so the rows must be a multiple of the ranks.

    Without splits it returns the tensor alone; with them (tensor, received): received[r] is the number of rows from rank
    r, in int32 on the device of `splits`. Differentiable.
    """
    if autograd.is_followed((tensor,)):
        output, received = autograd.Alltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = alltoall_async(tensor, splits, name, process_set).wait()
    return output if splits is None else (output, received)


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = None, op: ReduceOp = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Reduces the ranks' tensors and returns this rank's rows of the result as a new tensor.

    tensor: [rows, ...], with the same shape and type on all ranks. The rows are divided evenly in order of rank; if that
    leaves a remainder, the first ranks get one row more. The other arguments are those of allreduce(). Differentiable for
    Average and Sum.
    """
    refuse_wire(compression, "reducescatter")
    if compression is not None:
        with sharing_failure("reducescatter", name, process_set):
            tensor, context = compression.compress(tensor)
    if autograd.is_followed((tensor,)):
        result = autograd.Reducescatter.apply(tensor, name, op, process_set, prescale_factor, postscale_factor)
    else:
        result = reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor).wait()
    return result if compression is None else compression.decompress(result, context)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None, compression: Any = None,
                          op: ReduceOp = Average, process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> list[torch.Tensor]:
    """Returns the list of reducescatter() of each tensor. All are on one device. Differentiable for Average and Sum."""
    refuse_wire(compression, "reducescatter")
    with sharing_failure("reducescatter", names_of_parts(tensors, name), process_set):
        tensors, contexts = _compressed(tensors, compression)
    if autograd.is_followed(tensors):
        results = autograd.GroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor,
                                                      *tensors)
    else:
        results = grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor).wait()
    return _decompressed(results, contexts, compression)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the set have called it. Does not wait for work on GPUs."""
    Handle(_collectives.barrier(_collectives.options(None, id_of(process_set))), lambda: None).wait()


def join(device: int = -1) -> int:
    """Waits until all ranks have called join(). Call it on a rank that has no more data.

    Meanwhile the rank takes part in the others' sums and averages with zeros. Returns the rank that called last.
    device: ignored; the zeros take no memory on it.
    """
    return _collectives.join()
