"""Elastic training in TensorFlow (hvdrun --min-np M): run(), TensorFlowState, TensorFlowKerasState, under Horovod's names.

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < steps:
            step(state.step)          # a tf.function with hvd.DistributedGradientTape
            state.step += 1
            state.commit()

    train(state)

For eager mode with or without tf.function, not for a Session. A commit holds the variables' tensors; TensorFlow copies a
variable when it changes next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Optional

import tensorflow as tf

from .. import elastic as _elastic
from .. import errors
from ..elastic import (HorovodInternalError, HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, check_method,
                       generation, is_elastic, is_newcomer, member, newest, reform, run_fn)
from ..job import init, shutdown
from .functions import broadcast_object, broadcast_variables

__all__ = ["HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState", "State",
           "TensorFlowKerasState", "TensorFlowState", "generation", "init", "is_elastic", "is_newcomer", "member", "newest", "reform",
           "run", "run_fn", "shutdown"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Like hvd.elastic.run(). Also takes the exception that a graph raises when a rank is lost for a PeerError."""

    @functools.wraps(func)
    def translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except tf.errors.UnknownError as error:
            if isinstance(error, errors.Error) or "PeerError: " not in error.message:
                raise
            text = error.message
        raise errors.PeerError(text)  # here, so that what the exception refers to is gone

    return _elastic.run(translated)


class TensorFlowState(ObjectState):
    """A state with a list of variables, and further attributes, given by name.

    variables: of TensorFlow or Keras, in the same order on all ranks. session: None; a Session is refused.
    """

    def __init__(self, variables: Optional[Iterable[Any]] = None, session: Any = None, **kwargs: Any) -> None:
        if session is not None or not tf.executing_eagerly():
            raise errors.UnsupportedError("hvd: elastic states are for eager mode and tf.function, not for a Session; "
                                          "use a checkpoint and hvdrun --max-restarts")
        if variables is None:
            raise errors.InvalidArgumentError("hvd: TensorFlowState needs variables: eager programs have no global ones")
        self.variables = list(variables)
        self._saved: list[tf.Tensor] = []
        self._save_variables()
        super().__init__(broadcast_object, **kwargs)

    def _tracked(self) -> list[Any]:
        return self.variables

    def _save_variables(self) -> None:
        self._saved = [tf.identity(tf.convert_to_tensor(variable)) for variable in self._tracked()]

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._tracked(), self._saved):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Gives the variables and attributes of the newest rank to all ranks, and saves them when all have come."""
        broadcast_variables(self._tracked(), newest())
        super().sync()


class TensorFlowKerasState(TensorFlowState):
    """A state with the weights of a Keras model, the state of its optimizer, and further attributes.

    The state of random generators (dropout) is not in it: each rank keeps its own.
    optimizer: that of model.compile() by default. backend: ignored.

    Errors: ValueError for a model that has no weights yet; UnsupportedError for an optimizer with shard=True, of whose
    state each rank has a part only, and with --min-np for LocalSGD, DiLoCo, Gossip and ParameterServer.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", True):
            raise ValueError("hvd: the model has no weights yet: call model.build(input_shape) first")
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self.backend = backend
        _check_method(type(self).__name__, getattr(type(self.optimizer), "_hvd_method", ""))
        _build(self.optimizer, model)
        super().__init__([], **kwargs)

    def _tracked(self) -> list[Any]:
        return [*self.model.weights, *_variables_of(self.optimizer)]


def _check_method(state: str, method: str) -> None:
    check_method(state, method)
    if method in ("LocalSGD", "DiLoCo") and is_elastic():  # their count of steps is not among the variables
        raise errors.UnsupportedError(f"hvd: {state} with {method}, whose own state it does not save; use "
                                      "DistributedOptimizer, or leave out --min-np")


def _build(optimizer: Any, model: Any) -> None:
    """Makes the optimizer's variables now, so that every commit has them all."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(model.trainable_variables)
    elif hasattr(optimizer, "_create_all_weights"):  # of Keras before 2.11
        optimizer._create_all_weights(model.trainable_variables)


def _variables_of(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)
