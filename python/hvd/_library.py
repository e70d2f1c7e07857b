"""Loads libhvd, and declares the C functions of hvd/hvd.h with their types.

The library is searched for in this order: the file HVD_LIBRARY, this package (in a wheel), `build/lib` of the checkout
that this package is a part of, and the paths of the system's loader. Error: ImportError if none can be loaded.
"""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from . import errors

SONAME = "libhvd.so.0"

HOST = 0  # hvd_options.memory
CUDA = 1

ALLOCATE = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, POINTER(c_void_p))


class Allocator(ctypes.Structure):
    """hvd_allocator."""

    _fields_ = [("allocate", ALLOCATE), ("context", c_void_p)]


class Options(ctypes.Structure):
    """hvd_options."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("prescale", c_double),
        ("postscale", c_double),
        ("process_set", c_int32),
        ("priority", c_int32),
        ("memory", c_int32),
        ("compression", c_int32),
        ("stream", c_void_p),
        ("allocate", c_void_p),
        ("allocate_context", c_void_p),
        ("shape", c_char_p),
        ("fault", c_char_p),
        ("has_factors", c_int64),
        ("gradients", c_int64),
    ]


class RankList(ctypes.Structure):
    """hvd_rank_list."""

    _fields_ = [("ranks", POINTER(c_int)), ("count", c_size_t)]


class InitOptions(ctypes.Structure):
    """hvd_init_options."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("ranks", POINTER(c_int)),
        ("rank_count", c_size_t),
        ("process_sets", POINTER(RankList)),
        ("process_set_count", c_size_t),
    ]


OPTIONS_SIZE = ctypes.sizeof(Options)

_OPTIONS = POINTER(Options)
_HANDLE = POINTER(c_int64)
_LIST = POINTER(c_void_p)
_SIZES = POINTER(c_size_t)

# By name: the type of the result, then those of the arguments.
_FUNCTIONS = {
    "hvd_last_error": (c_char_p,),
    "hvd_status_string": (c_char_p, c_int32),
    "hvd_version": (c_char_p,),
    "hvd_has_kernels": (c_int, POINTER(c_char_p)),
    "hvd_init_with": (c_int32, POINTER(InitOptions)),
    "hvd_shutdown": (c_int32,),
    **{f"hvd_{name}": (c_int,) for name in (
        "initialized", "rank", "size", "local_rank", "local_size", "local_device", "cross_rank", "cross_size",
        "node_rank", "node_count", "restart_count", "is_homogeneous", "newcomer")},
    "hvd_allreduce_async": (c_int32, c_void_p, c_void_p, c_size_t, c_int32, c_int32, _OPTIONS, _HANDLE),
    "hvd_grouped_allreduce_async": (c_int32, c_size_t, _LIST, _LIST, _SIZES, c_int32, c_int32, _OPTIONS, _HANDLE),
    "hvd_broadcast_async": (c_int32, c_void_p, c_size_t, c_int32, c_int, _OPTIONS, _HANDLE),
    "hvd_allgather_async": (c_int32, c_void_p, c_size_t, c_size_t, c_int32, c_void_p, c_size_t, _SIZES, _OPTIONS,
                            _HANDLE),
    "hvd_reducescatter_async": (c_int32, c_void_p, c_size_t, c_size_t, c_int32, c_int32, c_void_p, _OPTIONS, _HANDLE),
    "hvd_alltoall_async": (c_int32, c_void_p, _SIZES, c_size_t, c_size_t, c_int32, c_void_p, c_size_t, _SIZES,
                           _OPTIONS, _HANDLE),
    "hvd_barrier": (c_int32, _OPTIONS),
    "hvd_barrier_async": (c_int32, _OPTIONS, _HANDLE),
    "hvd_poll": (c_int32, c_int64, POINTER(c_int)),
    "hvd_wait": (c_int32, c_int64),
    "hvd_join": (c_int32, POINTER(c_int)),
    "hvd_add_process_set": (c_int32, POINTER(c_int), c_size_t, POINTER(c_int32)),
    "hvd_remove_process_set": (c_int32, c_int32),
    "hvd_process_set_size": (c_int, c_int32),
    "hvd_process_set_rank": (c_int, c_int32),
    "hvd_process_set_included": (c_int, c_int32),
    "hvd_process_set_ranks": (c_int, c_int32, POINTER(c_int), c_size_t),
    "hvd_process_sets": (c_int, POINTER(c_int32), c_size_t),
    "hvd_progress": (c_int32, c_char_p),  # a packed hvd_progress_values
    "hvd_set_step": (c_int32, c_uint64),
    "hvd_add_samples": (c_int32, c_uint64),
    "hvd_set_epoch": (c_int32, c_uint64),
    "hvd_set_metric": (c_int32, c_char_p, c_double),
    "hvd_notice": (c_int32, POINTER(c_uint32), POINTER(c_uint64)),
    "hvd_time_left": (c_int32, POINTER(c_double)),
    "hvd_report_failure": (c_int32, c_char_p),
    "hvd_start_timeline": (c_int32, c_char_p),
    "hvd_stop_timeline": (c_int32,),
    "hvd_timeline_begin": (c_int32, c_char_p),
    "hvd_timeline_end": (c_int32,),
}


def _candidates() -> list[str]:
    if chosen := os.environ.get("HVD_LIBRARY"):
        return [chosen]
    package = Path(__file__).resolve().parent
    beside = [package / "lib" / SONAME, package.parent.parent / "build/lib" / SONAME]
    return [*(str(path) for path in beside if path.exists()), SONAME]


def _load() -> ctypes.CDLL:
    failures = []
    for candidate in _candidates():
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(str(error))
    raise ImportError("hvd: cannot load libhvd (HVD_LIBRARY names the file to take): " + "; ".join(failures))


def declare(functions: dict[str, tuple[Any, ...]]) -> None:
    """Declares the types of functions of the library: that of the result, then those of the arguments."""
    for name, (result, *arguments) in functions.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments


lib = _load()
path = lib._name
declare(_FUNCTIONS)


def last_error() -> str:
    """Returns the text of the last failure on this thread."""
    return lib.hvd_last_error().decode("utf-8", "replace")


def status_string(status: int) -> str:
    """Returns the meaning of a status of the C ABI in a few words."""
    return lib.hvd_status_string(status).decode()


def failure(status: int, text: str) -> errors.Error:
    """Returns the exception for a status that is not HVD_OK. An empty text becomes the meaning of the status."""
    return errors.of_status(status, text or status_string(status))


def check(status: int) -> None:
    """Raises the exception for a status that is not HVD_OK."""
    if status != 0:
        raise failure(status, last_error())


def whole(value: Any, type: Callable[[int], Any], what: str) -> int:
    """Returns the integer, for an argument of this type of C. ctypes itself drops the upper bits of what is too large."""
    number = operator.index(value)
    if type(number).value != number:
        raise errors.InvalidArgumentError(f"{what} is {number}, which is out of range")
    return number


def number(answer: int) -> int:
    """Returns the answer of a function; raises the exception for a negative one, which is a status."""
    if answer < 0:
        raise failure(-answer, last_error())
    return answer
