"""Types and functions that the checks of probe.py share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch

import hvd.torch as hvt

# Whether the check is right on this rank (None: it was skipped), and the value to show.
Outcome = tuple[Optional[bool], Any]
Check = Callable[[], Outcome]

# The largest relative error of a result, by its type.
LIMITS = {torch.float16: 5e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-14}


def numbers_of_ranks(kind: torch.dtype, count: int, seed: int) -> list[torch.Tensor]:
    """Returns random numbers for each rank, on the CPU. They are so small that integers do not overflow."""
    parts = []
    for rank in range(hvt.size()):
        generator = torch.Generator().manual_seed(1000 * seed + rank)
        if kind.is_floating_point:
            parts.append(torch.randn(count, generator=generator).to(kind))
        else:
            low, high = (0, 2) if kind is torch.bool else (1, 4)
            parts.append(torch.randint(low, high, (count,), generator=generator).to(kind))
    return parts


def reduced(op: str, parts: list[torch.Tensor]) -> torch.Tensor:
    """Returns the expected result of an allreduce, in float64."""
    wide = torch.stack([part.double() for part in parts])
    results = {"Sum": wide.sum(0), "Average": wide.mean(0), "Min": wide.amin(0), "Max": wide.amax(0), "Product": wide.prod(0)}
    whole = op == "Average" and not parts[0].dtype.is_floating_point
    return results[op].trunc() if whole else results[op]


def sum_of_ranks() -> float:
    """Returns the sum over the ranks of rank + 1."""
    return hvt.size() * (hvt.size() + 1) / 2
