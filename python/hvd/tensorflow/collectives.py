"""The collectives on tensors, in eager mode and in a tf.function, with their gradients.

Arguments and results are Horovod's where Horovod has them. `device_dense` and `device_sparse` may only name a CPU,
because the ranks exchange host memory. In a graph a collective without a name gets one made from the name of its
tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

import numpy as np
import tensorflow as tf

from .. import errors, job
from .._compression import refuse_wire, wire_of
from .._retired import op_of
from ..process_sets import ProcessSet, global_process_set
from ..types import Average, ReduceOp, Sum
from . import _requests
from ._calls import Request, as_written, name_of, numbered, run
from .compression import Compression

Dense = Any  # anything that tf.convert_to_tensor() takes
Gradient = Union[tf.Tensor, tf.IndexedSlices, None]


def check_device(device: str, argument: str) -> None:
    """Raises UnsupportedError for a device that is not a CPU."""
    if device and "cpu" not in str(device).lower():
        raise errors.UnsupportedError(f"hvd: {argument}={device!r}: TensorFlow's collectives are of host memory; "
                                      "leave the argument out")


def _one(request: Request) -> list[tf.Tensor]:
    return run([request])[0]


def _gradient_name(name: Optional[str]) -> Optional[str]:
    # With a number, because several gradients may pass through one collective.
    return name and numbered(f"{name}.gradient")


def _dense(gradient: Any) -> tf.Tensor:
    # The gradient of tf.gather() is sparse.
    return tf.convert_to_tensor(gradient)


def _linear(op: ReduceOp) -> None:
    if op not in (Average, Sum):
        raise errors.UnsupportedError(f"hvd: a reduction with op={op.name} has no gradient here; Average and Sum have")


# ---- allreduce ------------------------------------------------------------------------------------

@as_written
def allreduce(tensor: Union[Dense, tf.IndexedSlices], average: Optional[bool] = None, device_dense: str = "",
              device_sparse: str = "", compression: Any = Compression.none, op: Optional[ReduceOp] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set,
              ignore_name_scope: bool = False) -> Union[tf.Tensor, tf.IndexedSlices]:
    """Reduces the ranks' tensors element by element. Returns a new one of the same shape and type.

    tensor: what tf.convert_to_tensor() takes, or tf.IndexedSlices; of the same shape and type on all ranks.
    op: hvd.Average (the default), Sum, Min, Max, Product or Adasum. average: its deprecated name, True or False.
    prescale_factor, postscale_factor: each rank's tensor is multiplied by the first before the reduction, the result by
    the second. Not for bool.
    compression: the form in which it is sent, such as hvd.Compression.fp16.
    name: by which the ranks match the call; in a graph every call gets one.
    process_set: the ranks that take part; all by default. Average divides by their number.

    For tf.IndexedSlices (op Average or Sum) the result has the slices of all ranks, which represent their sum.
    """
    check_device(device_dense, "device_dense")
    check_device(device_sparse, "device_sparse")
    op = ReduceOp(op_of(op, average))
    if isinstance(tensor, tf.IndexedSlices):
        values = tensor.values
        base = name_of(name, "allreduce", values, ignore_name_scope)
        return _reduce_slices([tensor], [base], op, prescale_factor * postscale_factor, process_set)[0]
    tensor = tf.convert_to_tensor(tensor)
    base = name_of(name, "allreduce", tensor, ignore_name_scope)
    compressed, context = compression.compress(tensor)
    reduced = _allreduce(compressed, base, op, prescale_factor, postscale_factor, process_set, wire_of(compression))
    return compression.decompress(reduced, context)


def _allreduce(tensor: tf.Tensor, name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
               process_set: ProcessSet, wire: int = 0) -> tf.Tensor:
    @tf.custom_gradient
    def reduced(value: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            _linear(op)
            return _allreduce(_dense(upstream), _gradient_name(name), op, prescale, postscale, process_set, wire)

        return _one(_requests.allreduce(value, name, op, prescale, postscale, process_set, wire))[0], gradient

    return reduced(tensor)


@as_written
def sum_over_ranks(tensor: tf.Tensor, name: Optional[str]) -> tf.Tensor:
    """Like allreduce() with op Sum, under exactly the given name."""
    return _allreduce(tensor, name, Sum, 1.0, 1.0, global_process_set)


def _suffixed(name: Optional[str], suffix: object) -> Optional[str]:
    return name and f"{name}.{suffix}"


def slices_requests(slices: tf.IndexedSlices, name: Optional[str], op: ReduceOp,
                    process_set: ProcessSet) -> list[Request]:
    """Returns the two allgathers that reduce sparse gradients; slices_of() makes the result of their outputs."""
    if op not in (Average, Sum):
        raise NotImplementedError(f"hvd: tf.IndexedSlices with op={op.name}; Average and Sum are what they can do")
    return [_requests.allgather(slices.values, _suffixed(name, "values"), process_set),
            _requests.allgather(slices.indices, _suffixed(name, "indices"), process_set)]


def slices_of(values: tf.Tensor, indices: tf.Tensor, like: tf.IndexedSlices, op: ReduceOp, factor: float,
              process_set: ProcessSet) -> tf.IndexedSlices:
    """Makes the reduced slices from the outputs of slices_requests(), multiplied by `factor`."""
    if op == Average:
        values = values / tf.cast(process_set.size(), values.dtype)
    if factor != 1.0:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, indices, like.dense_shape)


def _reduce_slices(slices: Sequence[tf.IndexedSlices], names: Sequence[Optional[str]], op: ReduceOp, factor: float,
                   process_set: ProcessSet) -> list[tf.IndexedSlices]:
    if factor != 1.0 and not all(entry.dtype.is_floating for entry in slices):
        raise NotImplementedError("hvd: prescale_factor and postscale_factor of tf.IndexedSlices are for floating "
                                  "point values")
    requests = [request for entry, name in zip(slices, names)
                for request in slices_requests(entry, name, op, process_set)]
    results = iter(run(requests))
    return [slices_of(next(results)[0], next(results)[0], entry, op, factor, process_set) for entry in slices]


@as_written
def grouped_allreduce(tensors: Sequence[Union[Dense, tf.IndexedSlices]], average: Optional[bool] = None,
                      device_dense: str = "", device_sparse: str = "", compression: Any = Compression.none,
                      op: Optional[ReduceOp] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set, ignore_name_scope: bool = False,
                      name: Optional[str] = None) -> list[Any]:
    """Reduces several tensors as one operation. After compression they must be of one type."""
    check_device(device_dense, "device_dense")
    check_device(device_sparse, "device_sparse")
    op = ReduceOp(op_of(op, average))
    results: list[Any] = [None] * len(tensors)
    sparse = [index for index, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    dense = [index for index in range(len(tensors)) if index not in sparse]
    if sparse:
        slices = [tensors[index] for index in sparse]
        names = [_suffixed(name_of(name, "grouped_allreduce", entry.values, ignore_name_scope), index)
                 for index, entry in zip(sparse, slices)]
        factor = prescale_factor * postscale_factor
        for index, entry in zip(sparse, _reduce_slices(slices, names, op, factor, process_set)):
            results[index] = entry
    if dense:
        values = [tf.convert_to_tensor(tensors[index]) for index in dense]
        base = name_of(name, "grouped_allreduce", values[0], ignore_name_scope)
        compressed, contexts = zip(*(compression.compress(value) for value in values))
        reduced = _grouped_allreduce(list(compressed), base, op, prescale_factor, postscale_factor, process_set,
                                     wire_of(compression))
        for index, value, context in zip(dense, reduced, contexts):
            results[index] = compression.decompress(value, context)
    return results


def _grouped_allreduce(tensors: list[tf.Tensor], name: Optional[str], op: ReduceOp, prescale: float, postscale: float,
                       process_set: ProcessSet, wire: int = 0) -> list[tf.Tensor]:
    @tf.custom_gradient
    def reduced(*values: tf.Tensor) -> Any:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            _linear(op)
            return _grouped_allreduce([_dense(entry) for entry in upstream], _gradient_name(name), op, prescale,
                                      postscale, process_set, wire)

        return tuple(_one(_requests.grouped_allreduce(list(values), name, op, prescale, postscale, process_set,
                                                      wire))), gradient

    return list(reduced(*tensors))


# ---- allgather ------------------------------------------------------------------------------------

@as_written
def allgather(tensor: Dense, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """Concatenates the rows of all ranks, in order of rank.

    tensor: [rows, ...]. The number of rows may differ between ranks and may be 0; the other dimensions and the type may
    not.
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@as_written
def grouped_allgather(tensors: Sequence[Dense], name: Optional[str] = None, ignore_name_scope: bool = False,
                      process_set: ProcessSet = global_process_set) -> list[tf.Tensor]:
    """Like allgather(), for several tensors in one call."""
    if not tensors:
        return []
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    base = name_of(name, "allgather", values[0], ignore_name_scope)
    return _allgather(values, _numbered(base, len(values)), process_set)


def _numbered(name: Optional[str], count: int) -> list[Optional[str]]:
    return [name] if count == 1 else [_suffixed(name, index) for index in range(count)]


def _allgather(tensors: list[tf.Tensor], names: list[Optional[str]], process_set: ProcessSet) -> list[tf.Tensor]:
    @tf.custom_gradient
    def gathered(*values: tf.Tensor) -> Any:
        results = run([_requests.allgather(value, name, process_set) for value, name in zip(values, names)])

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            averaged = [request[0] for request in run([
                _requests.allreduce(_dense(entry), _gradient_name(name), Average, 1.0, 1.0, process_set)
                for entry, name in zip(upstream, names)])]
            return [_own_rows(entry, result[1], process_set) for entry, result in zip(averaged, results)]

        return tuple(result[0] for result in results), gradient

    return list(gathered(*tensors))


def _own_rows(tensor: tf.Tensor, rows_by_rank: tf.Tensor, process_set: ProcessSet) -> tf.Tensor:
    rank = process_set.rank()
    begin = tf.reduce_sum(rows_by_rank[:rank])
    return tensor[begin : begin + rows_by_rank[rank]]


# ---- broadcast ------------------------------------------------------------------------------------

@as_written
def broadcast(tensor: Dense, root_rank: int, name: Optional[str] = None, ignore_name_scope: bool = False,
              process_set: ProcessSet = global_process_set) -> tf.Tensor:
    """Returns the tensor of `root_rank`, a number among all ranks. The shape must be the same on all ranks."""
    value = tf.convert_to_tensor(tensor)
    return _broadcast(value, root_rank, name_of(name, "broadcast", value, ignore_name_scope), process_set)


def _broadcast(tensor: tf.Tensor, root: int, name: Optional[str], process_set: ProcessSet) -> tf.Tensor:
    @tf.custom_gradient
    def sent(value: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            averaged = _allreduce(_dense(upstream), _gradient_name(name), Average, 1.0, 1.0, process_set)
            if job.is_root(root):
                return averaged
            # The root waits for this rank's part of the average, which a plain constant would not run.
            with tf.control_dependencies([averaged]):
                return tf.identity(tf.zeros_like(averaged))

        return _one(_requests.broadcast(value, root, name, process_set))[0], gradient

    return sent(tensor)


@as_written
def broadcast_(variables: Sequence[Any], root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> list[tf.Tensor]:
    """Assigns to the variables their values on `root_rank`, and returns these."""
    values = [tf.convert_to_tensor(variable) for variable in variables]
    base = name_of(name or "broadcast_variables", "", None, ignore_name_scope=True)
    results = run([_requests.broadcast(value, root_rank, f"{base}.{index}", process_set)
                   for index, value in enumerate(values)])
    assigned = []
    for variable, (value,) in zip(variables, results):
        done = variable.assign(value)
        assigned.append(tf.convert_to_tensor(variable) if done is None else tf.convert_to_tensor(done))
    return assigned


# ---- alltoall -------------------------------------------------------------------------------------

@as_written
def alltoall(tensor: Dense, splits: Optional[Dense] = None, name: Optional[str] = None,
             ignore_name_scope: bool = False, process_set: ProcessSet = global_process_set) -> Any:
    """Sends each rank its part of the rows.

    tensor: [rows, ...]. The number of rows may differ between ranks; the other dimensions and the type may not.
    splits: how many rows go to each rank of the set: as many integers as there are ranks, whose sum is the number of
    rows. Without it all ranks get equally many, so the rows must be a multiple of the ranks.

    Returns the received rows in order of rank; with `splits` a pair of these and the number of rows from each rank.
    """
    value = tf.convert_to_tensor(tensor)
    to_send = None if splits is None else tf.convert_to_tensor(splits)
    rows, received = _alltoall(value, to_send, name_of(name, "alltoall", value, ignore_name_scope), process_set)
    return rows if splits is None else (rows, received)


def _alltoall(tensor: tf.Tensor, splits: Optional[tf.Tensor], name: Optional[str],
              process_set: ProcessSet) -> tuple[tf.Tensor, tf.Tensor]:
    @tf.custom_gradient
    def exchanged(value: tf.Tensor) -> Any:
        rows, received = _one(_requests.alltoall(value, splits, name, process_set))

        def gradient(upstream: tf.Tensor, _: Any) -> tf.Tensor:
            return _alltoall(_dense(upstream), received, _gradient_name(name), process_set)[0]

        return (rows, received), gradient

    return exchanged(tensor)


# ---- reducescatter --------------------------------------------------------------------------------

@as_written
def reducescatter(tensor: Dense, device_dense: str = "", compression: Any = Compression.none, op: ReduceOp = Average,
                  name: Optional[str] = None, process_set: ProcessSet = global_process_set,
                  ignore_name_scope: bool = False, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> tf.Tensor:
    """Reduces the ranks' tensors and returns this rank's rows of the result.

    The rows are divided evenly; if that leaves a remainder, the first ranks get one row more.
    """
    return grouped_reducescatter([tensor], device_dense, compression, op, process_set, prescale_factor,
                                 postscale_factor, name, ignore_name_scope)[0]


@as_written
def grouped_reducescatter(tensors: Sequence[Dense], device_dense: str = "", compression: Any = Compression.none,
                          op: ReduceOp = Average, process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0, postscale_factor: float = 1.0, name: Optional[str] = None,
                          ignore_name_scope: bool = False) -> list[tf.Tensor]:
    """Like reducescatter(), for several tensors in one call."""
    check_device(device_dense, "device_dense")
    refuse_wire(compression, "reducescatter")
    if not tensors:
        return []
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    base = name_of(name, "reducescatter", values[0], ignore_name_scope)
    compressed, contexts = zip(*(compression.compress(value) for value in values))
    reduced = _reducescatter(list(compressed), _numbered(base, len(values)), ReduceOp(op), prescale_factor,
                             postscale_factor, process_set)
    return [compression.decompress(value, context) for value, context in zip(reduced, contexts)]


def _reducescatter(tensors: list[tf.Tensor], names: list[Optional[str]], op: ReduceOp, prescale: float,
                   postscale: float, process_set: ProcessSet) -> list[tf.Tensor]:
    @tf.custom_gradient
    def scattered(*values: tf.Tensor) -> Any:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            _linear(op)
            # Horovod's factor: the gradient for Sum is that for Average multiplied by the number of ranks.
            factor = prescale * postscale * (process_set.size() if op == Sum else 1)
            scaled = [_dense(entry) * tf.cast(factor, entry.dtype) for entry in upstream]
            return _allgather(scaled, [_gradient_name(name) for name in names], process_set)

        results = run([_requests.reducescatter(value, name, op, prescale, postscale, process_set)
                       for value, name in zip(values, names)])
        return tuple(result[0] for result in results), gradient

    return list(scattered(*tensors))


# ---- without tensors ------------------------------------------------------------------------------

@as_written
def barrier(process_set: ProcessSet = global_process_set) -> Optional[tf.Operation]:
    """Waits until all ranks of the set have called it. In a graph, returns the operation that waits."""
    done = _one(_requests.barrier(process_set))[0]
    return None if tf.executing_eagerly() else done.op


@as_written
def join() -> tf.Tensor:
    """Waits until all ranks have called join(). Call it on a rank that has no more data.

    Meanwhile the rank takes part in the others' allreduces with zeros. Returns the rank that called last.
    """
    return _one(_requests.join())[0]


@as_written
def number_op(number: Callable[[], int], name: Optional[str]) -> tf.Tensor:
    """Returns an int32 tensor with the value of number(), which is called when the operation runs."""
    if tf.executing_eagerly():
        return tf.constant(number(), tf.int32)
    tensor = tf.numpy_function(lambda: np.int32(number()), [], tf.int32, name=name)
    tensor.set_shape(())
    return tensor
