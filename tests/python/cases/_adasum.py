"""A reference of Adasum, after S. Maleki et al., "Scaling Distributed Training with Adaptive Summation"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _pair(a: Array, b: Array) -> Array:
    both, of_a, of_b = (float(np.vdot(x, y)) for x, y in ((a, b), (a, a), (b, b)))
    return (1 - both / (2 * of_a) if of_a else 1) * a + (1 - both / (2 * of_b) if of_b else 1) * b


def adasum(tensors: Sequence[Array]) -> Array:
    """Reduces the ranks' tensors, a power of two of them, in float64."""
    level = [np.asarray(tensor, np.float64) for tensor in tensors]
    while len(level) > 1:
        level = [_pair(level[i], level[i + 1]) for i in range(0, len(level), 2)]
    return level[0]
