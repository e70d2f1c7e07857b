"""What Horovod's scripts ask about their installation, and the timeline."""

from __future__ import annotations

import os
from typing import Union

from .. import _library, errors


def mpi_threads_supported() -> bool:
    """False, as all of these: libhvd takes none of these libraries, and TensorFlow's tensors go through host memory."""
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = mpi_threads_supported
nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = mpi_threads_supported


def start_timeline(file_path: Union[str, os.PathLike[str]], mark_cycles: bool = False) -> None:
    """From now on this rank's collectives are written to a file for chrome://tracing or Perfetto."""
    if mark_cycles:
        raise errors.UnsupportedError("hvd: start_timeline(mark_cycles=True): libhvd has no cycles to mark")
    _library.check(_library.lib.hvd_start_timeline(os.fspath(file_path).encode()))


def stop_timeline() -> None:
    """The file is complete then."""
    _library.check(_library.lib.hvd_stop_timeline())
