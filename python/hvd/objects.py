"""Broadcast and allgather of Python objects, as pickles (of cloudpickle if installed, which also takes functions)."""

from __future__ import annotations

import ctypes
import io
import pickle
from typing import Any, Optional

from . import _collectives
from ._collectives import Handle, options, sharing_failure
from .job import is_root
from .process_sets import ProcessSet, global_process_set, id_of
from .types import DataType


def _pickled(thing: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    buffer = io.BytesIO()
    cloudpickle.dump(thing, buffer)
    return buffer.getvalue()


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """Returns the object of `root_rank` (a number among all ranks): the same object there, a copy on other ranks.

    If the object cannot be pickled, `root_rank` raises pickle's exception, and the others InvalidArgumentError with its
    text.
    """
    base = name or "broadcast_object"
    root = is_root(root_rank)
    with sharing_failure("broadcast", f"{base}.size", process_set):
        data = _pickled(obj) if root else b""
    length = ctypes.c_int64(len(data))
    _broadcast(ctypes.addressof(length), 8, root_rank, f"{base}.size", process_set)
    buffer = ctypes.create_string_buffer(data, length.value) if root else ctypes.create_string_buffer(length.value)
    _broadcast(ctypes.addressof(buffer), length.value, root_rank, f"{base}.data", process_set)
    return obj if root else pickle.loads(buffer.raw)


def _broadcast(address: int, size: int, root: int, name: str, process_set: ProcessSet) -> None:
    number = _collectives.broadcast(address, size, DataType.uint8, root, options(name, id_of(process_set)))
    Handle(number, lambda: None).wait()


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Returns the objects of all ranks of the set, in order of rank.

    If a rank's object cannot be pickled, that rank raises pickle's exception, and the others InvalidArgumentError with
    its text.
    """
    with sharing_failure("allgather", name or "allgather_object", process_set):
        data = _pickled(obj)
    source = ctypes.create_string_buffer(data, len(data))
    sizes = (ctypes.c_size_t * process_set.size())()
    gathered = [ctypes.create_string_buffer(0)]

    def allocate(rows: int) -> int:
        gathered[0] = ctypes.create_string_buffer(rows)
        return ctypes.addressof(gathered[0])

    _collectives.allgather(ctypes.addressof(source), len(data), 1, DataType.uint8, allocate, sizes,
                           options(name or "allgather_object", id_of(process_set)), lambda: None, source).wait()
    view = memoryview(gathered[0])
    objects = []
    begin = 0
    for size in sizes:
        objects.append(pickle.loads(view[begin : begin + size]))
        begin += size
    return objects
