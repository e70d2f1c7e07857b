"""The wheel that packages of clusters are made of. HVD_TEST_WHEEL names a finished one, which is then not built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from debian_root import run
from harness import TOP


@pytest.fixture(scope="session")
def wheel() -> Path:
    if given := os.environ.get("HVD_TEST_WHEEL"):
        return Path(given)
    run(["nice", "-n", "10", TOP / "scripts/wheel", TOP / "build-manylinux"])
    [file] = (TOP / "build-manylinux/dist").glob("*.whl")
    return file
