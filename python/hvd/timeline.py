"""The timeline: what all ranks did and when, to look at in ui.perfetto.dev."""

from __future__ import annotations

import os
from typing import Union

from . import errors
from ._library import check, lib


def start_timeline(file_path: Union[str, os.PathLike[str]], mark_cycles: bool = False) -> None:
    """Begins to record. A collective: all ranks call it; rank 0's `file_path` counts, and rank 0 writes the file.

    Errors, on all ranks: InvalidArgumentError when a timeline runs already or the path is no plain file,
    SystemCallError when rank 0 cannot write there. UnsupportedError for `mark_cycles`: the engine has no cycles.
    """
    if mark_cycles:
        raise errors.UnsupportedError("hvd: start_timeline(mark_cycles=True): the engine has no cycles to mark")
    check(lib.hvd_start_timeline(os.fsencode(file_path)))


def stop_timeline() -> None:
    """Ends it: the file is written when this returns. A collective. InvalidArgumentError when none runs."""
    check(lib.hvd_stop_timeline())
