"""DiLoCo: each rank takes many steps of its own; an outer optimizer applies the average of the ranks' changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch

from .._collectives import wait_for_all
from .._periodic import Mean, OuterSteps
from ._states import load_copy
from ._wrapping import NamedParameters
from .background import broadcast_async_
from .compression import Compression, Compressor
from .periodic import PeriodicOptimizer, Tensors, mean_of, periodic_optimizer

Outer = Callable[[Tensors], torch.optim.Optimizer]


def nesterov(parameters: Tensors) -> torch.optim.Optimizer:
    """Returns the outer optimizer of the paper: SGD with Nesterov momentum 0.9 and learning rate 0.7."""
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


def DiLoCo(  # noqa: N802 (returns an instance of a class, as DistributedOptimizer)
        optimizer: torch.optim.Optimizer, outer: Outer = nesterov, every: int = 32,
        named_parameters: Optional[NamedParameters] = None, background: bool = False,
        compression: type[Compressor] = Compression.none) -> Any:
    """Returns `optimizer` as the inner optimizer of DiLoCo. A collective.

    A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv:2311.08105. Each
    rank takes `every` steps with `optimizer`, which keeps its state. Then the ranks average by how much their
    parameters have changed. The outer optimizer takes a step from the parameters at the begin of the period, with the
    negative of that average as the gradient, and all ranks continue from its result.

    outer: a function that makes the outer optimizer of a list of tensors. The default is the paper's Nesterov momentum,
    torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True). With SGD(lr=1) it is LocalSGD. In the background,
    where the outer gradient is one period old, use a smaller momentum or rate if the loss rises.
    every: steps of a period, 1 or more.
    named_parameters: `model.named_parameters()`; the names appear in messages.
    background: the average of a period is computed while the next period trains. At the end of that one the outer
    optimizer takes its step, and the rank continues from its result plus its own changes in the next period. S. Kale et
    al., "Eager Updates For Overlapped Communication and Computation in DiLoCo", arXiv:2502.12996, describe such delays.

    compression: the form in which the changes are sent, one of hvd.Compression.

    The first step() is a collective, and gives all ranks rank 0's parameters; hvd.broadcast_parameters() does so before
    the first gradients. Each rank keeps a copy of the parameters and the outer optimizer's state. Waiting, join,
    buffers, synchronize() and errors are as for LocalSGD.
    """
    settings, problem = _described(outer)
    return periodic_optimizer(_DiLoCo, optimizer, every, named_parameters, background, {"outer": settings}, problem,
                              compression, _make_outer=outer, _outer=None, _base=[])


def _described(outer: Outer) -> tuple[str, str]:
    """Returns class and options of the outer optimizer, to compare ranks, and what is wrong with it, or ""."""
    try:
        probe = outer([torch.zeros(1)])
    except Exception as error:
        return "", f"outer does not make an optimizer of a list of tensors: {error}"
    if not isinstance(probe, torch.optim.Optimizer):
        return "", f"outer must return an optimizer of torch, and returns {type(probe).__name__}"
    return f"{type(probe).__name__}({', '.join(f'{key}={value}' for key, value in sorted(probe.defaults.items()))})", ""


class _DiLoCo(PeriodicOptimizer, OuterSteps):
    METHOD = "DiLoCo"

    _make_outer: Outer
    _outer: Optional[torch.optim.Optimizer]

    @torch.no_grad()
    def _adopted(self, new: Tensors) -> None:
        base = [tensor.detach().clone() for tensor in new]
        begin = len(self._base)
        wait_for_all([broadcast_async_(tensor, 0, f"{self._name}.begin.{index}")
                      for index, tensor in enumerate(base, begin)])
        for tensor, value in zip(new, base):
            tensor.copy_(value)
        self._keep(base)

    def _keep(self, base: Tensors) -> None:
        self._base += base
        if not base:
            return
        if self._outer is None:
            self._outer = self._make_outer(base)
        else:
            self._outer.param_groups[0]["params"] += base

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Mean:
        return mean_of(tensors, self._name, in_place=True, compression=self._compression)

    def _take_outer_step(self, means: Tensors) -> None:
        assert self._outer is not None
        for base, mean in zip(self._base, means):
            base.grad = mean
        self._outer.step()
        for base in self._base:
            base.grad = None

    def _shared(self) -> dict[str, Any]:
        return {"base": list(self._base), "outer_state": self._outer.state_dict() if self._outer is not None else None}

    def _load_shared(self, saved: dict[str, Any]) -> None:
        self._base = []
        self._outer = None
        if saved.get("outer_state") is None:
            self._tensors = []
            self._known = set()
            return
        self._keep(self._like_parameters(saved["base"]))
        assert self._outer is not None
        load_copy(self._outer.load_state_dict, self._outer, saved["outer_state"])
