"""Horovod's *_built() and *_enabled(): what libhvd can use on this machine.

libhvd is built against none of these libraries. It opens CUDA, NCCL and its plugin for MPI when a job first needs
them. So "built" means here that the library can be opened now. No function loads one (hvd._find_library).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Optional

from . import _library
from ._find_library import Found, find

_CUDA_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")


def find_cuda_runtime() -> Optional[Found]:
    """Finds the CUDA runtime that libhvd would use. Its version is not read."""
    return find(_names("HVD_CUDA_LIBRARY", *_CUDA_RUNTIMES))


def find_nccl() -> Optional[Found]:
    """Finds the NCCL that libhvd would use, with its version, such as 22809 for 2.28.9."""
    return find(_names("HVD_NCCL_LIBRARY", "libnccl.so.2"), "ncclGetVersion")


def _names(variable: str, *names: str) -> tuple[str, ...]:
    """Returns what the environment variable names, otherwise `names`."""
    chosen = os.environ.get(variable)
    return (chosen,) if chosen else names


def mpi_built() -> bool:
    """Returns whether the plugin exists with which libhvd sends data over Open MPI."""
    beside = Path(_library.path).resolve().parent / "libhvd_mpi.so"
    return Path(os.environ.get("HVD_MPI_LIBRARY") or beside).exists()


def mpi_enabled() -> bool:
    """Returns whether the job sends its data over MPI (HVD_TRANSPORT=mpi). MPI is used for nothing else."""
    return os.environ.get("HVD_TRANSPORT") == "mpi" and mpi_built()


def mpi_threads_supported() -> bool:
    """Returns True: other threads may call MPI, because libhvd requires MPI_THREAD_MULTIPLE.

    Errors: ValueError if the job does not use MPI, as in Horovod.
    """
    if not mpi_enabled():
        raise ValueError("hvd: the job does not use MPI (HVD_TRANSPORT=mpi would)")
    return True


def gloo_built() -> bool:
    """Returns True: libhvd has a transport of its own between CPUs, which is what Gloo is in Horovod. It has no Gloo."""
    return True


def gloo_enabled() -> bool:
    """Returns whether the job uses that transport, and not MPI."""
    return not mpi_enabled()


def nccl_built() -> int:
    """Returns the version of the NCCL that libhvd uses for GPUs, such as 22809 for 2.28.9; 0 if none can be opened."""
    nccl = find_nccl()
    return nccl.version if nccl else 0


def cuda_built() -> bool:
    """Returns whether a CUDA runtime can be opened, which tensors on GPUs need."""
    return find_cuda_runtime() is not None


def gpu_kernels() -> tuple[bool, str]:
    """Returns whether libhvd has CUDA kernels of its own, and which GPUs they are for, or why there are none."""
    about = ctypes.c_char_p()
    found = _library.lib.hvd_has_kernels(ctypes.byref(about)) == 1
    return found, (about.value or b"").decode()


def ddl_built() -> bool:
    """Returns False: IBM's DDL is not used."""
    return False


def ccl_built() -> bool:
    """Returns False: Intel's oneCCL is not used."""
    return False


def rocm_built() -> bool:
    """Returns False: only CUDA devices are supported."""
    return False
