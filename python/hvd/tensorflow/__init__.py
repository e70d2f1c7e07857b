"""hvd for TensorFlow: the API of `horovod.tensorflow`, under the same names.

    import hvd.tensorflow as hvd
    hvd.init()
    tape = hvd.DistributedGradientTape(tape)

The collectives work in eager mode and in a tf.function. They use host memory: tensors on a GPU are copied there and
back. XLA cannot compile them. See docs/frameworks/tensorflow.md.
"""

from __future__ import annotations

import typing as _typing
from typing import Any

from . import _framework  # noqa: F401 (first: reports a missing TensorFlow)
from .._everywhere import *  # noqa: F403
from .. import _everywhere, _names
from ..capabilities import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                            mpi_threads_supported, nccl_built, rocm_built)
from . import elastic
from .collectives import (allgather, allreduce, alltoall, barrier, broadcast, broadcast_, grouped_allgather,
                          grouped_allreduce, grouped_reducescatter, join, reducescatter)
from .compression import Compression
from .functions import (BroadcastGlobalVariablesHook, allgather_object,  # type: ignore[assignment]
                        broadcast_global_variables, broadcast_object,
                        broadcast_object_fn, broadcast_variables, local_rank_op, local_size_op,
                        process_set_included_op, rank_op, size_op)
from .gradients import DistributedGradientTape, PartialDistributedGradientTape
from .local_steps import DiLoCo, Gossip, LocalSGD
from .optimizer import DistributedOptimizer
from .parameter_server import ParameterServer

__all__ = [
    "Adasum", "Average", "BroadcastGlobalVariablesHook", "Compression", "DiLoCo", "DistributedGradientTape",
    "DistributedOptimizer", "Error", "Gossip", "LocalSGD", "Max", "Min", "ParameterServer",
    "PartialDistributedGradientTape", "ProcessSet", "Product", "ReduceOp", "Sum", "SyncBatchNormalization",
    "add_process_set", "allgather", "allgather_object", "allreduce", "alltoall", "barrier", "broadcast", "broadcast_",
    "broadcast_global_variables", "broadcast_object", "broadcast_object_fn", "broadcast_variables", "ccl_built",
    "cross_rank", "cross_size", "cuda_built", "ddl_built", "elastic", "errors", "get_process_set_ids_and_ranks",
    "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allreduce",
    "grouped_reducescatter", "init", "is_homogeneous", "is_initialized", "join", "local_device", "local_rank",
    "local_rank_op", "local_size", "local_size_op", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built",
    "process_set_ids", "process_set_included_op", "rank", "rank_op", "reducescatter", "remove_process_set",
    "rocm_built", "shutdown", "size", "size_op", "start_timeline", "stop_timeline",
]
__all__ += _everywhere.__all__

if _typing.TYPE_CHECKING:
    from .sync_batch_norm import SyncBatchNormalization
else:  # a type checker would take every name for known
    _other, __dir__ = _names.answers_for(__name__)

    def __getattr__(name: str) -> Any:
        if name == "SyncBatchNormalization":  # imports Keras, which takes seconds
            from .sync_batch_norm import SyncBatchNormalization
            return SyncBatchNormalization
        if name in ("callbacks", "load_model"):
            raise AttributeError(f"hvd.tensorflow has no {name}: it is in hvd.tensorflow.keras, which has the other functions, "
                                 "too: import hvd.tensorflow.keras as hvd")
        return _other(name)
