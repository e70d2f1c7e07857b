"""Collectives on plain memory, for what each framework makes of them.

Every call goes to the engine in the background, as in Horovod: the ranks find each other's by name (those without one by
kind and order), in any order and from any thread. Addresses are integers; 0 where there are no elements.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Generic, Optional, TypeVar

from . import errors
from ._library import ALLOCATE, OPTIONS_SIZE, Options, check, last_error, lib

Result = TypeVar("Result")


def options(name: Optional[str], process_set: int, prescale: float = 1.0, postscale: float = 1.0, memory: int = 0,
            stream: Optional[int] = None, shape: Optional[Sequence[int]] = None) -> Options:
    """What a call says besides its arguments. `stream`: a cudaStream_t, for device memory. `shape`: what ranks must
    agree in; of an allgather or alltoall without the first dimension."""
    # A factor of 0 would stand for 1.
    return Options(OPTIONS_SIZE, None if name is None else name.encode(), prescale or 1e-300, postscale or 1e-300,
                   process_set, 0, memory, 0, stream, None, None, None if shape is None else b"%a" % list(shape))


_in_flight: dict[int, "Handle[Any]"] = {}


class Handle(Generic[Result]):
    """A collective in the background. Its buffers are kept here until it is done."""

    __slots__ = ("_number", "_finish", "_result", "_kept", "_on_wait")

    def __init__(self, number: int, finish: Callable[[], Result], kept: Any = None,
                 on_wait: Optional[Callable[[], Optional[BaseException]]] = None) -> None:
        """`finish` makes the result once it is done, on the thread that waits; `kept` must stay until then."""
        self._number = number
        self._finish: Optional[Callable[[], Result]] = finish
        self._kept = kept
        self._on_wait = on_wait
        self._result: Optional[Result] = None
        _in_flight[number] = self

    def poll(self) -> bool:
        """Whether it is done: then wait() does not block."""
        if self._finish is None:
            return True
        done = c_int()
        check(lib.hvd_poll(self._number, byref(done)))
        return done.value == 1

    def wait(self) -> Result:
        """Waits for the result. The exceptions are those of hvd.errors. Once more: the same result."""
        finish = self._finish
        if finish is None:
            return self._result  # type: ignore[return-value]
        status = lib.hvd_wait(self._number)
        text = last_error() if status else ""
        _in_flight.pop(self._number, None)
        self._finish = None
        own = self._on_wait() if self._on_wait else None
        self._on_wait = None
        try:
            if own is not None:
                raise own
            if status:
                raise errors.of_status(status, text)
            self._result = finish()
        finally:
            self._kept = None
        return self._result


def forget_all() -> None:
    """hvd.shutdown() has ended all."""
    _in_flight.clear()
    _outputs.clear()


def allreduce(input: int, output: int, count: int, type: int, op: int, options: Options) -> int:
    """The handle's number. All below likewise. Errors, at once: NotInitializedError; ForkedError, which is PeerError on
    all ranks; InvalidArgumentError for a name that this rank has in flight, whose first call then fails on all."""
    handle = c_int64()
    check(lib.hvd_allreduce_async(input, output, count, type, op, byref(options), byref(handle)))
    return handle.value


def grouped_allreduce(inputs: Sequence[int], outputs: Sequence[int], counts: Sequence[int], type: int, op: int,
                      options: Options) -> int:
    """Several tensors of one type, carried out as one."""
    handle = c_int64()
    count = len(inputs)
    addresses = c_void_p * count
    check(lib.hvd_grouped_allreduce_async(count, addresses(*inputs), addresses(*outputs), (c_size_t * count)(*counts),
                                          type, op, byref(options), byref(handle)))
    return handle.value


def broadcast(buffer: int, count: int, type: int, root: int, options: Options) -> int:
    """`root`: a rank of all, also on a process set."""
    handle = c_int64()
    check(lib.hvd_broadcast_async(buffer, count, type, root, byref(options), byref(handle)))
    return handle.value


def reducescatter(input: int, rows: int, row_size: int, type: int, op: int, output: int, options: Options) -> int:
    """`output` has room for this rank's share_of_rows()."""
    handle = c_int64()
    check(lib.hvd_reducescatter_async(input, rows, row_size, type, op, output, byref(options), byref(handle)))
    return handle.value


def share_of_rows(rows: int, rank: int, size: int) -> int:
    """How many of `rows` a reducescatter gives a rank."""
    return rows // size + (1 if rank < rows % size else 0)


def barrier(options: Options) -> int:
    handle = c_int64()
    check(lib.hvd_barrier_async(byref(options), byref(handle)))
    return handle.value


def join() -> int:
    """Waits until all ranks have called it; the rank that came last."""
    last = c_int()
    check(lib.hvd_join(byref(last)))
    return last.value


# ---- Results that the library knows the size of -------------------------------------------------

# Rows -> the address of room for so many. Called by the thread that carries the collective out.
Allocate = Callable[[int], int]

_outputs: dict[int, "_Output"] = {}
_output_numbers = itertools.count(1)


class _Output:
    """A result's memory, which its framework gives when the library knows how many rows come."""

    def __init__(self, allocate: Allocate, options: Options) -> None:
        self.allocate = allocate
        self.failure: Optional[BaseException] = None
        self._number = next(_output_numbers)
        _outputs[self._number] = self
        options.allocate = _ALLOCATE_ADDRESS
        options.allocate_context = self._number

    def submit(self, call: Callable[[Any], int], finish: Callable[[], Result], kept: Any) -> Handle[Result]:
        handle = c_int64()
        status = call(byref(handle))
        if status:
            self._take_failure()
            check(status)
        return Handle(handle.value, finish, kept, self._take_failure)

    def _take_failure(self) -> Optional[BaseException]:
        """Of allocate(), once the collective has ended."""
        _outputs.pop(self._number, None)
        return self.failure


@ALLOCATE
def _allocate(number: int, rows: int) -> Optional[int]:
    output = _outputs[number]
    try:
        return output.allocate(rows) or None
    except BaseException as failure:  # for the thread that waits
        output.failure = failure
        return None


_ALLOCATE_ADDRESS = ctypes.cast(_allocate, c_void_p).value


def allgather(input: int, rows: int, row_size: int, type: int, allocate: Allocate, rows_by_rank: Any, options: Options,
              finish: Callable[[], Result], kept: Any) -> Handle[Result]:
    """Rows of all ranks, into what `allocate` gives. `rows_by_rank`: a c_size_t array of the set's size, or None.
    `finish`, `kept`: as of Handle."""
    output = _Output(allocate, options)
    return output.submit(lambda handle: lib.hvd_allgather_async(
        input, rows, row_size, type, None, 0, rows_by_rank, byref(options), handle), finish, (kept, rows_by_rank))


def alltoall(input: int, splits: Optional[Sequence[int]], rows: int, row_size: int, type: int, allocate: Allocate,
             received: Any, options: Options, finish: Callable[[], Result], kept: Any) -> Handle[Result]:
    """splits[r] rows for rank r, None: as many for each. `received`: a c_size_t array, how many from each."""
    sizes = None if splits is None else (c_size_t * max(1, len(splits)))(*splits)
    output = _Output(allocate, options)
    return output.submit(lambda handle: lib.hvd_alltoall_async(
        input, sizes, rows, row_size, type, None, 0, received, byref(options), handle), finish, (kept, sizes, received))


def check_splits(splits: Optional[Sequence[int]], size: int) -> None:
    """Of an alltoall; the rest is told to all ranks."""
    if splits is None:
        return
    if len(splits) != size:
        raise errors.InvalidArgumentError(f"hvd: {len(splits)} splits for an alltoall between {size} ranks")
    if any(count < 0 for count in splits):
        raise errors.InvalidArgumentError(f"hvd: a negative split: {list(splits)}")
