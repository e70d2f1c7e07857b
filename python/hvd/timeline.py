"""The timeline: a record of what all ranks did and when, for ui.perfetto.dev.

HVD_TIMELINE=FILE in the environment (hvdrun --timeline-filename FILE) records the whole run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Union

from ._collectives import sharing_failure
from ._library import check, lib
from ._retired import level_outside


def start_timeline(file_path: Union[str, os.PathLike[str]], mark_cycles: bool = False) -> None:
    """Starts recording on all ranks. Rank 0 uses the path, and writes the file at the end. A collective.

    mark_cycles: an option of Horovod's. It warns unless the variable HOROVOD_TIMELINE_MARK_CYCLES=1, which marks cycles,
    is set.

    Errors, on all ranks: InvalidArgumentError if a timeline is running; SystemCallError if rank 0 cannot write the
    file.
    """
    if mark_cycles and os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") in ("", "0"):
        warnings.warn("hvd: start_timeline(mark_cycles=True): HOROVOD_TIMELINE_MARK_CYCLES=1 in the environment "
                      "marks cycles", stacklevel=level_outside())
    with sharing_failure(""):
        path = os.fsencode(file_path)
    check(lib.hvd_start_timeline(path))


def stop_timeline() -> None:
    """Stops recording. The file is complete when this returns. A collective.

    Errors: InvalidArgumentError if no timeline is running.
    """
    check(lib.hvd_stop_timeline())


@contextmanager
def span(name: str) -> Iterator[None]:
    """Records a span of the program on this thread: `with hvd.span("load data"): ...`.

    Spans may enclose others. Does nothing while no timeline is running.
    """
    check(lib.hvd_timeline_begin(name.encode()))
    try:
        yield
    finally:
        check(lib.hvd_timeline_end())
