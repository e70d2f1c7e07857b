"""DistributedOptimizer(shard=True) for Keras 3: each rank keeps the optimizer's state of its part of the weights only.

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv:1910.02054, stage
1. The gradients of all weights are one flat tensor. A reducescatter averages it and gives each rank its shard; an inner
optimizer of the same class, whose only weight is the shard, makes the step; an allgather brings the weights to all
ranks. A shard may begin and end within a weight.

Runs on the program's thread, or as operations of a tf.function. Errors are those of _methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.numpy as hvn

from .. import errors, job, schedule
from .._collectives import share_of_rows
from ..process_sets import global_process_set
from ..types import Average, ReduceOp
from . import _requests
from ._calls import name_of, of_gradients, run
from ._methods import Method, changed, plain_of, problem_of_state, refuse_tensorflow_1
from .collectives import Gradient, allgather

# Optimizers of Keras that treat each element of the weights by itself.
_ELEMENTWISE = ("SGD", "Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Ftrl", "Lion")
# Settings of an optimizer that concern whole weights, or several steps.
_OF_WHOLE_WEIGHTS = ("clipnorm", "global_clipnorm", "use_ema", "gradient_accumulation_steps", "loss_scale_factor")


def sharded(optimizer: Any, op: ReduceOp = Average) -> Any:
    """Returns the optimizer itself, changed so that each rank has the state of its shard only. A collective."""
    refuse_tensorflow_1(Sharded.METHOD, optimizer)
    base: Any = type(optimizer)
    method = Sharded(optimizer, op)

    def build(self: Any, variables: Sequence[Any]) -> None:
        """Makes no state: that is the inner optimizer's."""
        if not self.built:
            base.build(self, [])
            vars(self)["_trainable_variables"] = list(variables)  # otherwise Keras takes them for its state

    return changed(method, optimizer, {"build": build})


def _problem_of(optimizer: Any) -> str:
    """Returns why this optimizer cannot be sharded; "" if it can."""
    kind = type(optimizer)
    if not hasattr(optimizer, "stateless_apply"):
        return "needs an optimizer of Keras 3"
    if not any(base.__name__ in _ELEMENTWISE and base.__module__.startswith("keras.") for base in kind.__mro__):
        return f"a {kind.__name__} is not known to treat each element by itself, and cannot be sharded"
    if optimizer.built:
        return "the optimizer has state already; make it distributed before its first step"
    given = [name for name in _OF_WHOLE_WEIGHTS if getattr(optimizer, name, None)]
    return f"{given[0]} is not possible with an optimizer that is sharded" if given else ""


class Sharded(Method):
    METHOD = "DistributedOptimizer(shard=True)"

    def __init__(self, optimizer: Any, op: ReduceOp) -> None:
        """A collective: all ranks compare their settings."""
        self._op = op
        settings = {"the optimizer's class": type(optimizer).__name__, "op": op.name}
        self._name = f"shard.{schedule.agree(self.METHOD, settings, [], _problem_of(optimizer))}"
        self._inner = type(optimizer).from_config(optimizer.get_config())
        self._sizes: list[int] = []  # of the weights
        self._shard: Any = None      # a variable of Keras: this rank's part of the flat weights

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        pairs = [(gradient, variable) for gradient, variable in zip(gradients, variables) if gradient is not None]
        if any(isinstance(gradient, tf.IndexedSlices) for gradient, _ in pairs):
            raise ValueError("hvd: the gradient of an embedding is sparse, which shard=True does not take; convert it "
                             "with tf.convert_to_tensor()")
        if any(getattr(optimizer, f"_exclude_from_weight_decay{kind}", None) for kind in ("", "_pattern")):
            raise errors.UnsupportedError("hvd: exclude_from_weight_decay() has no effect on an optimizer that is sharded")
        self._check(optimizer, [variable for _, variable in pairs])
        flat = tf.concat([tf.reshape(gradient, [-1]) for gradient, _ in pairs], 0)
        name = name_of(f"{self._name}.gradients", "reducescatter", flat)
        own = run([of_gradients(_requests.reducescatter(flat, name, self._op, 1.0, 1.0, global_process_set))])[0][0]
        self._shard.assign(self._own_part(self._flat_weights()))
        self._inner._learning_rate = optimizer._learning_rate
        self._inner.apply([own], [self._shard])
        self._assign(allgather(tf.convert_to_tensor(self._shard), name=f"{self._name}.weights"))
        for _, variable in pairs:
            if getattr(variable, "constraint", None) is not None:
                variable.assign(variable.constraint(variable))
        return optimizer.iterations.assign_add(1)

    def _adopt(self, variables: Sequence[Any]) -> None:
        kinds = sorted({plain_of(variable).dtype.name for variable in variables})
        if len(kinds) > 1:
            raise errors.UnsupportedError(f"hvd: {self.METHOD}: the weights have several types, {' and '.join(kinds)}")
        super()._adopt(variables)
        if self._shard is not None:
            return
        self._sizes = [int(np.prod(variable.shape)) for variable in self._known_variables()]
        rank, ranks = job.rank(), job.size()
        total = sum(self._sizes)
        self._begin = sum(share_of_rows(total, other, ranks) for other in range(rank))
        self._end = self._begin + share_of_rows(total, rank, ranks)
        with tf.init_scope():
            self._shard = tf.keras.Variable(np.zeros(self._end - self._begin, kinds[0]), dtype=kinds[0], name="shard")
            self._inner.build([self._shard])

    def _flat_weights(self) -> tf.Tensor:
        return tf.concat([tf.reshape(variable.read_value(), [-1]) for variable in self._known_variables()], 0)

    def _own_part(self, flat: Any) -> Any:
        return flat[self._begin : self._end]

    def _assign(self, flat: tf.Tensor) -> None:
        flat = tf.ensure_shape(flat, [sum(self._sizes)])
        for variable, values in zip(self._known_variables(), tf.split(flat, self._sizes)):
            variable.assign(tf.reshape(values, variable.shape))

    def synchronize(self) -> None:
        """Does nothing: all ranks have the same weights after each step."""

    # ---- Saving and loading -----------------------------------------------------------------------

    def _state(self) -> list[tf.Variable]:
        """Returns the variables of the inner optimizer that are its state."""
        options = {id(self._inner.iterations), id(self._inner._learning_rate)}
        return [plain_of(variable) for variable in self._inner.variables
                if id(variable) not in options and "learning_rate" not in variable.path]

    def full_state_dict(self, optimizer: Any) -> dict[str, Any]:
        variables = self._known_variables()
        state = []
        for index, variable in enumerate(self._state()):
            value, of_shard = variable.numpy(), variable.shape.rank == 1
            state.append((of_shard, hvn.allgather(value, f"{self._name}.state.{index}") if of_shard else value))
        return {"method": self.METHOD, "parameters": [variable.numpy() for variable in variables], "state": state,
                "iterations": int(optimizer.iterations.numpy())}

    def load_state_dict(self, optimizer: Any, state: dict[str, Any], variables: Sequence[Any]) -> None:
        self._adopt(variables)
        optimizer.build(list(variables))
        own = self._state()
        problem = problem_of_state(own, state["state"])
        known = self._known_variables()
        if not problem and [value.shape for value in state["parameters"]] != [tuple(each.shape) for each in known]:
            problem = "the state was saved with another model"
        if problem:
            raise ValueError(f"hvd: {self.METHOD}: {problem}")
        for variable, (of_shard, value) in zip(own, state["state"]):
            variable.assign(self._own_part(value) if of_shard else value)
        for variable, value in zip(known, state["parameters"]):
            variable.assign(value)
        optimizer.iterations.assign(state["iterations"])
        self._inner.iterations.assign(state["iterations"])
