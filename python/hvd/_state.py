"""A program's state as what a checkpoint holds: its tensors, each by name, and everything else, pickled.

The state is walked by a pickler, which hands out the tensors instead of pickling them. So it may be anything that can
be pickled, tensors may be anywhere in it, and one that is there twice is stored once. Names are the way to a tensor
through dicts, lists and tuples: "model.layer1.weight"; those inside other objects are "object.0" and so on.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Optional

# hvd_item_type by name, for numpy and torch alike. Other types are pickled.
ITEM_TYPES = {"uint8": 0, "int8": 1, "uint16": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7,
              "float64": 8, "bool": 9, "bfloat16": 10, "uint32": 65, "uint64": 66, "complex64": 67, "complex128": 68}
BYTES = 64  # HVD_ITEM_BYTES
TYPE_NAMES = {number: name for name, number in ITEM_TYPES.items()}
REST = "state.pickle"  # the item with all that is no tensor

Identity = tuple[str, str, bool]  # what the pickle has for a tensor: its kind, its name, whether it requires_grad


@dataclass(frozen=True)
class Tensor:
    """A tensor of the state: host or device memory, in any layout."""

    kind: str  # "numpy", "torch"
    value: Any
    type: int  # hvd_item_type
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(self.value.nbytes) if self.kind == "numpy" else self.value.numel() * self.value.element_size()


def tensor_of(thing: Any) -> Optional[Tensor]:
    """None for what is none, or one that has to be pickled. Exact types: a subclass knows itself how it is pickled, and
    a torch Parameter hands out its tensor then."""
    # What has not been imported has made no tensor.
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(thing) is numpy.ndarray:
        type_number = ITEM_TYPES.get(thing.dtype.name) if thing.dtype.isnative else None
        return None if type_number is None else Tensor("numpy", thing, type_number, thing.shape)
    if torch is not None and type(thing) is torch.Tensor:
        type_number = ITEM_TYPES.get(str(thing.dtype).removeprefix("torch."))
        plain = thing.layout is torch.strided and not thing.is_quantized and thing.device.type != "meta"
        return Tensor("torch", thing, type_number, tuple(thing.shape)) if plain and type_number is not None else None
    return None


class Split:
    """A state taken apart. `tensors` by name, in the order of the walk; `rest`: everything else."""

    def __init__(self, state: Any) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}  # by id()
        self._kept: list[Any] = []  # what is made on the walk must keep its id() to the end of it
        self._paths = dict(_paths(state, ""))
        buffer = io.BytesIO()
        _Pickler(buffer, self._hand_out).dump(state)
        self.rest = buffer.getvalue()

    def _hand_out(self, thing: Any) -> Optional[Identity]:
        tensor = tensor_of(thing)
        if tensor is None:
            return None
        name = self._names.get(id(thing))
        if name is None:
            name = self._names[id(thing)] = self._new_name(thing)
            self.tensors[name] = tensor
            self._kept.append(thing)
        return tensor.kind, name, tensor.kind == "torch" and thing.requires_grad

    def _new_name(self, thing: Any) -> str:
        base = self._paths.get(id(thing), "object") or "state"
        name, number = base, 0
        while name in self.tensors or name in ("object", REST):
            name = f"{base}.{number}"
            number += 1
        return name


def _paths(thing: Any, path: str) -> Iterator[tuple[int, str]]:
    if isinstance(thing, Mapping):
        parts = [(str(key), value) for key, value in thing.items()]
    elif isinstance(thing, (list, tuple)):
        parts = [(str(index), value) for index, value in enumerate(thing)]
    else:
        if tensor_of(thing) is not None:
            yield id(thing), path
        return
    for name, value in parts:
        yield from _paths(value, f"{path}.{name}" if path else name)


def join(rest: bytes, tensor: Callable[[str, str], Any]) -> Any:
    """The state again. tensor(kind, name): one of its tensors; asked for once."""
    made: dict[str, Any] = {}

    def hand_in(identity: Identity) -> Any:
        kind, name, requires_grad = identity
        if name not in made:
            value = tensor(kind, name)
            made[name] = value.requires_grad_() if requires_grad else value
        return made[name]

    return _Unpickler(io.BytesIO(rest), hand_in).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: IO[bytes], hand_out: Callable[[Any], Optional[Identity]]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._hand_out = hand_out

    def persistent_id(self, thing: Any) -> Optional[Identity]:
        return self._hand_out(thing)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], hand_in: Callable[[Identity], Any]) -> None:
        super().__init__(file)
        self._hand_in = hand_in

    def persistent_load(self, identity: Identity) -> Any:
        return self._hand_in(identity)


def put_into(target: Any, source: Any) -> Any:
    """Gives the dicts and lists of `target` the values of `source`; what stands in place of `target` then."""
    if isinstance(target, dict) and isinstance(source, dict):
        for key in [key for key in target if key not in source]:
            del target[key]
        for key, value in source.items():
            target[key] = put_into(target.get(key), value)
        return target
    if isinstance(target, list) and isinstance(source, list):
        before = [*target, *[None] * len(source)]
        target[:] = [put_into(old, new) for old, new in zip(before, source)]
        return target
    return source
