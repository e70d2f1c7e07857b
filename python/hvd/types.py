"""Types of elements, and reductions, with the numbers of hvd/hvd.h, which are Horovod's where Horovod has them."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Any

from . import _near_names


class _Named(enum.EnumMeta):
    """Makes an unknown name of an enumeration say which one is meant: Sum by SUM, Average by AVG."""

    if not TYPE_CHECKING:  # a type checker would take every name for known
        def __getattr__(cls, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            names = cls.__members__
            if name in names:  # Python 3.11 and earlier look members up here
                return names[name]
            meant = _near_names.of(names).spelled_like(name)
            answer = f"did you mean {meant}?" if meant else f"it has {', '.join(names)}"
            error = AttributeError(f"hvd.{cls.__name__} has no {name}; {answer}")
            if sys.version_info >= (3, 10):
                error.name = name  # otherwise Python adds a suggestion of its own
            raise error


class DataType(enum.IntEnum, metaclass=_Named):
    """hvd_type."""

    uint8 = 0
    int8 = 1
    uint16 = 2
    int16 = 3
    int32 = 4
    int64 = 5
    float16 = 6
    float32 = 7
    float64 = 8
    bool = 9
    bfloat16 = 10


SIZES = (1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2)  # bytes of an element, by DataType


class ReduceOp(enum.IntEnum, metaclass=_Named):
    """hvd_op: the operation with which an allreduce or a reducescatter combines the ranks' elements.

    Integers wrap in Sum and Product. Their Average is the exact sum divided by the number of ranks, truncated towards
    zero. For bool, Sum and Max are "or", Product and Min are "and". Adasum is for floating point tensors, and for a
    number of ranks that is a power of two: S. Maleki et al., "Scaling Distributed Training with Adaptive Summation".
    """

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average = ReduceOp.Average
Sum = ReduceOp.Sum
Adasum = ReduceOp.Adasum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product
