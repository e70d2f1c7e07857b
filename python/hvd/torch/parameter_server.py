"""ParameterServer: rank 0 keeps the parameters; each rank pushes gradients to it and pulls parameters from it.

For comparison with methods without a central rank. With a server on each host, the lowest rank of a host serves the
ranks of that host. A server trains too. It has one thread for each other rank that it serves, which receives that
rank's gradients, and answers with parameters when the bound of staleness allows. A push and a pull are broadcasts in a
process set of the server and the other rank. If a thread of a server fails, the server's next step() raises the error;
the other ranks get a PeerError when the server leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch

from .. import errors, job, schedule
from ..objects import allgather_object, broadcast_object
from ..process_sets import ProcessSet, find_or_add, global_process_set
from ..types import Sum
from ._wrapping import (Closure, NamedParameters, Wrapped, described, parameters_of, refuse_wrapped, share_options,
                        twin, wrapped)
from .background import allreduce_async_, broadcast_async_
from .handles import wait_for_all

Tensors = list[torch.Tensor]

_GRADIENTS = 1
_REST = 2


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
    problem = schedule.problem_of_staleness(staleness) or schedule.problem_of_every(every)
    if not per_host and every != 1:
        problem = problem or "every is for a server on each host (per_host=True)"
    if isinstance(optimizer, torch.optim.LBFGS):
        problem = problem or "torch.optim.LBFGS is not supported"
    settings = {"staleness": staleness, "per_host": bool(per_host), "every": every}
    number = schedule.agree("ParameterServer", {"the optimizer's class": type(optimizer).__name__, **settings},
                            described(optimizer, named), problem)
    return wrapped(_ParameterServer, optimizer, _settings={"method": "ParameterServer", **settings},
                   _name=f"ParameterServer.{number}", _place=_make_place(per_host, every), _tensors=[], _server=None,
                   _channel=None)


@dataclass(frozen=True)
class _Place:
    """Where this rank's server is, and which ranks a server serves."""

    server: int  # the rank
    pair: ProcessSet  # of the server and this rank
    workers: list[tuple[int, ProcessSet]]  # on a server: the other ranks that it serves, with the set of both
    servers: ProcessSet  # of all servers
    count: int  # how many they are
    every: int  # steps of a server between averages of all


def _make_place(per_host: bool, every: int) -> _Place:
    """Makes the process sets of servers and ranks. A collective."""
    hosts = allgather_object(job.node_rank() if per_host else 0, "ParameterServer, hosts")
    own = job.rank()
    pair: ProcessSet = global_process_set
    workers = []
    for rank, host in enumerate(hosts):
        server = hosts.index(host)
        if server == rank:
            continue
        both = find_or_add([server, rank])
        if rank == own:
            pair = both
        if server == own:
            workers.append((rank, both))
    servers = sorted({hosts.index(host) for host in hosts})
    of_servers = find_or_add(servers) if len(servers) > 1 else global_process_set
    return _Place(hosts.index(hosts[own]), pair, workers, of_servers, len(servers), every)


class _ParameterServer(Wrapped):
    METHOD = "ParameterServer"

    _settings: dict[str, Any]  # what a saved state must have been saved with
    _name: str
    _place: _Place
    _tensors: Tensors  # the parameters that need gradients; empty before the first step
    _server: Optional[_Server]  # on servers
    _channel: Optional[_Channel]  # on the other ranks

    def step(self, closure: Closure = None) -> Any:
        """Pushes the gradients, waits as long as the bound of staleness demands, and pulls the parameters."""
        self._begin()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._turn(_GRADIENTS)
        return loss

    step.hooked = True  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        """Waits until all ranks call it. Afterwards all have the same parameters. A collective."""
        self._begin()
        self._turn(_REST)

    @torch.no_grad()
    def _turn(self, kind: int) -> None:
        gradients = [_dense_gradient(tensor) for tensor in self._tensors] if kind == _GRADIENTS else self._tensors
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
            for worker, (rank, pair) in enumerate(place.workers, 1):
                channel = _Channel(self._name, rank, place.server, pair, needed)
                threading.Thread(target=self._server.serve, args=(worker, channel), name=f"hvd server of rank {rank}",
                                 daemon=True).start()
        else:
            self._channel = _Channel(self._name, job.rank(), place.server, place.pair, needed)

    # ---- Saving and loading -----------------------------------------------------------------------

    def full_state_dict(self) -> dict[str, Any]:
        """Returns rank 0's state on all ranks, as state_dict() of the plain optimizer would. A collective.

        With per_host the other servers' states (momentum, ...) are not in it. Calls synchronize(), so that all models
        have the same parameters: save one afterwards.
        """
        self.synchronize()
        own = self._server.state_dict() if self._server is not None and job.rank() == 0 else None
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
        saved = state_dict.get("hvd", self._settings)
        for key, own in self._settings.items():
            if saved.get(key) != own:
                raise ValueError(f"hvd: ParameterServer: the state was saved with {key} = {saved.get(key)}, but this "
                                 f"optimizer has {key} = {own}")
        super().load_state_dict({"state": state_dict["state"], "param_groups": state_dict["param_groups"]})
        if self._server is not None:
            self._server.load(self, self._tensors)
        if self._server is not None or job.rank() != self._place.server:  # else the server takes it at the first step
            self.state.clear()

    def __reduce__(self) -> Any:
        raise TypeError("hvd: the state of a ParameterServer is on its server, and cannot be pickled or copied; call "
                        "full_state_dict() on all ranks, and save its result")


class _Server:
    """The parameters and the optimizer, on a server. serve() runs on a thread for each other rank, all else on any."""

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: Tensors, staleness: int, name: str,
                 place: _Place) -> None:
        self._tensors = [tensor.detach().clone() for tensor in tensors]
        self._optimizer = twin(optimizer)
        copies = {id(tensor): copy for tensor, copy in zip(tensors, self._tensors)}
        for group, own in zip(optimizer.param_groups, self._optimizer.param_groups):
            own["params"] = [copies.get(id(tensor), tensor) for tensor in group["params"]]
        for tensor, copy in zip(tensors, self._tensors):
            if tensor in optimizer.state:
                self._optimizer.state[copy] = optimizer.state.pop(tensor)
        self._name = name
        self._place = place
        self._ranks = len(place.workers) + 1  # the server's own is worker 0
        self._clocks = schedule.Clocks(self._ranks, staleness)
        self._since_average = 0  # gradients since the servers' last average
        self._arrived: dict[int, Tensors] = {}  # with a staleness of 0: flat gradients of the present step, by worker
        self._failure: Optional[BaseException] = None
        self._active = False  # between synchronize() and the next step of the server no rank pushes

    def take_options(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the options (learning rate, ...) of the server's own optimizer."""
        with self._clocks.changed:
            share_options(optimizer, self._optimizer)
            self._active = True
            self._clocks.changed.notify_all()

    def turn(self, worker: int, kind: int, flat: Tensors) -> Tensors:
        """Applies a worker's gradients, or lets it rest. Returns the flat parameters when it may continue.

        An error is the error of all workers.
        """
        with self._clocks.changed:
            try:
                self._take_turn(worker, kind, flat)
            except BaseException as error:
                self._failure = self._failure or error
                self._clocks.changed.notify_all()
                raise
            return _flat(self._tensors)

    def _take_turn(self, worker: int, kind: int, flat: Tensors) -> None:
        clocks = self._clocks
        if kind == _REST:
            round_ = clocks.rounds
            clocks.rest(worker)
            if clocks.rounds > round_:
                self._finish_round()
                self._active = False
            self._apply_complete()
            self._wait_for(lambda: clocks.rounds > round_)
            return
        if clocks.staleness:
            self._apply(flat)
        else:
            self._arrived[worker] = flat
        clocks.advance(worker)
        self._apply_complete()
        self._wait_for(lambda: worker not in self._arrived and clocks.may_continue(worker))

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        self._clocks.changed.wait_for(lambda: self._failure is not None or condition())
        if self._failure is not None:
            raise self._failure

    def _apply_complete(self) -> None:
        """Takes the step of a synchronous server, if the gradients of all that do not rest have arrived."""
        if not self._arrived or any(worker not in self._arrived for worker, resting in enumerate(self._clocks.resting)
                                    if not resting):
            return
        in_order = [self._arrived[worker] for worker in sorted(self._arrived)]
        sums = [parts[0].clone() for parts in zip(*in_order)]
        for flat in in_order[1:]:
            for total, part in zip(sums, flat):
                total.add_(part)
        self._arrived = {}
        self._apply(sums)
        self._clocks.changed.notify_all()

    @torch.no_grad()
    def _apply(self, flat: Tensors) -> None:
        """Takes a step with the flat gradients, divided by the number of ranks. May end a period of the servers."""
        gradients = [torch.empty_like(tensor) for tensor in self._tensors]
        _put(flat, gradients)
        for tensor, gradient in zip(self._tensors, gradients):
            tensor.grad = gradient.div_(self._ranks)
        self._optimizer.step()
        if self._place.count > 1:
            self._since_average += 1 if self._clocks.staleness else self._ranks
            if self._since_average >= self._place.every * self._ranks:
                self._average_servers(take_part=True, resting=False)

    def _finish_round(self) -> None:
        """Averages with the other servers until the ranks of all rest.

        A server whose ranks rest takes part in the averages of the others, but its parameters are averaged once only.
        """
        changed = self._since_average > 0
        while self._place.count > 1 and self._average_servers(changed, resting=True) < self._place.count:
            changed = False

    @torch.no_grad()
    def _average_servers(self, take_part: bool, resting: bool) -> int:
        """Replaces the parameters by the average of the servers that take part, weighted by their ranks.

        Returns how many servers have only ranks that rest. The ranks of this server wait meanwhile.
        """
        weight = self._ranks if take_part else 0
        flat = [tensor.mul_(weight) for tensor in _flat(self._tensors)]
        shares = torch.tensor([weight, int(resting)])
        wait_for_all([
            allreduce_async_(tensor, name=f"{self._name}.servers.{index}", op=Sum, process_set=self._place.servers)
            for index, tensor in enumerate([shares, *flat])])
        total, resting_servers = shares.tolist()
        if total:
            _put([tensor.div_(total) for tensor in flat], self._tensors)
        self._since_average = 0
        return resting_servers

    @torch.no_grad()
    def serve(self, worker: int, channel: _Channel) -> None:
        """Answers one other rank until the job ends. The thread's function."""
        try:
            while True:
                with self._clocks.changed:
                    self._wait_for(lambda: self._active)
                kind, flat = channel.receive()
                channel.answer(self.turn(worker, kind, flat))
        except errors.NotInitializedError:
            pass  # after hvd.shutdown()
        except BaseException as error:
            with self._clocks.changed:
                self._failure = self._failure or error
                self._clocks.changed.notify_all()

    def state_dict(self) -> dict[str, Any]:
        with self._clocks.changed:
            return self._optimizer.state_dict()

    @torch.no_grad()
    def load(self, optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
        """Takes parameters, options and state of the server's own model and optimizer."""
        with self._clocks.changed:
            share_options(optimizer, self._optimizer)
            self._optimizer.state.clear()
            for tensor, copy in zip(tensors, self._tensors):
                copy.copy_(tensor)
                if tensor in optimizer.state:
                    self._optimizer.state[copy] = optimizer.state[tensor]


class _Channel:
    """The broadcasts between a server and one other rank."""

    def __init__(self, name: str, worker: int, server: int, process_set: ProcessSet, like: Tensors) -> None:
        """worker, server: their ranks."""
        self._worker = worker
        self._server = server
        self._name = name
        self._set = process_set
        self._like = like

    def turn(self, kind: int, flat: Tensors) -> Tensors:
        """On the worker: pushes, and returns the flat parameters of the server's answer."""
        wait_for_all(self._push(torch.tensor([kind]), flat))
        return wait_for_all(self._pull([torch.empty_like(tensor) for tensor in flat]))

    def receive(self) -> tuple[int, Tensors]:
        """On the server: waits for a push."""
        header = torch.zeros(1, dtype=torch.int64)
        flat = _flat(self._like)
        wait_for_all(self._push(header, flat))
        return int(header.item()), flat

    def answer(self, flat: Tensors) -> None:
        """On the server: sends parameters."""
        wait_for_all(self._pull(flat))

    def _push(self, header: torch.Tensor, flat: Tensors) -> list[Any]:
        return [broadcast_async_(header, self._worker, f"{self._name}.kind", self._set),
                *(broadcast_async_(tensor, self._worker, f"{self._name}.push.{index}", self._set)
                  for index, tensor in enumerate(flat))]

    def _pull(self, flat: Tensors) -> list[Any]:
        return [broadcast_async_(tensor, self._server, f"{self._name}.pull.{index}", self._set)
                for index, tensor in enumerate(flat)]


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
