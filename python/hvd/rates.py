"""Learning rates and batches for many ranks. Pure functions: with the size as argument they need no hvd.init().

Either the batch of one rank is divided among the ranks (local_batch) and nothing else changes, or each rank keeps that
batch and the learning rate rises (scale_rate, warmup). docs/train/learning-rates.md explains when to use which.
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
    """Returns the learning rate for `size` ranks, each with the batch for which `rate` was chosen on one rank.

    size: None for that of this job.
    scaling: the factor: "linear" (size), "sqrt" (size^(1/2)), "two-thirds" (size^(2/3)) or "none" (1).
    Errors: InvalidArgumentError for another scaling, a rate that is negative or not finite, or a size below 1.
    """
    kind, scaled = c_int32(), c_double()
    check(lib.hvd_parse_scaling(scaling.encode(), byref(kind)))
    check(lib.hvd_scale_rate(rate, job.size() if size is None else size, kind, byref(scaled)))
    return scaled.value


def warmup(start: float, end: float, step: int, steps: int) -> float:
    """Returns the learning rate of a step in a linear warm-up: `start` at step 0, `end` at step `steps` and later.

    With 0 steps it is always `end`.
    """
    rate = c_double()
    check(lib.hvd_warmup(start, end, step, steps, byref(rate)))
    return rate.value


def local_batch(batch: int, rank: Optional[int] = None, size: Optional[int] = None) -> int:
    """Returns the number of this rank's samples when a batch is divided as evenly as possible, as hvd.data.Shard does.

    The parts of all ranks add up to the batch, and may differ by one. So sum the gradients of samples over all ranks,
    and divide by the batch.
    """
    samples = c_int64()
    check(lib.hvd_local_batch(batch, *place(rank, size), byref(samples)))
    return samples.value
