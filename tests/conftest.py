"""Fixtures of all tests that run built programs. HVD_BUILD names the build folder (build/)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import HVDRUN, Sandbox


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: runs under the thread sanitizer too")
    # As Ctrl-C does: the running test's place is tidied up.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    config.addinivalue_line("markers", "measures: looks at memory or speed, which a sanitizer changes")
    config.addinivalue_line("markers", "tensorflow: needs the TensorFlow of ./check --all")
    config.addinivalue_line("markers", "torch_loops: needs the current PyTorch, Lightning and Accelerate of ./check --soak")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """The test's own place; nothing may be left of what it started, in memory or in files."""
    assert HVDRUN.exists(), f"{HVDRUN} is not built; HVD_BUILD names the build folder"
    place = Sandbox(tmp_path)
    yield place
    place.close()
