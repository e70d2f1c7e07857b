"""hvd for PyTorch: the API of `horovod.torch`, under the same names.

    import hvd.torch as hvd
    hvd.init()
    torch.cuda.set_device(hvd.local_device())
    loss = hvd.allreduce(loss)
"""

from __future__ import annotations

import typing as _typing

from . import _framework  # noqa: F401 (first: reports a missing PyTorch)
from .._everywhere import *  # noqa: F403
from .. import _arguments, _everywhere, _names, callbacks as callbacks, data as data
from ..capabilities import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, mpi_built, mpi_enabled,
                            mpi_threads_supported, nccl_built, rocm_built)
from ..errors import Error as HorovodInternalError
from . import elastic
from .background import (allgather_async, allreduce_async, allreduce_async_, alltoall_async, broadcast_async,
                         broadcast_async_, grouped_allgather_async, grouped_allreduce_async, grouped_allreduce_async_,
                         grouped_reducescatter_async, reducescatter_async, sparse_allreduce_async)
from .collectives import (allgather, allreduce, allreduce_, alltoall, barrier, broadcast, broadcast_, grouped_allgather,
                          grouped_allreduce, grouped_allreduce_, grouped_reducescatter, join, reducescatter)
from .compression import Compression
from .diloco import DiLoCo
from .functions import broadcast_optimizer_state, broadcast_parameters
from .gossip import Gossip
from .handles import poll, synchronize
from .local_sgd import LocalSGD
from .optimizer import DistributedOptimizer
from .parameter_server import ParameterServer
from .sampler import DistributedSampler
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum", "Average", "Compression", "DiLoCo", "DistributedOptimizer", "DistributedSampler", "Gossip",
    "HorovodInternalError", "LocalSGD", "Max", "Min", "ParameterServer", "ProcessSet", "Product", "Sum",
    "SyncBatchNorm", "add_process_set", "allgather", "allgather_async", "allgather_object", "allreduce", "allreduce_",
    "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_",
    "broadcast_async", "broadcast_async_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters",
    "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "elastic", "global_process_set", "gloo_built",
    "gloo_enabled", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_",
    "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async",
    "init", "is_homogeneous", "is_initialized", "join", "local_device", "local_rank", "local_size", "mpi_built",
    "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "reducescatter", "reducescatter_async",
    "remove_process_set", "rocm_built", "shutdown", "size", "sparse_allreduce_async", "start_timeline",
    "stop_timeline", "synchronize",
]

_arguments.guard(globals(), __all__)
_arguments.guard(vars(elastic), elastic.__all__)
__all__ += _everywhere.__all__

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _names.answers_for(__name__)
