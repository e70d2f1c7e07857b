"""Copies of an optimizer's state, and what hvd's optimizers share with a state that the program has.

A loaded state stays as it was: training changes copies. PyTorch 1.13's load_state_dict() copies, but that of PyTorch 2
keeps the tensors that it gets. full_state_dict() returns copies, too. state_dict() returns the tensors that training
changes, as torch's own does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def mapped(value: Any, convert: Callable[[Any, Any], Any]) -> Any:
    """Returns a copy of a dict, list or tuple with convert(key, entry) for each entry; any other value as it is."""
    if isinstance(value, dict):
        return {key: convert(key, entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [convert(index, entry) for index, entry in enumerate(value)]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    return value


def with_tensors(value: Any, convert: Callable[[torch.Tensor], Any]) -> Any:
    """Returns a copy with convert(tensor) for each tensor, at any depth of dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return convert(value)
    return mapped(value, lambda _, entry: with_tensors(entry, convert))


def copied(state: Any) -> Any:
    """Returns a state with tensors of its own, on the same devices."""
    return with_tensors(state, lambda tensor: tensor.detach().clone())


def in_host_memory(state: Any) -> Any:
    """Returns a state with tensors of its own, all in host memory."""
    return with_tensors(state, lambda tensor: tensor.detach().to("cpu", copy=True))


def load_copy(load: Callable[[dict[str, Any]], None], optimizer: torch.optim.Optimizer,
              state_dict: dict[str, Any]) -> None:
    """Calls load(state_dict), a load_state_dict() of the optimizer, and copies the tensors that it has kept.

    Those that are on another device than their parameter, or of another type, were copied before.
    """
    load(state_dict)
    theirs = {id(tensor) for tensor in _tensors_of(state_dict)}
    for key, value in optimizer.state.items():
        optimizer.state[key] = with_tensors(
            value, lambda tensor: tensor.detach().clone() if id(tensor) in theirs else tensor)


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from _tensors_of(entry)
