"""Exceptions that programs catch."""

from __future__ import annotations

from hvd.errors import Error as HorovodInternalError

__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt"]


class HostsUpdatedInterrupt(RuntimeError):
    """Horovod's elastic training raises it when hosts come or go. hvd never does: a job keeps its ranks."""
