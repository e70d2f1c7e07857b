"""The module that programs written for Horovod import, on hvd.

`horovod.torch`, `horovod.tensorflow`, `horovod.tensorflow.keras` and `horovod.keras` have the names of `hvd.torch` and
so on; `_modules` has the table of all modules. What hvd does not have (MXNet, Spark, Ray, elastic training) is an error
that says what to use in its place, where it is imported or used.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import hvd

from ._environment import heed
from ._modules import MODULES, Finder
from ._runner import run

# Whose names these are, and who brings them.
__version__ = f"0.28.1+hvd.{hvd.__version__}"

__all__ = ["__version__", "run"]

sys.meta_path.insert(0, Finder())


def __getattr__(name: str) -> Any:
    """horovod.common and horovod.runner need no import of their own, as in Horovod."""
    if name in ("common", "runner"):
        return importlib.import_module(f"horovod.{name}")
    hint = f"; import horovod.{name}" if name in MODULES else ""
    raise AttributeError(f"module 'horovod' has no attribute {name!r}{hint}")


heed()
