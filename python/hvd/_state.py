"""Converts a program's state to the form in a checkpoint and back: named tensors, and a pickle of everything else.

A pickler walks the state and takes the tensors out instead of pickling them. So the state may be anything that can be
pickled, with tensors anywhere in it, and a tensor that appears twice is stored once. A tensor's name is the path to it
through dicts, lists and tuples, such as "model.layer1.weight". Tensors inside other objects are "object.0" and so on.
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
REST = "state.pickle"  # the item with everything that is not a tensor

Identity = tuple[str, str, bool]  # a tensor's entry in the pickle: its kind, its name, whether it requires_grad


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
    """Returns the Tensor for a numpy array or a torch tensor; None for anything else, which is pickled.

    Compares exact types, because a subclass may define its own pickling. The pickle of a torch Parameter contains its
    tensor, which is then taken out.
    """
    # A module that was never imported has made no tensor.
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
    """A state in two parts: `tensors` by name, in the order of the walk, and `rest`, the pickle of everything else."""

    def __init__(self, state: Any) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}  # by id()
        self._kept: list[Any] = []  # keeps tensors that the walk itself makes alive, so that their id() stay unique
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
    """Returns the state made from `rest` and the tensors. tensor(kind, name) is called once for each tensor."""
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
    """Copies the values of `source` into the dicts and lists of `target`, in place.

    Returns `target`, or `source` if it cannot be copied in place.
    """
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
