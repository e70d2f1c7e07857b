"""Makes requests for _calls.run(): collectives on the host arrays of TensorFlow's tensors.

Errors: InvalidArgumentError or TypeError for an argument that is wrong by itself; others when the request runs.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from .. import _collectives, errors
from .._collectives import Handle, options, share_of_rows, sharing_failure
from ..numpy import data_type
from ..process_sets import ProcessSet, id_of
from ..types import ReduceOp
from ._calls import Array, Request, empty_aligned


def specs_of(tensor: tf.Tensor) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(tensor.shape, tensor.dtype)]


def _check_rows(tensor: tf.Tensor, what: str) -> None:
    if tensor.shape.rank == 0:
        raise errors.InvalidArgumentError(f"hvd: {what} needs at least one dimension, the one that ranks may differ in")


def _check_set(process_set: ProcessSet) -> None:
    """Raises InvalidArgumentError if the job does not have the set any more."""
    if process_set.process_set_id:
        process_set.included()


def _row_size(array: Array) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64))


def allreduce(tensor: tf.Tensor, name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
              process_set: ProcessSet, wire: int = 0) -> Request:
    """`wire`: see hvd._compression."""
    _check_set(process_set)

    @sharing_failure("allreduce", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        array, = arrays
        result = empty_aligned(array.shape, array.dtype)
        number = _collectives.allreduce(array.ctypes.data, result.ctypes.data, array.size, data_type(array), op,
                                        options(name, id_of(process_set), prescale, postscale, shape=array.shape,
                                                compression=wire))
        return Handle(number, lambda: [result], array)

    return Request(name, [tensor], specs_of(tensor), submit)


def grouped_allreduce(tensors: list[tf.Tensor], name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
                      process_set: ProcessSet, wire: int = 0) -> Request:
    """TypeError if the tensors are of several types."""
    check_one_type(tensors)
    _check_set(process_set)

    @sharing_failure("grouped_allreduce", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        results = [empty_aligned(array.shape, array.dtype) for array in arrays]
        number = _collectives.grouped_allreduce(
            [array.ctypes.data for array in arrays], [result.ctypes.data for result in results],
            [array.size for array in arrays], data_type(arrays[0]), op,
            options(name, id_of(process_set), prescale, postscale, compression=wire))
        return Handle(number, lambda: results, arrays)

    return Request(name, tensors, [spec for tensor in tensors for spec in specs_of(tensor)], submit)


def check_one_type(tensors: list[tf.Tensor]) -> None:
    kinds = {tensor.dtype.name for tensor in tensors}
    if len(kinds) > 1:
        raise TypeError(f"hvd: a group has one type, not {', '.join(sorted(kinds))}")


def broadcast(tensor: tf.Tensor, root: int, name: Optional[str], process_set: ProcessSet) -> Request:
    _check_set(process_set)

    @sharing_failure("broadcast", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        result = empty_aligned(arrays[0].shape, arrays[0].dtype)
        result[...] = arrays[0]
        moved = _as_signed(result)
        number = _collectives.broadcast(moved.ctypes.data, moved.size, data_type(moved), root,
                                        options(name, id_of(process_set), shape=moved.shape))
        return Handle(number, lambda: [result])

    return Request(name, [tensor], specs_of(tensor), submit)


def _as_signed(array: Array) -> Array:
    # libhvd has no uint32 and uint64, the types of the state of Keras's random generators. A broadcast only moves bits.
    return array.view(f"int{array.itemsize * 8}") if array.dtype in (np.uint32, np.uint64) else array


class _Rows:
    """A result whose number of rows is known only during the collective."""

    def __init__(self, like: Array) -> None:
        self._like = like
        self.array = self._empty(0)

    def _empty(self, rows: int) -> Array:
        return empty_aligned((rows, *self._like.shape[1:]), self._like.dtype)

    def allocate(self, rows: int) -> int:
        self.array = self._empty(rows)
        return self.array.ctypes.data


def _int32s(sizes: Any) -> Array:
    return np.array(sizes[:], np.int32)


def allgather(tensor: tf.Tensor, name: Optional[str], process_set: ProcessSet) -> Request:
    """Outputs: the rows of all ranks, and the number of rows from each rank."""
    _check_rows(tensor, "allgather")
    _check_set(process_set)
    size = process_set.size()

    @sharing_failure("allgather", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        array, = arrays
        output = _Rows(array)
        rows_by_rank = (ctypes.c_size_t * size)()
        return _collectives.allgather(
            array.ctypes.data, array.shape[0], _row_size(array), data_type(array), output.allocate, rows_by_rank,
            options(name, id_of(process_set), shape=array.shape[1:]),
            lambda: [output.array, _int32s(rows_by_rank)], array)

    return Request(name, [tensor], [_any_rows(tensor), tf.TensorSpec([size], tf.int32)], submit)


def _any_rows(tensor: tf.Tensor) -> tf.TensorSpec:
    shape = tensor.shape
    return tf.TensorSpec(None if shape.rank is None else [None, *shape[1:]], tensor.dtype)


def alltoall(tensor: tf.Tensor, splits: Optional[tf.Tensor], name: Optional[str], process_set: ProcessSet) -> Request:
    """Outputs: the received rows, and the number of rows from each rank."""
    _check_rows(tensor, "alltoall")
    _check_set(process_set)
    size = process_set.size()

    @sharing_failure("alltoall", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        array = arrays[0]
        rows_to_send = [int(rows) for rows in arrays[1].reshape(-1)] if len(arrays) > 1 else None
        _collectives.check_splits(rows_to_send, size)
        output = _Rows(array)
        received = (ctypes.c_size_t * size)()
        return _collectives.alltoall(
            array.ctypes.data, rows_to_send, array.shape[0], _row_size(array), data_type(array), output.allocate,
            received, options(name, id_of(process_set), shape=array.shape[1:]),
            lambda: [output.array, _int32s(received)], array)

    inputs = [tensor] if splits is None else [tensor, splits]
    return Request(name, inputs, [_any_rows(tensor), tf.TensorSpec([size], tf.int32)], submit)


def reducescatter(tensor: tf.Tensor, name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
                  process_set: ProcessSet) -> Request:
    _check_rows(tensor, "reducescatter")
    rank, size = process_set.rank(), process_set.size()

    @sharing_failure("reducescatter", name, process_set)
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        array, = arrays
        rows = array.shape[0]
        result = empty_aligned((share_of_rows(rows, rank, size), *array.shape[1:]), array.dtype)
        number = _collectives.reducescatter(array.ctypes.data, rows, _row_size(array), data_type(array), op,
                                            result.ctypes.data,
                                            options(name, id_of(process_set), prescale, postscale, shape=array.shape))
        return Handle(number, lambda: [result], array)

    shape = tensor.shape
    if shape.rank is not None:
        rows = None if shape[0] is None else share_of_rows(shape[0], rank, size)
        shape = tf.TensorShape([rows, *shape[1:]])
    return Request(name, [tensor], [tf.TensorSpec(shape, tensor.dtype)], submit)


def barrier(process_set: ProcessSet) -> Request:
    def submit(arrays: list[Array]) -> Handle[list[Array]]:
        return Handle(_collectives.barrier(options(None, id_of(process_set))), lambda: [np.array(0, np.int32)])

    return Request(None, [], [tf.TensorSpec([], tf.int32)], submit)


def join() -> Request:
    """Output: the number of the rank that joined last. Ends when all ranks have joined."""
    return Request(None, [], [tf.TensorSpec([], tf.int32)], lambda arrays: _Join())


class _Join:
    def wait(self) -> list[Array]:
        return [np.array(_collectives.join(), np.int32)]
