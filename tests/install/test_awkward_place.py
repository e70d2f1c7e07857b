"""The checkout builds, installs and passes tests of its own wherever a newcomer has put it.

A copy of it stands in a folder whose path holds what paths of people's folders hold: spaces, a quote, parentheses, letters
of other alphabets, "hvdrun", and more of it than a socket's address has room for. CMake refuses some characters itself
(scripts/lib.sh); these are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import BUILD, PYTHON, SANITIZED, TOP

pytestmark = [pytest.mark.xdist_group("awkward place"),
              pytest.mark.skipif(SANITIZED, reason="once, with the release build")]

PLACE = "it's hvdrun – größe 漢字 (1) & a name as long as one that a notebook's folder kept in step with other machines may have"


def run(*words: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=1800, env={**os.environ, **environment})
    assert done.returncode == 0, f"{words} in {cwd}: code {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def cached(name: str) -> str:
    [line] = re.findall(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return line


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of this checkout, without what was built in it."""
    place = tmp_path_factory.mktemp("awkward") / PLACE / "hvdrun"
    listing = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=TOP)
    for name in filter(None, listing.split("\0")):
        if (TOP / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, place / name)
    for folder in (place, *place.parents[:3]):
        folder.chmod(0o755)  # for the ordinary users of a cluster's hosts
    yield place
    shutil.rmtree(place.parent)


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """Another copy, beside what is built already: programs that run from there."""
    place = checkout.parent / "built"
    shutil.copytree(checkout, place / "hvdrun", ignore=shutil.ignore_patterns("build"))
    for folder in ("bin", "lib"):
        shutil.copytree(BUILD / folder, place / "hvdrun/build" / folder, symlinks=True, copy_function=link,
                        ignore=shutil.ignore_patterns("*.a"))
    shutil.copy2(BUILD / "CMakeCache.txt", place / "hvdrun/build")
    return place / "hvdrun"


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def test_quickstart_builds_and_installs(checkout: Path, tmp_path: Path) -> None:
    # With the warnings of the build under test, ccache has most of it.
    run("cmake", "--preset", "release", f"-DHVD_WERROR={cached('HVD_WERROR')}", "-DHVD_BUILD_TESTS=OFF",
        "-DHVD_BUILD_BENCH=OFF", cwd=checkout, CCACHE_BASEDIR=str(checkout), CCACHE_NOHASHDIR="1")
    shown = run("nice", checkout / "quickstart", cwd=tmp_path, CCACHE_BASEDIR=str(checkout))
    assert "test accuracy: 98" in shown, shown
    prefix = tmp_path / "prefix"
    run("cmake", "--install", "build", "--prefix", prefix, cwd=checkout)
    assert run(prefix / "bin/hvdrun", "-np", 2, "--label", "none", "echo", "x", cwd=tmp_path) == "x\nx\n"


@pytest.mark.parametrize("tests", [
    ["tests/e2e/test_launch.py", "tests/e2e/test_check.py"],
    ["tests/python/test_cases.py", "-k", "io-2 or checkpoint-2"],
    ["tests/cluster/test_ssh.py", "-k", "know_where or failed_first or limits_are or mpi_and"],
    ["tests/cluster/test_slurm.py", "tests/cluster/test_sbatch.py", "-k", "a_batch_script or to_its_result or printed"],
], ids=["e2e", "python", "ssh", "slurm"])
def test_its_own_tests_pass_there(built: Path, tests: list[str], tmp_path: Path) -> None:
    shown = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'inner'}", *tests,
                cwd=built, HVD_BUILD=str(built / "build"), PYTHONDONTWRITEBYTECODE="1")
    assert re.search(r"\d passed", shown), shown
