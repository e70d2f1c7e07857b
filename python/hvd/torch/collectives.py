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
    """Reduces the ranks' tensors element by element into a new tensor. Differentiable for Average and Sum."""
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
    """allreduce_async_(), waited for."""
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = None, op: Optional[ReduceOp] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set
                      ) -> list[torch.Tensor]:
    """grouped_allreduce_async(), waited for. Differentiable for Average and Sum."""
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
    """grouped_allreduce_async_(), waited for."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allgather_async(), waited for. Differentiable."""
    if autograd.is_followed((tensor,)):
        return autograd.Allgather.apply(tensor, name, process_set)
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """grouped_allgather_async(), waited for. Differentiable."""
    if autograd.is_followed(tensors):
        return list(autograd.GroupedAllgather.apply(name, process_set, *tensors))
    return grouped_allgather_async(tensors, name, process_set).wait()


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast_async(), waited for. Differentiable."""
    if autograd.is_followed((tensor,)):
        return autograd.Broadcast.apply(tensor, root_rank, name, process_set)
    return broadcast_async(tensor, root_rank, name, process_set).wait()


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast_async_(), waited for."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def alltoall(tensor: torch.Tensor, splits: Optional[Splits] = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """alltoall_async(), waited for: the output; with `splits`, (output, received_splits). Differentiable."""
    if autograd.is_followed((tensor,)):
        output, received = autograd.Alltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = alltoall_async(tensor, splits, name, process_set).wait()
    return output if splits is None else (output, received)


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = None, op: ReduceOp = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """reducescatter_async(), waited for. Differentiable for Average and Sum."""
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
    """grouped_reducescatter_async(), waited for. Differentiable for Average and Sum."""
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
