"""The Debian packages (debian/): built, looked at by lintian, and tried by an ordinary user in a root with nothing else.

It needs root, Debian's archive and Debian 12. What was built stays in build-debian/; the first time takes some minutes.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / "build-debian"
PACKAGES = ("hvdrun", "libhvd-dev", "libhvd0", "python3-hvd")
USER = "1000:1000"
HOME = "home/user"

# Mounts what each system has, and becomes a user without any of this machine's environment.
ENTER = """\
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mkdir -p "$1/dev/shm"
mount -t tmpfs tmpfs "$1/dev/shm"
exec chroot --userspec="$2" "$1" /usr/bin/env -i "HOME=/$3" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd; $4"
"""

RANKS = "import hvd; hvd.init(); print(hvd.rank(), 'of', hvd.size(), hvd.allgather_object(hvd.rank()))"

PROGRAM = """\
#include <hvd/hvd.hpp>
#include <iostream>
int main() {
  hvd::init();
  std::cout << hvd::allreduce(hvd::rank() + 1, hvd::Op::sum) << std::endl;
  hvd::shutdown();
}
"""

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.18)
project(sum LANGUAGES CXX)
find_package(hvd REQUIRED)
add_executable(sum sum.cpp)
target_link_libraries(sum PRIVATE hvd::hvd)
"""


def run(words: Sequence[object], may_fail: bool = False, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=3000, **options)
    assert may_fail or done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


@dataclass
class Root:
    """A system of its own with an ordinary user."""

    place: Path

    def run(self, *words: object, user: str = USER) -> subprocess.CompletedProcess[str]:
        line = " ".join(shlex.quote(str(word)) for word in words)
        home = HOME if user == USER else "root"
        return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh", self.place, user, home, line],
                   may_fail=True)

    def lines(self, *words: object, user: str = USER) -> list[str]:
        done = self.run(*words, user=user)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(done.stdout.splitlines())


@pytest.fixture(scope="module")
def packages() -> dict[str, Path]:
    """The packages' files by name. Built from a copy of the checkout, because debian/rules writes beside the sources."""
    source = WORK / "source"
    shutil.rmtree(WORK, ignore_errors=True)
    source.mkdir(parents=True)
    listed = run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).stdout
    for name in filter(None, listed.split("\0")):
        if (TOP / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, source / name, follow_symlinks=False)
    variables = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1",
                 "DEB_BUILD_OPTIONS": f"noautodbgsym parallel={os.cpu_count()}"}
    run(["nice", "-n", "10", "dpkg-buildpackage", "-b", "-us", "-uc"], cwd=source, env=variables)
    return {file.name.partition("_")[0]: file for file in WORK.glob("*.deb")}


@pytest.fixture(scope="module")
def root(packages: dict[str, Path]) -> Root:
    """Debian 12 with the packages and what they need, not what they recommend."""
    place = WORK / "root"
    run(["debootstrap", "--variant=minbase", "bookworm", place])
    (place / HOME).mkdir()
    os.chown(place / HOME, 1000, 1000)
    with (place / "etc/passwd").open("a") as users:
        users.write(f"user:x:1000:1000::/{HOME}:/bin/sh\n")
    shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
    for file in Path("/etc/apt/apt.conf.d").iterdir():  # proxies
        if "proxy" in file.read_text().lower():
            shutil.copy(file, place / "etc/apt/apt.conf.d")
    for file in packages.values():
        shutil.copy(file, place / "tmp")
    made = Root(place)
    made.lines("apt-get", "install", "-y", "--no-install-recommends", *(f"/tmp/{file.name}" for file in packages.values()), user="0:0")
    return made


def test_there_are_four(packages: dict[str, Path]) -> None:
    assert sorted(packages) == list(PACKAGES)


def test_lintian_finds_no_error_and_no_warning(packages: dict[str, Path]) -> None:
    done = run(["lintian", "--allow-root", "--fail-on", "error,warning", *WORK.glob("*.changes")], may_fail=True)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_ranks_run_with_python(root: Root) -> None:
    assert root.lines("hvdrun", "-np", 2, "--label", "none", "python3", "-c", RANKS) == ["0 of 2 [0, 1]", "1 of 2 [0, 1]"]


def test_a_rank_that_fails_is_named(root: Root) -> None:
    done = root.run("hvdrun", "-np", 2, "sh", "-c", "[ $HVD_RANK = 0 ] || exit 3; sleep 1000")
    assert done.returncode == 3 and "rank 1 " in done.stderr, done.stderr


def test_programs_of_horovod_find_the_module(root: Root) -> None:
    program = "import horovod, hvd; print(horovod.__file__, hvd.__file__)"
    assert root.lines("hvdrun", "--horovod", "-np", 1, "--label", "none", "python3", "-c", program) == [
        "/usr/share/hvdrun/horovod/horovod/__init__.py /usr/lib/python3/dist-packages/hvd/__init__.py"]


def test_templates_manual_page_and_completions(root: Root) -> None:
    assert "generic" in "".join(root.lines("hvdrun", "templates"))
    for file in ("man/man1/hvdrun.1.gz", "man/man1/horovodrun.1.gz", "bash-completion/completions/hvdrun",
                 "zsh/vendor-completions/_hvdrun", "fish/vendor_completions.d/hvdrun.fish"):
        assert os.path.lexists(root.place / "usr/share" / file), file


def test_python_m_hvd_names_the_packages(root: Root) -> None:
    lines = root.lines("python3", "-m", "hvd")
    assert any(line.startswith("hvdrun ") and line.endswith(" /usr/bin/hvdrun") for line in lines), lines
    assert "                type: apt-get install libpmix2" in lines or "                type: sudo apt-get install libpmix2" in lines, lines


def test_a_program_is_built_with_cmake_and_pkg_config(root: Root) -> None:
    root.lines("apt-get", "install", "-y", "--no-install-recommends", "cmake", "g++", "make", "pkg-config", user="0:0")
    (root.place / HOME / "sum.cpp").write_text(PROGRAM)
    (root.place / HOME / "CMakeLists.txt").write_text(CMAKE_LISTS)
    root.lines("sh", "-c", "cmake -B built . && cmake --build built")
    root.lines("sh", "-c", "g++ -std=c++20 sum.cpp $(pkg-config --cflags --libs hvd) -o by-pkg-config")
    for program in ("built/sum", "./by-pkg-config"):
        assert root.lines("hvdrun", "-np", 2, "--label", "none", program) == ["3", "3"]


def test_they_go_again(root: Root) -> None:
    root.lines("apt-get", "purge", "-y", *PACKAGES, user="0:0")
    for folder in ("usr/bin/hvdrun", "usr/share/hvdrun", "usr/share/hvd", "usr/include/hvd", "usr/lib/python3/dist-packages/hvd"):
        assert not (root.place / folder).exists(), folder
