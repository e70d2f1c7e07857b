"""Collectives on plain memory, on which the modules of the frameworks are built.

Every call goes to libhvd's engine and runs in the background, as in Horovod. The ranks' calls are matched by name, and
those without a name by kind and order. So calls may be made in any order and from any thread. Addresses are integers;
0 if there are no elements.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Generic, Optional, TypeVar, Union

from . import errors
from ._library import ALLOCATE, OPTIONS_SIZE, Allocator, Options, check, failure, last_error, lib, whole
from .types import SIZES as _SIZES

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


_called = threading.local()


@contextlib.contextmanager
def of_gradients() -> Iterator[None]:
    """Inside, the collectives that this thread submits carry what the rank has computed from its own data.

    libhvd then says if all ranks give the same (hvd_options.gradients).
    """
    before, _called.gradients = getattr(_called, "gradients", 0), 1
    try:
        yield
    finally:
        _called.gradients = before


def options(name: Optional[str], process_set: int, prescale: float = 1.0, postscale: float = 1.0, memory: int = 0,
            stream: Optional[int] = None, shape: Optional[Sequence[int]] = None, compression: int = 0) -> Options:
    """Returns a call's hvd_options.

    stream: a cudaStream_t, for device memory.
    compression: one of HVD_COMPRESSION_...; for allreduces.
    shape: the dimensions that must be equal on all ranks; for an allgather or alltoall without the first.
    """
    return Options(OPTIONS_SIZE, None if name is None else name.encode(), prescale, postscale, process_set, 0, memory,
                   compression, stream, None, None, None if shape is None else b"%a" % list(shape), None, 1,
                   getattr(_called, "gradients", 0))


# ---- Failures before a collective -----------------------------------------------------------------

# By kind: makes a call that has a fault. No thread waits for it, so it has no handle.
_FAULTY: dict[str, Callable[[Any], int]] = {
    "allreduce": lambda options: lib.hvd_allreduce_async(None, None, 0, 0, 0, options, None),
    "grouped_allreduce": lambda options: lib.hvd_grouped_allreduce_async(0, None, None, None, 0, 0, options, None),
    "broadcast": lambda options: lib.hvd_broadcast_async(None, 0, 0, 0, options, None),
    "allgather": lambda options: lib.hvd_allgather_async(None, 0, 0, 0, None, 0, None, options, None),
    "reducescatter": lambda options: lib.hvd_reducescatter_async(None, 0, 0, 0, 0, None, options, None),
    "alltoall": lambda options: lib.hvd_alltoall_async(None, None, 0, 0, 0, None, 0, None, options, None),
    # Of the calls in the program's order, which hvd_barrier without a name is too. It waits for the other ranks.
    "": lambda options: lib.hvd_barrier(options),
}


class sharing_failure(ContextDecorator):
    """Makes an exception of the block, before its collective is submitted, an error on all ranks.

    The block raises it as usual. The other ranks, which would wait for this one, get InvalidArgumentError with this
    rank's number and the exception's text. An error of libhvd itself, or one that was shared before, is not shared.
    """

    __slots__ = ("_kind", "_names", "_process_set")

    def __init__(self, kind: str, names: Union[str, None, Sequence[Optional[str]]] = None, process_set: Any = None
                 ) -> None:
        """kind: "allreduce" ...; "": a call of all ranks in the program's order.

        names: the collective's, or those of all that the block would submit. process_set: None for all ranks.
        """
        self._kind = kind
        self._names = names
        self._process_set = process_set

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, failure: Optional[BaseException], trace: Any) -> None:
        if isinstance(failure, Exception) and not errors.is_shared(failure):
            names = [self._names] if self._names is None or isinstance(self._names, str) else self._names
            self._share(failure, names)

    def _share(self, failure: Exception, names: Sequence[Optional[str]]) -> None:
        number = 0 if self._process_set is None else self._process_set.process_set_id
        if number is None:
            return  # a set that the job does not know: no rank waits
        text = f"{type(failure).__name__}: {failure}".encode("utf-8", "replace").replace(b"\0", b"")
        for name in names:
            encoded = name.encode("utf-8", "replace") if isinstance(name, str) and self._kind else None
            _FAULTY[self._kind](byref(Options(struct_size=OPTIONS_SIZE, name=encoded, process_set=number, fault=text)))
        errors.mark_shared(failure)


def shares_failure(kind: str, names_of: Optional[Callable[[Any, Optional[str]], Sequence[Optional[str]]]] = None
                   ) -> Callable[[Function], Function]:
    """Decorates a function that submits a collective of this kind, as sharing_failure() does for a block.

    The function has the arguments `name` and `process_set`. names_of(first argument, name): the names of all
    collectives that it submits; by default the name alone.
    """
    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as failure:
                if errors.is_shared(failure):
                    raise
                from ._arguments import named_error  # which needs this module
                named = named_error(function, f"hvd.{function.__name__}", args, kwargs, failure)
                _share_call(named, signature, args, kwargs)
                if named is failure:
                    raise
                raise named from failure

        def _share_call(failure: Exception, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return  # the call itself is wrong
            bound.apply_defaults()
            name, first = bound.arguments.get("name"), next(iter(bound.arguments.values()), None)
            names = [name] if names_of is None else names_of(first, name)
            with contextlib.suppress(Exception), sharing_failure(kind, names, bound.arguments.get("process_set")):
                raise failure

        return call  # type: ignore[return-value]

    return decorate


def start_all(starts: Iterable[Callable[[], Handle[Result]]]) -> list[Handle[Result]]:
    """Returns the handles of all collectives. If one cannot be started, starts the others nevertheless, waits for them,
    and raises the first error: the other ranks have started them all."""
    handles = []
    failure: Optional[Exception] = None
    for start in starts:
        try:
            handles.append(start())
        except Exception as error:
            failure = failure or error
    if failure is None:
        return handles
    with contextlib.suppress(errors.Error):
        wait_for_all(handles)
    raise failure


# ---- Calls ----------------------------------------------------------------------------------------

_sent = 0.0
_sent_lock = threading.Lock()


def sent_bytes() -> int:
    """Returns the bytes that this rank has had to send to others in its collectives so far.

    Computed, not measured: an allreduce of b bytes on n ranks is 2 b (n - 1) / n, half for a reducescatter, (n - 1)
    times its own rows for an allgather and on the root of a broadcast, and what is for other ranks in an alltoall.
    These are the least that algorithms without a central rank send. With several hosts, elements of a compressed
    allreduce have their size in compressed form. Calls of libhvd from other languages are not in it.
    """
    return round(_sent)


def _record(elements: int, type: int, options: Options, share: Callable[[int], float]) -> None:
    """Adds a collective. share(n): the part of its data that this rank sends, on n ranks."""
    global _sent
    ranks = lib.hvd_process_set_size(options.process_set)
    if ranks > 1:
        with _sent_lock:
            _sent += elements * _sent_size(type, options) * share(ranks)


def _sent_size(type: int, options: Options) -> float:
    """Returns the bytes of an element between hosts."""
    size = _SIZES[type]
    if options.compression == 0 or lib.hvd_node_count() < 2:
        return size
    return min(size, 1 + 4 / 256) if options.compression == 3 else min(size, 2)


def _of_allreduce(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _of_reducescatter(ranks: int) -> float:
    return (ranks - 1) / ranks


def _of_own_rows(ranks: int) -> float:
    return ranks - 1


_in_flight: dict[int, "Handle[Any]"] = {}


class Handle(Generic[Result]):
    """A collective that runs in the background. Holds its buffers until it is done."""

    __slots__ = ("_number", "_finish", "_result", "_failure", "_kept", "_on_wait")

    def __init__(self, number: int, finish: Callable[[], Result], kept: Any = None,
                 on_wait: Optional[Callable[[], Optional[BaseException]]] = None) -> None:
        """`finish` makes the result, on the thread that calls wait(). `kept` is held until then."""
        self._number = number
        self._finish: Optional[Callable[[], Result]] = finish
        self._kept = kept
        self._on_wait = on_wait
        self._result: Optional[Result] = None
        self._failure: Optional[BaseException] = None
        _in_flight[number] = self

    def poll(self) -> bool:
        """Returns whether the collective is done, so that wait() does not block."""
        if self._finish is None:
            return True
        done = c_int()
        check(lib.hvd_poll(self._number, byref(done)))
        return done.value == 1

    def wait(self) -> Result:
        """Waits for the result. Further calls return it again, or raise the same error. Errors: those of hvd.errors."""
        finish = self._finish
        if finish is None:
            if self._failure is not None:
                raise self._failure
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
                raise failure(status, text)
            self._result = finish()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._kept = None
        return self._result


def wait_for_all(handles: Sequence[Any]) -> list[Any]:
    """Returns the handles' results. Raises the first error only after all have ended, when their buffers are unused."""
    results = []
    failure: Optional[BaseException] = None
    for handle in handles:
        try:
            results.append(handle.wait())
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results


def forget_all() -> None:
    """Drops all handles and outputs, after hvd.shutdown() has ended their collectives."""
    _in_flight.clear()
    _outputs.clear()


def allreduce(input: int, output: int, count: int, type: int, op: int, options: Options) -> int:
    """Submits the collective and returns its handle's number. The functions below do the same.

    Errors raised at once: NotInitializedError; ForkedError, with PeerError on the other ranks; InvalidArgumentError for
    a name that this rank has in flight, whose first call then fails on all ranks.
    """
    handle = c_int64()
    check(lib.hvd_allreduce_async(input, output, count, type, op, byref(options), byref(handle)))
    _record(count, type, options, _of_allreduce)
    return handle.value


def grouped_allreduce(inputs: Sequence[int], outputs: Sequence[int], lengths: Sequence[int], type: int, op: int,
                      options: Options) -> int:
    """Reduces several tensors of one type as one operation. `lengths`: their numbers of elements."""
    handle = c_int64()
    count = len(inputs)
    addresses = c_void_p * count
    check(lib.hvd_grouped_allreduce_async(count, addresses(*inputs), addresses(*outputs), (c_size_t * count)(*lengths),
                                          type, op, byref(options), byref(handle)))
    _record(sum(lengths), type, options, _of_allreduce)
    return handle.value


def broadcast(buffer: int, count: int, type: int, root: int, options: Options) -> int:
    """`root`: a number among all ranks of the job, also with a process set."""
    root = whole(root, c_int, "the root")
    handle = c_int64()
    check(lib.hvd_broadcast_async(buffer, count, type, root, byref(options), byref(handle)))
    if root == lib.hvd_rank():
        _record(count, type, options, _of_own_rows)
    return handle.value


def reducescatter(input: int, rows: int, row_size: int, type: int, op: int, output: int, options: Options) -> int:
    """`output`: memory for as many rows as share_of_rows() returns for this rank."""
    handle = c_int64()
    check(lib.hvd_reducescatter_async(input, rows, row_size, type, op, output, byref(options), byref(handle)))
    _record(rows * row_size, type, options, _of_reducescatter)
    return handle.value


def share_of_rows(rows: int, rank: int, size: int) -> int:
    """Returns the number of rows of a reducescatter's result that a rank gets."""
    return rows // size + (1 if rank < rows % size else 0)


def barrier(options: Options) -> int:
    handle = c_int64()
    check(lib.hvd_barrier_async(byref(options), byref(handle)))
    return handle.value


def join() -> int:
    """Waits until all ranks have called it. Returns the rank that called last."""
    last = c_int()
    check(lib.hvd_join(byref(last)))
    return last.value


# ---- Results whose size only the library knows ----------------------------------------------------

# Allocates memory for a number of rows and returns its address. Runs on libhvd's thread.
Allocate = Callable[[int], int]

_outputs: dict[int, "_Output"] = {}
_output_numbers = itertools.count(1)


class _Output:
    """A result whose memory the framework allocates when the library knows the number of rows."""

    def __init__(self, allocate: Allocate, options: Options) -> None:
        self.allocate = allocate
        self.failure: Optional[BaseException] = None
        self._number = next(_output_numbers)
        _outputs[self._number] = self
        self._allocator = Allocator(_ALLOCATE, self._number)
        options.allocate = _CALL_ALLOCATOR
        options.allocate_context = ctypes.addressof(self._allocator)

    def submit(self, call: Callable[[Any], int], finish: Callable[[], Result], kept: Any) -> Handle[Result]:
        handle = c_int64()
        status = call(byref(handle))
        if status:
            self._take_failure()
            check(status)
        return Handle(handle.value, finish, kept, self._take_failure)

    def _take_failure(self) -> Optional[BaseException]:
        """Returns the exception of allocate(), after the collective has ended; None if there was none."""
        _outputs.pop(self._number, None)
        return self.failure


def _allocate(number: int, rows: int, memory: Any) -> None:
    output = _outputs[number]
    try:
        memory[0] = output.allocate(rows)
    except BaseException as failure:  # raised by the thread that waits
        output.failure = failure


_ALLOCATE = ALLOCATE(_allocate)
_CALL_ALLOCATOR = ctypes.cast(lib.hvd_call_allocator, c_void_p).value
_next_hook = sys.unraisablehook


def _take_interrupt(unraisable: Any) -> None:
    """Takes what a signal handler raised (KeyboardInterrupt) as Python entered _allocate(), before its `try`.

    Python gives such an exception of a C library's callback to sys.unraisablehook, and the program would not get it.
    """
    frame = unraisable.exc_traceback.tb_frame if unraisable.exc_traceback else None
    number = frame.f_locals.get("number") if frame is not None and frame.f_code is _allocate.__code__ else None
    if number not in _outputs:
        _next_hook(unraisable)
        return
    _outputs[number].failure = unraisable.exc_value


sys.unraisablehook = _take_interrupt


def allgather(input: int, rows: int, row_size: int, type: int, allocate: Allocate, rows_by_rank: Any, options: Options,
              finish: Callable[[], Result], kept: Any) -> Handle[Result]:
    """Gathers the rows of all ranks into memory from `allocate`.

    rows_by_rank: a c_size_t array of the set's size, which is filled, or None. finish, kept: as for Handle.
    """
    output = _Output(allocate, options)
    handle = output.submit(lambda handle: lib.hvd_allgather_async(
        input, rows, row_size, type, None, 0, rows_by_rank, byref(options), handle), finish, (kept, rows_by_rank))
    _record(rows * row_size, type, options, _of_own_rows)
    return handle


def alltoall(input: int, splits: Optional[Sequence[int]], rows: int, row_size: int, type: int, allocate: Allocate,
             received: Any, options: Options, finish: Callable[[], Result], kept: Any) -> Handle[Result]:
    """Sends splits[r] rows to rank r; with None equally many to each.

    received: a c_size_t array, which is filled with the number of rows from each rank.
    """
    sizes = None if splits is None else (c_size_t * max(1, len(splits)))(*splits)
    output = _Output(allocate, options)
    handle = output.submit(lambda handle: lib.hvd_alltoall_async(
        input, sizes, rows, row_size, type, None, 0, received, byref(options), handle), finish, (kept, sizes, received))
    own = lib.hvd_process_set_rank(options.process_set)
    if splits is None:
        _record(rows * row_size, type, options, _of_reducescatter)
    elif 0 <= own < len(splits):
        _record((rows - splits[own]) * row_size, type, options, lambda _: 1.0)
    return handle


def check_splits(splits: Optional[Sequence[int]], size: int) -> None:
    """Checks the splits of an alltoall. Errors that only libhvd can find are reported on all ranks."""
    if splits is None:
        return
    if len(splits) != size:
        raise errors.InvalidArgumentError(f"hvd: {len(splits)} splits for an alltoall between {size} ranks")
    if any(count < 0 for count in splits):
        raise errors.InvalidArgumentError(f"hvd: a negative split: {list(splits)}")
