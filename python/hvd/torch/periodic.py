"""What the methods with local steps share: a step of the rank alone, and an exchange at the end of each period.

LocalSGD, DiLoCo and Gossip derive from PeriodicOptimizer and define what an exchange sends and how its result changes
the parameters. An exchange runs on libhvd's threads; everything else runs on the thread that calls step().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch

from .. import job, schedule
from ..objects import allgather_object
from ..process_sets import ProcessSet, global_process_set
from ..types import Average
from ._wrapping import Closure, NamedParameters, Wrapped, described, parameters_of, refuse_wrapped, wrapped
from .background import allreduce_async, grouped_allreduce_async, grouped_allreduce_async_
from .compression import Compression, Compressor

Tensors = list[torch.Tensor]


class Mean:
    """The average of tensors over the ranks of a set that have not joined, computed in the background."""

    def __init__(self, tensors: Sequence[torch.Tensor], name: str, process_set: ProcessSet = global_process_set,
                 in_place: bool = False, compression: type[Compressor] = Compression.none) -> None:
        """`tensors`, on one device, must not be changed until wait() returns. in_place: they become the averages."""
        # A rank that has joined contributes zeros, also to this one, and the divisor stays the number of all ranks.
        present = torch.ones(1, device=tensors[0].device if tensors else None)
        self._ranks = process_set.size()
        reduce = grouped_allreduce_async_ if in_place else grouped_allreduce_async
        self._compression = compression
        sent = [compression.compress(tensor.detach()) for tensor in tensors]
        self._contexts = [context for _, context in sent]
        # By itself, so that no compression rounds it.
        self._present = allreduce_async(present, name=f"{name}.present", op=Average, process_set=process_set)
        self._handle = reduce([tensor for tensor, _ in sent], name=name, op=Average, process_set=process_set,
                              compression=compression)
        self._result: Optional[Tensors] = None

    def wait(self) -> Tensors:
        """Returns the averages; also when called again. Errors: those of hvd.errors."""
        if self._result is None:
            means = [self._compression.decompress(mean, context)
                     for mean, context in zip(self._handle.wait(), self._contexts)]
            present = round(self._present.wait().item() * self._ranks)
            if present < self._ranks:
                for mean in means:
                    mean.mul_(self._ranks / present)
            self._result = means
        return self._result


class Exchange:
    """An exchange in flight."""

    def __init__(self, start: Tensors, wait: Callable[[], Tensors]) -> None:
        """start: the parameters when it began; empty if it is waited for at once. wait: returns the averages."""
        self.start = start
        self.wait = wait


class PeriodicOptimizer(Wrapped):
    """The base class of a method with local steps, before the class of the wrapped optimizer."""

    _schedule: schedule.Period
    _background: bool
    _compression: type[Compressor]
    _settings: dict[str, Any]  # what a saved state must have been saved with
    _name: str  # of its collectives
    _tensors: Tensors  # the parameters that are exchanged: those that need gradients, in the order of their adoption
    _known: set[int]  # their id()
    _exchange: Optional[Exchange]  # the one that runs in the background

    # ---- Steps ------------------------------------------------------------------------------------

    def step(self, closure: Closure = None, **arguments: Any) -> Any:
        """Takes the optimizer's step with this rank's gradients. At the end of a period, exchanges with other ranks.

        Errors: those of hvd.errors, at the end of a period.
        """
        self._adopt()
        result = super().step(closure, **arguments)
        if self._schedule.advance():
            if self._background:
                self._apply()
                self._exchange = self._begin(self._schedule.periods - 1, [t.detach().clone() for t in self._tensors])
            else:
                self._exchange = self._begin(self._schedule.periods - 1, [])
                self._apply()
        return result

    # torch's Optimizer would wrap this step() for profiling and step hooks; the step() called here is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        """Ends the period early, on all ranks: afterwards all have the same parameters. A collective.

        For the end of the training, before an evaluation or a checkpoint of the model alone. First applies an exchange
        that is in flight, then makes another one with all ranks and waits for it.
        """
        self._adopt()
        self._apply()
        self._exchange = self._begin(None, [])
        self._apply()
        self._schedule.begin()

    def _begin(self, exchange: Optional[int], start: Tensors) -> Optional[Exchange]:
        """Starts the exchange of this number; of all ranks if None. Returns None if this rank pauses.

        start: a copy of the parameters, if these change while the exchange runs; otherwise empty.
        """
        raise NotImplementedError

    def _change(self, start: Tensors, means: Tensors) -> None:
        """Changes the parameters after an exchange. Parameters adopted after its begin are not in it."""
        raise NotImplementedError

    def _apply(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            with torch.no_grad():
                self._change(exchange.start, exchange.wait())

    def _adopt(self) -> None:
        """Adds the parameters that need gradients and are not known yet: at first all, later those thawed or added."""
        new = [tensor for tensor in parameters_of(self) if tensor.requires_grad and id(tensor) not in self._known]
        if new:
            self._known.update(map(id, new))
            self._tensors += new
            self._adopted(new)

    def _adopted(self, new: Tensors) -> None:
        """Called with new parameters, before the first step that changes them, on all ranks at the same step."""

    # ---- Saving and loading -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns this rank's state, and the place in the period. The plain optimizer can load it.

        Waits for an exchange in flight. If all ranks load rank 0's state and rank 0's model, they continue with these:
        what the other ranks have learned since the last exchange is lost. full_state_dict() has it.
        """
        return {**super().state_dict(), "hvd": {**self._method_state(), **self._in_flight()}}

    def full_state_dict(self) -> dict[str, Any]:
        """Returns state_dict() with the parameters and the optimizer's state of every rank. A collective.

        In host memory, as much as the parameters and states of all ranks together. After load_state_dict() with the
        same number of ranks the training continues as if it had not stopped.
        """
        self._adopt()
        own = {"parameters": [tensor.detach() for tensor in self._tensors], "optimizer": super().state_dict(),
               **self._in_flight()}
        ranks = allgather_object(_in_host_memory(own), f"{self._name}.state")
        return {**ranks[0]["optimizer"], "hvd": {**self._method_state(), "ranks": ranks}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state of state_dict() or full_state_dict(), or of the plain optimizer, which begins a period.

        Load the model's state before: a full state has each rank's own parameters, and sets them. With another number
        of ranks, all ranks begin with the average of the saved parameters, at the same place in the period.
        ValueError if the state was saved with other settings or another model.
        """
        self._adopt_silently()
        saved = state_dict.get("hvd")
        if saved is None:
            super().load_state_dict(state_dict)
            self._schedule.load_state_dict({"position": 0, "periods": 0})
            self._exchange = None
            self._load_shared({})
            return
        self._check_saved(saved)
        own = (_of_this_rank(saved["ranks"]) if "ranks" in saved
               else {**saved, "optimizer": state_dict, "parameters": []})
        plain = own["optimizer"]
        super().load_state_dict({"state": plain["state"], "param_groups": plain["param_groups"]})
        self._schedule.load_state_dict(saved)
        self._load_shared(saved)
        with torch.no_grad():
            for tensor, value in zip(self._tensors, own["parameters"]):
                tensor.copy_(value)
        self._exchange = None
        if own["mean"] is not None:
            means = self._like_parameters(own["mean"])
            self._exchange = Exchange(self._like_parameters(own["start"]), lambda: means)

    def _method_state(self) -> dict[str, Any]:
        """Returns the part of the state that is the same on all ranks."""
        return {**self._settings, "parameters": self._parameter_count(), **self._schedule.state_dict(),
                **self._shared()}

    def _in_flight(self) -> dict[str, Any]:
        """Returns the exchange in flight, after waiting for it: this rank's part of the state."""
        exchange = self._exchange
        return {"start": exchange.start if exchange else [], "mean": exchange.wait() if exchange else None}

    def _parameter_count(self) -> int:
        return sum(tensor.requires_grad for tensor in parameters_of(self))

    def _shared(self) -> dict[str, Any]:
        """Returns the further state of the method, which is the same on all ranks."""
        return {}

    def _load_shared(self, saved: dict[str, Any]) -> None:
        """Loads what _shared() has returned; {}: begins as a new optimizer."""

    def _adopt_silently(self) -> None:
        """Adopts parameters without a collective, since a state will replace what the method keeps of them."""
        new = [tensor for tensor in parameters_of(self) if tensor.requires_grad and id(tensor) not in self._known]
        self._known.update(map(id, new))
        self._tensors += new

    def _check_saved(self, saved: dict[str, Any]) -> None:
        for key, value in {**self._settings, "parameters": self._parameter_count()}.items():
            if saved.get(key) != value:
                raise ValueError(f"hvd: {self.METHOD}: the state was saved with {key} = {saved.get(key)}, but this "
                                 f"optimizer has {key} = {value}; use the settings and the model of the saved state")
        for theirs in saved.get("ranks", [])[:1]:
            for tensor, other in zip(self._tensors, theirs["parameters"]):
                if tensor.shape != other.shape:
                    raise ValueError(f"hvd: {self.METHOD}: the state was saved with a parameter of shape "
                                     f"{list(other.shape)} instead of {list(tensor.shape)}; it is of another model")

    def _like_parameters(self, values: Tensors) -> Tensors:
        return [value.detach().to(device=tensor.device, dtype=tensor.dtype, copy=True)
                for tensor, value in zip(self._tensors, values)]


def periodic_optimizer(kind: type[PeriodicOptimizer], optimizer: torch.optim.Optimizer, every: Any,
                       named_parameters: Optional[NamedParameters], background: bool,
                       settings: Optional[dict[str, Any]] = None, problem: str = "",
                       compression: type[Compressor] = Compression.none, **own: Any) -> Any:
    """Returns the optimizer with the method `kind`. A collective; the errors are those of hvd.schedule.agree()."""
    refuse_wrapped(optimizer)
    named = None if named_parameters is None else list(named_parameters)
    problem = problem or schedule.problem_of_every(every)
    if isinstance(optimizer, torch.optim.LBFGS):
        problem = problem or "torch.optim.LBFGS is not supported"
    compared = {"every": every, "background": bool(background), **(settings or {})}
    sent = {"compression": getattr(compression, "__name__", str(compression))}
    number = schedule.agree(kind.METHOD, {"the optimizer's class": type(optimizer).__name__, **sent, **compared},
                            described(optimizer, named), problem)
    return wrapped(kind, optimizer, _schedule=schedule.Period(every), _background=bool(background),
                   _compression=compression,
                   _settings={"method": kind.METHOD, **compared}, _name=f"{kind.METHOD}.{number}", _tensors=[],
                   _known=set(), _exchange=None, **own)


def _in_host_memory(value: Any) -> Any:
    """Returns the value with all tensors in it in host memory."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _in_host_memory(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_in_host_memory(entry) for entry in value)
    return value


def _of_this_rank(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the entry of this rank; with another number of ranks the averages, and the state of one of the ranks."""
    if len(ranks) == job.size():
        return ranks[job.rank()]
    in_flight = all(entry["mean"] is not None for entry in ranks)
    return {"optimizer": ranks[job.rank() % len(ranks)]["optimizer"], "parameters": _averages(ranks, "parameters"),
            "start": _averages(ranks, "start") if in_flight else [],
            "mean": _averages(ranks, "mean") if in_flight else None}


def _averages(ranks: list[dict[str, Any]], key: str) -> Tensors:
    return [torch.stack(values).mean(0) for values in zip(*(entry[key] for entry in ranks))]
