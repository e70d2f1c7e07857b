"""Fixtures of all tests that run built programs. HVD_BUILD names the build folder (the default is build/)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from debian_root import run
from harness import HVDRUN, TOP, Sandbox


def pytest_configure(config: pytest.Config) -> None:
    for mark in ("core: runs in the sanitizers' builds too",
                 "measures: measures memory or speed, which a sanitizer changes",
                 "slow: random, long or heavy; ./check --all runs it",
                 "timing: its outcome depends on how fast the machine is; ./check --all runs it",
                 "tensorflow: needs TensorFlow, which is not a package of Debian; ./check --all runs it",
                 "torch_loops: needs a current PyTorch, Lightning and Accelerate; ./check --soak runs it",
                 "notebook: needs Jupyter's packages, in a virtual environment; ./check --all runs it",
                 "environment: needs a virtual environment that this run of ./check has not made",
                 "gate: of the tests on a cluster, those that ./check runs"):
        config.addinivalue_line("markers", mark)
    # SIGTERM raises KeyboardInterrupt, as Ctrl-C does, so that the running test cleans up.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def wheel() -> Path:
    """Builds the wheel for every Linux. If HVD_TEST_WHEEL names a finished wheel, returns that one."""
    if given := os.environ.get("HVD_TEST_WHEEL"):
        return Path(given)
    run(["nice", "-n", "10", TOP / "scripts/wheel", TOP / "build-manylinux"])
    [file] = (TOP / "build-manylinux/dist").glob("*.whl")
    return file


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """Makes the test's own sandbox. After the test, fails if processes or files of the test are left."""
    assert HVDRUN.exists(), f"{HVDRUN} is not built; HVD_BUILD names the build folder"
    place = Sandbox(tmp_path)
    yield place
    place.close()
