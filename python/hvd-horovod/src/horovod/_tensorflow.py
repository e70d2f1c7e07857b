"""Names of horovod.tensorflow.util and horovod.tensorflow.mpi_ops that hvd.tensorflow does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import hvd.tensorflow
import tensorflow as tf
from hvd.process_sets import ProcessSet, global_process_set
from hvd.types import ReduceOp, Sum

__all__ = ["refs_to_vars", "vars_to_refs"]


def _executing_eagerly() -> bool:
    """Returns whether operations run at once, not in a graph."""
    return tf.executing_eagerly()


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """Returns the function as a tf.function."""
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with a cache of results by arguments, separate for eager and graph mode."""
    results: dict[Any, Any] = {}

    def cached(*args: Any, **kwargs: Any) -> Any:
        key = (args, tuple(sorted(kwargs.items())), tf.executing_eagerly())
        if key not in results:
            results[key] = f(*args, **kwargs)
        return results[key]

    return cached


def vars_to_refs(vars: Any) -> Any:
    """Returns references to variables, which can be keys of a dict; for a list or tuple, a tuple of them."""
    if isinstance(vars, (list, tuple)):
        return tuple(vars_to_refs(variable) for variable in vars)
    return vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Returns the variables of references from vars_to_refs(); for a tuple, a list."""
    if isinstance(refs, Sequence):
        return [refs_to_vars(reference) for reference in refs]
    return refs.deref()


def _allreduce(tensor: Any, name: Optional[str] = None, op: ReduceOp = Sum, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, ignore_name_scope: bool = False,
               process_set: ProcessSet = global_process_set) -> Any:
    """Like hvd.allreduce(), for a dense tensor and with Sum as the default operation."""
    return hvd.tensorflow.allreduce(tensor, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                    name=name, process_set=process_set, ignore_name_scope=ignore_name_scope)
