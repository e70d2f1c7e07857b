"""The module that programs written for Horovod import, on hvd.

`horovod.torch`, `horovod.tensorflow`, `horovod.tensorflow.keras` and `horovod.keras` have the names of `hvd.torch` and
so on. What hvd does not have (MXNet, Spark, Ray, elastic training) is an error that names it, where it is imported or
used.
"""

from __future__ import annotations

from typing import Any, NoReturn

import hvd

from ._environment import heed

# Whose names these are, and who brings them.
__version__ = f"0.28.1+hvd.{hvd.__version__}"

__all__ = ["__version__", "run"]


def run(*args: Any, **kwargs: Any) -> NoReturn:
    """Horovod starts a function on ranks of its own with it. NotImplementedError: hvdrun starts programs."""
    raise NotImplementedError("horovod.run: hvd cannot be started from Python; hvdrun -np N starts a program")


heed()
