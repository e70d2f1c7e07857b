"""LocalSGD: each rank takes its own steps; every few steps the ranks average their parameters."""

from __future__ import annotations

from typing import Any, Optional

import torch

from .._collectives import of_gradients
from .._periodic import Averaging, Mean
from ..types import Average
from ._wrapping import Closure, NamedParameters
from .background import grouped_allreduce_async_
from .compression import Compression, Compressor
from .periodic import PeriodicOptimizer, Tensors, mean_of, periodic_optimizer


def LocalSGD(  # noqa: N802 (returns an instance of a class, as DistributedOptimizer)
        optimizer: torch.optim.Optimizer, every: int, named_parameters: Optional[NamedParameters] = None,
        background: bool = False, compression: type[Compressor] = Compression.none) -> Any:
    """Returns `optimizer` as one that averages the parameters of all ranks after every `every` steps. A collective.

    S. U. Stich, "Local SGD Converges Fast and Communicates Little", arXiv:1805.09767. Ranks send 1/every of the bytes
    of a DistributedOptimizer. The optimizer's state (momentum, ...) stays the rank's own.

    every: steps of a period, 1 or more. With 1 (and without background) no step is local: the gradients are averaged
    before the step, as by DistributedOptimizer, and the parameters have the same bits. For optimizers whose step is
    linear in the gradient (SGD, with momentum too) that is the average of the parameters after the step, but for
    rounding. For others, as Adam, the average of the parameters after the step is another result; every=2 and more do
    that.
    named_parameters: `model.named_parameters()`; the names appear in messages.
    background: the average of a period is computed while the next period trains, and applied at its end: the rank's
    parameters become that average plus its own changes in the next period. S. Shen et al., "Faster Distributed Deep Net
    Training: Computation and Communication Decoupled Stochastic Gradient Descent", arXiv:1906.12043.

    compression: the form in which the parameters (with every=1 the gradients) are sent, one of hvd.Compression. It
    rounds the parameters; prefer Compression.wire_fp16, or DiLoCo, which sends changes. synchronize() sends them as
    they are.

    Waiting: between exchanges no rank waits for another. At the end of a period a rank waits until all have ended the
    same period; with background, until all have ended the one before. A rank in hvd.join() is not waited for, and the
    average is that of the others. Ranks end with different parameters: call synchronize() on all, or after join()
    hvd.broadcast_parameters() from the rank that joined last. Buffers, as those of BatchNorm, are not averaged.

    Errors: on all ranks, MismatchError if settings or parameters differ between ranks, InvalidArgumentError, a
    ValueError, for an invalid `every`. ValueError for an optimizer that hvd has wrapped.
    """
    return periodic_optimizer(_LocalSGD, optimizer, every, named_parameters, background,
                              compression=compression)


class AveragingOptimizer(PeriodicOptimizer, Averaging):
    """Averages the parameters themselves. A derived class says over which ranks."""

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Optional[Mean]:
        return mean_of(tensors, f"{self._name}.all") if exchange is None else self._mean_of(tensors, exchange)

    def _mean_of(self, tensors: Tensors, exchange: int) -> Optional[Mean]:
        """Starts the average of an exchange. Returns None if this rank pauses."""
        raise NotImplementedError


class _LocalSGD(AveragingOptimizer):
    METHOD = "LocalSGD"

    def step(self, closure: Closure = None, **arguments: Any) -> Any:
        if self._schedule.every > 1 or self._background:
            return super().step(closure, **arguments)
        self._adopt()
        if closure is None:
            self._average_gradients()
        # The plain optimizer's step.
        result = super(PeriodicOptimizer, self).step(None if closure is None else self._averaging(closure), **arguments)
        self._schedule.advance()
        return result

    step.hooked = True  # type: ignore[attr-defined]

    def _mean_of(self, tensors: Tensors, exchange: int) -> Mean:
        return mean_of(tensors, self._name, compression=self._compression)

    def _averaging(self, closure: Any) -> Any:
        def averaged() -> Any:
            with torch.enable_grad():
                loss = closure()
            self._average_gradients()
            return loss

        return averaged

    @torch.no_grad()
    def _average_gradients(self) -> None:
        """Averages the gradients over all ranks. A parameter without one takes part with zeros."""
        for tensor in self._tensors:
            if tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)
            elif tensor.grad.is_sparse:
                tensor.grad = tensor.grad.to_dense()
        sent = [self._compression.compress(tensor.grad) for tensor in self._tensors]
        with of_gradients():
            handle = grouped_allreduce_async_([gradient for gradient, _ in sent], name=f"{self._name}.gradients",
                                              op=Average, compression=self._compression)
        means = handle.wait()
        for tensor, mean, (_, context) in zip(self._tensors, means, sent):
            tensor.grad = self._compression.decompress(mean, context)
