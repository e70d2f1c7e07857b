"""Horovod's elastic training, which there is not: every name of it says so."""

from __future__ import annotations

from typing import NoReturn

from .. import errors


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):  # what Python itself asks of modules
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.UnsupportedError(
        f"hvd: there is no hvd.elastic.{name}: a job keeps its number of ranks; hvdrun starts one that failed again "
        "from its last checkpoint")
