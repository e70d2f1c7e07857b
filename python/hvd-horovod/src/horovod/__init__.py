"""The module `horovod`, implemented with hvd, for programs written for Horovod.

`horovod.torch`, `horovod.tensorflow`, `horovod.tensorflow.keras` and `horovod.keras` have the names of `hvd.torch` and
so on; `_modules` has the table of all modules. Modules and names that hvd does not have (MXNet, Spark, Ray)
raise an error on import or use, which names a replacement.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import hvd
from hvd.process_sets import ProcessSet

from ._environment import apply_environment
from ._modules import MODULES, Finder
from ._runner import run

# The version of Horovod whose names these are, and that of hvd.
__version__ = f"0.28.1+hvd.{hvd.__version__}"

__all__ = ["__version__", "run"]

sys.meta_path.insert(0, Finder())


def __getattr__(name: str) -> Any:
    """Imports horovod.common and horovod.runner on first use, because in Horovod they need no import of their own."""
    if name in ("common", "runner"):
        return importlib.import_module(f"horovod.{name}")
    hint = f"; import horovod.{name}" if name in MODULES else ""
    raise AttributeError(f"module 'horovod' has no attribute {name!r}{hint}")


apply_environment()
# Programs compare Horovod's text of a set. There is no communicator of MPI in it, and Horovod prints None then.
ProcessSet.text_of_others = ", mpi_comm=None"
