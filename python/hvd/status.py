"""The training's progress, which hvdrun shows and reports, and hvdrun's requests to the ranks.

Under another launcher, or without one, these calls do nothing. None is a collective.
"""

from __future__ import annotations

from ctypes import byref, c_double, c_uint32, c_uint64
from typing import NamedTuple, Optional

from ._library import check, lib

_STOP = 1  # HVD_NOTICE_STOP


def set_step(step: int) -> None:
    """Sets the number of training steps done."""
    check(lib.hvd_set_step(step))


def add_samples(samples: int) -> None:
    """Adds to the number of samples that this rank has trained on."""
    check(lib.hvd_add_samples(samples))


def set_epoch(epoch: int) -> None:
    """Sets the epoch that begins, from 0. Call it once more after the last epoch, with the number of epochs."""
    check(lib.hvd_set_epoch(epoch))


def set_metric(name: str, value: float) -> None:
    """Sets a metric of the training: "loss", "accuracy" (0 to 1) or another; at most 6 names of up to 23 bytes."""
    check(lib.hvd_set_metric(name.encode(), value))


class Notice(NamedTuple):
    """The launcher's requests to this rank so far.

    Ranks may see a request at different times; hvd.agree_stop() makes all ranks act on it at the same step.
    """

    stop: bool  # whether to stop at the end of a step
    stop_at_step: Optional[int]  # the step; None for the next


def notice() -> Notice:
    bits, step = c_uint32(), c_uint64()
    check(lib.hvd_notice(byref(bits), byref(step)))
    return Notice(bool(bits.value & _STOP), step.value or None)


def time_left() -> float:
    """Returns the seconds until the job must end; negative after that time, math.inf if it is unknown."""
    seconds = c_double()
    check(lib.hvd_time_left(byref(seconds)))
    return seconds.value
