"""A model's parameters and an optimizer's state, made those of one rank on all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Union

import torch

from ..job import rank
from ..objects import allgather_object, broadcast_object
from ..process_sets import ProcessSet, global_process_set
from .background import broadcast_async_
from .handles import wait_for_all


def broadcast_parameters(params: Union[Mapping[str, Any], Iterable[Any]], root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> None:
    """Makes the tensors those of `root_rank` (a rank of all), in place.

    params: model.state_dict(), model.named_parameters() or model.parameters(). The same names, shapes and types on all
    ranks. ValueError for anything else.
    """
    handles = [broadcast_async_(_real(tensor), root_rank, f"broadcast_parameters.{name}", process_set)
               for name, tensor in _named(params)]
    wait_for_all(handles)


def _named(params: Any) -> list[tuple[str, torch.Tensor]]:
    if isinstance(params, Mapping):
        entries: list[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (torch.Tensor, str, bytes)):
        entries = [entry if isinstance(entry, tuple) else (str(index), entry) for index, entry in enumerate(params)]
    else:
        raise ValueError(f"hvd: broadcast_parameters() of a {type(params).__name__}; it takes model.state_dict(), "
                         "model.named_parameters() or model.parameters()")
    for entry in entries:
        if len(entry) != 2 or not isinstance(entry[1], torch.Tensor):
            raise ValueError(f"hvd: broadcast_parameters() takes tensors, and got {entry!r}")
    return entries


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, outside of autograd. There are no collectives on complex numbers, but on pairs of real ones."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Makes the optimizer's state and options (learning rate, ...) those of `root_rank`, also where it has none yet.
    Tensors that are there already are written in place.

    model: not needed; Horovod's argument.
    Errors: ValueError for LBFGS, and, on all ranks, where a rank's optimizer has other parameters than the root's.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("hvd: the state of torch.optim.LBFGS cannot be broadcast")
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    packed = _pack(optimizer, parameters) if rank() == root_rank else None
    packed = broadcast_object(packed, root_rank, "broadcast_optimizer_state", process_set)
    assert packed is not None
    _check_parameters(packed.shapes, _shapes(optimizer), process_set)
    tensors: list[torch.Tensor] = []
    _unpack(packed, optimizer, parameters, tensors)
    wait_for_all([broadcast_async_(_real(tensor), root_rank, f"broadcast_optimizer_state.{index}", process_set)
                  for index, tensor in enumerate(tensors)])


Shapes = list[list[tuple[int, ...]]]  # of the parameters in each of param_groups


class _Packed(NamedTuple):
    """An optimizer with a _Place instead of each tensor."""

    shapes: Shapes
    options: list[dict[str, Any]]
    by_parameter: dict[int, Any]  # the state, by place among all parameters
    other: dict[Any, Any]  # and what belongs to none


class _Place(NamedTuple):
    """Of a tensor. They are broadcast in the order in which they stand in _Packed."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_cpu: bool


def _shapes(optimizer: torch.optim.Optimizer) -> Shapes:
    return [[tuple(parameter.shape) for parameter in group["params"]] for group in optimizer.param_groups]


def _pack(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> _Packed:
    places = {id(parameter): index for index, parameter in enumerate(parameters)}
    by_parameter, other = {}, {}
    for key, value in optimizer.state.items():
        if isinstance(key, torch.Tensor):
            by_parameter[places[id(key)]] = _placed(value)
        else:
            other[key] = _placed(value)
    options = [{key: _placed(value) for key, value in group.items() if key != "params"}
               for group in optimizer.param_groups]
    return _Packed(_shapes(optimizer), options, by_parameter, other)


def _placed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Place(tuple(value.shape), value.dtype, value.device.type == "cpu")
    return _rebuilt(value, lambda _, entry: _placed(entry))


def _rebuilt(value: Any, of_entry: Callable[[Any, Any], Any]) -> Any:
    """The same value, with of_entry(key, entry) for the entries of a dict, list or tuple."""
    if isinstance(value, dict):
        return {key: of_entry(key, entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        entries = [of_entry(index, entry) for index, entry in enumerate(value)]
        return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)
    return value


def _check_parameters(roots: Shapes, own: Shapes, process_set: ProcessSet) -> None:
    """An error on all ranks, as they would wait for the one that has it."""
    found = allgather_object(None if own == roots else own, "broadcast_optimizer_state.check", process_set)
    ranks = process_set.ranks or []
    for other, shapes in zip(ranks, found):
        if shapes is not None:
            raise ValueError(f"hvd: broadcast_optimizer_state(): the optimizer of rank {other} has parameters of the "
                             f"shapes {shapes}, the root's {roots}")


def _unpack(packed: _Packed, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor],
            tensors: list[torch.Tensor]) -> None:
    """Gives the optimizer what `packed` says. `tensors` gets those that are to be filled."""
    own = dict(optimizer.state)
    for group, options in zip(optimizer.param_groups, packed.options):
        device = group["params"][0].device if group["params"] else torch.device("cpu")
        for key, value in options.items():
            group[key] = _filled(value, group.get(key), device, tensors)
    optimizer.state.clear()
    for index, value in packed.by_parameter.items():
        parameter = parameters[index]
        optimizer.state[parameter] = _filled(value, own.get(parameter), parameter.device, tensors)
    for key, value in packed.other.items():
        optimizer.state[key] = _filled(value, own.get(key), parameters[0].device, tensors)


def _filled(value: Any, own: Any, device: torch.device, tensors: list[torch.Tensor]) -> Any:
    """`value` with a tensor in every _Place: the one that is there in `own`, when it fits, else a new one."""
    if not isinstance(value, _Place):
        return _rebuilt(value, lambda key, entry: _filled(entry, _entry(own, key), device, tensors))
    device = torch.device("cpu") if value.on_cpu else device
    fits = (isinstance(own, torch.Tensor) and tuple(own.shape) == value.shape and own.dtype == value.dtype
            and own.device == device)
    tensor = own if fits else torch.empty(value.shape, dtype=value.dtype, device=device)
    tensors.append(tensor)
    return tensor


def _entry(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except (TypeError, KeyError, IndexError):
        return None
