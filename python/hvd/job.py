"""Joining the job and leaving it, and where in it this process is."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
from collections.abc import Sequence
from typing import Any, Optional

from . import _collectives, _library, errors
from . import process_sets as _process_sets
from ._library import InitOptions, RankList, check, lib

_pid: Optional[int] = None  # of the process that has called init()


def init(comm: Optional[Sequence[int]] = None, process_sets: Any = None) -> None:
    """Joins the job: returns when all ranks have called it. Does nothing when that was done already.

    comm: the ranks that start together, counted from 0 in this order from then on; None or []: all. (Horovod's MPI
    communicators are no way to say it: NotImplementedError.)
    process_sets: a list of hvd.ProcessSet, the same on all ranks; or "dynamic", which is always so here:
    hvd.add_process_set() works later in any case.

    Errors: TimeoutError when the others do not come within HVD_START_TIMEOUT (120) seconds; EnvironmentVariableError.
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
    """Leaves the job. The others are told when they wait for this rank. Does nothing outside of it."""
    _process_sets.forget_all()
    if is_initialized():
        check(lib.hvd_shutdown())
    _collectives.forget_all()


def _shutdown_at_exit() -> None:
    # Here, as what is in flight uses memory of frameworks that end next. A fork's child has left nothing.
    if _pid == os.getpid():
        with contextlib.suppress(errors.Error):
            shutdown()


atexit.register(_shutdown_at_exit)


def report_failure(text: str) -> bool:
    """Tells hvdrun why this rank is about to end (hvd.__init__ does so with the traceback of an uncaught exception).
    False: nobody listens, the caller prints it. Also before init()."""
    return lib.hvd_report_failure(text.encode()) == 0


def is_initialized() -> bool:
    return lib.hvd_initialized() == 1


def rank() -> int:
    """0 to size() - 1. NotInitializedError before init(); so do all below."""
    return _library.number(lib.hvd_rank())


def size() -> int:
    """How many ranks have started together."""
    return _library.number(lib.hvd_size())


def local_rank() -> int:
    """The rank among those of this host: which GPU to take."""
    return _library.number(lib.hvd_local_rank())


def local_size() -> int:
    """Ranks of this host."""
    return _library.number(lib.hvd_local_size())


def cross_rank() -> int:
    """The rank among those with this local rank, one a host."""
    return _library.number(lib.hvd_cross_rank())


def cross_size() -> int:
    """How many these are."""
    return _library.number(lib.hvd_cross_size())


def node_rank() -> int:
    """Index of this host."""
    return _library.number(lib.hvd_node_rank())


def node_count() -> int:
    """Hosts."""
    return _library.number(lib.hvd_node_count())


def restart_count() -> int:
    """How often the job was started before, by hvdrun, torchrun and SLURM's requeue together."""
    return _library.number(lib.hvd_restart_count())


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks."""
    return _library.number(lib.hvd_is_homogeneous()) == 1


def version() -> str:
    """libhvd's."""
    return lib.hvd_version().decode()
