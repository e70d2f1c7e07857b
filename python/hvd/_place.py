"""place(): the optional arguments `rank` and `size` of functions that also work outside of a job."""

from __future__ import annotations

from typing import Optional

from . import job


def place(rank: Optional[int], size: Optional[int]) -> tuple[int, int]:
    """Returns rank and size as given, or those of this job if both are None. ValueError for one without the other."""
    if (rank is None) != (size is None):
        raise ValueError(f"hvd: rank={rank} and size={size}: give both, or neither for those of this job")
    if rank is None or size is None:
        return job.rank(), job.size()
    return rank, size
