"""The schedules of training methods: when ranks exchange, with whom, how stale a rank may be. Agreement on settings.

The modules of the frameworks use them (hvd.torch.local_sgd, gossip, parameter_server, ...). The schedules are plain
values without collectives: all ranks that call them in the same way get the same answers. Only agree() is a collective.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any, Optional

from . import errors
from .objects import allgather_object
from .process_sets import ProcessSet, global_process_set


class Period:
    """Divides the steps into periods of `every` steps. An exchange is due at the end of each period."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.position = 0  # steps done in the present period, 0 to every - 1
        self.periods = 0  # periods that have ended

    def advance(self) -> bool:
        """Records a step. Returns whether it ends a period."""
        self.position += 1
        if self.position < self.every:
            return False
        self.begin()
        return True

    def begin(self) -> None:
        """Ends the present period early, if it has begun, and begins the next one."""
        self.position = 0
        self.periods += 1

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position, "periods": self.periods}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position, self.periods = state["position"], state["periods"]


def problem_of_every(every: Any) -> str:
    """Returns what is wrong with a number of steps between exchanges; "" for a valid one."""
    return _problem_of("every", every, 1)


def problem_of_staleness(staleness: Any) -> str:
    """Returns what is wrong with a bound of staleness; "" for a valid one."""
    return _problem_of("staleness", staleness, 0)


def _problem_of(name: str, value: Any, least: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} is {value!r}, but must be a whole number"
    return f"{name} is {value}, but must be at least {least}" if value < least else ""


def hops(size: int) -> list[int]:
    """Returns the distances of the exponential ring: 1, 2, 4, ... below `size`.

    B. Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training", arXiv:2110.13363.
    """
    return [1 << power for power in range((size - 1).bit_length())]


def partner(rank: int, size: int, exchange: int) -> Optional[int]:
    """Returns the one rank with which `rank` exchanges in the exchange of this number; None if it pauses.

    The distance between partners is the next one of hops() in each exchange. If `size` is a power of two, every rank
    has a partner in each exchange, and hops() exchanges without steps between them give all ranks the exact average.
    Otherwise some ranks pause; the ring turns by one rank after each round of hops(), so that they are others each
    time.
    """
    distances = hops(size)
    if not distances:
        return None
    round_, index = divmod(exchange, len(distances))
    distance = distances[index]
    turn = round_ % size if size & (size - 1) else 0
    place = (rank - turn) % size
    other = place + distance if place // distance % 2 == 0 else place - distance
    return (other + turn) % size if other < size else None


def pairs(size: int) -> list[tuple[int, int]]:
    """Returns all pairs of ranks that partner() ever makes, each with the lower rank first, in ascending order."""
    rounds = size if size & (size - 1) else 1
    found = set()
    for exchange in range(rounds * len(hops(size))):
        for rank in range(size):
            other = partner(rank, size, exchange)
            if other is not None:
                found.add((min(rank, other), max(rank, other)))
    return sorted(found)


class Clocks:
    """The step that each worker has reached, and the bound of staleness between them. Callers hold `changed`.

    Q. Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013: a worker
    may begin a step if the slowest worker is at most `staleness` steps before it. A worker that rests does not hold
    others up.
    """

    def __init__(self, workers: int, staleness: int) -> None:
        self.changed = threading.Condition()
        self.staleness = staleness
        self.steps = [0] * workers
        self.resting = [False] * workers
        self.rounds = 0  # how often all have rested

    def advance(self, worker: int) -> None:
        """Records that the worker has pushed the gradients of a step."""
        self.steps[worker] += 1
        self.changed.notify_all()

    def may_continue(self, worker: int) -> bool:
        """Returns whether the worker may begin its next step."""
        slowest = min((step for step, resting in zip(self.steps, self.resting) if not resting), default=0)
        return self.steps[worker] - slowest <= self.staleness

    def rest(self, worker: int) -> None:
        """Records that the worker makes no steps until all rest. When all do, all continue from the same step."""
        self.resting[worker] = True
        if all(self.resting):
            self.steps = [max(self.steps)] * len(self.steps)
            self.resting = [False] * len(self.resting)
            self.rounds += 1
        self.changed.notify_all()


_numbers = itertools.count(1)


def agree(method: str, settings: dict[str, Any], parameters: Sequence[tuple[str, str]], problem: str = "",
          process_set: ProcessSet = global_process_set) -> int:
    """Compares the settings and the parameters of all ranks. A collective of the set.

    parameters: the name of each, and its shape and type in words. problem: what this rank has found wrong by itself.
    Returns a number that is the same on all ranks, and different at each call, for the names of collectives.

    Errors, on all ranks with the same text: InvalidArgumentError if a rank has a problem; MismatchError for a setting
    that differs, and for a parameter that only some ranks have, that has another shape or another place in the order.
    """
    own = (next(_numbers), problem, settings, list(parameters))
    found = allgather_object(own, f"{method}, settings", process_set)
    ranks = process_set.ranks or list(range(len(found)))
    for rank, (_, text, _, _) in zip(ranks, found):
        if text:
            raise errors.InvalidArgumentError(f"hvd: {method}: {text} (on rank {rank})")
    for key in settings:
        values = [theirs.get(key) for _, _, theirs, _ in found]
        if any(value != values[0] for value in values):
            raise errors.MismatchError(f"hvd: {method}: {key} differs between ranks: {_by_value(ranks, values)}; give "
                                       "all ranks the same")
    _compare_parameters(method, ranks, [theirs for _, _, _, theirs in found])
    return max(number for number, _, _, _ in found)


def _compare_parameters(method: str, ranks: Sequence[int], found: list[list[tuple[str, str]]]) -> None:
    if all(theirs == found[0] for theirs in found):
        return
    kinds = [dict(theirs) for theirs in found]
    for name in dict.fromkeys(name for theirs in found for name, _ in theirs):
        values = [theirs.get(name) for theirs in kinds]
        having = [rank for rank, value in zip(ranks, values) if value is not None]
        if len(having) < len(ranks):
            raise errors.MismatchError(f"hvd: {method}: only {_words(having)} of {len(ranks)} has the parameter {name}"
                                       "; all ranks must have the same parameters")
        if any(value != values[0] for value in values):
            raise errors.MismatchError(f"hvd: {method}: the parameter {name} differs between ranks: "
                                       f"{_by_value(ranks, values)}")
    raise errors.MismatchError(f"hvd: {method}: the ranks have the same parameters in another order; give the "
                               "optimizer the parameters in the same order on all ranks")


def _by_value(ranks: Sequence[int], values: Sequence[Any]) -> str:
    """Returns "8 on ranks 0, 1; 4 on rank 2"."""
    groups: dict[str, list[int]] = {}
    for rank, value in zip(ranks, values):
        groups.setdefault(str(value), []).append(rank)
    return "; ".join(f"{value} on {_words(members)}" for value, members in groups.items())


def _words(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
