"""Which rank of how many a call is about, where it may leave that to the job."""

from __future__ import annotations

from typing import Optional

from . import job


def place(rank: Optional[int], size: Optional[int]) -> tuple[int, int]:
    """Rank and size as given; without both, this job's. ValueError for one without the other."""
    if (rank is None) != (size is None):
        raise ValueError(f"hvd: rank={rank} and size={size}: give both, or neither for those of this job")
    if rank is None or size is None:
        return job.rank(), job.size()
    return rank, size
