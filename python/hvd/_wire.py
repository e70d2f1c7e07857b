"""The compressions that libhvd does between hosts: the numbers of HVD_COMPRESSION_... in hvd/hvd.h.

A class of a framework's `Compression` has one of them as its attribute `wire`, or 0.
"""

from __future__ import annotations

from typing import Any

NONE = 0
FLOAT16 = 1
BFLOAT16 = 2
INT8 = 3


def wire_of(compression: Any) -> int:
    """Returns the compression as libhvd does it. A class that is no Compressor may have none."""
    return getattr(compression, "wire", NONE)


def refuse_wire(compression: Any, what: str) -> None:
    """Raises ValueError for a compression of libhvd, which is for allreduces only."""
    if wire_of(compression):
        raise ValueError(f"hvd: {compression.__name__} is for sums and averages by allreduce, not for {what}")
