"""The names that hvd, hvd.torch, hvd.tensorflow, hvd.keras and hvd.numpy have alike."""

from __future__ import annotations

from . import _arguments, agree as agree, checkpoint as checkpoint, errors as errors, io as io, rates as rates, slurm as slurm
from . import status as status, timeline as timeline
from ._collectives import Handle, sent_bytes
from .agree import EarlyStopping, agree_stop, average_metrics, watch_signal
from .errors import Error
from .io import on_rank0, on_root, print0, rank_path
from .job import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_device, local_rank, local_size,
                  node_count, node_rank, rank, report_failure, restart_count, shutdown, size, version)
from .launch import RunError, run
from .objects import allgather_object, broadcast_object
from .process_sets import (ProcessSet, add_process_set, get_process_set_ids_and_ranks, global_process_set,
                           process_set_ids, remove_process_set)
from .rates import local_batch, scale_rate, warmup
from .status import add_samples, notice, progress, set_epoch, set_metric, set_step, time_left
from .timeline import span, start_timeline, stop_timeline
from .types import Adasum, Average, DataType, Max, Min, Product, ReduceOp, Sum

__all__ = [
    "Adasum", "Average", "DataType", "EarlyStopping", "Error", "Handle", "Max", "Min", "ProcessSet", "Product",
    "ReduceOp", "RunError", "Sum", "add_process_set", "add_samples", "agree", "agree_stop", "allgather_object",
    "average_metrics", "broadcast_object", "checkpoint", "cross_rank", "cross_size", "errors",
    "get_process_set_ids_and_ranks", "global_process_set", "init", "io", "is_homogeneous", "is_initialized",
    "local_batch", "local_device", "local_rank", "local_size", "node_count", "node_rank", "notice", "on_rank0",
    "on_root", "print0", "process_set_ids", "progress", "rank", "rank_path", "rates", "remove_process_set",
    "report_failure", "restart_count", "run", "scale_rate", "sent_bytes", "set_epoch", "set_metric", "set_step",
    "shutdown", "size", "slurm", "span", "start_timeline", "status", "stop_timeline", "time_left", "timeline",
    "version", "warmup", "watch_signal",
]

_arguments.guard(globals(), __all__, "hvd")
for _module in (checkpoint, io, slurm):
    _arguments.guard(vars(_module))
