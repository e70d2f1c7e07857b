"""How hvd's optimizers wrap one of torch: an instance of a new class, which has hvd's class before the optimizer's own.

So `isinstance`, learning rate schedulers and zero_grad() work as before, and parameters and state are shared.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import torch

from ._states import load_copy

NamedParameters = Iterable[tuple[str, torch.Tensor]]
ParamGroups = list[dict[str, Any]]
Closure = Optional[Callable[[], Any]]


class Wrapped(torch.optim.Optimizer):
    """The base of hvd's classes of optimizers."""

    METHOD = "DistributedOptimizer"  # the function that made it, for messages

    def __reduce__(self) -> Any:
        """Pickles and copies as the plain optimizer: a wrapped one is bound to this process's parameters."""
        return _unfilled, (_plain_class(self),), self.__getstate__()

    def forget_step(self) -> None:
        """Drops what is left of a step that was interrupted. For hvd.elastic, after a rank was lost."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state. Training does not change `state_dict`."""
        load_copy(super().load_state_dict, self, state_dict)


def wrapped(kind: type[Wrapped], optimizer: torch.optim.Optimizer, **own: Any) -> Any:
    """Returns `optimizer` as an instance of `kind` too, with `own` as further attributes."""
    instance = _unfilled(_class_of(kind, type(optimizer)))  # type: ignore[arg-type]
    instance.__dict__.update(_state_of(optimizer), **own)
    return instance


def refuse_wrapped(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError for an optimizer that hvd has wrapped already."""
    if isinstance(optimizer, Wrapped):
        raise ValueError(f"hvd: this optimizer is a {optimizer.METHOD} already")


def twin(optimizer: torch.optim.Optimizer) -> Any:
    """Returns an optimizer of the plain class with the same options, without parameters and without a state.

    set_parameters() gives it parameters, share_options() the present options.
    """
    plain = _unfilled(_plain_class(optimizer) if isinstance(optimizer, Wrapped) else type(optimizer))
    plain.__dict__.update(_state_of(optimizer), state=defaultdict(dict),
                          param_groups=[dict(group, params=[]) for group in optimizer.param_groups])
    return plain


def share_options(source: torch.optim.Optimizer, target: torch.optim.Optimizer) -> None:
    """Copies the options of the parameter groups (learning rate, ...) from one optimizer to its twin, or back."""
    for theirs, own in zip(source.param_groups, target.param_groups):
        own.update((key, value) for key, value in theirs.items() if key != "params")


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Returns the parameters of all groups, in the order of state_dict()'s numbers."""
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def described(optimizer: torch.optim.Optimizer, named: Optional[Sequence[tuple[str, torch.Tensor]]]
              ) -> list[tuple[str, str]]:
    """Returns the name, and shape and type in words, of each parameter, for hvd.schedule.agree()."""
    names = {} if named is None else {id(tensor): name for name, tensor in reversed(list(named))}
    return [(names.get(id(tensor), f"{index} in group {number}"),
             f"{tensor.dtype} of shape {list(tensor.shape)}{'' if tensor.requires_grad else ', frozen'}")
            for number, group in enumerate(optimizer.param_groups) for index, tensor in enumerate(group["params"])]


@functools.lru_cache(maxsize=None)
def _class_of(kind: Any, base: Any) -> type:
    return type(base.__name__, (kind, base), {"__doc__": base.__doc__})


def _plain_class(optimizer: torch.optim.Optimizer) -> Any:
    return type(optimizer).__bases__[1]


def _state_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Returns the attributes of torch's optimizer, without `step`: a scheduler's `step` is bound to that one object."""
    return {key: value for key, value in vars(optimizer).items() if key != "step"}


def _unfilled(kind: Any) -> Any:
    """Returns an instance without a state; pickle sets its state afterwards."""
    return kind.__new__(kind)
