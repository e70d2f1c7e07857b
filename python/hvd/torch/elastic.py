"""Replaces Horovod's elastic training, which hvd does not have: the use of any name raises UnsupportedError."""

from __future__ import annotations

from typing import NoReturn

from .. import errors


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):  # attributes that Python itself looks up in modules
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise errors.UnsupportedError(
        f"hvd: there is no hvd.elastic.{name}: a job keeps its number of ranks; hvdrun starts one that failed again "
        "from its last checkpoint")
