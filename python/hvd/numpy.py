"""Collectives on numpy arrays, blocking and asynchronous.

Every function takes an argument for numpy.asarray(), a `name`, and a `process_set` (hvd.ProcessSet; all ranks by
default). The ranks' calls are matched by name, and those without a name by kind and order. The asynchronous functions,
`*_async`, return a handle: `handle.poll()` returns whether it is done, `handle.wait()` returns the result. Until then
the arrays must not be changed.

Types: the integers except uint32 and uint64; float16, float32, float64, bool, and bfloat16 of the package ml_dtypes.
Errors: those of hvd.errors, on all ranks for one rank's mistake; TypeError for an unsupported type and for masked
arrays, and on the other ranks InvalidArgumentError with its text.
"""

from __future__ import annotations

import typing as _typing
from collections.abc import Sequence
from ctypes import c_size_t
from typing import Any, Optional

try:
    import numpy as np
    import numpy.typing as npt
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    raise ImportError("hvd.numpy needs numpy: pip install numpy") from None

from ._everywhere import *  # noqa: F403
from . import _arguments, _collectives, _everywhere, _names
from ._collectives import Handle, options, share_of_rows, shares_failure
from .process_sets import ProcessSet, global_process_set, id_of
from .types import Adasum, Average, DataType, Max, Min, Product, ReduceOp, Sum

if _typing.TYPE_CHECKING:
    from typing_extensions import TypeAlias as _TypeAlias

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum", "allgather", "allgather_async", "allreduce", "allreduce_",
    "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "broadcast", "broadcast_",
    "broadcast_async", "broadcast_async_", "grouped_allreduce", "grouped_allreduce_async", "reducescatter",
    "reducescatter_async",
]

Array: _TypeAlias = npt.NDArray[Any]

_TYPES: dict[Any, DataType] = {np.dtype(kind.name): kind for kind in DataType if kind is not DataType.bfloat16}


def data_type(array: Array) -> DataType:
    """Returns the array's hvd_type. TypeError for a type that libhvd does not have."""
    kind = _TYPES.get(array.dtype)
    if kind is not None:
        return kind
    if array.dtype.name == "bfloat16":
        return DataType.bfloat16
    raise TypeError(f"hvd: no collectives on arrays of {array.dtype}")


def _unmasked(tensor: npt.ArrayLike) -> npt.ArrayLike:
    """Returns the argument. TypeError for a masked array, whose mask would be lost."""
    if isinstance(tensor, np.ma.MaskedArray):
        raise TypeError("hvd: collectives do not know the mask of a masked array; give them array.filled(value)")
    return tensor


def _input(tensor: npt.ArrayLike) -> Array:
    array = np.asarray(_unmasked(tensor))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _in_place(array: Array) -> Array:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"hvd: in place works on a numpy array, not on {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError("hvd: in place, but the array is read-only")
    return array


def _rows(array: Array, what: str) -> tuple[int, int]:
    """Returns the number of rows, and of elements per row. ValueError for an array without dimensions."""
    if array.ndim == 0:
        raise ValueError(f"hvd: {what} needs at least one dimension, the one that ranks may differ in")
    return array.shape[0], int(np.prod(array.shape[1:], dtype=np.int64))


@shares_failure("allreduce")
def allreduce_async(tensor: npt.ArrayLike, name: Optional[str] = None, op: ReduceOp = Average,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Reduces the ranks' arrays element by element into a new array. The shape must be the same on all ranks."""
    array = _input(tensor)
    result = np.empty_like(array)
    return _reduce(array, result, result, name, op, prescale_factor, postscale_factor, process_set)


@shares_failure("allreduce")
def allreduce_async_(tensor: Array, name: Optional[str] = None, op: ReduceOp = Average, prescale_factor: float = 1.0,
                     postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Like allreduce_async(), in place: the result is `tensor`."""
    array = _input(_in_place(tensor))
    return _reduce(array, array, tensor, name, op, prescale_factor, postscale_factor, process_set)


def _reduce(array: Array, result: Array, target: Array, name: Optional[str], op: ReduceOp, prescale: float,
            postscale: float, process_set: ProcessSet) -> Handle[Array]:
    number = _collectives.allreduce(array.ctypes.data, result.ctypes.data, array.size, data_type(array), op,
                                    options(name, id_of(process_set), prescale, postscale, shape=array.shape))
    return Handle(number, lambda: _put(result, target), array)


def _put(result: Array, target: Array) -> Array:
    if result is not target:
        target[...] = result
    return target


def allreduce(tensor: npt.ArrayLike, name: Optional[str] = None, op: ReduceOp = Average, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Array:
    """Reduces the ranks' arrays element by element. Returns a new array of the same shape and type.

    tensor: what numpy.asarray() takes; of the same shape and type on all ranks.
    name: by which the ranks match the call, in any order; without one they match it by its number.
    op: hvd.Average (the default), Sum, Min, Max, Product or Adasum.
    prescale_factor, postscale_factor: each rank's array is multiplied by the first before the reduction, the result by
    the second. Integers are multiplied in float64 and truncated. Not for bool.
    process_set: the ranks that take part; all by default. Average divides by their number.
    """
    return allreduce_async(tensor, name, op, prescale_factor, postscale_factor, process_set).wait()


def allreduce_(tensor: Array, name: Optional[str] = None, op: ReduceOp = Average, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Array:
    """Like allreduce(), in place: returns `tensor`, an array, which then has the result."""
    return allreduce_async_(tensor, name, op, prescale_factor, postscale_factor, process_set).wait()


@shares_failure("grouped_allreduce")
def grouped_allreduce_async(tensors: Sequence[npt.ArrayLike], name: Optional[str] = None, op: ReduceOp = Average,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle[list[Array]]:
    """Reduces several arrays of one type as one operation."""
    arrays = [_input(tensor) for tensor in tensors]
    kinds = {data_type(array) for array in arrays}
    if len(kinds) > 1:
        raise TypeError(f"hvd: a group has one type, not {', '.join(sorted(kind.name for kind in kinds))}")
    results = [np.empty_like(array) for array in arrays]
    number = _collectives.grouped_allreduce(
        [array.ctypes.data for array in arrays], [result.ctypes.data for result in results],
        [array.size for array in arrays], kinds.pop() if kinds else DataType.float32, op,
        options(name, id_of(process_set), prescale_factor, postscale_factor))
    return Handle(number, lambda: results, arrays)


def grouped_allreduce(tensors: Sequence[npt.ArrayLike], name: Optional[str] = None, op: ReduceOp = Average,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> list[Array]:
    """Reduces several arrays of one type as one operation. Returns a list of new ones, in the same order."""
    return grouped_allreduce_async(tensors, name, op, prescale_factor, postscale_factor, process_set).wait()


@shares_failure("broadcast")
def broadcast_async(tensor: npt.ArrayLike, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Returns the array of `root_rank` as a new array. The shape must be the same on all ranks.

    root_rank: a number among all ranks of the job; it must be a member of the process set.
    """
    return broadcast_async_(np.array(_unmasked(tensor), order="C"), root_rank, name, process_set)


@shares_failure("broadcast")
def broadcast_async_(tensor: Array, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Like broadcast_async(), in place: the result is `tensor`."""
    array = _input(_in_place(tensor))
    number = _collectives.broadcast(array.ctypes.data, array.size, data_type(array), root_rank,
                                    options(name, id_of(process_set), shape=array.shape))
    return Handle(number, lambda: _put(array, tensor), array)


def broadcast(tensor: npt.ArrayLike, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> Array:
    """Returns the array of `root_rank`, a number among all ranks, as a new array of the same shape and type."""
    return broadcast_async(tensor, root_rank, name, process_set).wait()


def broadcast_(tensor: Array, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> Array:
    """Like broadcast(), in place: returns `tensor`, an array, which then has the values of `root_rank`."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


class _Rows:
    """A result whose number of rows is known only during the collective."""

    def __init__(self, like: Array) -> None:
        self._like = like
        self.array = self._empty(0)

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, *self._like.shape[1:]), self._like.dtype)

    def allocate(self, rows: int) -> int:
        self.array = self._empty(rows)
        return self.array.ctypes.data


@shares_failure("allgather")
def allgather_async(tensor: npt.ArrayLike, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Concatenates the rows of all ranks into a new array, in order of rank. Only the first dimension may differ."""
    array = _input(tensor)
    rows, row_size = _rows(array, "allgather")
    output = _Rows(array)
    return _collectives.allgather(array.ctypes.data, rows, row_size, data_type(array), output.allocate, None,
                                  options(name, id_of(process_set), shape=array.shape[1:]),
                                  lambda: output.array, array)


def allgather(tensor: npt.ArrayLike, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> Array:
    """Concatenates the rows of all ranks into a new array, in order of rank.

    tensor: [rows, ...]. The number of rows may differ between ranks and may be 0; the other dimensions and the type may
    not.
    """
    return allgather_async(tensor, name, process_set).wait()


@shares_failure("alltoall")
def alltoall_async(tensor: npt.ArrayLike, splits: Optional[npt.ArrayLike] = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle[tuple[Array, Array]]:
    """Sends splits[r] rows to rank r of the set, or equally many to each without `splits`.

    The result: the received rows in order of rank, and the number of rows from each rank (int32).
    """
    array = _input(tensor)
    rows, row_size = _rows(array, "alltoall")
    size = process_set.size()
    to_send = None if splits is None else [int(count) for count in np.asarray(splits).reshape(-1)]
    _collectives.check_splits(to_send, size)
    output = _Rows(array)
    received = (c_size_t * size)()
    return _collectives.alltoall(array.ctypes.data, to_send, rows, row_size, data_type(array), output.allocate,
                                 received, options(name, id_of(process_set), shape=array.shape[1:]),
                                 lambda: (output.array, np.array(received[:], np.int32)), array)


def alltoall(tensor: npt.ArrayLike, splits: Optional[npt.ArrayLike] = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> tuple[Array, Array]:
    """Sends each rank its part of the rows. Returns (array, received): the received rows in order of rank, and how many
    came from each rank, in int32.

    tensor: [rows, ...]. The number of rows may differ between ranks; the other dimensions and the type may not.
    splits: how many rows go to each rank of the set: as many integers as there are ranks, whose sum is the number of
    rows. Without it all ranks get equally many, so the rows must be a multiple of the ranks.
    """
    return alltoall_async(tensor, splits, name, process_set).wait()


@shares_failure("reducescatter")
def reducescatter_async(tensor: npt.ArrayLike, name: Optional[str] = None, op: ReduceOp = Average,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                        process_set: ProcessSet = global_process_set) -> Handle[Array]:
    """Reduces the ranks' arrays and returns this rank's rows of the result as a new array.

    The rows are divided evenly; if that leaves a remainder, the first ranks get one row more.
    """
    array = _input(tensor)
    rows, row_size = _rows(array, "reducescatter")
    share = share_of_rows(rows, process_set.rank(), process_set.size())
    result = np.empty((share, *array.shape[1:]), array.dtype)
    number = _collectives.reducescatter(
        array.ctypes.data, rows, row_size, data_type(array), op, result.ctypes.data,
        options(name, id_of(process_set), prescale_factor, postscale_factor, shape=array.shape))
    return Handle(number, lambda: result, array)


def reducescatter(tensor: npt.ArrayLike, name: Optional[str] = None, op: ReduceOp = Average,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                  process_set: ProcessSet = global_process_set) -> Array:
    """Reduces the ranks' arrays and returns this rank's rows of the result as a new array.

    tensor: [rows, ...], with the same shape and type on all ranks. The rows are divided evenly in order of rank; if that
    leaves a remainder, the first ranks get one row more. The other arguments are those of allreduce().
    """
    return reducescatter_async(tensor, name, op, prescale_factor, postscale_factor, process_set).wait()


_arguments.guard(globals(), __all__)
__all__ += _everywhere.__all__

if not _typing.TYPE_CHECKING:
    __getattr__, __dir__ = _names.answers_for(__name__)
