"""The timeline: what all ranks did and when, to look at in ui.perfetto.dev.

HVD_TIMELINE=FILE in the environment (hvdrun --timeline-filename FILE) records the whole run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Union

from ._library import check, lib


def start_timeline(file_path: Union[str, os.PathLike[str]], mark_cycles: bool = False) -> None:
    """Begins to record on all ranks. Rank 0 looks at the path, and writes the file at the end. A collective.

    mark_cycles: Horovod's; a warning says that there are no cycles here to mark.

    Errors, on all ranks: InvalidArgumentError when a timeline runs already; SystemCallError when rank 0 cannot write
    there.
    """
    if mark_cycles:
        warnings.warn("hvd: start_timeline(mark_cycles=True): there are no cycles here to mark", stacklevel=2)
    check(lib.hvd_start_timeline(os.fsencode(file_path)))


def stop_timeline() -> None:
    """Ends it: the file is there when this returns. A collective. InvalidArgumentError when none runs."""
    check(lib.hvd_stop_timeline())


@contextmanager
def span(name: str) -> Iterator[None]:
    """A span of the program's own on this thread: `with hvd.span("load data"): ...`. Spans may enclose others. Nothing
    while no timeline runs."""
    check(lib.hvd_timeline_begin(name.encode()))
    try:
        yield
    finally:
        check(lib.hvd_timeline_end())
