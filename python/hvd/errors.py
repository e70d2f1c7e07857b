"""What goes wrong in a collective or at a start.

All are `Error`, a RuntimeError, with the status of the C ABI (hvd/hvd.h) in `status`. `str(error)` names the tensor and
the ranks. After PeerError only `hvd.shutdown()` and a new `hvd.init()` help; after the others the next call works.
"""

from __future__ import annotations

import builtins
import re


class Error(RuntimeError):
    """A call of libhvd that failed. `status`: HVD_ERROR_* of hvd/hvd.h."""

    status = 0


class InvalidArgumentError(Error, ValueError):
    """An argument that cannot work, on this rank or on another one; all ranks get it."""

    status = 1


class NotInitializedError(Error, ValueError):
    """Before hvd.init() or after hvd.shutdown()."""

    status = 2


class MismatchError(Error, ValueError):
    """The ranks called different things: another shape, type, op, root, process set."""

    status = 3


class PeerError(Error):
    """A rank died or left."""

    status = 4


class UnsupportedError(Error):
    """This version or build cannot do it."""

    status = 5


class EnvironmentVariableError(Error, ValueError):
    """An environment variable makes no sense."""

    status = 6


class TimeoutError(Error, builtins.TimeoutError):
    """The ranks did not come together in time."""

    status = 7


class SystemCallError(Error):
    """A system call or a library failed."""

    status = 8


class ForkedError(Error):
    """A collective in a process that was forked after hvd.init(), as DataLoader's workers are."""

    status = 9


class RootError(Error):
    """What one rank did for all has failed there."""

    status = 10


# What a text of the library tells the user to call.
_C_NAMES = re.compile(r"\bhvd_(init|shutdown)\b")

_BY_STATUS: dict[int, type[Error]] = {kind.status: kind for kind in Error.__subclasses__()}


def of_status(status: int, text: str) -> Error:
    """The exception for a status of the C ABI; `Error` itself for one that is not known here."""
    if status != PeerError.status:  # hvdrun knows a failure that follows another by the library's own words
        text = _C_NAMES.sub(r"hvd.\1()", text)
    error = _BY_STATUS.get(status, Error)(text or f"libhvd: status {status}")
    error.status = status
    return error
