"""TorchState: models, optimizers, samplers, schedulers and Python objects that outlive lost ranks.

A handler takes care of each argument that is more than a plain object. A commit copies tensors into the copies of the
commit before, on the same devices, and allocates nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Optional

import torch

from ...elastic import ObjectState, check_method, newest
from ...objects import broadcast_object
from .._states import copied, mapped
from .._wrapping import Wrapped
from ..functions import broadcast_packed, optimizer_tensors
from ..periodic import PeriodicOptimizer
from ..sampler import DistributedSampler
from ..sharded import ShardedOptimizer
from .sampler import ElasticSampler


class TorchState(ObjectState):
    """A state with a model, an optimizer and further attributes, all given by name.

    Models, optimizers, samplers, and objects with state_dict() and load_state_dict() (schedulers, GradScaler) are
    changed in place; those of other kinds are replaced by copies. restore() also clears gradients.

    Errors: UnsupportedError for an optimizer with shard=True, of whose state each rank has a part only.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        self._handlers: dict[str, Any] = {}
        objects = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = _handler_of(value)
            if handler is None:
                objects[name] = value
            else:
                self._handlers[name] = handler
                object.__setattr__(self, name, value)
        super().__init__(broadcast_object, **objects)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Gives all of the newest rank's state to all ranks, and saves it when all has come.

        If the newest rank is lost in it, the others still have what they had saved.
        """
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_handlers", ()):
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """Saves, restores and synchronises one object of a TorchState. The base of a program's own handlers."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        raise NotImplementedError(f"hvd: {type(self).__name__} has no save()")

    def restore(self) -> None:
        raise NotImplementedError(f"hvd: {type(self).__name__} has no restore()")

    def sync(self) -> None:
        """Gives the object of rank hvd.elastic.newest() to all ranks."""
        raise NotImplementedError(f"hvd: {type(self).__name__} has no sync()")

    def set_value(self, value: Any) -> None:
        self.value = value
        self.save()


class _CopyingHandler(StateHandler):
    """A handler of an object with state_dict() and load_state_dict()."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._copy: Any = None
        self.save()

    def save(self) -> None:
        self._copy = _copied_into(self.value.state_dict(), self._copy)

    def restore(self) -> None:
        self.value.load_state_dict(copied(self._copy))

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), newest()))


class ModelStateHandler(_CopyingHandler):
    """The handler of a torch.nn.Module."""

    def restore(self) -> None:
        state = self.value.state_dict()  # with the versions of the modules, as an attribute
        state.update(self._copy)
        self.value.load_state_dict(state)
        _clear_gradients(self.value.parameters())

    def sync(self) -> None:
        tensors = {name: value for name, value in self.value.state_dict().items() if isinstance(value, torch.Tensor)}
        broadcast_packed([(f"elastic.{name}", tensor) for name, tensor in tensors.items()], newest())


class OptimizerStateHandler(_CopyingHandler):
    """The handler of an optimizer, also of a DistributedOptimizer."""

    def __init__(self, value: Any) -> None:
        method = value.METHOD if isinstance(value, Wrapped) else ""
        check_method("TorchState", "DistributedOptimizer(shard=True)" if isinstance(value, ShardedOptimizer) else method)
        super().__init__(value)

    def restore(self) -> None:
        _forget_step(self.value)
        super().restore()
        _clear_gradients(parameter for group in self.value.param_groups for parameter in group["params"])

    def sync(self) -> None:
        _forget_step(self.value)
        if isinstance(self.value, PeriodicOptimizer):
            super().sync()  # also the place in the period
        else:
            broadcast_packed(optimizer_tensors(self.value, newest()), newest())


class SamplerStateHandler(_CopyingHandler):
    """The handler of an ElasticSampler or a hvd.DistributedSampler. Its samples are divided anew after each reset."""


# By class: the handler. An object of none of these classes with state_dict() and load_state_dict() has one, too.
_handler_registry: list[tuple[type, Callable[[Any], Any]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (DistributedSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, Callable[[Any], Any]]]:
    """Returns the list of pairs of a class and the class of its handler. The first pair that fits is taken."""
    return _handler_registry


def set_handler_registry(registry: list[tuple[type, Callable[[Any], Any]]]) -> None:
    """Replaces the list, for states that are made later."""
    global _handler_registry
    _handler_registry = registry


def _handler_of(value: Any) -> Any:
    for kind, handler in _handler_registry:
        if isinstance(value, kind):
            return handler(value)
    has_state = callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))
    return _CopyingHandler(value) if has_state and not isinstance(value, type) else None


def _forget_step(optimizer: Any) -> None:
    """Drops the reductions of a step that was interrupted."""
    if isinstance(optimizer, Wrapped):
        optimizer.forget_step()


@torch.no_grad()
def _clear_gradients(parameters: Any) -> None:
    """Sets gradients to zero. A step that was interrupted has left some, to which the next backward() would add."""
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.layout is torch.strided and gradient.grad_fn is None:
            gradient.zero_()  # in place: it may be a part of the program's own buffer
        else:
            parameter.grad = None


# ---- Copies -------------------------------------------------------------------------------------


def _copied_into(state: Any, earlier: Any) -> Any:
    """Returns a copy of the state, with the tensors of an earlier copy as far as they fit."""
    sources: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    result = _matched(state, earlier, sources, targets)
    with torch.no_grad():
        if hasattr(torch, "_foreach_copy_"):  # torch 2.1 and later
            if targets:
                torch._foreach_copy_(targets, sources)
        else:
            for target, source in zip(targets, sources):
                target.copy_(source)
    return result


def _matched(value: Any, earlier: Any, sources: list[torch.Tensor], targets: list[torch.Tensor]) -> Any:
    """Returns a copy of the value. Appends the tensors that must still be copied, and where to."""
    if isinstance(value, torch.Tensor):
        source = value.detach()
        fits = (isinstance(earlier, torch.Tensor) and earlier.shape == source.shape and earlier.dtype == source.dtype
                and earlier.device == source.device and earlier.layout == source.layout == torch.strided)
        if not fits:
            return source.clone()
        sources.append(source)
        targets.append(earlier)
        return earlier
    if isinstance(value, (dict, list, tuple)):
        return mapped(value, lambda key, entry: _matched(entry, _entry(earlier, key), sources, targets))
    return value if isinstance(value, (int, float, str, type(None))) else copy.deepcopy(value)


def _entry(container: Any, key: Any) -> Optional[Any]:
    try:
        return container[key]
    except (TypeError, KeyError, IndexError):
        return None
