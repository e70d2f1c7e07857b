"""What a public module answers to a name that it does not have, and which names it lists.

`hvd.torch` and `hvd.numpy` are imported at the first use of the name, so `import hvd` is enough. For a name of another
module the AttributeError says which one, and for a misspelt one, or that of another package, which it may be. Any thread.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from . import _near_names

FRAMEWORKS = ("torch", "tensorflow", "keras", "numpy")
_FILES = {"torch": "torch/__init__.py", "tensorflow": "tensorflow/__init__.py", "keras": "tensorflow/keras/__init__.py",
          "numpy": "numpy.py", "torch.elastic": "torch/elastic/__init__.py", "tensorflow.elastic": "tensorflow/elastic.py",
          "keras.elastic": "tensorflow/keras/elastic.py", "keras.callbacks": "keras/callbacks.py"}


def answers_for(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a public module, by its name."""

    def get(name: str) -> Any:
        if module == "hvd" and name in FRAMEWORKS:
            try:
                return importlib.import_module(f"hvd.{name}")
            except ImportError as failure:  # hasattr() and inspect take no other exception for an answer
                raise AttributeError(str(failure)) from failure
        error = AttributeError(missing(module, name))
        if sys.version_info >= (3, 10):
            error.name = name  # otherwise Python adds a suggestion of its own
        raise error

    def listed() -> list[str]:
        here = vars(sys.modules[module])
        # Not a framework that is not imported: help() and inspect get each name, and would import it.
        more = [name for name in FRAMEWORKS if name in here] if module == "hvd" else []
        return sorted({*here["__all__"], *more, *(name for name in here if name.startswith("__"))})

    return get, listed


def missing(module: str, name: str) -> str:
    """Returns the text of the AttributeError."""
    text = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return text
    if module != "hvd" and name in sys.modules["hvd"].__all__:
        return f"{text}: it is hvd.{name}"
    if module != "hvd" and name in FRAMEWORKS:
        return f"{text}: it is a module of hvd: import hvd.{name}"
    own = {*sys.modules[module].__all__, *(FRAMEWORKS if module == "hvd" else sys.modules["hvd"].__all__)}
    elsewhere = {f"hvd.{each}": _names_of(each) for each in FRAMEWORKS if f"hvd.{each}" != module}
    below = _names_below(module)
    if others := [place for place, names in elsewhere.items() if name in names]:
        # The same has another name in some frameworks: broadcast_parameters() and broadcast_variables().
        meant = _near_names.of(own).alike(name, own) if module != "hvd" else ""
        return f"{text}; did you mean {meant}? {name} is in {_listed(others)}" if meant else f"{text}: it is in {_how_to_have(others)}"
    if place := next((place for place, names in below.items() if name in names), ""):
        return f"{text}: it is {place}.{name}"
    if meant := _near_names.of(own.union(*elsewhere.values())).nearest(name, own, _collectives()):
        it = _near_names.written(meant)
        if it in own:
            return f"{text}; did you mean {meant if it in sys.modules[module].__all__ or module == 'hvd' else f'hvd.{meant}'}?"
        return f"{text}; did you mean {meant}? It is in {_how_to_have([place for place, names in elsewhere.items() if it in names])}"
    if meant := _near_names.of(set().union(*below.values())).spelled_like(name):
        return f"{text}; did you mean {next(place for place, names in below.items() if meant in names)}.{meant}?"
    return text


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _how_to_have(modules: list[str]) -> str:
    """Returns the modules, and a line that imports one of them."""
    return f"{_listed(modules)}; for PyTorch: import hvd.torch as hvd" if "hvd.torch" in modules \
        else f"{_listed(modules)}: import {modules[0]} as hvd"


@functools.lru_cache(maxsize=None)
def _names_of(module: str) -> frozenset[str]:
    """Returns the names of a module, which is not imported for that: it may take seconds, or not be installed."""
    tree = ast.parse((Path(__file__).parent / _FILES[module]).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return frozenset(str(each.value) for each in node.value.elts if isinstance(each, ast.Constant))  # type: ignore[attr-defined]
    return frozenset()


def _collectives() -> set[str]:
    """Returns the names of the collectives that all frameworks have and that are one word: "allreduce", "broadcast"."""
    return {"barrier", *(name for name in _names_of("numpy") if name.isalpha() and name.islower())}


def _names_below(module: str) -> dict[str, frozenset[str]]:
    """Returns the names of the modules in public modules, those of this module first."""
    common = {thing.__name__: frozenset(name for name, one in vars(thing).items()
                                        if name[0] != "_" and getattr(one, "__module__", "") == thing.__name__)
              for thing in map(vars(sys.modules["hvd"]).get, sys.modules["hvd"].__all__) if isinstance(thing, ModuleType)}
    all_of_them = {**common, **{f"hvd.{each}": _names_of(each) for each in _FILES if "." in each}}
    return dict(sorted(all_of_them.items(), key=lambda entry: not (module != "hvd" and entry[0].startswith(f"{module}."))))
