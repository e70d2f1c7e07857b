"""Fixtures of the tests that need several hosts. Each pytest worker has a cluster of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from harness import BUILD, BUILT_FROM


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[Cluster]:
    """Ends with this process, however that ends. Only root can have one; a missing package is a failure."""
    if os.geteuid() != 0:
        pytest.skip("only root may make namespaces, mounts and network links")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "only")
    cluster = Cluster(f"test-{worker}-{os.getpid()}")
    try:
        cluster.up(owner=os.getpid(), shown=[BUILT_FROM / "templates", BUILD])
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def cluster(session_cluster: Cluster) -> Iterator[Cluster]:
    """All hosts idle, connected and at full speed, before each test and after it."""
    yield session_cluster
    session_cluster.heal()


@pytest.fixture
def shared(cluster: Cluster, request: pytest.FixtureRequest) -> Path:
    """The test's own folder in the ordinary user's home: a path inside, the same on all hosts."""
    folder = Path("/home/user", request.node.name.translate(str.maketrans("[]/ ", "____")))
    cluster.output("mkdir", folder)
    return folder
