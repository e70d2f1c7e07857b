"""The checkout builds, installs and runs jobs in a folder with an unusual path.

The path of the copy has spaces, a quote, parentheses, letters of other alphabets and "hvdrun". It is longer than the address
of a UNIX socket may be. It has none of the characters that CMake refuses itself (scripts/lib.sh).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import PYTHON, SANITIZED, cached, copy_checkout

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("unusual path"),
              pytest.mark.skipif(SANITIZED, reason="once, with the release build")]

PLACE = "it's hvdrun – größe 漢字 (1) & a name as long as one that a notebook's folder kept in step with other machines may have"


def run(*words: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=1800, env={**os.environ, **environment})
    assert done.returncode == 0, f"{words} in {cwd}: code {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Copies the files of this checkout, without build folders. Returns the copy's folder."""
    place = tmp_path_factory.mktemp("unusual") / PLACE / "hvdrun"
    copy_checkout(place)
    for folder in (place, *place.parents[:3]):
        folder.chmod(0o755)  # for the ordinary users of a cluster's hosts
    yield place
    shutil.rmtree(place.parent)


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """Runs quickstart in the copy. Returns its build folder."""
    # With the warnings of the build under test, ccache has most object files.
    run("cmake", "--preset", "release", f"-DHVD_WERROR={cached('HVD_WERROR')}", "-DHVD_BUILD_TESTS=OFF",
        "-DHVD_BUILD_BENCH=OFF", cwd=checkout, CCACHE_BASEDIR=str(checkout), CCACHE_NOHASHDIR="1")
    shown = run("nice", checkout / "quickstart", cwd=checkout.parent, CCACHE_BASEDIR=str(checkout))
    assert "test accuracy: 98" in shown, shown
    return checkout / "build"


@pytest.fixture(scope="module")
def on_cluster(checkout: Path, built: Path) -> Iterator[Callable[..., str]]:
    """Starts a cluster with the copy. Returns a function that runs a command on the cluster's login host."""
    if os.geteuid() != 0:
        pytest.skip("starting a cluster needs root")
    scripts = checkout / "tests/cluster"
    environment = {"HVD_BUILD": str(built), "PYTHONDONTWRITEBYTECODE": "1"}
    run(PYTHON, scripts / "up", "--name", "unusual", "--hosts", 2, "--owner", os.getpid(), cwd=checkout, **environment)
    try:
        yield lambda *words: run(PYTHON, scripts / "run", "--name", "unusual", "--", *words, cwd=checkout, **environment)
    finally:
        run(PYTHON, scripts / "down", "--name", "unusual", cwd=checkout, **environment)


def test_a_checkout_with_an_unusual_path_installs_and_runs(built: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    run("cmake", "--install", built, "--prefix", prefix, cwd=tmp_path)
    assert run(prefix / "bin/hvdrun", "-np", 2, "--label", "none", "echo", "x", cwd=tmp_path) == "x\nx\n"


def test_a_checkout_with_an_unusual_path_runs_a_job_over_ssh(built: Path, on_cluster: Callable[..., str]) -> None:
    shown = on_cluster(built / "bin/hvdrun", "-np", 2, "-H", "n[1-2]:1", built / "bin/examples/digits", "--epochs", 1)
    assert "test accuracy" in shown, shown


def test_a_checkout_with_an_unusual_path_runs_a_job_through_sbatch(built: Path, on_cluster: Callable[..., str]) -> None:
    shown = on_cluster(built / "bin/hvdrun", "sbatch", "-np", 2, "--nodes", 2, "--gpus-per-node", 0, "--follow", "--",
                       built / "bin/examples/digits", "--epochs", 1)
    assert "test accuracy" in shown, shown
