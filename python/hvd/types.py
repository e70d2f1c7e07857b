"""Types of elements, and reductions, with the numbers of hvd/hvd.h, which are Horovod's where Horovod has them."""

from __future__ import annotations

import enum


class DataType(enum.IntEnum):
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


class ReduceOp(enum.IntEnum):
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
