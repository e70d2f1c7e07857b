"""What the methods with local steps share: a step of the rank alone, and an exchange at the end of each period.

LocalSGD, DiLoCo and Gossip derive from PeriodicOptimizer and define what an exchange sends and how its result changes
the parameters. An exchange runs on libhvd's threads; everything else runs on the thread that calls step().
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from .. import schedule
from .._collectives import of_gradients
from .._compression import name_of
from .._periodic import Exchange, Exchanging, Mean, of_this_rank
from ..objects import allgather_object
from ..process_sets import ProcessSet, global_process_set
from ..types import Average
from ._states import in_host_memory, with_tensors
from ._wrapping import Closure, NamedParameters, Wrapped, described, parameters_of, refuse_wrapped, wrapped
from .background import allreduce_async, grouped_allreduce_async, grouped_allreduce_async_
from .compression import Compression, Compressor

Tensors = list[torch.Tensor]


def mean_of(tensors: Sequence[torch.Tensor], name: str, process_set: ProcessSet = global_process_set,
            in_place: bool = False, compression: type[Compressor] = Compression.none) -> Mean:
    """Starts the average of tensors, on one device, over the ranks of a set.

    The tensors must not be changed until wait() returns. in_place: the tensors become the averages.
    """
    present = torch.ones(1, device="cpu")  # wait() reads it: on a GPU, the CPU would wait for all work before
    reduce = grouped_allreduce_async_ if in_place else grouped_allreduce_async
    sent = [compression.compress(tensor.detach()) for tensor in tensors]
    # By itself, so that no compression rounds it.
    present_handle = allreduce_async(present, name=f"{name}.present", op=Average, process_set=process_set)
    with of_gradients():
        handle = reduce([tensor for tensor, _ in sent], name=name, op=Average, process_set=process_set,
                        compression=compression)
    return Mean(handle, present_handle, process_set.size(),
                lambda means: [compression.decompress(mean, context) for mean, (_, context) in zip(means, sent)])


class PeriodicOptimizer(Exchanging, Wrapped):
    """The base class of a method with local steps, before the class of the wrapped optimizer."""

    _compression: type[Compressor]
    _tensors: Tensors  # those that need gradients, in the order of their adoption
    _known: set[int]  # their id()

    # ---- Steps ------------------------------------------------------------------------------------

    def step(self, closure: Closure = None, **arguments: Any) -> Any:
        """Takes the optimizer's step with this rank's gradients. At the end of a period, exchanges with other ranks.

        Errors: those of hvd.errors, at the end of a period.
        """
        self._adopt()
        result = super().step(closure, **arguments)
        if self._schedule.advance():
            self._end_period()
        return result

    # torch's Optimizer would wrap this step() for profiling and step hooks; the step() called here is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        """Ends the period early, on all ranks: afterwards all have the same parameters. A collective.

        For the end of the training, before an evaluation or a checkpoint of the model alone. First applies an exchange
        that is in flight, then makes another one with all ranks and waits for it.
        """
        self._adopt()
        self._end_early()

    def _copies(self) -> Tensors:
        return [tensor.detach().clone() for tensor in self._tensors]

    @torch.no_grad()
    def _begin(self, exchange: Optional[int], start: Tensors) -> Optional[Exchange]:
        return super()._begin(exchange, start)

    @torch.no_grad()
    def _change(self, start: Tensors, means: Tensors) -> None:
        super()._change(start, means)

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

        Training changes its tensors, as those of torch's state_dict(): save or copy them before.
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
        ranks = allgather_object(with_tensors(own, lambda tensor: tensor.detach().cpu()), f"{self._name}.state")
        return {**ranks[0]["optimizer"], "hvd": {**in_host_memory(self._method_state()), "ranks": ranks}}

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
        self._check_saved(saved, self._parameter_count())
        own = (of_this_rank(saved["ranks"]) if "ranks" in saved
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
    sent = {"compression": name_of(compression)}
    number = schedule.agree(kind.METHOD, {"the optimizer's class": type(optimizer).__name__, **sent, **compared},
                            described(optimizer, named), problem)
    return wrapped(kind, optimizer, _schedule=schedule.Period(every), _background=bool(background),
                   _compression=compression,
                   _settings={"method": kind.METHOD, **compared}, _name=f"{kind.METHOD}.{number}", _tensors=[],
                   _known=set(), _exchange=None, **own)
