"""The Debian packages (debian/) build, pass lintian, and work for an ordinary user in a minimal system.

The test needs root, Debian's archive and Debian 12. The built files remain in build-debian/. The first run takes some minutes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from debian_root import ROOT, Root, make_root, run
from harness import TOP
from installation import PROGRAM, PROJECT, RANKS, TWO_RANKS

pytestmark = pytest.mark.xdist_group("packages")  # one process builds them

WORK = TOP / "build-debian"
PACKAGES = ("hvdrun", "libhvd-dev", "libhvd0", "python3-hvd")


@pytest.fixture(scope="module")
def packages() -> dict[str, Path]:
    """Builds the packages. Returns their files by name."""
    run(["nice", "-n", "10", TOP / "scripts/debs", WORK])
    return {file.name.partition("_")[0]: file for file in WORK.glob("*.deb")}


@pytest.fixture(scope="module")
def root(packages: dict[str, Path]) -> Root:
    """Makes a Debian 12 with the packages and their dependencies, without recommended packages."""
    made = make_root(WORK / "root", "bookworm")
    made.install(*made.give(*packages.values()))
    return made


def test_the_build_makes_the_four_debian_packages(packages: dict[str, Path]) -> None:
    assert sorted(packages) == list(PACKAGES)


def test_lintian_finds_no_error_and_no_warning(packages: dict[str, Path]) -> None:
    done = run(["lintian", "--allow-root", "--fail-on", "error,warning", *WORK.glob("*.changes")], may_fail=True)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_ranks_run_with_the_python_package(root: Root) -> None:
    assert root.lines("hvdrun", "-np", 2, "--label", "none", "python3", "-c", RANKS) == TWO_RANKS


def test_the_packaged_hvdrun_names_a_failed_rank(root: Root) -> None:
    done = root.run("hvdrun", "-np", 2, "sh", "-c", "[ $HVD_RANK = 0 ] || exit 3; sleep 1000")
    assert done.returncode == 3 and "rank 1 " in done.stderr, done.stderr


def test_with_horovod_programs_import_the_packaged_modules(root: Root) -> None:
    program = "import horovod, hvd; print(horovod.__file__, hvd.__file__)"
    assert root.lines("hvdrun", "--horovod", "-np", 1, "--label", "none", "python3", "-c", program) == [
        "/usr/share/hvdrun/horovod/horovod/__init__.py /usr/lib/python3/dist-packages/hvd/__init__.py"]


def test_the_packages_have_templates_manual_pages_and_completions(root: Root) -> None:
    assert "generic" in "".join(root.lines("hvdrun", "templates"))
    for file in ("man/man1/hvdrun.1.gz", "man/man1/horovodrun.1.gz", "bash-completion/completions/hvdrun",
                 "zsh/vendor-completions/_hvdrun", "fish/vendor_completions.d/hvdrun.fish"):
        assert os.path.lexists(root.place / "usr/share" / file), file


def test_python_m_hvd_prints_the_packages_paths_and_the_install_command(root: Root) -> None:
    lines = root.lines("python3", "-m", "hvd")
    assert any(line.startswith("hvdrun ") and line.endswith(" /usr/bin/hvdrun") for line in lines), lines
    assert "                type: apt-get install libpmix2" in lines or "                type: sudo apt-get install libpmix2" in lines, lines


def test_cmake_and_pkg_config_build_programs_with_the_package(root: Root) -> None:
    root.install("cmake", "g++", "make", "pkg-config")
    (root.home / "first.cpp").write_text(PROGRAM)
    (root.home / "CMakeLists.txt").write_text(PROJECT)
    root.lines("sh", "-c", "cmake -B built . && cmake --build built")
    root.lines("sh", "-c", "g++ -std=c++20 first.cpp $(pkg-config --cflags --libs hvd) -o by-pkg-config")
    for program in ("built/first", "./by-pkg-config"):
        assert root.lines("hvdrun", "-np", 2, "--label", "none", program) == ["sum 3 of 2 ranks"]


def test_apt_purge_removes_every_file(root: Root) -> None:
    root.lines("apt-get", "purge", "-y", *PACKAGES, user=ROOT)
    for folder in ("usr/bin/hvdrun", "usr/share/hvdrun", "usr/share/hvd", "usr/include/hvd", "usr/lib/python3/dist-packages/hvd"):
        assert not (root.place / folder).exists(), folder
