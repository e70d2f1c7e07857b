"""Fixtures of the tests that need several hosts. Each pytest worker has a cluster of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from framework_cases import environments_of_python
from harness import BUILD
from settings import USER


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[Cluster]:
    """A cluster that ends with this process, however that ends. Needs root. A missing package is a failure, not a skip."""
    if os.geteuid() != 0:
        pytest.skip("only root may make namespaces, mounts and network links")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "only")
    cluster = Cluster(f"test-{worker}-{os.getpid()}")
    try:
        bring_up(cluster)
        yield cluster
    finally:
        cluster.down()


def bring_up(cluster: Cluster) -> None:
    cluster.up(owner=os.getpid(), shown=[BUILD, *environments_of_python()])


@pytest.fixture
def cluster(session_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose hosts are idle, connected and at full speed before and after each test. A cluster that cannot be
    restored so is replaced; only the test that broke it fails."""
    if not session_cluster.is_up():
        bring_up(session_cluster)
    yield session_cluster
    try:
        session_cluster.heal()
    except Exception:
        session_cluster.down()
        bring_up(session_cluster)
        raise


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Generator[None, object, None]:
    """Adds the state of the cluster to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.when == "call" and report.failed and cluster is not None:
        with contextlib.suppress(Exception):
            report.sections.append(("the cluster", cluster.report()))


@pytest.fixture
def shared(cluster: Cluster, request: pytest.FixtureRequest) -> Path:
    """The test's own folder in the ordinary user's home, as its path on all hosts."""
    name = request.node.name.translate(str.maketrans("[]/ ", "____"))
    home = cluster.root_of("login") / "home/user"
    # A test of another file may have the same name.
    names = itertools.chain([name], (f"{name}{number}" for number in itertools.count(2)))
    folder = Path("/home/user", next(each for each in names if not (home / each).exists()))
    seen_from_here = home / folder.name
    seen_from_here.mkdir()
    os.chown(seen_from_here, USER.uid, USER.uid)
    return folder
