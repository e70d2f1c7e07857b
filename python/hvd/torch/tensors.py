"""Access to torch's tensors for libhvd: address, type, device and stream, and the memory of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional

import torch

from .. import _collectives, errors
from .._compression import wire_of
from .._library import CUDA, Options
from ..process_sets import ProcessSet, id_of
from ..types import DataType

_TYPES = {getattr(torch, kind.name): int(kind) for kind in DataType if hasattr(torch, kind.name)}

_ON_ANY_DEVICE: AbstractContextManager[Any] = nullcontext()

# By device: a stream that never gets work. See Rows.
_allocation_streams: dict[torch.device, Any] = {}


def data_type(tensor: torch.Tensor) -> int:
    """Returns the tensor's hvd_type. InvalidArgumentError, a ValueError, for a type that libhvd does not have."""
    kind = _TYPES.get(tensor.dtype)
    if kind is None:
        raise errors.InvalidArgumentError(f"hvd: tensors of {tensor.dtype} are not supported")
    return kind


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a contiguous copy of it.

    Errors: TypeError for anything but a tensor; InvalidArgumentError unless it is dense and on a CPU or a CUDA device.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"hvd: {tensor!r} is not a torch.Tensor")
    if tensor.layout is not torch.strided:
        raise errors.InvalidArgumentError(
            f"hvd: a tensor of layout {tensor.layout}; hvd.sparse_allreduce_async() takes sparse_coo ones, others must "
            "be made dense")
    if not (tensor.is_cuda or tensor.device.type == "cpu"):
        raise errors.InvalidArgumentError(f"hvd: a tensor on {tensor.device}; collectives take cpu and cuda tensors")
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    with torch.no_grad():
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def refuse_leaf(tensor: torch.Tensor) -> None:
    """Raises RuntimeError if autograd could not follow a change in place, as torch's own operations do."""
    if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
        raise RuntimeError(
            "hvd: a reduction in place of a leaf tensor that requires grad, which autograd cannot follow; call it "
            "under torch.no_grad(), or on tensor.data")


def one_device(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Raises InvalidArgumentError, which names two of the devices, for tensors on several devices."""
    for index, tensor in enumerate(tensors):
        if tensor.device != tensors[0].device:
            raise errors.InvalidArgumentError(
                f"hvd: {what} of tensors on one device: tensor 0 is on {tensors[0].device}, tensor {index} on "
                f"{tensor.device}")


def rows_of(tensor: torch.Tensor, what: str) -> tuple[int, int]:
    """Returns the number of rows, and of elements per row. InvalidArgumentError for a tensor without dimensions."""
    if tensor.dim() == 0:
        raise errors.InvalidArgumentError(
            f"hvd: {what} needs a tensor of at least one dimension, that of the rows; this one has none")
    return tensor.shape[0], math.prod(tensor.shape[1:])


def empty_rows(like: torch.Tensor, rows: int) -> torch.Tensor:
    return torch.empty((rows, *like.shape[1:]), dtype=like.dtype, device=like.device)


def stream_of(tensor: torch.Tensor) -> Any:
    """Returns the current stream of the tensor's device; None on a CPU."""
    return torch.cuda.current_stream(tensor.device) if tensor.is_cuda else None


def device_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Returns a context in which the tensor's device is the current one, as libhvd requires."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else _ON_ANY_DEVICE


def options(stream: Any, shape: Optional[Sequence[int]], name: Optional[str], process_set: ProcessSet,
            prescale: float = 1.0, postscale: float = 1.0, compression: Any = None) -> Options:
    """Returns a call's options. `stream`: from stream_of(). `shape`: the dimensions that must be equal on all ranks."""
    wire = wire_of(compression)
    if stream is None:
        return _collectives.options(name, id_of(process_set), prescale, postscale, shape=shape, compression=wire)
    return _collectives.options(name, id_of(process_set), prescale, postscale, CUDA, stream.cuda_stream, shape, wire)


def follow(stream: Any, tensor: torch.Tensor, allocated_on: Any) -> None:
    """Lets later work on the current stream use the tensor: such work runs after all present work of `stream`.

    allocated_on: the stream on which the tensor's memory was allocated.
    """
    current = torch.cuda.current_stream(tensor.device)
    if current != stream:
        current.wait_stream(stream)
    if current != allocated_on:
        tensor.record_stream(current)


class Output:
    """A result whose size is known. The handle calls it when the collective is done."""

    __slots__ = ("_buffer", "_target", "_stream")

    def __init__(self, buffer: torch.Tensor, target: torch.Tensor, stream: Any) -> None:
        """`target`: the tensor to return, which is `buffer`, or the caller's tensor of which `buffer` is a copy."""
        self._buffer = buffer
        self._target = target
        self._stream = stream

    def __call__(self) -> torch.Tensor:
        if self._stream is not None:
            follow(self._stream, self._buffer, self._stream)
        if self._buffer is not self._target:
            with torch.no_grad():
                self._target.copy_(self._buffer)
        return self._target


class Rows:
    """A result whose number of rows is known only during the collective. The handle calls it when that is done.

    libhvd's thread asks for the memory while the collective runs, when the caller's stream may already have more work.
    A block that such work has freed must not be reused. So on a GPU the memory comes from a stream that never has work,
    and passes to the caller's stream in wait().
    """

    __slots__ = ("_like", "_stream", "_tensor")

    def __init__(self, like: torch.Tensor, stream: Any) -> None:
        self._like = like
        self._stream = stream
        self._tensor: Optional[torch.Tensor] = None

    def allocate(self, rows: int) -> int:
        """Allocates the rows, and returns their address. Runs on libhvd's thread."""
        if self._stream is None:
            self._tensor = empty_rows(self._like, rows)
        else:
            with torch.cuda.stream(_allocation_stream(self._like.device)):
                self._tensor = empty_rows(self._like, rows)
        return self._tensor.data_ptr()

    def __call__(self) -> torch.Tensor:
        if self._tensor is None:
            return empty_rows(self._like, 0)
        if self._stream is not None:
            follow(self._stream, self._tensor, _allocation_stream(self._like.device))
        return self._tensor


def _allocation_stream(device: torch.device) -> Any:
    stream = _allocation_streams.get(device)
    if stream is None:
        stream = _allocation_streams[device] = torch.cuda.Stream(device)
    return stream
