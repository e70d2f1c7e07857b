"""Horovod's environment variables that libhvd does not read itself.

Rank 0 warns, once per process, of variables that would change results, times or output in Horovod but have no effect.
"""

from __future__ import annotations

import os
import warnings

# Values that mean "not set", as Horovod reads a flag. Its horovod.run() sets "(None,)" for arguments not given.
_UNSET = ("", "0", "false", "(none,)")

_ENGINE = "it tunes an engine that hvd does not have"
_AUTOTUNE = "hvd searches in its own way"
_TOGETHER = "hvd brings the ranks together itself"
_BINDING = "hvdrun --bind-to and --cpus-per-rank say where ranks run"

# The name after HOROVOD_, or its beginning and a *, and the reason why the variable has no effect.
_WITHOUT_EFFECT = {
    "ADASUM_MPI_CHUNK_SIZE": "hvd's Adasum goes in the steps of other allreduces",
    "AUTOTUNE_BAYES_OPT_MAX_SAMPLES": _AUTOTUNE,
    "AUTOTUNE_GAUSSIAN_PROCESS_NOISE": _AUTOTUNE,
    "AUTOTUNE_STEPS_PER_SAMPLE": _AUTOTUNE,
    "AUTOTUNE_WARMUP_SAMPLES": _AUTOTUNE,
    "BATCH_D2D_MEMCOPIES": _ENGINE,
    "CCL_*": "hvd does not use oneCCL",
    "CONTROLLER": _TOGETHER,
    "CPU_OPERATIONS": "hvd has collectives of its own between CPUs; HVD_TRANSPORT chooses what they go over",
    "CYCLE_TIME": "a collective begins when all ranks have submitted it",
    "DISABLE_GROUP_FUSION": _ENGINE,
    "ELASTIC*": "hvdrun --min-np and --reset-timeout take its place",
    "ENABLE_ASYNC_COMPLETION": "collectives on GPUs are ordered with the stream in any case",
    "ENABLE_XLA_OPS": "no collective of hvd is compiled by XLA",
    "GLOO_TIMEOUT_SECONDS": "hvd does not use Gloo; HVD_START_TIMEOUT is the time to wait for other ranks",
    "HIERARCHICAL_ALLGATHER": _ENGINE,
    "HIERARCHICAL_ALLREDUCE": "between hosts hvd reduces in each host first, in any case",
    "MPI_THREADS_DISABLE": "MPI carries data with HVD_TRANSPORT=mpi only, and then from several threads",
    "NUM_NCCL_STREAMS": _ENGINE,
    "START_TIMEOUT": "HVD_START_TIMEOUT is the time to wait for other ranks",
    "THREAD_AFFINITY": _BINDING,
    "TORUS_ALLREDUCE": _ENGINE,
}

_LOUD = ("trace", "debug", "info")


def _reason(name: str) -> str | None:
    """Returns why the variable has no effect; None if it has one, or is not Horovod's."""
    for known, reason in _WITHOUT_EFFECT.items():
        if name == known or (known.endswith("*") and name.startswith(known[:-1])):
            return reason
    return None


def without_effect() -> dict[str, str]:
    """Returns the variables that are set and have no effect: by name, the reason."""
    found = {}
    for name, value in sorted(os.environ.items()):
        if name.startswith("HOROVOD_") and value.lower() not in _UNSET:
            if reason := _reason(name[len("HOROVOD_"):]):
                found[name] = reason
    return found


def _is_rank0() -> bool:
    """Returns whether this is rank 0, from variables of the launchers, because hvd.init() comes later."""
    for name in ("HVD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK"):
        if value := os.environ.get(name):
            return value == "0"
    return True


def apply_environment() -> None:
    """Sets HVD_VERBOSE=1 for HOROVOD_LOG_LEVEL=info or below, and warns of each variable that has no effect."""
    if os.environ.get("HOROVOD_LOG_LEVEL", "").lower() in _LOUD:
        os.environ.setdefault("HVD_VERBOSE", "1")
    if _is_rank0():
        for name, reason in without_effect().items():
            warnings.warn(f"{name} has no effect: {reason}", stacklevel=3)
