"""The checkout builds, installs and runs jobs wherever a newcomer has put it.

A copy of it stands in a folder whose path holds what paths of people's folders hold: spaces, a quote, parentheses, letters
of other alphabets, "hvdrun", and more of it than a socket's address has room for. CMake refuses some characters itself
(scripts/lib.sh); these are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import PYTHON, SANITIZED, cached, copy_checkout

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("awkward place"),
              pytest.mark.skipif(SANITIZED, reason="once, with the release build")]

PLACE = "it's hvdrun – größe 漢字 (1) & a name as long as one that a notebook's folder kept in step with other machines may have"


def run(*words: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=1800, env={**os.environ, **environment})
    assert done.returncode == 0, f"{words} in {cwd}: code {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of this checkout, without what was built in it."""
    place = tmp_path_factory.mktemp("awkward") / PLACE / "hvdrun"
    copy_checkout(place)
    for folder in (place, *place.parents[:3]):
        folder.chmod(0o755)  # for the ordinary users of a cluster's hosts
    yield place
    shutil.rmtree(place.parent)


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """The build folder of the copy, after quickstart."""
    # With the warnings of the build under test, ccache has most of it.
    run("cmake", "--preset", "release", f"-DHVD_WERROR={cached('HVD_WERROR')}", "-DHVD_BUILD_TESTS=OFF",
        "-DHVD_BUILD_BENCH=OFF", cwd=checkout, CCACHE_BASEDIR=str(checkout), CCACHE_NOHASHDIR="1")
    shown = run("nice", checkout / "quickstart", cwd=checkout.parent, CCACHE_BASEDIR=str(checkout))
    assert "test accuracy: 98" in shown, shown
    return checkout / "build"


@pytest.fixture(scope="module")
def on_cluster(checkout: Path, built: Path) -> Iterator[Callable[..., str]]:
    """Runs a command on the login host of the copy's own cluster."""
    if os.geteuid() != 0:
        pytest.skip("only root may make a cluster")
    scripts = checkout / "tests/cluster"
    environment = {"HVD_BUILD": str(built), "PYTHONDONTWRITEBYTECODE": "1"}
    run(PYTHON, scripts / "up", "--name", "awkward", "--hosts", 2, "--owner", os.getpid(), cwd=checkout, **environment)
    try:
        yield lambda *words: run(PYTHON, scripts / "run", "--name", "awkward", "--", *words, cwd=checkout, **environment)
    finally:
        run(PYTHON, scripts / "down", "--name", "awkward", cwd=checkout, **environment)


def test_it_installs(built: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    run("cmake", "--install", built, "--prefix", prefix, cwd=tmp_path)
    assert run(prefix / "bin/hvdrun", "-np", 2, "--label", "none", "echo", "x", cwd=tmp_path) == "x\nx\n"


def test_a_job_over_ssh(built: Path, on_cluster: Callable[..., str]) -> None:
    shown = on_cluster(built / "bin/hvdrun", "-np", 2, "-H", "n[1-2]:1", built / "bin/examples/digits", "--epochs", 1)
    assert "test accuracy" in shown, shown


def test_a_job_by_sbatch(built: Path, on_cluster: Callable[..., str]) -> None:
    shown = on_cluster(built / "bin/hvdrun", "sbatch", "-np", 2, "--nodes", 2, "--gpus-per-node", 0, "--follow", "--",
                       built / "bin/examples/digits", "--epochs", 1)
    assert "test accuracy" in shown, shown
