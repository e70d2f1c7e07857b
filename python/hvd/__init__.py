"""hvd: training on many GPUs and CPUs at once.

    import hvd.torch as hvd       # or hvd.tensorflow, hvd.tensorflow.keras, hvd.keras, hvd.numpy
    hvd.init()
    torch.cuda.set_device(hvd.local_rank())

Start it with `hvdrun -np 4 python train.py`. What stands in this module is the same for all frameworks. `python -m hvd`
prints what was found on this machine.
"""

from __future__ import annotations

from . import _tracebacks, errors
from ._collectives import Handle
from .errors import Error
from .job import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank, local_size, node_count,
                  node_rank, rank, report_failure, restart_count, shutdown, size, version)
from .objects import allgather_object, broadcast_object
from .process_sets import (ProcessSet, add_process_set, get_process_set_ids_and_ranks, global_process_set,
                           process_set_ids, remove_process_set)
from .types import Adasum, Average, DataType, Max, Min, Product, ReduceOp, Sum

__version__ = version()

_tracebacks.install(report_failure)

__all__ = [
    "Adasum", "Average", "DataType", "Error", "Handle", "Max", "Min", "ProcessSet", "Product", "ReduceOp", "Sum",
    "add_process_set", "allgather_object", "broadcast_object", "cross_rank", "cross_size", "errors",
    "get_process_set_ids_and_ranks", "global_process_set", "init", "is_homogeneous", "is_initialized", "local_rank",
    "local_size", "node_count", "node_rank", "process_set_ids", "rank", "remove_process_set", "report_failure",
    "restart_count", "shutdown", "size", "version",
]
