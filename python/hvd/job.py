"""init() and shutdown(), and this process's rank and host in the job."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any, Optional

from . import _collectives, _library, errors
from . import process_sets as _process_sets
from ._library import InitOptions, RankList, check, lib

_pid: Optional[int] = None  # of the process that has called init()


def init(comm: Optional[Sequence[int]] = None, process_sets: Any = None) -> None:
    """Joins the job: returns when all ranks have called it. Does nothing if this process has joined already.

    comm: the ranks that start together, renumbered from 0 in this order; None or [] for all. Horovod's MPI
    communicators are not supported (NotImplementedError).
    process_sets: a list of hvd.ProcessSet, the same on all ranks. "dynamic" has no effect, because
    hvd.add_process_set() always works later.

    Errors: TimeoutError if other ranks do not call it within HVD_START_TIMEOUT (120) seconds; EnvironmentVariableError.
    """
    if is_initialized():
        return
    sets = _process_sets.sets_of(process_sets)
    ranks = _ranks(comm)
    lists = [(ctypes.c_int * max(1, len(entry.ranks or [])))(*(entry.ranks or [])) for entry in sets]
    options = InitOptions(
        struct_size=ctypes.sizeof(InitOptions),
        ranks=(ctypes.c_int * len(ranks))(*ranks) if ranks else None,
        rank_count=len(ranks),
        process_sets=(RankList * max(1, len(sets)))(
            *(RankList(ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int)), len(entry.ranks or []))
              for numbers, entry in zip(lists, sets))),
        process_set_count=len(sets),
    )
    check(lib.hvd_init_with(ctypes.byref(options)))
    _process_sets.remember(sets)
    global _pid
    _pid = os.getpid()


def _ranks(comm: Any) -> list[int]:
    if comm is None:
        return []
    if not isinstance(comm, Sequence) or not all(isinstance(rank, int) for rank in comm):
        raise NotImplementedError("hvd.init(comm=...) takes a list of ranks, and no MPI communicator")
    return list(comm)


def shutdown() -> None:
    """Leaves the job. Other ranks that wait for this one then get an error. Does nothing outside of a job."""
    _process_sets.forget_all()
    if is_initialized():
        check(lib.hvd_shutdown())
    _collectives.forget_all()


def _shutdown_at_exit() -> None:
    # At exit, because collectives in flight use memory of frameworks, which end later. Not in a forked child, which is
    # no member of the job.
    if _pid != os.getpid():
        return
    try:
        shutdown()
    except errors.Error as error:  # results on the GPU are lost, and the program believes that it has succeeded
        sys.stdout.flush()
        print(f"hvd: {error}", file=sys.stderr, flush=True)
        os._exit(1)


atexit.register(_shutdown_at_exit)


def report_failure(text: str) -> bool:
    """Reports to hvdrun why this rank is about to end. Also works before init().

    hvd calls it with the traceback of an uncaught exception. Returns False without hvdrun: the caller must print the
    text itself.
    """
    return lib.hvd_report_failure(text.encode()) == 0


def is_initialized() -> bool:
    """Returns whether init() has succeeded and shutdown() was not called since. Works at any time."""
    return lib.hvd_initialized() == 1


def is_root(root_rank: int) -> bool:
    """Returns whether this process gives the value of a broadcast from `root_rank`: also if it is a newcomer, alone yet."""
    return rank() == root_rank or lib.hvd_newcomer() == 1


def rank() -> int:
    """Returns this process's rank, 0 to size() - 1.

    This and the functions below raise NotInitializedError before init().
    """
    return _library.number(lib.hvd_rank())


def size() -> int:
    """Returns the number of ranks that have started together."""
    return _library.number(lib.hvd_size())


def local_rank() -> int:
    """Returns the rank among those of this host. For the GPU to use, see local_device()."""
    return _library.number(lib.hvd_local_rank())


def local_device() -> int:
    """Returns the index of the GPU that this rank uses, for torch.cuda.set_device().

    With hvdrun it is the GPU that hvdrun has chosen, also where a rank sees one GPU only (MIG, --gpu-bind single) or
    ranks share one. With other launchers it is local_rank(). In both cases modulo the number of GPUs that
    CUDA_VISIBLE_DEVICES lists, if that is set. Without GPUs it is a number of no use, and no error.
    """
    return _library.number(lib.hvd_local_device())


def local_size() -> int:
    """Returns the number of ranks on this host."""
    return _library.number(lib.hvd_local_size())


def cross_rank() -> int:
    """Returns the number of this host among those that have a rank with this local rank."""
    return _library.number(lib.hvd_cross_rank())


def cross_size() -> int:
    """Returns the number of hosts that have a rank with this local rank."""
    return _library.number(lib.hvd_cross_size())


def node_rank() -> int:
    """Returns the index of this host."""
    return _library.number(lib.hvd_node_rank())


def node_count() -> int:
    """Returns the number of hosts."""
    return _library.number(lib.hvd_node_count())


def restart_count() -> int:
    """Returns how often the job was started before, by hvdrun, torchrun and SLURM's requeue together."""
    return _library.number(lib.hvd_restart_count())


def is_homogeneous() -> bool:
    """Returns whether every host has the same number of ranks."""
    return _library.number(lib.hvd_is_homogeneous()) == 1


def version() -> str:
    """Returns the version of libhvd."""
    return lib.hvd_version().decode()
