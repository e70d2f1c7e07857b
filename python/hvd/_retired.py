"""Names and arguments of Horovod that hvd does not have, or has under a newer name only."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Optional

from .types import Average, ReduceOp, Sum


# The warnings begin with Horovod's words, because programs filter warnings by them.

def op_of(op: Optional[ReduceOp], average: Optional[bool]) -> ReduceOp:
    """Returns the operation of an allreduce, also from the deprecated argument `average`; Average by default."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("hvd: both op and average are given; average is the deprecated name, so give op only")
    warnings.warn("Parameter `average` has been replaced with `op`: op=hvd.Average or op=hvd.Sum", DeprecationWarning,
                  stacklevel=level_outside())
    return Average if average else Sum


def level_outside() -> int:
    """Returns the stacklevel, for the function that calls this, of its first caller outside of this package."""
    package = os.path.dirname(__file__)
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package + os.sep):
        level, frame = level + 1, frame.f_back
    return level


def groups_of(groups: Any, num_groups: int) -> Any:
    """Returns `groups` of an optimizer or a tape, also from the deprecated argument `num_groups`."""
    if num_groups == 0:
        return groups
    warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning,
                  stacklevel=level_outside())
    return num_groups if groups is None else groups
