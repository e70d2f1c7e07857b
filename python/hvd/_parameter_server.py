"""What ParameterServer shares in every framework: who serves whom, what a server does, how ranks push and pull.

Tensors are those of torch or arrays of numpy, and flat: one for each type, with the elements of all parameters. A server
trains too. It has one thread for each other rank that it serves, which receives that rank's gradients, and answers with
parameters when the bound of staleness allows. A push and a pull are broadcasts in a process set of the server and the
other rank. If a thread of a server fails, the server's next step raises the error; the other ranks get a PeerError when
the server leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol

from . import errors, job, schedule
from ._collectives import wait_for_all
from .objects import allgather_object
from .process_sets import ProcessSet, find_or_add, global_process_set

METHOD = "ParameterServer"

GRADIENTS = 1
REST = 2

Tensors = list[Any]


def agree(settings: dict[str, Any], optimizer: str, parameters: Sequence[tuple[str, str]], problem: str) -> int:
    """Compares the settings of all ranks, as schedule.agree(). A collective.

    settings: staleness, per_host and every. optimizer: the name of its class.
    """
    own = schedule.problem_of_staleness(settings["staleness"]) or schedule.problem_of_every(settings["every"])
    if not settings["per_host"] and settings["every"] != 1:
        own = own or "every is for a server on each host (per_host=True)"
    return schedule.agree(METHOD, {"the optimizer's class": optimizer, **settings}, parameters, own or problem)


def check_saved(saved: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raises ValueError if a state was saved with another method or other settings."""
    for key, own in settings.items():
        if saved.get(key) != own:
            raise ValueError(f"hvd: {METHOD}: the state was saved with {key} = {saved.get(key)}, but this optimizer has "
                             f"{key} = {own}")


@dataclass(frozen=True)
class Place:
    """Where this rank's server is, and which ranks a server serves."""

    server: int  # the rank
    pair: ProcessSet  # of the server and this rank
    workers: list[tuple[int, ProcessSet]]  # on a server: the other ranks that it serves, with the set of both
    servers: ProcessSet  # of all servers
    count: int  # how many they are
    every: int  # steps of a server between averages of all


def make_place(per_host: bool, every: int) -> Place:
    """Makes the process sets of servers and ranks. A collective."""
    hosts = allgather_object(job.node_rank() if per_host else 0, f"{METHOD}, hosts")
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
    return Place(hosts.index(hosts[own]), pair, workers, of_servers, len(servers), every)


class Transfers(Protocol):
    """The collectives of a framework. They change the tensors in place, and return a handle."""

    def broadcast(self, tensor: Any, root: int, name: str, process_set: ProcessSet) -> Any: ...

    def sum(self, tensor: Any, name: str, process_set: ProcessSet) -> Any: ...

    def numbers(self, values: list[int]) -> Any:
        """Returns a tensor of int64."""

    def empty_like(self, tensor: Any) -> Any: ...


class Channel:
    """The broadcasts between a server and one other rank."""

    def __init__(self, transfers: Transfers, name: str, worker: int, server: int, process_set: ProcessSet) -> None:
        """worker, server: their ranks."""
        self._transfers = transfers
        self._worker = worker
        self._server = server
        self._name = name
        self._set = process_set

    def turn(self, kind: int, flat: Tensors) -> Tensors:
        """On the worker: pushes, and returns the flat parameters of the server's answer."""
        wait_for_all(self._push(self._transfers.numbers([kind]), flat))
        return wait_for_all(self._pull([self._transfers.empty_like(tensor) for tensor in flat]))

    def receive(self, flat: Tensors) -> int:
        """On the server: waits for a push, puts it into the flat tensors, and returns its kind."""
        header = self._transfers.numbers([0])
        wait_for_all(self._push(header, flat))
        return int(header[0])

    def answer(self, flat: Tensors) -> None:
        """On the server: sends parameters."""
        wait_for_all(self._pull(flat))

    def _push(self, header: Any, flat: Tensors) -> list[Any]:
        return [self._transfers.broadcast(header, self._worker, f"{self._name}.kind", self._set),
                *(self._transfers.broadcast(tensor, self._worker, f"{self._name}.push.{index}", self._set)
                  for index, tensor in enumerate(flat))]

    def _pull(self, flat: Tensors) -> list[Any]:
        return [self._transfers.broadcast(tensor, self._server, f"{self._name}.pull.{index}", self._set)
                for index, tensor in enumerate(flat)]


class Server:
    """The parameters and the optimizer, on a server. serve() runs on a thread for each other rank, all else on any.

    A framework's class keeps both, and defines flat(), put() and step(). put() and step() are called with clocks.changed held.
    """

    def __init__(self, transfers: Transfers, staleness: int, name: str, place: Place) -> None:
        self._transfers = transfers
        self._name = name
        self._place = place
        self.ranks = len(place.workers) + 1  # the server's own is worker 0
        self.clocks = schedule.Clocks(self.ranks, staleness)
        self._since_average = 0  # gradients since the servers' last average
        self._arrived: dict[int, Tensors] = {}  # with a staleness of 0: flat gradients of the present step, by worker
        self._failure: Optional[BaseException] = None
        self._active = False  # between synchronize() and the next step of the server no rank pushes

    def flat(self) -> Tensors:
        """Returns new flat tensors with the parameters."""
        raise NotImplementedError

    def put(self, flat: Tensors) -> None:
        """Replaces the parameters."""
        raise NotImplementedError

    def step(self, flat: Tensors) -> None:
        """Takes a step of the optimizer with the flat gradients, divided by the number of ranks."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the threads that answer the other ranks."""
        for worker, (rank, pair) in enumerate(self._place.workers, 1):
            channel = Channel(self._transfers, self._name, rank, self._place.server, pair)
            threading.Thread(target=self.serve, args=(worker, channel), name=f"hvd server of rank {rank}",
                             daemon=True).start()

    def begin_turns(self) -> None:
        """Lets the threads wait for pushes. The caller holds clocks.changed."""
        self._active = True
        self.clocks.changed.notify_all()

    def turn(self, worker: int, kind: int, flat: Tensors) -> Tensors:
        """Applies a worker's gradients, or lets it rest. Returns the flat parameters when it may continue.

        Keeps the flat gradients, and changes them. An error is the error of all workers.
        """
        with self.clocks.changed:
            try:
                self._take_turn(worker, kind, flat)
            except BaseException as error:
                self._fail(error)
                raise
            return self.flat()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.clocks.changed.notify_all()

    def _take_turn(self, worker: int, kind: int, flat: Tensors) -> None:
        clocks = self.clocks
        if kind == REST:
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
        self.clocks.changed.wait_for(lambda: self._failure is not None or condition())
        if self._failure is not None:
            raise self._failure

    def _apply_complete(self) -> None:
        """Takes the step of a synchronous server, if the gradients of all that do not rest have arrived."""
        if not self._arrived or any(worker not in self._arrived for worker, resting in enumerate(self.clocks.resting)
                                    if not resting):
            return
        sums, *others = [self._arrived[worker] for worker in sorted(self._arrived)]
        for flat in others:
            for total, part in zip(sums, flat):
                total += part
        self._arrived = {}
        self._apply(sums)
        self.clocks.changed.notify_all()

    def _apply(self, flat: Tensors) -> None:
        """Takes a step with the flat gradients. May end a period of the servers."""
        self.step(flat)
        if self._place.count > 1:
            self._since_average += 1 if self.clocks.staleness else self.ranks
            if self._since_average >= self._place.every * self.ranks:
                self._average_servers(take_part=True, resting=False)

    def _finish_round(self) -> None:
        """Averages with the other servers until the ranks of all rest.

        A server whose ranks rest takes part in the averages of the others, but its parameters are averaged once only.
        """
        changed = self._since_average > 0
        while self._place.count > 1 and self._average_servers(changed, resting=True) < self._place.count:
            changed = False

    def _average_servers(self, take_part: bool, resting: bool) -> int:
        """Replaces the parameters by the average of the servers that take part, weighted by their ranks.

        Returns how many servers have only ranks that rest. The ranks of this server wait meanwhile.
        """
        weight = self.ranks if take_part else 0
        flat = self.flat()
        for tensor in flat:
            tensor *= weight
        shares = self._transfers.numbers([weight, int(resting)])
        wait_for_all([self._transfers.sum(tensor, f"{self._name}.servers.{index}", self._place.servers)
                      for index, tensor in enumerate([shares, *flat])])
        total, resting_servers = shares.tolist()
        if total:
            for tensor in flat:
                tensor /= total
            self.put(flat)
        self._since_average = 0
        return resting_servers

    def serve(self, worker: int, channel: Channel) -> None:
        """Answers one other rank until the job ends. The thread's function."""
        try:
            while True:
                with self.clocks.changed:
                    self._wait_for(lambda: self._active)
                flat = self.flat()
                kind = channel.receive(flat)
                channel.answer(self.turn(worker, kind, flat))
        except errors.NotInitializedError:
            pass  # after hvd.shutdown()
        except BaseException as error:
            with self.clocks.changed:
                self._fail(error)
