"""Collectives as torch.autograd.Functions, so that backward() passes through them.

The gradients are defined as Horovod's, for programs that are ported. Each rank has a loss of its own: the gradients of
an allgather and of a broadcast are averaged over the ranks, those of a reducescatter with Sum are multiplied by the
number of ranks. The backward pass is a collective like the forward pass: all ranks must run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_size_t
from typing import Any, Optional

import torch

from .. import errors
from ..job import rank
from ..process_sets import ProcessSet
from ..types import Average, ReduceOp, Sum
from .background import (Splits, allgather_counted, allreduce_async, alltoall_async, broadcast_async,
                         grouped_allgather_counted, grouped_allreduce_async, grouped_reducescatter_async,
                         reducescatter_async)

Gradient = Optional[torch.Tensor]


def is_followed(tensors: Sequence[torch.Tensor]) -> bool:
    """Returns whether autograd records operations on one of the tensors."""
    return torch.is_grad_enabled() and any(
        isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors)


def _require_gradient(op: ReduceOp) -> None:
    """Raises UnsupportedError for an operation without a gradient."""
    if op not in (Average, Sum):
        raise errors.UnsupportedError(f"hvd: {ReduceOp(op).name} has no gradient here; those of Average and Sum exist")


def _mark_integers(ctx: Any, outputs: Sequence[torch.Tensor]) -> None:
    ctx.mark_non_differentiable(*(output for output in outputs if not output.is_floating_point()))


class Allreduce(torch.autograd.Function):
    """Gradient: the same allreduce of the gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
                process_set: ProcessSet, compression: Any) -> torch.Tensor:
        ctx.arguments = (op, prescale, postscale, process_set, compression)
        return allreduce_async(tensor, None, name, op, prescale, postscale, process_set, compression).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Gradient, ...]:
        _require_gradient(ctx.arguments[0])
        return (Allreduce.apply(gradient, None, *ctx.arguments), None, None, None, None, None, None)


class GroupedAllreduce(torch.autograd.Function):
    """Gradient: the same allreduce of the gradients."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: ReduceOp, prescale: float, postscale: float, process_set: ProcessSet,
                compression: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.arguments = (op, prescale, postscale, process_set, compression)
        outputs = grouped_allreduce_async(tensors, None, name, op, prescale, postscale, process_set, compression).wait()
        _mark_integers(ctx, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Gradient, ...]:
        _require_gradient(ctx.arguments[0])
        wanted = _wanted(ctx, gradients, 6)
        return (None,) * 6 + _spread(ctx, 6, GroupedAllreduce.apply(None, *ctx.arguments, *wanted))


def _wanted(ctx: Any, gradients: Sequence[torch.Tensor], first: int) -> list[torch.Tensor]:
    """Returns the gradients whose inputs need one. `first`: the index of the first tensor among forward's inputs."""
    return [gradient for gradient, needed in zip(gradients, ctx.needs_input_grad[first:]) if needed]


def _spread(ctx: Any, first: int, gradients: Sequence[torch.Tensor]) -> tuple[Gradient, ...]:
    """Reverses _wanted(): one entry per tensor, None where the input needs no gradient."""
    remaining = iter(gradients)
    return tuple(next(remaining) if needed else None for needed in ctx.needs_input_grad[first:])


class Allgather(torch.autograd.Function):
    """Gradient: this rank's rows of the average of the gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        rows_by_rank = (c_size_t * process_set.size())()
        output = allgather_counted(tensor, name, process_set, rows_by_rank).wait()
        ctx.process_set = process_set
        ctx.own = _own_rows(rows_by_rank, process_set)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Gradient, ...]:
        average = Allreduce.apply(gradient, None, Average, 1.0, 1.0, ctx.process_set, None)
        return average.narrow(0, *ctx.own), None, None


def _own_rows(rows_by_rank: Any, process_set: ProcessSet) -> tuple[int, int]:
    """Returns the index of this rank's first row in the gathered tensor, and the number of its rows."""
    own = process_set.rank()
    return sum(rows_by_rank[:own]), rows_by_rank[own]


class GroupedAllgather(torch.autograd.Function):
    """Gradients: as for Allgather."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        size = process_set.size()
        rows_by_rank = [(c_size_t * size)() for _ in tensors]
        outputs = grouped_allgather_counted(tensors, name, process_set, rows_by_rank).wait()
        ctx.process_set = process_set
        ctx.own = [_own_rows(rows, process_set) for rows in rows_by_rank]
        _mark_integers(ctx, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Gradient, ...]:
        wanted = _wanted(ctx, gradients, 2)
        averages = _spread(ctx, 2, GroupedAllreduce.apply(None, Average, 1.0, 1.0, ctx.process_set, None, *wanted))
        return (None, None, *(None if average is None else average.narrow(0, *own)
                              for average, own in zip(averages, ctx.own)))


class Broadcast(torch.autograd.Function):
    """Gradient: the average of the gradients on the root, zeros elsewhere."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str],
                process_set: ProcessSet) -> torch.Tensor:
        ctx.root = root
        ctx.process_set = process_set
        return broadcast_async(tensor, root, name, process_set).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Gradient, ...]:
        average = Allreduce.apply(gradient, None, Average, 1.0, 1.0, ctx.process_set, None)
        return average if rank() == ctx.root else torch.zeros_like(average), None, None, None


class Alltoall(torch.autograd.Function):
    """Gradient: each row's gradient, sent back to the rank that the row came from."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Optional[Splits], name: Optional[str],
                process_set: ProcessSet) -> tuple[torch.Tensor, torch.Tensor]:
        output, received = alltoall_async(tensor, splits, name, process_set).wait()
        ctx.process_set = process_set
        ctx.received = received.tolist()
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[Gradient, ...]:
        return Alltoall.apply(gradient, ctx.received, None, ctx.process_set)[0], None, None, None


class Reducescatter(torch.autograd.Function):
    """Gradient: the gathered gradients of all ranks, multiplied by the factors, and for Sum by the number of ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: ReduceOp, process_set: ProcessSet,
                prescale: float, postscale: float) -> torch.Tensor:
        _note_scale(ctx, op, process_set, prescale * postscale)
        return reducescatter_async(tensor, name, op, process_set, prescale, postscale).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Gradient, ...]:
        _require_gradient(ctx.op)
        return Allgather.apply(gradient * ctx.scale, None, ctx.process_set), None, None, None, None, None


def _note_scale(ctx: Any, op: ReduceOp, process_set: ProcessSet, factor: float) -> None:
    ctx.op = op
    ctx.process_set = process_set
    ctx.scale = factor * process_set.size() if op == Sum else factor


class GroupedReducescatter(torch.autograd.Function):
    """Gradients: as for Reducescatter."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: ReduceOp, process_set: ProcessSet, prescale: float, postscale: float,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        _note_scale(ctx, op, process_set, prescale * postscale)
        outputs = grouped_reducescatter_async(tensors, name, op, process_set, prescale, postscale).wait()
        _mark_integers(ctx, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Gradient, ...]:
        _require_gradient(ctx.op)
        scaled = [gradient * ctx.scale for gradient in _wanted(ctx, gradients, 5)]
        return (None,) * 5 + _spread(ctx, 5, GroupedAllgather.apply(None, ctx.process_set, *scaled))
