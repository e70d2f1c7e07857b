"""For cases: a folder that all ranks share."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hvd
from hvd import _collectives

_numbers = itertools.count()


def barrier(name: str) -> None:
    hvd.Handle(_collectives.barrier(_collectives.options(name, 0)), lambda: None).wait()


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Makes a folder in memory, where fsync costs nothing. Rank 0 removes it once all ranks have left the block."""
    number = next(_numbers)
    own = tempfile.mkdtemp(dir="/dev/shm") if hvd.rank() == 0 else None
    folder = hvd.broadcast_object(own, name=f"folder {number}")
    try:
        yield Path(folder)
    finally:
        barrier(f"end of folder {number}")
        if hvd.rank() == 0:
            shutil.rmtree(folder)
