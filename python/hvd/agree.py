"""Decisions that all ranks take together.

A rank that stops one step before the others leaves them waiting. So what ends or turns the training (a metric, a
signal, the clock) is decided once, and is the same on all ranks at the same step.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import zlib
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Union, overload

from . import _collectives, _library, errors
from ._collectives import Handle, options
from ._library import check, lib
from .types import DataType, ReduceOp

_BEST = {"min": 1, "max": 2}  # hvd_best


class _EarlyStopping(ctypes.Structure):
    """hvd_early_stopping."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("best_is", c_int32),
        ("reserved", c_int32),
        ("patience", c_int64),
        ("min_delta", c_double),
        ("updates", c_int64),
        ("best_at", c_int64),
        ("best", c_double),
        ("waited", c_int64),
    ]


class _Stop(ctypes.Structure):
    """hvd_stop."""

    _fields_ = [("struct_size", c_size_t), ("reasons", c_uint32), ("signum", c_int32), ("seconds_left", c_double)]


_OPTIONS = POINTER(_library.Options)

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


def average_metrics(metrics: Union[Mapping[str, float], Sequence[float]], weight: float = 1.0,
                    name: str = "metrics") -> Union[dict[str, float], list[float]]:
    """The ranks' metrics, averaged by weight: the same on all ranks. A collective.

    weight: what this rank's metrics were averaged over, usually its samples; a mean of means is wrong where ranks have
    different numbers of them. A rank with weight 0 may have anything in its metrics, also NaN.

    Errors: MismatchError when the ranks have other metrics; InvalidArgumentError, on all ranks, when a weight is
    negative or not finite or all are 0.
    """
    if not isinstance(metrics, Mapping):
        return _average([float(value) for value in metrics], weight, name)
    names = sorted(metrics)  # not every rank has built its dict in the same order
    mark = float(zlib.crc32("\0".join(names).encode()))
    *values, common = _average([*(float(metrics[key]) for key in names), mark], weight, name)
    if not math.isclose(common, mark, rel_tol=1e-12):
        raise errors.MismatchError(f"{name}: the ranks average different metrics; this one has {', '.join(names)}")
    averages = dict(zip(names, values))
    return {key: averages[key] for key in metrics}


def _average(values: list[float], weight: float, name: str) -> list[float]:
    array = (c_double * max(1, len(values)))(*values)
    check(lib.hvd_average_metrics(array, len(values), weight, byref(options(name, 0))))
    return array[: len(values)]


def same_on_all_ranks(number: int, name: str) -> bool:
    """Whether all ranks have given the same number, of up to 63 bits; the same answer to all. A collective."""
    edges = (c_int64 * 2)(number, -number)
    address = ctypes.addressof(edges)
    Handle(_collectives.allreduce(address, address, 2, DataType.int64, ReduceOp.Max, options(name, 0)), lambda: None,
           edges).wait()
    return edges[0] == -edges[1]


# ---- Early stopping -----------------------------------------------------------------------------


class Update(NamedTuple):
    """What EarlyStopping.update() says, the same on all ranks."""

    is_best: bool
    stop: bool


class EarlyStopping:
    """Whether a metric still gets better.

    best: "min" of a loss, "max" of an accuracy. patience: stop after so many updates in a row without a better value;
    0: never. min_delta: a value is better when it is so by more than this. NaN is never better, so that a run which has
    diverged stops.
    """

    def __init__(self, best: str = "min", patience: int = 0, min_delta: float = 0.0) -> None:
        if best not in _BEST:
            raise ValueError(f'hvd: EarlyStopping(best={best!r}): "min" or "max"')
        self._state = _EarlyStopping(struct_size=ctypes.sizeof(_EarlyStopping), best_is=_BEST[best], patience=patience,
                                     min_delta=min_delta)

    def update(self, metric: float, name: str = "early_stopping") -> Update:
        """One more value; rank 0's decides, and its state becomes that of all. A collective."""
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
        """The best value's update, counted from 0."""
        return self._state.best_at

    @property
    def waited(self) -> int:
        """Updates since the best one."""
        return self._state.waited

    def state_dict(self) -> dict[str, Any]:
        """Numbers for a checkpoint: with them a run that goes on decides as if it had never stopped."""
        return {key: getattr(self._state, key) for key in ("updates", "best_at", "best", "waited")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for key in ("updates", "best_at", "best", "waited"):
            setattr(self._state, key, state[key])


# ---- Stopping in good order ---------------------------------------------------------------------

_watched: set[int] = set()


def watch_signal(signum: int) -> None:
    """From now on the signal does not end this process but is remembered for agree_stop(). SIGINT only once: a second
    Ctrl-C ends it. After hvd.init(); hvd.shutdown() puts back what was before. Not a collective.

    The handler is the library's own, below Python's: meanwhile no Python handler runs for this signal and Ctrl-C raises
    no KeyboardInterrupt, though signal.getsignal() still names the handler of before. A later signal.signal() takes the
    signal away from here. Processes forked later (multiprocessing, DataLoader workers) have the handlers of before.
    InvalidArgumentError: SIGKILL, SIGSTOP, the signals of a crash.
    """
    check(lib.hvd_watch_signal(signum))
    _watched.add(signum)


def _unwatch_in_child() -> None:
    # Else nothing would hear SIGTERM there, and multiprocessing's terminate() would have no effect.
    for signum in _watched:
        signal.signal(signum, signal.getsignal(signum) or signal.SIG_DFL)
    _watched.clear()


os.register_at_fork(after_in_child=_unwatch_in_child)


@dataclass(frozen=True)
class Stop:
    """The answer of agree_stop(): true when all ranks stop here."""

    reasons: frozenset[str]  # "signal", "notice" (of the launcher), "time" (nearly up), "wish" (of some rank's program)
    text: str  # "signal 15 (SIGTERM)"; "" when there is no reason
    signum: Optional[int]  # the highest of those that came
    seconds_left: float  # the least of all ranks; math.inf when not known

    def __bool__(self) -> bool:
        return bool(self.reasons)


_REASONS = {1: "signal", 2: "notice", 4: "time", 8: "wish"}  # HVD_STOP_


def agree_stop(step: int, seconds_needed: float = 0.0, wish: bool = False, name: str = "agree_stop") -> Stop:
    """Asks all ranks, at a step's end, whether to stop; the same answer to all. A collective, one small allreduce.

    step: how many are done. seconds_needed: stop when less than this is left until the job's end (hvd.time_left()), at
    least what the last checkpoint will take. wish: whether this rank's program wants to stop.
    """
    stop = _Stop(struct_size=ctypes.sizeof(_Stop))
    check(lib.hvd_agree_stop(step, seconds_needed, int(wish), byref(stop), byref(options(name, 0))))
    text = ctypes.create_string_buffer(256)
    check(lib.hvd_stop_text(byref(stop), text, len(text)))
    return Stop(frozenset(word for bit, word in _REASONS.items() if stop.reasons & bit), text.value.decode(),
                stop.signum if stop.reasons & 1 else None, stop.seconds_left)
