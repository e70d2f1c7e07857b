"""What a public module answers to a name that it does not have, and which names it lists.

`hvd.torch` and `hvd.numpy` are imported at the first use of the name, so `import hvd` is enough. For a name of another
module the AttributeError says which one, and for a misspelt one which it may be. Any thread.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FRAMEWORKS = ("torch", "tensorflow", "keras", "numpy")
_FILES = {"torch": "torch/__init__.py", "tensorflow": "tensorflow/__init__.py", "keras": "tensorflow/keras/__init__.py",
          "numpy": "numpy.py"}


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
    others = [f"hvd.{each}" for each in FRAMEWORKS if f"hvd.{each}" != module and name in _names_of(each)]
    if others:
        return f"{text}: it is in {_listed(others)}; for PyTorch: import hvd.torch as hvd" if "hvd.torch" in others \
            else f"{text}: it is in {_listed(others)}: import {others[0]} as hvd"
    known = [*sys.modules[module].__all__, *(FRAMEWORKS if module == "hvd" else sys.modules["hvd"].__all__)]
    close = difflib.get_close_matches(name, known, 1)
    return f"{text}; did you mean {close[0]}?" if close else text


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _names_of(framework: str) -> Iterable[str]:
    """Returns the names of a module, which is not imported for that: it may take seconds, or not be installed."""
    tree = ast.parse((Path(__file__).parent / _FILES[framework]).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(each.value) for each in node.value.elts if isinstance(each, ast.Constant)]  # type: ignore[attr-defined]
    return []
