"""What programs import from horovod.tensorflow.util and .mpi_ops besides what hvd.tensorflow has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import hvd.tensorflow
import tensorflow as tf
from hvd.process_sets import ProcessSet, global_process_set
from hvd.types import ReduceOp, Sum

__all__ = ["refs_to_vars", "vars_to_refs"]


def _executing_eagerly() -> bool:
    """Whether operations run at once, and not in a graph."""
    return tf.executing_eagerly()


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """The function as a tf.function."""
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is called once for the same arguments. Eager and graph mode are different arguments."""
    results: dict[Any, Any] = {}

    def cached(*args: Any, **kwargs: Any) -> Any:
        key = (args, tuple(sorted(kwargs.items())), tf.executing_eagerly())
        if key not in results:
            results[key] = f(*args, **kwargs)
        return results[key]

    return cached


def vars_to_refs(vars: Any) -> Any:
    """References to variables, which can be keys of a dict; of a list or tuple a tuple of them."""
    if isinstance(vars, (list, tuple)):
        return tuple(vars_to_refs(variable) for variable in vars)
    return vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """The variables of vars_to_refs(); of a tuple a list."""
    if isinstance(refs, Sequence):
        return [refs_to_vars(reference) for reference in refs]
    return refs.deref()


def _allreduce(tensor: Any, name: Optional[str] = None, op: ReduceOp = Sum, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, ignore_name_scope: bool = False,
               process_set: ProcessSet = global_process_set) -> Any:
    """hvd.allreduce() of a dense tensor, which adds up unless `op` says otherwise."""
    return hvd.tensorflow.allreduce(tensor, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                    name=name, process_set=process_set, ignore_name_scope=ignore_name_scope)
