"""The exceptions of hvd.

All are subclasses of `Error`, a RuntimeError, with the status of the C ABI (hvd/hvd.h) in `status`. `str(error)` names
the tensor and the ranks. After PeerError the program must call `hvd.shutdown()` and `hvd.init()` again, unless
hvd.elastic.run() does it; after the others the next call works.
"""

from __future__ import annotations

import builtins
import re


class Error(RuntimeError):
    """A call of libhvd that failed. `status`: HVD_ERROR_* of hvd/hvd.h."""

    status = 0


class InvalidArgumentError(Error, ValueError):
    """An invalid argument, on this rank or on another one, or another rank failed before its part. Raised on all ranks."""

    status = 1


class NotInitializedError(Error, ValueError):
    """A call before hvd.init() or after hvd.shutdown()."""

    status = 2


class MismatchError(Error, ValueError):
    """The ranks' calls do not match: different shapes, types, operations, roots or process sets."""

    status = 3


class PeerError(Error):
    """A rank died or left, or libhvd cannot continue there."""

    status = 4


class UnsupportedError(Error):
    """This version or build does not support the call."""

    status = 5


class EnvironmentVariableError(Error, ValueError):
    """An environment variable has an invalid value."""

    status = 6


class TimeoutError(Error, builtins.TimeoutError):
    """The ranks did not connect to each other in time."""

    status = 7


class SystemCallError(Error):
    """A system call or a library failed."""

    status = 8


class ForkedError(Error):
    """A collective in a process that was forked after hvd.init(), as DataLoader's workers are."""

    status = 9


class RootError(Error):
    """A function that one rank ran for all (hvd.on_root()) has failed there."""

    status = 10


class RemovedError(Error):
    """The job does not want this process any more."""

    status = 11


# Functions that the library's texts advise the user to call.
_C_NAMES = re.compile(r"\bhvd_(init|shutdown)\b")
# The function that has failed, at the beginning of a text, and what it is in Python if that has another name.
_FAILED = re.compile(r"hvd_([a-z_]+?)(_async)?(?=: )")
_PYTHON_NAMES = {"init_with": "init", "early_stopping_update": "EarlyStopping.update", "reform": "elastic.reform",
                 "member": "elastic.member", "generation": "elastic.generation", "newest": "elastic.newest",
                 "newcomer": "elastic.is_newcomer", "process_sets": "process_set_ids", "parse_scaling": "scale_rate",
                 "timeline_begin": "span", "timeline_end": "span", "stop_text": "agree_stop", "wait": "Handle.wait",
                 "poll": "Handle.poll", "checkpoints_item": "checkpoint.Checkpoints.load", "reader_steps": "data.Reader",
                 "shard_step": "data.Shard", "shard_steps": "data.Shard", "source_samples": "data.Source",
                 "source_class_name": "data.Source.classes", "set_commits": "elastic.State.commit"}
# By the prefix of the functions of C.
_CLASSES = {"process_set_": "ProcessSet", "checkpoints_": "checkpoint.Checkpoints", "shard_": "data.Shard",
            "source_": "data.Source", "reader_": "data.Reader", "record_writer_": "data.RecordWriter", "log_": "io.Log",
            "file_": "io.atomic_file"}

_BY_STATUS: dict[int, type[Error]] = {kind.status: kind for kind in Error.__subclasses__()}


def _python_name(match: re.Match[str]) -> str:
    name = match[1]
    if name in _PYTHON_NAMES:
        return f"hvd.{_PYTHON_NAMES[name]}()"
    for prefix, owner in _CLASSES.items():
        if name.startswith(prefix):
            method = name[len(prefix):]
            is_whole = method in ("open", "create") or prefix == "file_"
            return f"hvd.{owner}()" if is_whole else f"hvd.{owner}.{re.sub('^open_', '', method)}()"
    return f"hvd.{name}()"


def of_status(status: int, text: str) -> Error:
    """Returns the exception for a status of the C ABI; `Error` itself for an unknown status."""
    if status != PeerError.status:  # by the unchanged text hvdrun recognizes a failure that follows from another
        text = _C_NAMES.sub(r"hvd.\1()", _FAILED.sub(_python_name, text, count=1) if text.startswith("hvd_") else text)
    error = _BY_STATUS.get(status, Error)(text)
    error.status = status
    mark_shared(error)
    return error


def mark_shared(error: BaseException) -> None:
    """Marks an exception of which the other ranks know, or need not know."""
    try:
        error.hvd_is_shared = True  # type: ignore[attr-defined]
    except AttributeError:  # a class with __slots__
        pass


def is_shared(error: BaseException) -> bool:
    return getattr(error, "hvd_is_shared", False)
