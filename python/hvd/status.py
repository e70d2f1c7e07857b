"""What hvdrun shows of the training and writes into its report, and what it asks of the ranks.

Under another launcher, or none, these calls do nothing. None is a collective.
"""

from __future__ import annotations

from ctypes import byref, c_double, c_uint32, c_uint64
from typing import NamedTuple, Optional

from ._library import check, lib

_STOP = 1  # HVD_NOTICE_STOP


def set_step(step: int) -> None:
    """Training steps done."""
    check(lib.hvd_set_step(step))


def add_samples(samples: int) -> None:
    """This many more were trained on by this rank."""
    check(lib.hvd_add_samples(samples))


def set_epoch(epoch: int) -> None:
    """The epoch that begins, counted from 0. After the last one: once more, with the number of epochs."""
    check(lib.hvd_set_epoch(epoch))


def set_metric(name: str, value: float) -> None:
    """What the training has come to: "loss", "accuracy" (0 to 1) and others, at most 6 names of up to 23 bytes."""
    check(lib.hvd_set_metric(name.encode(), value))


class Notice(NamedTuple):
    """What the launcher has asked of this rank so far. Ranks may see it at different moments: hvd.agree_stop() takes
    it into account for all at once."""

    stop: bool  # please, at a step's end
    stop_at_step: Optional[int]  # which; None: the next


def notice() -> Notice:
    bits, step = c_uint32(), c_uint64()
    check(lib.hvd_notice(byref(bits), byref(step)))
    return Notice(bool(bits.value & _STOP), step.value or None)


def time_left() -> float:
    """Seconds until the job must be over, negative when that has passed; math.inf when not known."""
    seconds = c_double()
    check(lib.hvd_time_left(byref(seconds)))
    return seconds.value
