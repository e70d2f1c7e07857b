"""LocalSGD, DiLoCo and Gossip for Keras: steps of the rank alone, and an exchange of parameters every few steps.

In a tf.function an exchange is one operation of Python, which runs on a thread of TensorFlow and waits there for other
ranks. Everything else runs on the program's thread. Errors are those of _methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

import hvd.numpy as hvn

from .. import _collectives, job, schedule
from .._collectives import Handle, options, wait_for_all
from .._compression import name_of, wire_of
from .._periodic import Averaging, Exchange, Exchanging, Mean, OuterSteps, Tensors, of_this_rank
from ..objects import allgather_object
from ..process_sets import ProcessSet, find_or_add, global_process_set, id_of
from ..types import Average
from ._methods import Method, changed, plain_of, problem_of_state, refuse_tensorflow_1, variables_of
from .collectives import Gradient
from .compression import Compression, Compressor, NoneCompressor
from .gradients import Reduction
from .optimizer import state_of


def LocalSGD(optimizer: Any, every: int, background: bool = False,
             compression: type[Compressor] = Compression.none) -> Any:
    """Returns the optimizer itself, changed so that it averages the weights of all ranks after every `every` steps.

    S. U. Stich, "Local SGD Converges Fast and Communicates Little", arXiv:1805.09767. Ranks send 1/every of the bytes
    of a DistributedOptimizer. The optimizer's state (momentum, ...) stays the rank's own.

    optimizer: one of Keras. A collective: all ranks call it with the same arguments.
    every: steps of a period, 1 or more. With 1 (and without background) it is DistributedOptimizer, bit for bit.
    background: the average of a period is computed while the next period trains, and applied at its end: the rank's
    weights become that average plus its own changes since. S. Shen et al., "Faster Distributed Deep Net Training:
    Computation and Communication Decoupled Stochastic Gradient Descent", arXiv:1906.12043.
    compression: the form in which the weights (with every=1 the gradients) are sent, one of hvd.Compression. It rounds
    the weights; prefer Compression.wire_fp16, or DiLoCo, which sends changes. synchronize() sends them as they are.

    The optimizer gets three methods. synchronize(), on all ranks: gives them the average of all weights; call it at the
    end of the training and before an evaluation. full_state_dict(), on all ranks: returns the state of all ranks, with
    their weights, for hvd's checkpoints. load_state_dict(state, model.trainable_variables): continues within a period.

    Waiting: at the end of a period a rank waits until all have ended it; with background, until all have ended the one
    before. A rank in hvd.join() is not waited for, and the average is that of the others. Weights that are not
    trainable, as those of BatchNormalization, are not averaged. The first step compares the weights of all ranks.

    Errors: on all ranks, MismatchError if settings or weights differ, InvalidArgumentError, a ValueError, for an
    invalid `every`.
    """
    return _changed(_LocalSGD(), optimizer, every, background, compression)


def DiLoCo(optimizer: Any, every: int = 32, outer_rate: float = 0.7, outer_momentum: float = 0.9,
           background: bool = False, compression: type[Compressor] = Compression.none) -> Any:
    """Returns the optimizer itself, changed to be the inner optimizer of DiLoCo.

    A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv:2311.08105. Each
    rank takes `every` steps. Then an outer optimizer with Nesterov momentum takes a step with the average of the ranks'
    changes, and all ranks continue from its result.

    outer_rate, outer_momentum: of the outer optimizer; the defaults are the paper's. With 1 and 0 it is LocalSGD. In
    the background, where the outer step is one period late, use smaller ones if the loss rises (S. Kale et al.,
    arXiv:2502.12996).

    The first step gives all ranks rank 0's weights. All else is as for LocalSGD.
    """
    return _changed(_DiLoCo(outer_rate, outer_momentum), optimizer, every, background, compression)


def Gossip(optimizer: Any, every: int = 1, background: bool = False) -> Any:
    """Returns the optimizer itself, changed so that it averages the weights with one other rank after `every` steps.

    The partner's distance is 1, 2, 4, ... in turn: X. Lian et al., arXiv:1710.06952; B. Ying et al., arXiv:2110.13363.
    If the number of ranks is no power of two, some ranks pause in each exchange. The ranks' weights stay different
    until synchronize(). A rank waits for its partner only. All else is as for LocalSGD.
    """
    optimizer = _changed(_Gossip(), optimizer, every, background, Compression.none)
    state_of(optimizer).make_pairs()
    return optimizer


class _LocalSteps(Method, Exchanging):
    """A method with local steps. During an exchange `_tensors` are copies of the variables' values."""

    def __init__(self, **settings: Any) -> None:
        self._settings = {"method": self.METHOD, **settings}
        self._tensors = []
        self._exchange = None

    def _problem(self) -> str:
        """Returns what is wrong with the method's own settings."""
        return ""

    def agree(self, optimizer: Any, every: Any, background: bool, compression: Any) -> None:
        """Compares the settings of all ranks. A collective."""
        problem = self._problem() or schedule.problem_of_every(every)
        self._settings.update(every=every, background=bool(background))
        number = schedule.agree(self.METHOD, {"the optimizer's class": type(optimizer).__name__,
                                              "compression": name_of(compression), **self._settings}, [], problem)
        self._schedule = schedule.Period(every)
        self._background = bool(background)
        self._compression = compression
        self._name = f"{self.METHOD}.{number}"

    # ---- Steps ------------------------------------------------------------------------------------

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        """Calls apply(gradients), the optimizer's own step, and exchanges if that ends a period."""
        self._check(optimizer, variables)
        self._before_step()
        result = apply(list(gradients))
        self._when(self._schedule.advance, self._end_period)
        return result

    def _before_step(self) -> None:
        """Called before a step of the optimizer."""

    def _copies(self) -> Tensors:
        return [tensor.copy() for tensor in self._tensors]

    def synchronize(self) -> None:
        self._now(self._end_early)

    # ---- Saving and loading -----------------------------------------------------------------------

    def full_state_dict(self, optimizer: Any) -> dict[str, Any]:
        variables = self._known_variables()
        own = {"parameters": [variable.numpy() for variable in variables],
               "optimizer": [plain_of(variable).numpy() for variable in variables_of(optimizer)], **self._in_flight()}
        return {**self._settings, "parameters": len(variables), **self._schedule.state_dict(), **self._shared(),
                "ranks": allgather_object(own, f"{self._name}.state")}

    def load_state_dict(self, optimizer: Any, state: dict[str, Any], variables: Sequence[Any]) -> None:
        self._adopt(variables)
        known = self._known_variables()
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
            optimizer.build(list(variables))
        own = of_this_rank(state["ranks"]) if "ranks" in state else {"optimizer": []}
        self._tensors = [variable.numpy() for variable in known]
        self._check_saved(state, len(known))
        self._tensors = []
        options = variables_of(optimizer)
        problem = problem_of_state(options, own["optimizer"])
        if problem:
            raise ValueError(f"hvd: {self.METHOD}: {problem}")
        for variable, value in zip([*known, *options], [*own["parameters"], *own["optimizer"]]):
            plain_of(variable).assign(value)
        self._schedule.load_state_dict(state)
        self._load_shared(state)
        means = own["mean"]
        self._exchange = None if means is None else Exchange(own["start"], lambda: means)

    def _shared(self) -> dict[str, Any]:
        """Returns the further state of the method, which is the same on all ranks."""
        return {}

    def _load_shared(self, state: dict[str, Any]) -> None:
        """Loads what _shared() has returned."""


class _LocalSGD(_LocalSteps, Averaging):
    METHOD = "LocalSGD"

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        if self._schedule.every > 1 or self._background:
            return super().apply(optimizer, gradients, variables, apply)
        self._check(optimizer, variables)
        reduction = Reduction(f"{self._name}.gradients", Average, self._compression)
        return apply(reduction.reduce(gradients, variables))

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Mean:
        if exchange is None:
            return _mean_of(tensors, f"{self._name}.all")
        return _mean_of(tensors, self._name, compression=self._compression)


class _Gossip(_LocalSteps, Averaging):
    METHOD = "Gossip"

    def make_pairs(self) -> None:
        """Makes the process sets of all pairs. A collective."""
        self._sets = {pair: find_or_add(pair) for pair in schedule.pairs(job.size())}

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Optional[Mean]:
        if exchange is None:
            return _mean_of(tensors, f"{self._name}.all")
        own = job.rank()
        other = schedule.partner(own, job.size(), exchange)
        return None if other is None else _mean_of(tensors, self._name, self._sets[min(own, other), max(own, other)])


class _DiLoCo(_LocalSteps, OuterSteps):
    METHOD = "DiLoCo"

    def __init__(self, rate: float, momentum: float) -> None:
        super().__init__(outer_rate=rate, outer_momentum=momentum)
        self._rate = rate
        self._momentum = momentum
        self._base = []
        self._velocity: Tensors = []

    def _problem(self) -> str:
        if not (self._rate > 0 and np.isfinite(self._rate)):
            return f"outer_rate is {self._rate}, but must be more than 0"
        if not 0 <= self._momentum < 1:
            return f"outer_momentum is {self._momentum}, but must be 0 to below 1"
        return ""

    def _before_step(self) -> None:
        if not self._base:
            self._when(lambda: not self._base, self._begin_as_rank_0)

    def _begin_as_rank_0(self) -> None:
        for index, tensor in enumerate(self._tensors):
            hvn.broadcast_(tensor, 0, f"{self._name}.begin.{index}")
        self._base = self._copies()
        self._velocity = [np.zeros_like(base) for base in self._base]

    def _mean(self, tensors: Tensors, exchange: Optional[int]) -> Mean:
        return _mean_of(tensors, self._name, compression=self._compression)

    def _take_outer_step(self, means: Tensors) -> None:
        for base, velocity, mean in zip(self._base, self._velocity, means):
            velocity *= self._momentum
            velocity += mean
            base -= self._rate * (mean + self._momentum * velocity)

    def _shared(self) -> dict[str, Any]:
        return {"base": [base.copy() for base in self._base],  # training changes these in place
                "velocity": [velocity.copy() for velocity in self._velocity]}

    def _load_shared(self, state: dict[str, Any]) -> None:
        self._base = [np.array(value) for value in state["base"]]
        self._velocity = [np.array(value) for value in state["velocity"]]


def _changed(method: _LocalSteps, optimizer: Any, every: Any, background: bool, compression: Any) -> Any:
    refuse_tensorflow_1(method.METHOD, optimizer)
    method.agree(optimizer, every, background, compression)
    return changed(method, optimizer)


def _mean_of(arrays: Tensors, name: str, process_set: ProcessSet = global_process_set,
             compression: type[Compressor] = Compression.none) -> Mean:
    """Starts the average of the arrays, into new ones. They must not be changed until wait() returns."""
    # By itself, so that no compression rounds it.
    present = hvn.allreduce_async(np.ones(1, np.float32), f"{name}.present", Average, process_set=process_set)
    sent, contexts = _compressed(arrays, compression)
    results = [np.empty_like(array) for array in sent]
    kinds: dict[str, list[int]] = {}
    for index, array in enumerate(sent):
        kinds.setdefault(array.dtype.name, []).append(index)
    handles = []
    for kind, chosen in kinds.items():
        with _collectives.of_gradients():
            number = _collectives.grouped_allreduce(
                [sent[index].ctypes.data for index in chosen], [results[index].ctypes.data for index in chosen],
                [sent[index].size for index in chosen], hvn.data_type(sent[chosen[0]]), Average,
                options(f"{name}.{kind}", id_of(process_set), compression=wire_of(compression)))
        handles.append(Handle(number, lambda: None, (sent, results)))
    return Mean(_Arrays(handles, results), present, process_set.size(),
                lambda means: _decompressed(means, contexts, compression))


def _compressed(arrays: Tensors, compression: type[Compressor]) -> tuple[Tensors, list[Any]]:
    """Returns what is sent of the arrays, and the contexts for _decompressed(). A compression is of tensors."""
    if compression.compress is NoneCompressor.compress:
        return arrays, []
    with tf.device("/CPU:0"):
        pairs = [compression.compress(tf.convert_to_tensor(array)) for array in arrays]
    return [np.ascontiguousarray(tensor.numpy()) for tensor, _ in pairs], [context for _, context in pairs]


def _decompressed(arrays: Tensors, contexts: list[Any], compression: type[Compressor]) -> Tensors:
    if compression.compress is NoneCompressor.compress:
        return arrays
    with tf.device("/CPU:0"):
        return [np.array(compression.decompress(tf.convert_to_tensor(array), context))
                for array, context in zip(arrays, contexts)]


class _Arrays:
    """The handle of several collectives whose results are in `arrays`."""

    def __init__(self, handles: Sequence[Handle[None]], arrays: Tensors) -> None:
        self._handles = handles
        self._arrays = arrays

    def wait(self) -> Tensors:
        wait_for_all(self._handles)
        return self._arrays
