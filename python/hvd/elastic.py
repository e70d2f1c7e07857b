"""A training that continues when ranks are lost (hvdrun --min-np M): its loop, and states of Python objects.

    @hvd.elastic.run
    def train(state):
        while state.step < steps:
            step(state)
            state.step += 1
            state.commit()

    train(hvd.elastic.ObjectState(step=0))

The names are Horovod's. hvd.torch.elastic, hvd.tensorflow.elastic and so on have states for models and optimizers. In a
job without --min-np everything works too, but a lost rank ends it. docs/train/elastic-python.md is the guide.

A state is used by one thread, the one that calls the function. Ranks lose nothing that one of them has committed: the
rank with the most commits gives its state to all.
"""

from __future__ import annotations

import copy
import ctypes
import enum
import functools
import inspect
import queue
import sys
from collections.abc import Callable, Iterable
from ctypes import c_int, c_int32, c_uint32, c_uint64
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from . import _collectives, _library, errors, job, objects, process_sets
from ._collectives import Handle, options
from ._library import check, lib
from .errors import Error as HorovodInternalError
from .types import DataType, ReduceOp

__all__ = ["HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState", "State", "generation",
           "is_elastic", "is_newcomer", "member", "newest", "reform", "run", "run_fn"]

Function = TypeVar("Function", bound=Callable[..., Any])

_library.declare({
    "hvd_elastic": (c_int,),
    "hvd_generation": (c_int,),
    "hvd_member": (c_int,),
    "hvd_newest": (c_int,),
    "hvd_reform": (c_int32,),
    "hvd_known_updates": (c_uint32,),
    "hvd_set_commits": (c_int32, c_uint64),
})


class HostsUpdatedInterrupt(RuntimeError):
    """Raised on all ranks when ranks can be added or will be removed: all leave the function and form a new generation.

    skip_sync: Horovod's run() then leaves out State.sync(). That of hvd always synchronises after a reset, because new
    ranks need the state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync


class HostUpdateResult(enum.IntFlag):
    """What has changed, for State.on_hosts_updated()."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


# ---- Generations --------------------------------------------------------------------------------


def is_elastic() -> bool:
    """Returns whether the job continues when ranks are lost. Works before hvd.init()."""
    return lib.hvd_elastic() != 0


def generation() -> int:
    """Returns the number of this generation: the job's first is 1. Only init() and reform() change it."""
    return _library.number(lib.hvd_generation())


def member() -> int:
    """Returns the number of this process in the job, which never changes and is never used again."""
    return _library.number(lib.hvd_member())


def newest() -> int:
    """Returns the rank that had the most commits at the start of this generation, of several the lowest.

    0 in the first generation, and in a job that is not elastic.
    """
    return _library.number(lib.hvd_newest())


def is_newcomer() -> bool:
    """Returns whether this process was started while the job runs, and is not in it yet (hvdrun --replace, --spares).

    From init() on it has a session of its own; rank(), size() and local_rank() are those that it is likely to have.
    run() waits until the others take it in.
    """
    return _library.number(lib.hvd_newcomer()) != 0


def reform() -> None:
    """Leaves this generation and comes to the next one. run() calls it.

    Returns when all ranks that live have called it. Afterwards rank() and size() may be others, and process sets and
    handles are gone. Errors: UnsupportedError without --min-np; RemovedError, PeerError if the job is over for this
    process.
    """
    process_sets.forget_all()
    try:
        check(lib.hvd_reform())
    finally:
        _collectives.forget_all()


# ---- The loop -----------------------------------------------------------------------------------


def run(func: Function) -> Function:
    """Decorates the function that trains. Its first argument is a State; it is called again after each reset.

    Before each call the state is synchronised. When a rank is lost, the others take the state back to its last commit,
    form the next generation, and call the state's reset callbacks. A PeerError does this, and a plain
    HorovodInternalError that the program raises on all ranks. When new ranks are ready, State.commit() raises
    HostsUpdatedInterrupt on all ranks, and all form the next generation. Every other exception leaves the function: MismatchError,
    for example, would come again and again. In a job without --min-np, PeerError does too.

    In a process that was started later it first waits until the others take it in. If they end without it, the process
    exits with 0.

    Call it between hvd.init() and hvd.shutdown(). What the ranks do together outside of it does not survive a loss.
    """
    return _loop(func, _reform_if_elastic, is_elastic)


def run_fn(func: Function, reset: Callable[[], None]) -> Function:
    """Like run(), with the program's own function that brings the ranks together again, in any job."""
    return _loop(func, reset, lambda: True)


def _reform_if_elastic() -> None:
    if is_elastic():
        reform()


def _loop(func: Function, reset: Callable[[], None], can_reset: Callable[[], bool]) -> Function:
    if not callable(func):
        raise TypeError(f"{func!r} is not a function")  # guard() names run() or run_fn()

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        is_lost = False
        waits = is_elastic() and job.is_initialized() and is_newcomer()
        is_first = not waits
        while True:
            try:
                if not is_first:
                    _join(reset) if waits else reset()
                    waits = False
                    if is_lost:  # after the reset, which has ended the collectives that write to the state
                        state.restore()
                    state.on_reset()
                is_first = False
                _synchronize(state)
                is_lost = False
                return func(state, *args, **kwargs)
            except HostsUpdatedInterrupt:
                pass
            except errors.Error as error:
                if not (_is_loss(error) and can_reset() and job.is_initialized()):
                    raise
                is_lost = True
            except SystemExit as end:
                if is_elastic() and end.code not in (None, 0):  # otherwise hvdrun takes it for a rank that has finished
                    job.report_failure(f"SystemExit: {end.code}")
                raise
            is_first = False

    return wrapper  # type: ignore[return-value]


def _join(reset: Callable[[], None]) -> None:
    """Brings this process, which was started later, into the job. Exits if the job does not need it any more."""
    try:
        reset()
    except errors.RemovedError:
        sys.exit(0)


def _is_loss(error: errors.Error) -> bool:
    """Returns whether the error is a rank's loss. Errors that a program makes itself, of no status, count as one."""
    return error.status in (0, errors.PeerError.status)


def _synchronize(state: State) -> None:
    """Gives the newest state, and its number of commits, to all ranks.

    The number is set last, so that a rank that was interrupted still has its own.
    """
    commits = getattr(state, "_commits", 0)
    if job.is_initialized():
        commits = _commits_of_newest(commits)
    state.sync()
    _set_commits(state, commits)


def _commits_of_newest(commits: int) -> int:
    number = c_uint64(commits)
    address = ctypes.addressof(number)
    Handle(_collectives.broadcast(address, 8, DataType.uint8, newest(), options("elastic.commits", 0)), lambda: None,
           number).wait()
    return number.value


def _set_commits(state: State, commits: int) -> None:
    state._commits = commits
    check(lib.hvd_set_commits(commits))


_ADDED, _REMOVED = 1, 2  # HVD_UPDATE_


# ---- States -------------------------------------------------------------------------------------


class _HostMessages(queue.Queue[tuple[float, int]]):
    """What on_hosts_updated() has recorded. Programs for Horovod look whether it is empty: not if new ranks are ready."""

    def empty(self) -> bool:
        return super().empty() and lib.hvd_known_updates() == 0


class State:
    """What every rank has alike, and what the training needs to go on. The base of all states.

    A subclass of a program defines save(), restore() and sync(). sync() takes the state of rank newest(); after it the
    state is committed.
    bcast_object, get_rank: Horovod's arguments, which may be left out.
    """

    _commits = 0  # of this process; those of the newest rank after sync()

    def __init__(self, bcast_object: Optional[Callable[..., Any]] = None,
                 get_rank: Optional[Callable[[], int]] = None) -> None:
        self._bcast_object = bcast_object or objects.broadcast_object
        self._rank = get_rank or job.rank
        self._host_messages = _HostMessages()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions that run() calls after each reset, before sync(): for what depends on rank and size."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls reset() and the callbacks. run() calls it after each reset."""
        self._host_messages = _HostMessages()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Records a change of the hosts, which check_host_updates() finds."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, and calls check_host_updates(). After a loss the training continues from its last commit."""
        self.save()
        _set_commits(self, self._commits + 1)
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks, if new ranks are ready, or a rank has recorded a change of the hosts.

        With --min-np this is a collective: a small allreduce.
        """
        timestamp, update, is_new = self._last_updated_timestamp, 0, False
        while self._host_messages.qsize() > 0:
            time, change = self._host_messages.get()
            if time > timestamp:
                timestamp, update, is_new = time, update | int(change), True
        known = lib.hvd_known_updates()
        if known & _ADDED:
            update, is_new = update | HostUpdateResult.added, True
        if known & _REMOVED:
            update, is_new = update | HostUpdateResult.removed, True
        if is_elastic() and job.is_initialized() and job.size() > 1:
            timestamp, update, is_new = _of_all_ranks(timestamp, update, is_new)
        self._last_updated_timestamp = timestamp
        if is_new:
            raise HostsUpdatedInterrupt(update == HostUpdateResult.removed)

    def save(self) -> None:
        """Copies the state, for restore()."""
        raise NotImplementedError(f"hvd: {type(self).__name__} has no save()")

    def restore(self) -> None:
        """Takes the state back to the last commit or sync()."""
        raise NotImplementedError(f"hvd: {type(self).__name__} has no restore()")

    def sync(self) -> None:
        """Gives the newest state to all ranks. A collective."""
        raise NotImplementedError(f"hvd: {type(self).__name__} has no sync()")

    def reset(self) -> None:
        """Adapts the state to the new rank and size, before sync()."""


def check_method(state: str, method: str) -> None:
    """Raises UnsupportedError if the optimizer's method keeps what a lost rank takes with it."""
    if method.endswith("(shard=True)"):
        raise errors.UnsupportedError(f"hvd: {state} with a {method}: each rank has a part of the optimizer's state, which is "
                                      "lost with it; leave out shard=True, or use hvd.checkpoint and hvdrun --max-restarts")
    if method in ("Gossip", "ParameterServer") and is_elastic():
        raise errors.UnsupportedError(f"hvd: {state} with {method}, whose process sets do not survive a lost rank; use "
                                      "LocalSGD or DistributedOptimizer, or leave out --min-np")


def _of_all_ranks(timestamp: float, update: int, is_new: bool) -> tuple[float, int, bool]:
    """Returns the latest time, all changes together, and whether a rank has a new one. A collective."""
    values = (ctypes.c_double * 4)(timestamp, update & HostUpdateResult.removed, update & HostUpdateResult.added,
                                   is_new)
    address = ctypes.addressof(values)
    Handle(_collectives.allreduce(address, address, 4, DataType.float64, ReduceOp.Max,
                                  options("elastic.check_host_updates", 0)), lambda: None, values).wait()
    return values[0], int(values[1]) | int(values[2]), values[3] > 0


class ObjectState(State):
    """A state of Python objects, each an attribute of this object. A commit copies them (copy.deepcopy)."""

    def __init__(self, bcast_object: Optional[Callable[..., Any]] = None,
                 get_rank: Optional[Callable[[], int]] = None, **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: dict[str, Any] = {}
        for name, value in kwargs.items():
            setattr(self, name, value)
            self._saved_state[name] = _copied(value)

    if TYPE_CHECKING:  # its attributes are those that the program gives it
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save(self) -> None:
        self._saved_state = {name: _copied(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _copied(value))

    def sync(self) -> None:
        """Gives the attributes of the newest rank to all, and saves the state."""
        if self._saved_state:
            attributes = self._broadcast({name: getattr(self, name) for name in self._saved_state})
            for name, value in attributes.items():
                setattr(self, name, value)
                self._saved_state.setdefault(name, None)
        self.save()

    def _broadcast(self, value: Any) -> Any:
        """Returns the object of the newest rank, by the function of the constructor as far as that takes a root."""
        if "root_rank" in inspect.signature(self._bcast_object).parameters:
            return self._bcast_object(value, root_rank=newest())
        if not job.is_initialized() or newest() == 0:
            return self._bcast_object(value)
        return objects.broadcast_object(value, newest())


_UNCHANGEABLE = (int, float, complex, bool, str, bytes, type(None))


def _copied(value: Any) -> Any:
    return value if type(value) in _UNCHANGEABLE else copy.deepcopy(value)
