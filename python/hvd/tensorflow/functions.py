"""Variables and Python objects from one rank to all, and the number of a rank as an operation."""

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
    """Gives all variables, those of TensorFlow or of Keras, their values on `root_rank`: as many, of the same shapes
    and types, in the same order on all ranks. In a graph: the operation that does. `inplace` changes nothing."""
    assigned = broadcast_(list(variables), root_rank, process_set=process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """For TensorFlow 1's graphs: the operation that broadcasts tf.compat.v1.global_variables()."""
    if tf.executing_eagerly():
        raise RuntimeError("hvd.broadcast_global_variables() is for graphs: eager programs know no global variables; "
                           "use hvd.broadcast_variables(model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """For tf.compat.v1.train.MonitoredTrainingSession: broadcasts all global variables at the start."""

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
    """The object of `root_rank`, pickled. At once, in a graph too: no `session` is needed."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank: int = 0, session: Any = None, name: Optional[str] = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """broadcast_object() of one argument."""
    return lambda obj: objects.broadcast_object(obj, root_rank, name or "broadcast_object_fn", process_set)


@as_written
def allgather_object(obj: Any, session: Any = None, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> list[Any]:
    """The objects of all ranks, in their order."""
    return objects.allgather_object(obj, name, process_set)


def rank_op(name: Optional[str] = None) -> tf.Tensor:
    """rank(), asked when the graph runs; int32, as all of these."""
    return number_op(job.rank, name)


def local_rank_op(name: Optional[str] = None) -> tf.Tensor:
    return number_op(job.local_rank, name)


def local_size_op(name: Optional[str] = None) -> tf.Tensor:
    return number_op(job.local_size, name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """Ranks of the set."""
    return number_op(lambda: _library.number(_library.lib.hvd_process_set_size(process_set_id)), name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """1 where this rank is in the set, else 0; Horovod's negative numbers where there is no such set or no job."""
    return number_op(lambda: _included(process_set_id), name)


def _included(process_set_id: int) -> int:
    included = _library.lib.hvd_process_set_included(process_set_id)
    if included >= 0:
        return included
    return -1 if -included == errors.NotInitializedError.status else -3
