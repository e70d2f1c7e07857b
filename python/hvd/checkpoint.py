"""Checkpoints: a folder of them, each complete or absent, which any number of ranks can load.

    with hvd.checkpoint.Checkpoints("run-1", keep_last=3, best="min") as checkpoints:
        loaded = checkpoints.load()
        if loaded:
            model.load_state_dict(loaded["model"])
            optimizer.load_state_dict(loaded["optimizer"])
        ...
        checkpoints.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, step, loss)

A state is anything that can be pickled: usually a dict, with numpy arrays and torch tensors at any depth. Tensors are
stored by name, everything else in one pickle. docs/reference/formats/checkpoint.md specifies the files.

Loading a checkpoint unpickles it, and a pickle can run any code. Load only checkpoints from people whose programs you
would run.
"""

from __future__ import annotations

import ctypes
import math
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

from . import _library, _state, job
from ._collectives import sharing_failure
from ._library import check, lib, whole
from ._state import Split, Tensor
from .io import on_root

KEEP_ALL = -1  # for keep_last

_BEST = {None: 0, "min": 1, "max": 2}  # hvd_best
_WHICH = {"newest": 0, "best": 1}  # hvd_which

_RESIZE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
_NO_RESIZE: Any = ctypes.cast(0, _RESIZE)


class _Item(ctypes.Structure):
    """hvd_tensor_view."""

    _fields_ = [
        ("name", c_char_p),
        ("type", c_int32),
        ("dims", c_int32),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("resize", _RESIZE),
        ("context", c_void_p),
    ]


class _Options(ctypes.Structure):
    """hvd_checkpoints_options."""

    _fields_ = [("struct_size", c_size_t), ("keep_last", c_int32), ("best", c_int32), ("sharded", c_int32),
                ("read_only", c_int32)]


class _Checkpoint(ctypes.Structure):
    """hvd_checkpoint."""

    _fields_ = [("struct_size", c_size_t), ("found", c_int32), ("has_metric", c_int32), ("step", c_uint64),
                ("metric", c_double), ("items", c_size_t), ("path", c_char_p)]


_library.declare({
    "hvd_checkpoints_open": (c_int32, c_char_p, POINTER(_Options), POINTER(c_void_p)),
    "hvd_checkpoints_save": (c_int32, c_void_p, POINTER(_Item), c_size_t, c_uint64, POINTER(c_double)),
    "hvd_checkpoints_wait": (c_int32, c_void_p),
    "hvd_checkpoints_load": (c_int32, c_void_p, POINTER(_Item), c_size_t, c_int32, POINTER(_Checkpoint)),
    "hvd_checkpoints_find": (c_int32, c_void_p, c_int32, POINTER(_Checkpoint)),
    "hvd_checkpoints_item": (c_int32, c_void_p, c_size_t, POINTER(_Item)),
    "hvd_checkpoints_close": (c_int32, c_void_p),
})


@dataclass(frozen=True)
class ItemInfo:
    """The name, type and size of an item in a checkpoint."""

    name: str
    type: str  # "float32", "bytes", ...
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Found:
    """A checkpoint in the folder, without its data."""

    step: int
    metric: Optional[float]
    path: str
    items: tuple[ItemInfo, ...]


@dataclass(frozen=True)
class Loaded:
    """A loaded checkpoint. loaded["model"] is loaded.state["model"]."""

    step: int
    metric: Optional[float]
    path: str
    state: Any

    def __getitem__(self, key: Any) -> Any:
        return self.state[key]


class Checkpoints:
    """A folder of checkpoints, locked against other jobs until close(). Every call except close() is a collective.

    keep_last: the number of checkpoints to keep, or KEEP_ALL.
    best: also keeps the checkpoint with the smallest ("min") or largest ("max") metric.
    sharded: each rank writes a part, into a folder that all hosts share, and copies only its part in memory.
    read_only: for loading only, also during a running job; creates and locks nothing.

    Errors are the same on all ranks. Training can continue after them (a full disk, a missing folder). The object works on
    after hvd.shutdown() and hvd.init().
    """

    @sharing_failure("")
    def __init__(self, folder: Union[str, os.PathLike[str]], keep_last: int = 3, best: Optional[str] = None,
                 sharded: bool = False, read_only: bool = False) -> None:
        self._handle: Optional[c_void_p] = None
        if best not in _BEST:
            raise ValueError(f'hvd: Checkpoints(best={best!r}): "min", "max" or None')
        if keep_last != KEEP_ALL and keep_last < 1:
            raise ValueError(f"hvd: Checkpoints(keep_last={keep_last}): at least 1, or KEEP_ALL")
        self._sharded = sharded
        options = _Options(ctypes.sizeof(_Options), keep_last, _BEST[best], int(sharded), int(read_only))
        handle = c_void_p()
        check(lib.hvd_checkpoints_open(os.fsencode(folder), byref(options), byref(handle)))
        self._handle = handle

    def save(self, state: Any, step: int, metric: Optional[float] = None) -> None:
        """Saves rank 0's state for a step, with rank 0's metric. Returns after copying it; a thread writes the file.

        The tensors' names, types and shapes must be the same on all ranks. First waits for an earlier save that is
        still being written. If that one fails, its error is raised here, but the new save is written nevertheless.

        Errors: MismatchError, SystemCallError. If pickling fails, its exception on this rank, and InvalidArgumentError
        with its text on the others.
        """
        with sharing_failure(""):
            handle, number = self._open(), c_uint64(whole(step, c_uint64, "the step"))
            split = Split(state)
            read = self._sharded or job.rank() == 0
            memories = {name: _Memory(tensor, read) for name, tensor in split.tensors.items()}
            value = None if metric is None else byref(c_double(metric))
            # With `sharded` each rank writes a part of the same bytes; otherwise libhvd reads only rank 0's.
            rest = on_root(lambda: split.rest, name="checkpoint.rest") if self._sharded else split.rest
            items = _Items()
            items.add_bytes(_state.REST, rest)
            for name, tensor in split.tensors.items():
                items.add(name, tensor, memories[name])
            array = items.array()
        check(lib.hvd_checkpoints_save(handle, array, len(items), number, value))

    def load(self, state: Any = None, which: str = "newest") -> Optional[Loaded]:
        """Loads a checkpoint on all ranks, whatever their number. Returns None if the folder has no checkpoint.

        Without `state`, the result has new tensors; those of torch are in host memory (load_state_dict() copies them to
        their devices). With `state`, loads in place: its tensors are overwritten, on any device, and its dicts and
        lists get the checkpoint's other values. Names, types and shapes of its tensors must be those of the checkpoint.
        which: "newest" (the one saved last, whatever its step), or "best" (by metric, as set when the folder was
        opened).

        Errors: MismatchError, which lists the differences; nothing was written then. SystemCallError if there are
        checkpoints and none can be read. A damaged checkpoint is skipped, and rank 0 names it on stderr.
        """
        with sharing_failure(""):
            own = Split(state).tensors
            _refuse_read_only(own)
            found = self.find(which)
            if found is None:
                return None
            items = _Items()
            memories: dict[str, _Memory] = {}
            arrays: dict[str, Any] = {}
            for info in found.items:
                if info.type == "bytes":
                    items.expect_bytes(info.name)
                elif info.name not in own:
                    arrays[info.name] = _Array(info)
                    items.add_info(info, arrays[info.name].address)
            for name, tensor in own.items():
                memories[name] = _Memory(tensor, True)
                items.add(name, tensor, memories[name])
        checkpoint = _Checkpoint(struct_size=ctypes.sizeof(_Checkpoint))
        check(lib.hvd_checkpoints_load(self._open(), items.array(), len(items), _which(which), byref(checkpoint)))
        for memory in memories.values():
            memory.write_back()
        loaded = _joined(items, arrays, own)
        return Loaded(checkpoint.step, checkpoint.metric if checkpoint.has_metric else None,
                      os.fsdecode(checkpoint.path), _state.put_into(state, loaded))

    def find(self, which: str = "newest") -> Optional[Found]:
        """Returns the checkpoint that load() would load, without its data; None if the folder has none."""
        checkpoint = _Checkpoint(struct_size=ctypes.sizeof(_Checkpoint))
        with sharing_failure(""):
            handle, number = self._open(), _which(which)
        check(lib.hvd_checkpoints_find(handle, number, byref(checkpoint)))
        if not checkpoint.found:
            return None
        path = os.fsdecode(checkpoint.path)
        items = tuple(self._info(index) for index in range(checkpoint.items))
        return Found(checkpoint.step, checkpoint.metric if checkpoint.has_metric else None, path, items)

    def wait(self) -> None:
        """Waits until all saves are on the disk. SystemCallError if one could not be written."""
        with sharing_failure(""):
            handle = self._open()
        check(lib.hvd_checkpoints_wait(handle))

    def close(self) -> None:
        """Finishes this rank's writing and unlocks the folder; raises an error of the writing. Not a collective."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(lib.hvd_checkpoints_close(handle))

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Calls wait(), so that an error is raised on all ranks, then close(). After an exception only close()."""
        try:
            if kind is None and self._handle is not None:
                self.wait()
        finally:
            self.close()

    def _open(self) -> c_void_p:
        if self._handle is None:
            raise ValueError("hvd: the checkpoints are closed")
        return self._handle

    def _info(self, index: int) -> ItemInfo:
        item = _Item()
        check(lib.hvd_checkpoints_item(self._open(), index, byref(item)))
        type_name = "bytes" if item.type == _state.BYTES else _state.TYPE_NAMES.get(item.type, f"type {item.type}")
        return ItemInfo(item.name.decode(), type_name, tuple(item.shape[: item.dims]), item.bytes)


def _which(which: str) -> int:
    if which not in _WHICH:
        raise ValueError(f'hvd: which={which!r}: "newest" or "best"')
    return _WHICH[which]


def _refuse_read_only(tensors: dict[str, Tensor]) -> None:
    names = [name for name, tensor in tensors.items() if tensor.kind == "numpy" and not tensor.value.flags.writeable]
    if names:
        raise ValueError(f"hvd: load into read-only arrays: {', '.join(names)}")


class _Items:
    """An array of hvd_tensor_view, together with the memory that it points to."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._kept: list[Any] = []
        self.received: dict[str, Any] = {}  # loaded bytes, by name

    def __len__(self) -> int:
        return len(self._items)

    def array(self) -> Any:
        return (_Item * max(1, len(self)))(*self._items)

    def _add(self, name: str, kind: int, shape: tuple[int, ...], data: Optional[int], size: int, kept: Any,
             resize: Any = None) -> None:
        self._kept.append(kept)
        self._items.append(_Item(name.encode(), kind, len(shape), (c_int64 * max(1, len(shape)))(*shape), data, size,
                                 resize or _NO_RESIZE))

    def add(self, name: str, tensor: Tensor, memory: _Memory) -> None:
        self._add(name, tensor.type, tensor.shape, memory.address, tensor.bytes, memory)

    def add_info(self, info: ItemInfo, address: int) -> None:
        self._add(info.name, _state.ITEM_TYPES[info.type], info.shape, address, info.bytes, None)

    def add_bytes(self, name: str, data: bytes) -> None:
        self._add(name, _state.BYTES, (), ctypes.cast(c_char_p(data), c_void_p).value, len(data), data)

    def expect_bytes(self, name: str) -> None:
        self.received[name] = ctypes.create_string_buffer(0)

        def resize(_context: Any, size: int) -> Optional[int]:
            try:
                self.received[name] = ctypes.create_string_buffer(size)
                return ctypes.addressof(self.received[name])
            except MemoryError:
                return None

        call = _RESIZE(resize)
        self._add(name, _state.BYTES, (), None, 0, call, call)


class _Memory:
    """A tensor's elements in contiguous host memory: its own memory if it is such, otherwise a copy."""

    def __init__(self, tensor: Tensor, read: bool) -> None:
        """read: False if the library uses only the address, not the elements."""
        if tensor.kind == "numpy":
            self._tensor = tensor.value
            self._host = self._tensor if self._tensor.flags.c_contiguous else self._tensor.copy(order="C")
            self.address = self._host.ctypes.data
            self._copied = self._host is not self._tensor
        else:
            self._tensor = tensor.value.detach()
            self._host = self._tensor
            if read:
                self._host = self._tensor.cpu().resolve_conj().resolve_neg().contiguous()
            self.address = self._host.data_ptr()
            self._copied = self.address != self._tensor.data_ptr()

    def write_back(self) -> None:
        """Copies the loaded elements to the tensor, if they are in a copy."""
        if not self._copied:
            return
        if hasattr(self._tensor, "copy_"):
            self._tensor.copy_(self._host)
        else:
            self._tensor[...] = self._host


class _Array:
    """Memory for a tensor of the checkpoint."""

    def __init__(self, info: ItemInfo) -> None:
        self._info = info
        self._memory = (ctypes.c_ubyte * max(1, info.bytes))()
        self.address = ctypes.addressof(self._memory)

    def value(self, kind: str) -> Any:
        return self._torch() if kind == "torch" else self._numpy()

    def _numpy(self) -> Any:
        import numpy as np

        if self._info.type == "bfloat16":
            import ml_dtypes  # noqa: F401  # adds the type to numpy
        elements = math.prod(self._info.shape)
        return np.frombuffer(memoryview(self._memory), np.dtype(self._info.type), elements).reshape(self._info.shape)

    def _torch(self) -> Any:
        import torch

        elements = math.prod(self._info.shape)
        if elements == 0:
            return torch.empty(self._info.shape, dtype=getattr(torch, self._info.type))
        flat = torch.frombuffer(self._memory, dtype=getattr(torch, self._info.type), count=elements)
        return flat.reshape(self._info.shape)


def _joined(items: _Items, arrays: dict[str, _Array], own: dict[str, Tensor]) -> Any:
    """Returns the state of the checkpoint. Uses the tensors of `own` where it has one of that name."""

    def tensor(kind: str, name: str) -> Any:
        return own[name].value if name in own else arrays[name].value(kind)

    received = {name: data.raw for name, data in items.received.items()}
    rest = received.pop(_state.REST, None)
    if rest is not None:
        return _state.join(rest, tensor)
    # A checkpoint of a program in another language has no pickle: the state is arrays and bytes by name.
    return {**received, **{name: tensor("numpy", name) for name in (*arrays, *own)}}
