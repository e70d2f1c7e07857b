"""ParameterServer: rank 0 keeps the parameters; each rank pushes gradients to it and pulls parameters from it.

For comparison with methods without a central rank. With a server on each host, the lowest rank of a host serves the
ranks of that host. hvd._parameter_server has the servers, their threads and what ranks send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from .. import _parameter_server, errors, job
from .._collectives import wait_for_all
from .._parameter_server import GRADIENTS, METHOD, REST, Channel, Place
from ..objects import broadcast_object
from ..process_sets import ProcessSet
from ..types import Sum
from ._states import copied
from ._wrapping import (Closure, NamedParameters, Wrapped, described, parameters_of, refuse_wrapped, share_options,
                        twin, wrapped)
from .background import allreduce_async_, broadcast_async_

Tensors = list[torch.Tensor]


def ParameterServer(  # noqa: N802 (returns an instance of a class, as DistributedOptimizer)
        optimizer: torch.optim.Optimizer, staleness: int = 0, named_parameters: Optional[NamedParameters] = None,
        per_host: bool = False, every: int = 1) -> Any:
    """Returns `optimizer` as one whose parameters and state are on rank 0, or on one rank of each host. A collective.

    M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; the bound is that of Q.
    Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013. In each
    step a rank sends its gradients to rank 0 and receives the parameters. Rank 0 sends and receives those of all other
    ranks.

    staleness: by how many steps a rank may be ahead of the slowest, 0 or more. With 0, rank 0 waits for the gradients
    of all ranks and takes one step with their average: the result of DistributedOptimizer. With more, rank 0 takes a
    step with each gradient as it arrives, divided by the number of ranks: for plain SGD as much as one step with the
    average. Optimizers with momentum or Adam then take one step per rank instead of one; Adam needs a smaller rate, as
    the division does not change its steps.
    named_parameters: `model.named_parameters()`; the names appear in messages.
    per_host: a server on each host, for the ranks of that host; the staleness is that between these. After every
    `every` steps the servers average their parameters, weighted by their ranks, and wait for each other. The state of
    the optimizer is each server's own. With a staleness of 0, every=1 and an optimizer whose step is linear in the
    gradient (SGD, with momentum too) the result is that of DistributedOptimizer, but for rounding.

    The first step() is a collective, and gives all ranks rank 0's parameters; hvd.broadcast_parameters() does so before
    the first gradients. Learning rates are those of the server. Parameters must not be added or thawed after it.
    hvd.join() does not work while ranks train: a rank without more data calls synchronize(), which waits until all
    ranks do, and gives all the same parameters. All ranks must call it at the end of the training.

    Errors: on all ranks, InvalidArgumentError, a ValueError, for an invalid `staleness`; MismatchError if settings or
    parameters differ. ValueError for an optimizer that hvd has wrapped. Sparse gradients are sent as dense ones.
    """
    refuse_wrapped(optimizer)
    named = None if named_parameters is None else list(named_parameters)
    problem = "torch.optim.LBFGS is not supported" if isinstance(optimizer, torch.optim.LBFGS) else ""
    settings = {"staleness": staleness, "per_host": bool(per_host), "every": every}
    number = _parameter_server.agree(settings, type(optimizer).__name__, described(optimizer, named), problem)
    return wrapped(_ParameterServer, optimizer, _settings={"method": METHOD, **settings}, _name=f"{METHOD}.{number}",
                   _place=_parameter_server.make_place(per_host, every), _tensors=[], _server=None, _channel=None)


class _ParameterServer(Wrapped):
    METHOD = METHOD

    _settings: dict[str, Any]  # what a saved state must have been saved with
    _name: str
    _place: Place
    _tensors: Tensors  # the parameters that need gradients; empty before the first step
    _server: Optional[_Server]  # on servers
    _channel: Optional[Channel]  # on the other ranks

    def step(self, closure: Closure = None) -> Any:
        """Pushes the gradients, waits as long as the bound of staleness demands, and pulls the parameters."""
        self._begin()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._turn(GRADIENTS)
        return loss

    step.hooked = True  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        """Waits until all ranks call it. Afterwards all have the same parameters. A collective."""
        self._begin()
        self._turn(REST)

    @torch.no_grad()
    def _turn(self, kind: int) -> None:
        gradients = [_dense_gradient(tensor) for tensor in self._tensors] if kind == GRADIENTS else self._tensors
        if self._server is not None:
            self._server.take_options(self)
            parameters = self._server.turn(0, kind, _flat(gradients))
        else:
            assert self._channel is not None
            parameters = self._channel.turn(kind, _flat(gradients))
        _put(parameters, self._tensors)

    @torch.no_grad()
    def _begin(self) -> None:
        needed = [tensor for tensor in parameters_of(self) if tensor.requires_grad]
        if self._tensors:
            if len(needed) != len(self._tensors):
                raise errors.InvalidArgumentError("hvd: ParameterServer: parameters were added, frozen or thawed after "
                                                  "the first step; do it before")
            return
        self._tensors = needed
        wait_for_all([broadcast_async_(tensor.detach(), 0, f"{self._name}.begin.{index}")
                      for index, tensor in enumerate(needed)])
        place = self._place
        if job.rank() == place.server:
            self._server = _Server(self, needed, self._settings["staleness"], self._name, place)
            self._server.start()
        else:
            self._channel = Channel(_TRANSFERS, self._name, job.rank(), place.server, place.pair)

    # ---- Saving and loading -----------------------------------------------------------------------

    def full_state_dict(self) -> dict[str, Any]:
        """Returns rank 0's state on all ranks, as state_dict() of the plain optimizer would. A collective.

        With per_host the other servers' states (momentum, ...) are not in it. Calls synchronize(), so that all models
        have the same parameters: save one afterwards.
        """
        self.synchronize()
        own = copied(self._server.state_dict()) if self._server is not None and job.rank() == 0 else None
        state = broadcast_object(own, name=f"{self._name}.state")
        return {**state, "hvd": dict(self._settings)}

    def state_dict(self) -> dict[str, Any]:
        """RuntimeError on several ranks, because only servers have a state: use full_state_dict()."""
        if job.size() > 1:
            raise RuntimeError("hvd: the state of a ParameterServer is on its server; call full_state_dict() on all "
                               "ranks")
        return self._server.state_dict() if self._server is not None else super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state of full_state_dict(), from any number of ranks, or of the plain optimizer.

        Call it on all ranks, before the first step or after synchronize(), after loading the model: rank 0's model is
        where the training continues. ValueError if the state was saved with another method or other settings.
        """
        _parameter_server.check_saved(state_dict.get("hvd", self._settings), self._settings)
        super().load_state_dict({"state": state_dict["state"], "param_groups": state_dict["param_groups"]})
        if self._server is not None:
            self._server.load(self, self._tensors)
        if self._server is not None or job.rank() != self._place.server:  # else the server takes it at the first step
            self.state.clear()

    def __reduce__(self) -> Any:
        raise TypeError("hvd: the state of a ParameterServer is on its server, and cannot be pickled or copied; call "
                        "full_state_dict() on all ranks, and save its result")


class _Transfers:
    """The collectives of _parameter_server."""

    def broadcast(self, tensor: torch.Tensor, root: int, name: str, process_set: ProcessSet) -> Any:
        return broadcast_async_(tensor, root, name, process_set)

    def sum(self, tensor: torch.Tensor, name: str, process_set: ProcessSet) -> Any:
        return allreduce_async_(tensor, name=name, op=Sum, process_set=process_set)

    def numbers(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values)

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor)


_TRANSFERS = _Transfers()


class _Server(_parameter_server.Server):
    """Steps with copies of the parameters, by an optimizer of the plain class."""

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: Tensors, staleness: int, name: str,
                 place: Place) -> None:
        super().__init__(_TRANSFERS, staleness, name, place)
        self._tensors = [tensor.detach().clone() for tensor in tensors]
        self._optimizer = twin(optimizer)
        copies = {id(tensor): copy for tensor, copy in zip(tensors, self._tensors)}
        for group, own in zip(optimizer.param_groups, self._optimizer.param_groups):
            own["params"] = [copies.get(id(tensor), tensor) for tensor in group["params"]]
        for tensor, copy in zip(tensors, self._tensors):
            if tensor in optimizer.state:
                self._optimizer.state[copy] = optimizer.state.pop(tensor)

    def take_options(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the options (learning rate, ...) of the server's own optimizer, before a turn of its rank."""
        with self.clocks.changed:
            share_options(optimizer, self._optimizer)
            self.begin_turns()

    def flat(self) -> Tensors:
        return _flat(self._tensors)

    def put(self, flat: Tensors) -> None:
        _put(flat, self._tensors)

    def step(self, flat: Tensors) -> None:
        gradients = [torch.empty_like(tensor) for tensor in self._tensors]
        _put(flat, gradients)
        for tensor, gradient in zip(self._tensors, gradients):
            tensor.grad = gradient.div_(self.ranks)
        self._optimizer.step()

    @torch.no_grad()
    def serve(self, worker: int, channel: Channel) -> None:
        super().serve(worker, channel)

    def state_dict(self) -> dict[str, Any]:
        with self.clocks.changed:
            return self._optimizer.state_dict()

    @torch.no_grad()
    def load(self, optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
        """Takes parameters, options and state of the server's own model and optimizer."""
        with self.clocks.changed:
            share_options(optimizer, self._optimizer)
            self._optimizer.state.clear()
            for tensor, copy in zip(tensors, self._tensors):
                copy.copy_(tensor)
                if tensor in optimizer.state:
                    self._optimizer.state[copy] = optimizer.state[tensor]


def _dense_gradient(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.grad is None:
        return torch.zeros_like(tensor)
    return tensor.grad.to_dense() if tensor.grad.is_sparse else tensor.grad


def _by_type(tensors: Sequence[torch.Tensor]) -> list[Tensors]:
    groups: dict[Any, Tensors] = {}
    for tensor in tensors:
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(groups.values())


def _flat(tensors: Sequence[torch.Tensor]) -> Tensors:
    """Returns new flat tensors with the elements, one for each type."""
    return [torch.cat([tensor.detach().reshape(-1) for tensor in group]) for group in _by_type(tensors)]


def _put(flat: Tensors, tensors: Sequence[torch.Tensor]) -> None:
    """Copies the elements of _flat() into the tensors."""
    for values, group in zip(flat, _by_type(tensors)):
        for tensor, part in zip(group, values.split([tensor.numel() for tensor in group])):
            tensor.copy_(part.view(tensor.shape))
