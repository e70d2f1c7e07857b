"""Horovod's environment variables: libhvd reads some itself; here are the others.

What would change a result, a time or what is printed, and does not, is said by rank 0, once a process.
"""

from __future__ import annotations

import os
import warnings

from ._modules import NO_ELASTIC

# As Horovod reads a flag; horovod.run() sets "(None,)" for what was not given.
_UNSET = ("", "0", "false", "(none,)")

_ENGINE = "it tunes an engine that hvd does not have"
_TOGETHER = "hvd brings the ranks together itself"
_BINDING = "hvdrun --bind-to and --cpus-per-rank say where ranks run"

# The rest of the name, or its beginning with a *; and why nothing comes of it.
_WITHOUT_EFFECT = {
    "ADASUM_MPI_CHUNK_SIZE": "hvd's Adasum goes in the steps of other allreduces",
    "AUTOTUNE*": _ENGINE,
    "BATCH_D2D_MEMCOPIES": _ENGINE,
    "CCL_*": "hvd does not use oneCCL",
    "CONTROLLER": _TOGETHER,
    "CPU_OPERATIONS": "hvd has collectives of its own between CPUs; HVD_TRANSPORT chooses what they go over",
    "CYCLE_TIME": "there is no cycle: a collective begins when the ranks have submitted it",
    "DISABLE_GROUP_FUSION": _ENGINE,
    "ELASTIC*": NO_ELASTIC,
    "ENABLE_ASYNC_COMPLETION": "collectives on GPUs are ordered with the stream in any case",
    "ENABLE_XLA_OPS": "no collective of hvd is compiled by XLA",
    "GLOO_TIMEOUT_SECONDS": "hvd does not use Gloo; HVD_START_TIMEOUT is the time to wait for other ranks",
    "HIERARCHICAL_ALLGATHER": _ENGINE,
    "HIERARCHICAL_ALLREDUCE": "between hosts hvd reduces in each host first, in any case",
    "MPI_THREADS_DISABLE": "MPI carries data with HVD_TRANSPORT=mpi only, and then from several threads",
    "NUM_NCCL_STREAMS": _ENGINE,
    "START_TIMEOUT": "HVD_START_TIMEOUT is the time to wait for other ranks",
    "THREAD_AFFINITY": _BINDING,
    "TIMELINE_MARK_CYCLES": "there is no cycle to mark",
    "TORUS_ALLREDUCE": _ENGINE,
}

_LOUD = ("trace", "debug", "info")


def _reason(name: str) -> str | None:
    """Why the variable has no effect; None when it has one, or is none of Horovod's."""
    for known, reason in _WITHOUT_EFFECT.items():
        if name == known or (known.endswith("*") and name.startswith(known[:-1])):
            return reason
    return None


def without_effect() -> dict[str, str]:
    """By name the variables that are set and have no effect, each with its reason."""
    found = {}
    for name, value in sorted(os.environ.items()):
        if name.startswith("HOROVOD_") and value.lower() not in _UNSET:
            if reason := _reason(name[len("HOROVOD_"):]):
                found[name] = reason
    return found


def _speaks() -> bool:
    """Whether this is rank 0, by what launchers set: hvd.init() comes later."""
    for name in ("HVD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK"):
        if value := os.environ.get(name):
            return value == "0"
    return True


def heed() -> None:
    """HOROVOD_LOG_LEVEL of info or below becomes HVD_VERBOSE=1; of what has no effect, a warning each."""
    if os.environ.get("HOROVOD_LOG_LEVEL", "").lower() in _LOUD:
        os.environ.setdefault("HVD_VERBOSE", "1")
    if _speaks():
        for name, reason in without_effect().items():
            warnings.warn(f"{name} has no effect: {reason}", stacklevel=3)
