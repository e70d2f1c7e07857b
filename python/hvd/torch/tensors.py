"""torch's tensors as libhvd sees them: address, type, device, stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Optional

import torch

from .. import _collectives, errors
from .._library import CUDA, Options
from ..process_sets import ProcessSet, id_of
from ..types import DataType

_TYPES = {getattr(torch, kind.name): int(kind) for kind in DataType if hasattr(torch, kind.name)}

_ON_ANY_DEVICE: AbstractContextManager[Any] = nullcontext()

# By device: a stream that never gets work, see Rows.
_allocation_streams: dict[torch.device, Any] = {}


def data_type(tensor: torch.Tensor) -> int:
    """The number of hvd_type. InvalidArgumentError, a ValueError, for a type that libhvd does not have."""
    kind = _TYPES.get(tensor.dtype)
    if kind is None:
        raise errors.InvalidArgumentError(f"hvd: tensors of {tensor.dtype} are not supported")
    return kind


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy of it. Errors for what is no dense tensor on a CPU or a CUDA device."""
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
    """RuntimeError where autograd would not know of a change in place, as for torch's own operations."""
    if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
        raise RuntimeError(
            "hvd: a reduction in place of a leaf tensor that requires grad, which autograd cannot follow; call it "
            "under torch.no_grad(), or on tensor.data")


def one_device(tensors: Sequence[torch.Tensor], what: str) -> None:
    """InvalidArgumentError, which names both, for tensors on several devices."""
    for index, tensor in enumerate(tensors):
        if tensor.device != tensors[0].device:
            raise errors.InvalidArgumentError(
                f"hvd: {what} of tensors on one device: tensor 0 is on {tensors[0].device}, tensor {index} on "
                f"{tensor.device}")


def rows_of(tensor: torch.Tensor, what: str) -> tuple[int, int]:
    """Rows, and elements of each."""
    if tensor.dim() == 0:
        raise errors.InvalidArgumentError(
            f"hvd: {what} needs a tensor of at least one dimension, that of the rows; this one has none")
    return tensor.shape[0], math.prod(tensor.shape[1:])


def empty_rows(like: torch.Tensor, rows: int) -> torch.Tensor:
    return torch.empty((rows, *like.shape[1:]), dtype=like.dtype, device=like.device)


def stream_of(tensor: torch.Tensor) -> Any:
    """The current stream of its device; None on a CPU."""
    return torch.cuda.current_stream(tensor.device) if tensor.is_cuda else None


def device_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Inside, its device is the current one, as libhvd asks for."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else _ON_ANY_DEVICE


def options(stream: Any, shape: Optional[Sequence[int]], name: Optional[str], process_set: ProcessSet,
            prescale: float = 1.0, postscale: float = 1.0) -> Options:
    """`stream`: of stream_of(). `shape`: what ranks must agree in."""
    if stream is None:
        return _collectives.options(name, id_of(process_set), prescale, postscale, shape=shape)
    return _collectives.options(name, id_of(process_set), prescale, postscale, CUDA, stream.cuda_stream, shape)


def follow(stream: Any, tensor: torch.Tensor, allocated_on: Any) -> None:
    """What the current stream gets from now on comes behind what `stream` has, and may use the tensor, whose memory
    was allocated on the stream `allocated_on`."""
    current = torch.cuda.current_stream(tensor.device)
    if current != stream:
        current.wait_stream(stream)
    if current != allocated_on:
        tensor.record_stream(current)


class Output:
    """A result whose size is known: what a handle calls when it is done."""

    __slots__ = ("_buffer", "_target", "_stream")

    def __init__(self, buffer: torch.Tensor, target: torch.Tensor, stream: Any) -> None:
        """`target` is returned; it is `buffer`, or the tensor of the caller that `buffer` is a copy of."""
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
    """A result of as many rows as come.

    Its memory is asked for by the thread that carries the collective out, while the caller's stream may have got more
    work. A block that this work has given back must not be taken: so on a GPU it comes from a stream that has no work,
    and is the caller's stream's from wait() on.
    """

    __slots__ = ("_like", "_stream", "_tensor")

    def __init__(self, like: torch.Tensor, stream: Any) -> None:
        self._like = like
        self._stream = stream
        self._tensor: Optional[torch.Tensor] = None

    def allocate(self, rows: int) -> int:
        """The address of room for them."""
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
