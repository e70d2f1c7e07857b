"""What training methods for optimizers of Keras share: their weights, and changes of these now or when a graph runs.

A method is the state of one optimizer that hvd has changed, as DistributedOptimizer does. In a tf.function a change is one
operation of Python, which runs on a thread of TensorFlow and may wait there for other ranks. All else runs on the
program's thread. Errors are those of hvd.errors in eager mode, and TensorFlow's with the same text in a tf.function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from .. import errors, schedule
from ._calls import Array, as_written, refuse_xla
from .collectives import Gradient
from .optimizer import distribute, refuse_inside_loss_scaling

Arrays = list[Array]


class Method:
    """A training method, as the state of one optimizer. While it changes weights, `_tensors` are copies of these."""

    METHOD: str

    in_minimize = False  # set by the optimizer

    _variables: Optional[list[tf.Variable]] = None  # the parameters; None before the first step
    _checked = False
    _tensors: Arrays

    def computed(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Returns the result of compute_gradients(): the rank's own."""
        return list(gradients)

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        """Makes a step. apply(gradients) is the optimizer's own."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Gives all ranks the same weights. A collective."""
        raise NotImplementedError

    def full_state_dict(self, optimizer: Any) -> dict[str, Any]:
        """Returns the state for a checkpoint. A collective."""
        raise NotImplementedError

    def load_state_dict(self, optimizer: Any, state: dict[str, Any], variables: Sequence[Any]) -> None:
        """Loads a state of full_state_dict() into the variables and the optimizer, on all ranks."""
        raise NotImplementedError

    def _check(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Adopts the variables. Raises the errors of a step that cannot be made."""
        if not self._checked:
            refuse_inside_loss_scaling(optimizer)
            self._checked = True
        refuse_xla()
        self._adopt(variables)

    def _adopt(self, variables: Sequence[Any]) -> None:
        """Takes the variables as the parameters. The first call is a collective."""
        plain = [plain_of(variable) for variable in variables]
        if self._variables is None:
            schedule.agree(self.METHOD, {}, [(str(index), f"{variable.dtype.name} of shape {variable.shape.as_list()}")
                                             for index, variable in enumerate(plain)])
            self._variables = plain
        elif [variable.ref() for variable in self._variables] != [variable.ref() for variable in plain]:
            raise ValueError(f"hvd: {self.METHOD}: the optimizer steps with other weights than before; make another "
                             "one after freezing or adding layers")

    def _when(self, condition: Callable[[], bool], change: Callable[[], None]) -> list[tf.Tensor]:
        """Calls change(), which works on _tensors, if condition() returns true: now, or when the graph runs.

        Returns what later operations of Python depend on: TensorFlow orders these by their inputs only.
        """
        if tf.executing_eagerly():
            if condition():
                self._now(change)
            return []
        variables = self._known_variables()

        def changed() -> tf.Tensor:
            self._assign_in_graph(lambda *values: self._run(change, values), [v.read_value() for v in variables])
            return tf.constant(True)

        met = tf.numpy_function(condition, [], tf.bool)
        met.set_shape(())
        return [tf.cond(met, changed, lambda: tf.constant(False))]

    def _assign_in_graph(self, function: Callable[..., Arrays], inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Assigns the variables the results of function(*inputs), which gets arrays, when the graph runs.

        Returns what operations after the function depend on, as _when().
        """
        variables = self._known_variables()
        results = tf.numpy_function(function, inputs, [variable.dtype for variable in variables])
        for variable, result in zip(variables, results):
            result.set_shape(variable.shape)
            variable.assign(result)
        return results

    def _now(self, change: Callable[[], None]) -> None:
        """Calls change() and gives the variables its result."""
        variables = self._known_variables()
        for variable, value in zip(variables, self._run(change, [variable.numpy() for variable in variables])):
            variable.assign(value)

    def _run(self, change: Callable[[], None], values: Sequence[Array]) -> Arrays:
        self._tensors = [np.array(value) for value in values]
        try:
            change()
            return self._tensors
        finally:
            self._tensors = []

    def _known_variables(self) -> list[tf.Variable]:
        if self._variables is None:
            raise ValueError(f"hvd: {self.METHOD}: the optimizer has made no step, and its weights are not known; call "
                             "load_state_dict(state, model.trainable_variables), or make a step")
        return self._variables


def changed(method: Method, optimizer: Any, own: Optional[dict[str, Any]] = None) -> Any:
    """Returns the optimizer, changed so that it steps by the method. own: further methods of its class."""

    @as_written
    def synchronize(self: Any) -> None:
        """Gives all ranks the same weights. A collective."""
        method.synchronize()

    def full_state_dict(self: Any) -> dict[str, Any]:
        """Returns the weights and the optimizer's state, as arrays of numpy. A collective."""
        return method.full_state_dict(self)

    def load_state_dict(self: Any, state: dict[str, Any], variables: Sequence[Any]) -> None:
        """Loads a state of full_state_dict() on all ranks. variables: model.trainable_variables, which it sets.

        ValueError if the state was saved with other settings or another model.
        """
        method.load_state_dict(self, state, variables)

    return distribute(optimizer, lambda: method, method.METHOD,
                      {"synchronize": synchronize, "full_state_dict": full_state_dict,
                       "load_state_dict": load_state_dict, **(own or {})})


def refuse_tensorflow_1(method: str, optimizer: Any) -> None:
    """Raises UnsupportedError for an optimizer of TensorFlow 1."""
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise errors.UnsupportedError(f"hvd: {method} is for optimizers of Keras, not for those of TensorFlow 1")


def problem_of_state(variables: Sequence[Any], saved: Sequence[Any]) -> str:
    """Returns why saved values are not those of these variables of an optimizer; "" if they are."""
    if len(variables) == len(saved):
        return ""
    return (f"the state was saved with {len(saved)} variables of the optimizer, but this one has {len(variables)}; use an "
            "optimizer of the same class, and make a step with a legacy one before")


def plain_of(variable: Any) -> tf.Variable:
    """Returns the variable of TensorFlow in one of Keras 3."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def variables_of(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)
