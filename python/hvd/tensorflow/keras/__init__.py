"""hvd for Keras on TensorFlow: the API of `horovod.tensorflow.keras`, under the same names.

    import hvd.tensorflow.keras as hvd
    hvd.init()
    model.compile(optimizer=hvd.DistributedOptimizer(optimizer), ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Works with Keras 3 and Keras 2. See docs/frameworks/tensorflow.md.
"""

from __future__ import annotations

import typing as _typing
from typing import Any, Optional

import hvd.tensorflow as _hvd
from hvd import _arguments, _everywhere, _names
from hvd._everywhere import *  # noqa: F403
from hvd.tensorflow import (Compression, DiLoCo, Gossip, LocalSGD, ParameterServer, allgather_object, barrier,
                            broadcast_global_variables, broadcast_object, broadcast_variables, ccl_built, cuda_built,
                            ddl_built, gloo_built, gloo_enabled, join, mpi_built, mpi_enabled, mpi_threads_supported,
                            nccl_built, rocm_built)
from hvd.tensorflow.gradients import Groups
from hvd.tensorflow.sharded import sharded
from hvd.tensorflow.sync_batch_norm import SyncBatchNormalization

from . import callbacks, elastic
from .saving import load_model


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = "", device_sparse: str = "",
                         compression: Any = Compression.none, sparse_as_dense: bool = False,
                         gradient_predivide_factor: float = 1.0, op: ReduceOp = Average,
                         backward_passes_per_step: int = 1, average_aggregated_gradients: bool = False,
                         num_groups: int = 0, groups: Groups = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True, shard: bool = False) -> Any:
    """Returns the optimizer itself, changed so that it reduces gradients over the ranks before it applies them.

    Arguments: those of hvd.tensorflow.DistributedOptimizer. ValueError unless op is Average or Sum.

    shard: each of N ranks has 1/N of the optimizer's state, and makes the step for as much of the weights. Losses are
    those without it. For optimizers of Keras 3 that treat each element by itself, with no argument but `op`; a
    collective. The optimizer gets two methods. full_state_dict(), on all ranks: returns the whole state and the
    weights, for a checkpoint. load_state_dict(state, model.trainable_variables): loads it, with any number of ranks.
    A model that Keras saves has no state of such an optimizer.
    """
    if op not in (Average, Sum):
        raise ValueError(f"hvd: DistributedOptimizer(op={op!r}): Average and Sum are what gradients can be reduced by")
    if shard:
        given = [device_dense, device_sparse, compression is not Compression.none, sparse_as_dense,
                 gradient_predivide_factor != 1, backward_passes_per_step != 1, average_aggregated_gradients,
                 num_groups, groups is not None, process_set is not global_process_set]
        if any(given):
            raise errors.UnsupportedError("hvd: DistributedOptimizer(shard=True) takes no other argument but `op`")
        return sharded(optimizer, ReduceOp(op))
    return _hvd.DistributedOptimizer(
        optimizer, name=name, device_dense=device_dense, device_sparse=device_sparse, compression=compression,
        sparse_as_dense=sparse_as_dense, backward_passes_per_step=backward_passes_per_step, op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients, num_groups=num_groups, groups=groups,
        process_set=process_set, scale_local_gradients=scale_local_gradients)


def PartialDistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = "",
                                device_sparse: str = "", compression: Any = Compression.none,
                                sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                                op: ReduceOp = Average, backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False, groups: Groups = None,
                                process_set: ProcessSet = global_process_set, local_layers: Any = None,
                                scale_local_gradients: bool = True) -> Any:
    """Like DistributedOptimizer(), but does not reduce gradients of `local_layers` (a Keras layer or several)."""
    variables = _hvd.gradients.layers_variables(local_layers)
    optimizer = DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
        backward_passes_per_step, average_aggregated_gradients, groups=groups, process_set=process_set,
        scale_local_gradients=scale_local_gradients)
    for variable in variables:
        optimizer.register_local_var(variable)
    return optimizer


def allreduce(value: Any, name: Optional[str] = None, average: Optional[bool] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, op: Optional[ReduceOp] = None,
              compression: Any = Compression.none) -> Any:
    """Reduces the ranks' values (numbers, arrays or tensors). Returns a tensor."""
    return _hvd.allreduce(value, average=average, compression=compression, op=op, prescale_factor=prescale_factor,
                          postscale_factor=postscale_factor, name=name)


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """Concatenates the rows of all ranks, in order of rank."""
    return _hvd.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """Returns the value of `root_rank`."""
    return _hvd.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: ReduceOp = Average) -> Any:
    """Reduces the ranks' values and returns this rank's rows of the result."""
    return _hvd.reducescatter(value, name=name, op=op)


__all__ = [
    "Adasum", "Average", "Compression", "DiLoCo", "DistributedOptimizer", "Error", "Gossip", "LocalSGD", "Max", "Min",
    "ParameterServer", "PartialDistributedOptimizer", "ProcessSet", "Product", "ReduceOp", "Sum",
    "SyncBatchNormalization", "add_process_set", "allgather", "allgather_object", "allreduce", "barrier", "broadcast",
    "broadcast_global_variables", "broadcast_object", "broadcast_variables", "callbacks", "ccl_built", "cross_rank",
    "cross_size", "cuda_built", "ddl_built", "elastic", "errors", "get_process_set_ids_and_ranks", "global_process_set",
    "gloo_built", "gloo_enabled", "init", "is_homogeneous", "is_initialized", "join", "load_model", "local_device",
    "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "process_set_ids",
    "rank", "reducescatter", "remove_process_set", "rocm_built", "shutdown", "size", "start_timeline",
    "stop_timeline",
]

# What is called in a tf.function is that of hvd.tensorflow, which does this itself.
_arguments.guard(globals(), ["DistributedOptimizer", "PartialDistributedOptimizer", "load_model"])
__all__ += _everywhere.__all__

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _names.answers_for(__name__)
