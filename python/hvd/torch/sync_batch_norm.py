"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

from typing import Any, Optional, Union

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from ..job import size
from ..process_sets import ProcessSet, global_process_set
from ..types import Sum
from .background import allgather_async, allreduce_async_


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d, with mean and variance of the batches of all ranks together.

    Input: (N, C, ...). N and the dimensions after C may differ from rank to rank, and N may be 0. As with any layer,
    the gradients of weight and bias are those of the rank's own batch; DistributedOptimizer reduces them. In training,
    forward() is a collective: all ranks of `process_set` must call it. In eval() with running statistics each rank
    works by itself.

    Errors: ValueError for an input of another shape; on all ranks, if all batches together have at most one value per
    channel.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_set: ProcessSet = global_process_set) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2 or input.size(1) != self.num_features:
            raise ValueError(f"hvd: SyncBatchNorm of {self.num_features} channels got an input of the shape "
                             f"{tuple(input.shape)}; it takes (N, {self.num_features}, ...)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        of_batch = self.training or self.running_mean is None
        updates = self.training and self.running_mean is not None
        momentum = self._next_momentum() if updates else 0.0
        if not of_batch or size() == 1:
            return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, of_batch,
                                         float(momentum), self.eps)
        return _Normalize.apply(input, self.weight, self.bias, self.running_mean, self.running_var, momentum, self.eps,
                                self.process_set)

    def _next_momentum(self) -> Union[float, torch.Tensor]:
        """Increments num_batches_tracked, and returns this batch's weight in the running statistics."""
        self.num_batches_tracked.add_(1)
        return 1.0 / self.num_batches_tracked.double() if self.momentum is None else self.momentum


class _Normalize(torch.autograd.Function):
    """The batch normalization itself, and its gradient. The CPU reads no value of the input's device."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor],
                running_mean: Optional[torch.Tensor], running_var: Optional[torch.Tensor],
                momentum: Union[float, torch.Tensor], eps: float, process_set: ProcessSet) -> torch.Tensor:
        count, mean, variance = _statistics_of_all(input, process_set)
        if running_mean is not None and running_var is not None:  # then this is training
            _move(running_mean, mean, momentum)
            _move(running_var, variance * (count / (count - 1)), momentum)
        inverse = torch.rsqrt(variance + eps)
        ctx.save_for_backward(input, weight, mean, inverse)
        ctx.count = count
        ctx.process_set = process_set
        scale = inverse if weight is None else inverse * weight
        output = (_wide(input) - _channels(mean, input)) * _channels(scale, input)
        if bias is not None:
            output += _channels(bias, input)
        return output.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Optional[torch.Tensor], ...]:
        input, weight, mean, inverse = ctx.saved_tensors
        wide = _wide(gradient)
        normalized = (_wide(input) - _channels(mean, input)) * _channels(inverse, input)
        dimensions = _all_but_channels(input)
        # The sum of the gradients, and their sum weighted by the normalized input.
        sums = torch.stack([wide.sum(dimensions), (wide * normalized).sum(dimensions)])
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        of_weight = sums[1].to(weight.dtype, copy=True) if needs_weight else None
        of_bias = sums[0].to(weight.dtype, copy=True) if needs_bias else None
        of_input = None
        if needs_input:
            means = allreduce_async_(sums / ctx.count, name="sync_batch_norm.backward", op=Sum,
                                     process_set=ctx.process_set).wait()
            scale = inverse if weight is None else inverse * weight
            centred = wide - _channels(means[0], input) - normalized * _channels(means[1], input)
            of_input = (centred * _channels(scale, input)).to(input.dtype)
        return of_input, of_weight, of_bias, None, None, None, None, None


def _move(statistic: torch.Tensor, value: torch.Tensor, weight: Union[float, torch.Tensor]) -> None:
    """Moves a running statistic towards a batch's value, in place."""
    weight = weight.to(statistic.dtype) if isinstance(weight, torch.Tensor) else weight
    statistic.lerp_(value.to(statistic.dtype), weight)


def _statistics_of_all(input: torch.Tensor, process_set: ProcessSet) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the number of values per channel on all ranks, and their mean and biased variance by channel.

    Gathers each rank's count, mean, and sum of squares around that mean, and merges them (Chan, Golub, LeVeque 1979).
    Unlike plain sums of squares, this keeps its precision when the mean is far from 0.
    """
    wide = _wide(input)
    channels = input.size(1)
    count = input.numel() // channels if channels else 0
    own = wide.new_zeros(1, 2 * channels + 1)
    if count:
        variance, mean = torch.var_mean(wide, _all_but_channels(input), unbiased=False)
        own[0, 0] = count
        own[0, 1 : channels + 1] = mean
        own[0, channels + 1 :] = variance * count
    gathered = allgather_async(own, "sync_batch_norm.forward", process_set).wait()
    sizes, means, squares = gathered[:, :1], gathered[:, 1 : channels + 1], gathered[:, channels + 1 :]
    total = sizes.sum(dtype=torch.float64)
    if count <= 1 and total <= 1:  # The CPU waits for the total only if this rank's batch does not suffice.
        raise ValueError(f"hvd: SyncBatchNorm needs more than one value a channel in training; all ranks' batches have "
                         f"{float(total):.0f}")
    shares = sizes / total
    mean = (shares * means).sum(0)
    return total, mean, squares.sum(0) / total + (shares * (means - mean).square()).sum(0)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in the type in which it is summed: float32 for 16-bit types."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _all_but_channels(tensor: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(tensor.dim()) if dimension != 1]


def _channels(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Reshapes (C,) to (1, C, 1, ...), with as many dimensions as `like`."""
    return values.view(1, -1, *[1] * (like.dim() - 2))
