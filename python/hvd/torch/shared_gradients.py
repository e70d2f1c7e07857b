"""Gradients in memory that the ranks of a host share (hvd_alloc), so that a reduction on the CPU does not copy them.

A Reducer uses it, on the threads of backward(), for one parameter at a time. Each rank decides alone: libhvd copies a
gradient if another rank's is in ordinary memory. The same happens if memory cannot be shared.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterable
from typing import Any, Optional

import torch

from .._library import check, declare, lib
from ..errors import Error

declare({"hvd_alloc": (ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)),
         "hvd_free": (ctypes.c_int32, ctypes.c_void_p)})

# libhvd packs gradients of up to this many bytes with others, so that these are copied anyway.
_PACKED_BYTES = 4096
_ALIGNMENT = 64  # bytes: gradients of two parameters are in different cache lines


class GradientMemory:
    """Shared memory for the gradient of one parameter: `size` bytes of `memory`."""

    __slots__ = ("_buffer", "_unused")

    def __init__(self, memory: Any, offset: int, size: int) -> None:
        # A buffer of its own, so that a copy or a file of one gradient has no other in it.
        self._buffer = (ctypes.c_char * size).from_buffer(memory, offset)
        self._unused = sys.getrefcount(self._buffer)

    def take_over(self, parameter: torch.Tensor) -> None:
        """Moves a gradient that backward() has made into this memory.

        Leaves a gradient where it is if the program may have other references to it, or if it still has the one that
        was in this memory before.
        """
        gradient = parameter.grad
        # To a gradient that was there before, backward() has added in place. Every tensor in this memory, and every view
        # of one, holds a reference to the buffer.
        if gradient is None or gradient._version > 0 or sys.getrefcount(self._buffer) > self._unused:
            return
        if gradient.layout is not torch.strided or gradient.device.type != "cpu":
            return
        if _bytes_of(gradient) > len(self._buffer):
            return  # the program has changed the parameter's type
        with torch.no_grad():
            moved = torch.frombuffer(self._buffer, dtype=gradient.dtype, count=gradient.numel()).view(gradient.shape)
            parameter.grad = moved.copy_(gradient)


def shared_gradients(tensors: Iterable[torch.Tensor]) -> list[Optional[GradientMemory]]:
    """Returns memory for the gradient of each tensor; None where sharing gains nothing.

    It is freed when neither a GradientMemory nor a tensor uses it any more.
    """
    sizes = [_bytes_of(tensor) if tensor.device.type == "cpu" and tensor.is_contiguous() else 0 for tensor in tensors]
    sizes = [size if size > _PACKED_BYTES else 0 for size in sizes]
    memory = _allocate(sum(map(_aligned, sizes)))
    if memory is None:
        return [None] * len(sizes)
    found: list[Optional[GradientMemory]] = []
    offset = 0
    for size in sizes:
        found.append(GradientMemory(memory, offset, size) if size else None)
        offset += _aligned(size)
    return found


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _allocate(size: int) -> Any:
    """Returns a buffer of that many bytes; None if there is no memory, or none is needed."""
    if size == 0:
        return None
    address = ctypes.c_void_p()
    try:
        check(lib.hvd_alloc(size, ctypes.byref(address)))
    except Error:
        return None
    assert address.value is not None
    buffer = (ctypes.c_char * size).from_address(address.value)
    # Not at the end of the process: other threads may use it until then.
    weakref.finalize(buffer, _free, address.value, os.getpid()).atexit = False
    return buffer


def _free(address: int, owner: int) -> None:
    """Frees memory in the process that allocated it; a forked child leaves it to its parent."""
    if os.getpid() == owner:
        lib.hvd_free(address)
