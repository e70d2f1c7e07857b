"""What the methods with local steps share in every framework: exchanges at the end of periods, averages, saved states.

LocalSGD, Gossip and DiLoCo derive from Averaging and OuterSteps here, and from what their framework needs. Tensors are
those of torch or arrays of numpy. An exchange runs on libhvd's threads, everything else on the thread that steps.
Errors are those of hvd.errors, and ValueError for a saved state that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from . import job, schedule

Tensors = list[Any]


class Mean:
    """The average of tensors over the ranks that have not joined, which is being computed."""

    def __init__(self, averages: Any, present: Any, ranks: int,
                 finish: Callable[[Tensors], Tensors] = lambda means: means) -> None:
        """averages, present: the handles of the tensors' averages, and of a 1 of each rank. ranks: of the set.

        finish: turns the averages into what wait() returns. A rank that has joined contributes zeros to both handles,
        and the divisor stays the number of all ranks.
        """
        self._averages = averages
        self._present = present
        self._ranks = ranks
        self._finish = finish
        self._result: Optional[Tensors] = None

    def wait(self) -> Tensors:
        """Returns the averages; also when called again. Errors: those of hvd.errors."""
        if self._result is None:
            means = self._finish(self._averages.wait())
            present = round(float(self._present.wait()[0]) * self._ranks)
            if present < self._ranks:
                for mean in means:
                    mean *= self._ranks / present
            self._result = means
        return self._result


class Exchange:
    """An exchange in flight."""

    def __init__(self, start: Tensors, wait: Callable[[], Tensors]) -> None:
        """start: the parameters when it began; empty if it is waited for at once. wait: returns the averages."""
        self.start = start
        self.wait = wait


class Exchanging:
    """Begins an exchange at the end of each period, and applies it: at once, or in the background one period late."""

    METHOD: str

    _schedule: schedule.Period
    _background: bool
    _settings: dict[str, Any]  # what a saved state must have been saved with
    _name: str  # of its collectives
    _tensors: Tensors  # the parameters that are exchanged
    _exchange: Optional[Exchange]  # the one that runs in the background

    def _copies(self) -> Tensors:
        """Returns copies of the parameters."""
        raise NotImplementedError

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Optional[Mean]:
        """Starts an average for the exchange of this number; of all ranks if None. Returns None if this rank pauses.

        `tensors` must not be changed until wait() returns, and are not changed.
        """
        raise NotImplementedError

    def _begin(self, exchange: Optional[int], start: Tensors) -> Optional[Exchange]:
        """Starts the exchange of this number; of all ranks if None. Returns None if this rank pauses.

        start: a copy of the parameters, if these change while the exchange runs; otherwise empty.
        """
        raise NotImplementedError

    def _change(self, start: Tensors, means: Tensors) -> None:
        """Changes the parameters after an exchange. Parameters adopted after its begin are not in it."""
        raise NotImplementedError

    def _end_period(self) -> None:
        """Exchanges with other ranks, after the schedule has ended a period."""
        if self._background:
            self._apply()
            self._exchange = self._begin(self._schedule.periods - 1, self._copies())
        else:
            self._exchange = self._begin(self._schedule.periods - 1, [])
            self._apply()

    def _end_early(self) -> None:
        """Ends the period early: applies an exchange that is in flight, then makes one with all ranks."""
        self._apply()
        self._exchange = self._begin(None, [])
        self._apply()
        self._schedule.begin()

    def _apply(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            self._change(exchange.start, exchange.wait())

    # ---- Saving and loading -----------------------------------------------------------------------

    def _in_flight(self) -> dict[str, Any]:
        """Returns the exchange in flight, after waiting for it: this rank's part of the state."""
        exchange = self._exchange
        return {"start": exchange.start if exchange else [], "mean": exchange.wait() if exchange else None}

    def _check_saved(self, saved: dict[str, Any], count: int) -> None:
        """Raises ValueError if a state was saved with other settings or another model. count: of the parameters."""
        for key, value in {**self._settings, "parameters": count}.items():
            if saved.get(key) != value:
                raise ValueError(f"hvd: {self.METHOD}: the state was saved with {key} = {saved.get(key)}, but this "
                                 f"optimizer has {key} = {value}; use the settings and the model of the saved state")
        for theirs in saved.get("ranks", [])[:1]:
            for tensor, other in zip(self._tensors, theirs["parameters"]):
                if tuple(tensor.shape) != tuple(other.shape):
                    raise ValueError(f"hvd: {self.METHOD}: the state was saved with a parameter of shape "
                                     f"{list(other.shape)} instead of {list(tensor.shape)}; it is of another model")


class Averaging(Exchanging):
    """Averages the parameters themselves."""

    def _begin(self, exchange: Optional[int], start: Tensors) -> Optional[Exchange]:
        mean = self._mean(start or self._tensors, exchange)
        return None if mean is None else Exchange(start, mean.wait)

    def _change(self, start: Tensors, means: Tensors) -> None:
        if not start:
            for tensor, mean in zip(self._tensors, means):
                tensor[...] = mean
        for tensor, mean, before in zip(self._tensors, means, start):
            tensor += mean - before


class OuterSteps(Exchanging):
    """Averages the changes of a period. An outer optimizer takes a step with the average.

    It starts from the same parameters on all ranks.
    """

    _base: Tensors  # the outer optimizer's parameters

    def _take_outer_step(self, means: Tensors) -> None:
        """Changes _base, with the averages as the gradients."""
        raise NotImplementedError

    def _begin(self, exchange: Optional[int], start: Tensors) -> Optional[Exchange]:
        mean = self._mean([base - tensor for base, tensor in zip(self._base, self._tensors)], exchange)
        return None if mean is None else Exchange(start, mean.wait)

    def _change(self, start: Tensors, means: Tensors) -> None:
        own = [tensor - before for tensor, before in zip(self._tensors, start)]  # while the exchange ran
        self._take_outer_step(means)
        if not start:
            for tensor, base in zip(self._tensors, self._base):
                tensor[...] = base
        for tensor, base, change in zip(self._tensors, self._base, own):
            tensor[...] = base + change


def of_this_rank(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the entry of this rank; with another number of ranks the averages, and the state of one of the ranks."""
    if len(ranks) == job.size():
        return ranks[job.rank()]
    in_flight = all(entry["mean"] is not None for entry in ranks)
    return {"optimizer": ranks[job.rank() % len(ranks)]["optimizer"], "parameters": _averages(ranks, "parameters"),
            "start": _averages(ranks, "start") if in_flight else [],
            "mean": _averages(ranks, "mean") if in_flight else None}


def _averages(ranks: list[dict[str, Any]], key: str) -> Tensors:
    return [sum(values[1:], values[0]) / len(values) for values in zip(*(entry[key] for entry in ranks))]
