"""Handles of asynchronous collectives: poll() and synchronize()."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Optional, TypeVar, Union

from .._collectives import Handle, wait_for_all

Result = TypeVar("Result")


class HandleGroup(Generic[Result]):
    """The handle of several collectives that one call has started."""

    __slots__ = ("_handles", "_finish", "_result")

    def __init__(self, handles: Sequence[Handle[Any]], finish: Callable[[list[Any]], Result]) -> None:
        """`finish` makes the group's result from the list of the handles' results."""
        self._handles = handles
        self._finish: Optional[Callable[[list[Any]], Result]] = finish
        self._result: Optional[Result] = None

    def poll(self) -> bool:
        """Returns whether all are done."""
        return all([handle.poll() for handle in self._handles])

    def wait(self) -> Result:
        """Waits for all and returns the result, also when called again. Raises the first error after all have ended."""
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._result = finish(wait_for_all(self._handles))
        return self._result  # type: ignore[return-value]

    # Horovod's handle of a sparse allreduce is a function.
    __call__ = wait


def poll(handle: Union[Handle[Any], HandleGroup[Any]]) -> bool:
    """Returns whether synchronize() would not block. On a GPU: whether the collective is enqueued there."""
    return _checked(handle).poll()


def synchronize(handle: Union[Handle[Result], HandleGroup[Result]]) -> Result:
    """Waits for the result: a tensor, a list of them for a group, (output, received_splits) for an alltoall.

    On a GPU the current stream waits, not the CPU. Further calls return the same result. Errors: those of hvd.errors.
    """
    return _checked(handle).wait()


def _checked(handle: Any) -> Any:
    if not isinstance(handle, (Handle, HandleGroup)):
        raise TypeError(f"hvd: {handle!r} is not a handle of a collective")
    return handle
