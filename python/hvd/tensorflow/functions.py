"""Broadcasts of variables and Python objects, and operations that return rank numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, Optional

import tensorflow as tf

from .. import _library, errors, job, objects
from ..process_sets import ProcessSet, global_process_set
from ._calls import as_written
from .collectives import broadcast_, number_op


@as_written
def broadcast_variables(variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> Optional[tf.Operation]:
    """Assigns to the variables, of TensorFlow or of Keras, their values on `root_rank`.

    All ranks must pass equally many, of the same shapes and types, in the same order. In a graph, returns the operation
    that broadcasts. `inplace` is ignored.
    """
    assigned = broadcast_(list(variables), root_rank, process_set=process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """Returns the operation that broadcasts tf.compat.v1.global_variables(). For graphs of TensorFlow 1."""
    if tf.executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() is for graphs: eager programs know no global variables; "
                           "use hvd.broadcast_variables(model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all global variables at the start of a tf.compat.v1.train.MonitoredTrainingSession."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self._root_rank = root_rank
        self._device = device
        self._operation: Optional[tf.Operation] = None

    def begin(self) -> None:
        if self._operation is None or self._operation.graph is not tf.compat.v1.get_default_graph():
            with tf.device(self._device):
                self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._operation)


@as_written
def broadcast_object(obj: Any, root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Returns the object of `root_rank`, sent as a pickle. Runs at once, also in a graph; `session` is ignored."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """Returns a function that broadcasts its argument as broadcast_object() does."""
    return lambda obj: objects.broadcast_object(obj, root_rank, name or "broadcast_object_fn", process_set)


@as_written
def allgather_object(obj: Any, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> list[Any]:
    """Returns the objects of all ranks, in order of rank."""
    return objects.allgather_object(obj, name, process_set)


def rank_op(name: Optional[str] = None) -> tf.Tensor:
    """Returns an int32 tensor with rank(), which is called when the graph runs. The others below do the same."""
    return number_op(job.rank, name)


def local_rank_op(name: Optional[str] = None) -> tf.Tensor:
    return number_op(job.local_rank, name)


def local_size_op(name: Optional[str] = None) -> tf.Tensor:
    return number_op(job.local_size, name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """Returns the number of ranks of the set."""
    return number_op(lambda: _library.number(_library.lib.hvd_process_set_size(process_set_id)), name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """Returns 1 if this rank is in the set, otherwise 0. As in Horovod, -1 outside of a job, -3 for an unknown set."""
    return number_op(lambda: _included(process_set_id), name)


def _included(process_set_id: int) -> int:
    included = _library.lib.hvd_process_set_included(process_set_id)
    if included >= 0:
        return included
    return -1 if -included == errors.NotInitializedError.status else -3
