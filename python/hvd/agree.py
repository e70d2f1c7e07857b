"""Decisions that all ranks take together.

A rank that stops one step before the others leaves them waiting. So a decision that ends or changes the training (by a
metric, a signal or the clock) is made once, and applies on all ranks at the same step.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import warnings
import zlib
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Union, overload

from . import _collectives, _library, errors
from ._collectives import Handle, options, sharing_failure
from ._library import check, lib, whole
from ._retired import level_outside
from .types import DataType, ReduceOp

_BEST = {"min": 1, "max": 2}  # hvd_best


class _EarlyStopping(ctypes.Structure):
    """hvd_early_stopping."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_int32),
        ("reserved", c_int32),
        ("patience", c_int64),
        ("min_delta", c_double),
        ("updates", c_int64),
        ("best_at", c_int64),
        ("best", c_double),
        ("updates_since_best", c_int64),
    ]


class _Stop(ctypes.Structure):
    """hvd_stop."""

    _fields_ = [("struct_size", c_size_t), ("reasons", c_uint32), ("signum", c_int32), ("seconds_left", c_double)]


_OPTIONS = POINTER(_library.Options)


def _warn_of_earlier_name(earlier: str, new: str) -> None:
    warnings.warn(f"hvd: {earlier} is deprecated; the new name is {new}", DeprecationWarning,
                  stacklevel=level_outside())


_library.declare({
    "hvd_average_metrics": (c_int32, POINTER(c_double), c_size_t, c_double, _OPTIONS),
    "hvd_early_stopping_update": (c_int32, POINTER(_EarlyStopping), c_double, POINTER(c_int), POINTER(c_int), _OPTIONS),
    "hvd_watch_signal": (c_int32, c_int),
    "hvd_agree_stop": (c_int32, c_uint64, c_double, c_int, POINTER(_Stop), _OPTIONS),
    "hvd_stop_text": (c_int32, POINTER(_Stop), c_char_p, c_size_t),
})

# ---- Metrics ------------------------------------------------------------------------------------


@overload
def average_metrics(metrics: Mapping[str, float], weight: float = ..., name: str = ...) -> dict[str, float]: ...
@overload
def average_metrics(metrics: Sequence[float], weight: float = ..., name: str = ...) -> list[float]: ...


@sharing_failure("")
def average_metrics(metrics: Union[Mapping[str, float], Sequence[float]], weight: float = 1.0,
                    name: str = "metrics") -> Union[dict[str, float], list[float]]:
    """Returns the weighted average of the ranks' metrics, the same on all ranks. A collective.

    weight: the number of values that this rank's metrics are averages of, usually its samples. A plain mean of means is
    wrong if ranks have different numbers of them. A rank with weight 0 may have any values in its metrics, also NaN.

    Errors: MismatchError if the ranks have different metrics; InvalidArgumentError, on all ranks, if a weight is
    negative or not finite, or all weights are 0.
    """
    if not isinstance(metrics, Mapping):
        return _average([_number(value, at) for at, value in enumerate(metrics)], weight, name)
    for key in metrics:
        if not isinstance(key, str):
            raise TypeError(f"hvd.average_metrics: the name of a metric is {key!r}, not a text")
    names = sorted(metrics)  # the ranks' dicts may have different orders
    mark = float(zlib.crc32("\0".join(names).encode()))
    *values, common = _average([*(_number(metrics[key], key) for key in names), mark], weight, name)
    if not math.isclose(common, mark, rel_tol=1e-12):
        mismatch = errors.MismatchError(f"{name}: the ranks average different metrics; this one has {', '.join(names)}")
        errors.mark_shared(mismatch)  # all ranks raise it
        raise mismatch
    averages = dict(zip(names, values))
    return {key: averages[key] for key in metrics}


def _number(value: Any, key: object) -> float:
    """Returns float(value). An exception says which metric it is."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        if type(error) not in (TypeError, ValueError, OverflowError, RuntimeError):  # such as an hvd.Error
            raise
        raise type(error)(f"hvd.average_metrics: metrics[{key!r}]: {error}") from error


def _average(values: list[float], weight: float, name: str) -> list[float]:
    array = (c_double * max(1, len(values)))(*values)
    check(lib.hvd_average_metrics(array, len(values), weight, byref(options(name, 0))))
    return array[: len(values)]


def same_on_all_ranks(number: int, name: str) -> bool:
    """Returns, on all ranks, whether all have passed the same number, of up to 63 bits. A collective."""
    with sharing_failure("allreduce", name):
        edges = (c_int64 * 2)(number, -number)
    address = ctypes.addressof(edges)
    Handle(_collectives.allreduce(address, address, 2, DataType.int64, ReduceOp.Max, options(name, 0)), lambda: None,
           edges).wait()
    return edges[0] == -edges[1]


# ---- Early stopping -----------------------------------------------------------------------------


class Update(NamedTuple):
    """The result of EarlyStopping.update(), the same on all ranks."""

    is_best: bool
    stop: bool


class EarlyStopping:
    """Decides whether to stop because a metric no longer improves.

    best: "min" for a loss, "max" for an accuracy.
    patience: stops after this many updates in a row without a better value; 0 never stops.
    min_delta: a value is better only if the difference is greater than this. NaN is never better, so that a run that
    has diverged stops.
    """

    def __init__(self, best: str = "min", patience: int = 0, min_delta: float = 0.0) -> None:
        if best not in _BEST:
            raise ValueError(f'hvd: EarlyStopping(best={best!r}): "min" or "max"')
        self._state = _EarlyStopping(struct_size=ctypes.sizeof(_EarlyStopping), mode=_BEST[best], patience=patience,
                                     min_delta=min_delta)

    @sharing_failure("")
    def update(self, metric: float, name: str = "early_stopping") -> Update:
        """Adds a value. Rank 0's value decides, and its state becomes that of all ranks. A collective."""
        is_best, stop = c_int(), c_int()
        check(lib.hvd_early_stopping_update(byref(self._state), metric, byref(is_best), byref(stop),
                                            byref(options(name, 0))))
        return Update(bool(is_best.value), bool(stop.value))

    @property
    def best(self) -> float:
        """The best value; NaN before the first update."""
        return self._state.best if self._state.updates else math.nan

    @property
    def best_at(self) -> int:
        """The index of the update with the best value, from 0."""
        return self._state.best_at

    @property
    def updates_since_best(self) -> int:
        """The number of updates since the best one."""
        return self._state.updates_since_best

    @property
    def waited(self) -> int:
        """Deprecated: the earlier name of `updates_since_best`."""
        _warn_of_earlier_name("EarlyStopping.waited", "updates_since_best")
        return self._state.updates_since_best

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint. A run that continues from it decides as if it had never stopped."""
        return {key: getattr(self._state, key) for key in ("updates", "best_at", "best", "updates_since_best")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for key in ("updates", "best_at", "best"):
            setattr(self._state, key, state[key])
        # Earlier checkpoints have "waited".
        self._state.updates_since_best = state["updates_since_best" if "updates_since_best" in state else "waited"]


# ---- Stopping in good order ---------------------------------------------------------------------

_watched: set[int] = set()


def watch_signal(signum: int) -> None:
    """Makes the signal a reason for agree_stop() instead of ending this process. Not a collective.

    SIGINT is caught once; a second Ctrl-C ends the process. Call it after hvd.init(); hvd.shutdown() restores the
    earlier handler.

    The handler is a C handler of the library. While it is set, no Python handler runs for this signal and Ctrl-C raises
    no KeyboardInterrupt, although signal.getsignal() still returns the earlier handler. A later signal.signal()
    replaces the library's handler. Processes forked later (multiprocessing, DataLoader workers) have the earlier
    handlers. Errors: InvalidArgumentError for SIGKILL, SIGSTOP and the signals of a crash.
    """
    check(lib.hvd_watch_signal(signum))
    _watched.add(signum)


def _unwatch_in_child() -> None:
    # Otherwise SIGTERM would have no effect in the child, nor would multiprocessing's terminate().
    for signum in _watched:
        signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)
    _watched.clear()


os.register_at_fork(after_in_child=_unwatch_in_child)


class _Reasons(frozenset[str]):
    """Contains "wish", the earlier name, if it contains "requested"."""

    def __contains__(self, word: object) -> bool:
        if word == "wish":
            _warn_of_earlier_name('"wish" in Stop.reasons', '"requested"')
            word = "requested"
        return super().__contains__(word)


@dataclass(frozen=True)
class Stop:
    """The result of agree_stop(). It is true if all ranks stop after this step."""

    reasons: frozenset[str]  # "signal", "notice" (of the launcher), "time" (nearly up), "requested" (by some rank's program)
    text: str  # for example "signal 15 (SIGTERM)"; "" without a reason
    signum: Optional[int]  # the highest of the received signals
    seconds_left: float  # the minimum over all ranks; math.inf if unknown

    def __bool__(self) -> bool:
        return bool(self.reasons)


_REASONS = {1: "signal", 2: "notice", 4: "time", 8: "requested"}  # HVD_STOP_


def agree_stop(step: int, seconds_needed: float = 0.0, requested: bool = False, name: str = "agree_stop", *,
               wish: Optional[bool] = None) -> Stop:
    """Decides, at the end of a step, whether all ranks stop. All get the same result. A collective: a small allreduce.

    step: the number of steps done.
    seconds_needed: stops if less than this is left until the job's end (hvd.time_left()). It should be at least the
    time that the last checkpoint takes.
    requested: whether this rank's program wants to stop.
    wish: deprecated, the earlier name of `requested`.
    """
    if wish is not None:
        _warn_of_earlier_name("agree_stop(wish=...)", "requested")
        requested = requested or wish
    stop = _Stop(struct_size=ctypes.sizeof(_Stop))
    with sharing_failure(""):
        step = whole(step, c_uint64, "the step")
        check(lib.hvd_agree_stop(step, seconds_needed, int(requested), byref(stop), byref(options(name, 0))))
    text = ctypes.create_string_buffer(256)
    check(lib.hvd_stop_text(byref(stop), text, len(text)))
    return Stop(_Reasons(word for bit, word in _REASONS.items() if stop.reasons & bit), text.value.decode(),
                stop.signum if stop.reasons & 1 else None, stop.seconds_left)
