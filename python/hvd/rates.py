"""Learning rates and batches for many ranks. Pure functions: no hvd.init() is needed when the size is given.

Either the batch of one rank is divided (local_batch) and nothing else changes, or each rank keeps it and the rate rises
(scale_rate, warmup). docs/train/learning-rates.md says which.
"""

from __future__ import annotations

from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64
from typing import Optional

from . import _library, job
from ._library import check, lib
from ._place import place

_library.declare({
    "hvd_scale_rate": (c_int32, c_double, c_int64, c_int32, POINTER(c_double)),
    "hvd_parse_scaling": (c_int32, c_char_p, POINTER(c_int32)),
    "hvd_warmup": (c_int32, c_double, c_double, c_int64, c_int64, POINTER(c_double)),
    "hvd_local_batch": (c_int32, c_int64, c_int32, c_int32, POINTER(c_int64)),
})


def scale_rate(rate: float, size: Optional[int] = None, scaling: str = "linear") -> float:
    """The rate for `size` ranks (None: this job's), each with the batch that `rate` was chosen for on one.

    scaling: "linear" (times size), "sqrt" (size^(1/2)), "two-thirds" (size^(2/3)), "none". InvalidArgumentError for
    anything else, a rate that is negative or not finite, a size below 1.
    """
    kind, scaled = c_int32(), c_double()
    check(lib.hvd_parse_scaling(scaling.encode(), byref(kind)))
    check(lib.hvd_scale_rate(rate, job.size() if size is None else size, kind, byref(scaled)))
    return scaled.value


def warmup(start: float, end: float, step: int, steps: int) -> float:
    """The rate of a step in a warm-up of `steps` steps: `start` at step 0, the same amount more at each step, `end` at
    step `steps` and after it. 0 steps: `end`."""
    rate = c_double()
    check(lib.hvd_warmup(start, end, step, steps, byref(rate)))
    return rate.value


def local_batch(batch: int, rank: Optional[int] = None, size: Optional[int] = None) -> int:
    """Samples of a batch that are this rank's when it is divided as evenly as it goes; over all ranks they add up to
    exactly the batch. The same division as hvd.data.Shard makes.

    The parts may differ by one: sum the gradients of samples over all ranks, and divide by the batch.
    """
    samples = c_int64()
    check(lib.hvd_local_batch(batch, *place(rank, size), byref(samples)))
    return samples.value
