"""Broadcasts of a model's parameters and of an optimizer's state from one rank to all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Union

import torch

from .._collectives import Handle, sharing_failure, start_all, wait_for_all
from ..job import is_root
from ..objects import allgather_object, broadcast_object
from ..process_sets import ProcessSet, global_process_set
from ._states import mapped, with_tensors
from .background import broadcast_async_


_SMALL_BYTES = 1 << 20


def broadcast_parameters(params: Union[Mapping[str, Any], Iterable[Any]], root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the tensors with those of `root_rank` (a number among all ranks of the job), in place.

    params: model.state_dict(), model.named_parameters() or model.parameters(), with the same names, shapes and types on
    all ranks. Errors: ValueError for anything else.
    """
    _broadcast_all([(f"broadcast_parameters.{name}", tensor) for name, tensor in _named(params)], root_rank,
                   process_set)


def _broadcast_all(named: Sequence[tuple[str, Any]], root_rank: int, process_set: ProcessSet) -> None:
    def start(name: str, tensor: Any) -> Handle[torch.Tensor]:
        with sharing_failure("broadcast", name, process_set):
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"hvd: broadcast_parameters() takes tensors, and got {tensor!r}")
            real = _real(tensor)
        return broadcast_async_(real, root_rank, name, process_set)

    wait_for_all(start_all([partial(start, name, tensor) for name, tensor in named]))


def broadcast_packed(named: Sequence[tuple[str, torch.Tensor]], root_rank: int) -> None:
    """Overwrites the tensors with those of `root_rank`. Small ones of one type and device are sent as one.

    That takes less time than broadcast_parameters(), but a message about different shapes names the first of them only.
    """
    alone: list[tuple[str, torch.Tensor]] = []
    small: dict[Any, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in named:
        is_small = tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= _SMALL_BYTES
        if is_small:
            small.setdefault((tensor.dtype, tensor.device), []).append((name, _real(tensor)))
        else:
            alone.append((name, tensor))
    packs = [(f"{members[0][0]} and {len(members) - 1} more", torch.cat([tensor.reshape(-1) for _, tensor in members]))
             for members in small.values()]
    _broadcast_all([*alone, *packs], root_rank, global_process_set)
    with torch.no_grad():
        for members, (_, pack) in zip(small.values(), packs):
            parts = pack.split([tensor.numel() for _, tensor in members])
            for (_, tensor), part in zip(members, parts):
                tensor.copy_(part.view(tensor.shape))


def _named(params: Any) -> list[tuple[str, Any]]:
    if isinstance(params, Mapping):
        entries: list[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (torch.Tensor, str, bytes)):
        entries = [entry if isinstance(entry, tuple) else (str(index), entry) for index, entry in enumerate(params)]
    else:
        raise ValueError(f"hvd: broadcast_parameters() of a {type(params).__name__}; it takes model.state_dict(), "
                         "model.named_parameters() or model.parameters()")
    for entry in entries:
        if len(entry) != 2:
            raise ValueError(f"hvd: broadcast_parameters() takes tensors, and got {entry!r}")
    return entries


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view of the same memory, detached from autograd and with complex numbers as pairs of real ones.

    libhvd has no complex types.
    """
    tensor = tensor.detach()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Overwrites the optimizer's state and options (learning rate, ...) with those of `root_rank`.

    Optimizers without a state yet get one, and their parameters a gradient of zeros if they have none, as in Horovod.
    Existing tensors are written in place.
    model: the embeddings with sparse gradients in it get sparse zeros.
    Errors: ValueError for LBFGS, and on all ranks if a rank's optimizer has other parameters than the root's.
    """
    _broadcast_all(optimizer_tensors(optimizer, root_rank, model, process_set), root_rank, process_set)


def optimizer_tensors(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None,
                      process_set: ProcessSet = global_process_set) -> list[tuple[str, torch.Tensor]]:
    """Sets all of broadcast_optimizer_state() but the tensors. Returns these with names, to be broadcast next."""
    name = "broadcast_optimizer_state"
    with sharing_failure("broadcast", f"{name}.size", process_set):
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("hvd: the state of torch.optim.LBFGS cannot be broadcast")
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        packed = _pack(optimizer, parameters) if is_root(root_rank) else None
    with sharing_failure("allgather", f"{name}.check", process_set):  # a copy that cannot be unpickled
        packed = broadcast_object(packed, root_rank, name, process_set)
    assert packed is not None
    _check_parameters(packed.shapes, _shapes(optimizer), process_set)
    names = [f"{name}.{index}" for index in range(_count_specs(list(packed)))]
    tensors: list[torch.Tensor] = []
    with sharing_failure("broadcast", names, process_set):
        if not optimizer.state:
            _make_gradients(optimizer, parameters, model)
        _unpack(packed, optimizer, parameters, tensors)
    return list(zip(names, tensors))


def _count_specs(value: Any) -> int:
    if isinstance(value, _TensorSpec):
        return 1
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(_count_specs, entries))


def _make_gradients(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], model: Any) -> None:
    """Sets the gradient of each parameter that needs one and has none to zeros, sparse where backward() makes it so."""
    modules = model.modules() if model is not None else []
    sparse = {id(module.weight) for module in modules if getattr(module, "sparse", False)}
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            zeros = torch.zeros_like(parameter)
            is_sparse = isinstance(optimizer, torch.optim.SparseAdam) or id(parameter) in sparse
            parameter.grad = zeros.to_sparse() if is_sparse else zeros


Shapes = list[list[tuple[int, ...]]]  # of the parameters in each of param_groups


class _Packed(NamedTuple):
    """An optimizer's state and options, with a _TensorSpec instead of each tensor."""

    shapes: Shapes
    options: list[dict[str, Any]]
    by_parameter: dict[int, Any]  # the state of each parameter, by its index among all
    other: dict[Any, Any]  # the state that belongs to no parameter


class _TensorSpec(NamedTuple):
    """What a rank needs to receive a tensor. The tensors are broadcast in the order of their specs in _Packed."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_cpu: bool


def _shapes(optimizer: torch.optim.Optimizer) -> Shapes:
    return [[tuple(parameter.shape) for parameter in group["params"]] for group in optimizer.param_groups]


def _pack(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> _Packed:
    indices = {id(parameter): index for index, parameter in enumerate(parameters)}
    by_parameter, other = {}, {}
    for key, value in optimizer.state.items():
        if isinstance(key, torch.Tensor):
            by_parameter[indices[id(key)]] = _with_specs(value)
        else:
            other[key] = _with_specs(value)
    options = [{key: _with_specs(value) for key, value in group.items() if key != "params"}
               for group in optimizer.param_groups]
    return _Packed(_shapes(optimizer), options, by_parameter, other)


def _with_specs(value: Any) -> Any:
    """Returns the value with a _TensorSpec instead of each tensor, at any depth of dicts, lists and tuples."""
    return with_tensors(value, lambda tensor: _TensorSpec(tuple(tensor.shape), tensor.dtype,
                                                          tensor.device.type == "cpu"))


def _check_parameters(roots: Shapes, own: Shapes, process_set: ProcessSet) -> None:
    """Raises ValueError on all ranks if one rank's shapes differ: the others would otherwise wait for that rank."""
    found = allgather_object(None if own == roots else own, "broadcast_optimizer_state.check", process_set)
    ranks = process_set.ranks or []
    for other, shapes in zip(ranks, found):
        if shapes is not None:
            raise ValueError(f"hvd: broadcast_optimizer_state(): the optimizer of rank {other} has parameters of the "
                             f"shapes {shapes}, the root's {roots}")


def _unpack(packed: _Packed, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor],
            tensors: list[torch.Tensor]) -> None:
    """Sets the optimizer's state and options from `packed`. Appends to `tensors` those that must still be received."""
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
    """Returns `value` with a tensor for each _TensorSpec: the one in `own` if it fits, otherwise a new one."""
    if not isinstance(value, _TensorSpec):
        return mapped(value, lambda key, entry: _filled(entry, _entry(own, key), device, tensors))
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
