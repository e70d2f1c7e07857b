"""The wheel for aarch64 (scripts/wheel --arch aarch64) works for an ordinary user on Debian 12 for aarch64 in qemu-user.

The test needs root, Debian's archive, the package index, and Linux 6.7 to register qemu only for its user namespace. The built
files remain in build-aarch64/. The first run takes half an hour.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_wheel import KERNELS, MOST_BYTES, RANKS, TOP, failing, run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("foreign_wheel")]  # one process builds it
WORK = TOP / "build-aarch64"
HOME = "home/user"
# The first bytes of an ELF file for aarch64, in the form that binfmt_misc reads (documentation of the kernel).
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
ENTER = f"""\
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
printf %s ':aarch64:M::{MAGIC}:{MASK}:/usr/bin/qemu-aarch64-static:F' >/proc/sys/fs/binfmt_misc/register
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
exec unshare --user --map-user=1000 --map-group=1000 --root="$1" --wd=/{HOME} /usr/bin/env -i HOME=/{HOME} LC_ALL=C.UTF-8 \\
  PATH=/{HOME}/venv/bin:/usr/bin:/bin sh -c "$2"
"""


@dataclass
class Root:
    place: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = " ".join(map(shlex.quote, words))
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER,
                               "sh", self.place, line], capture_output=True, text=True, timeout=900)

    def lines(self, *words: str) -> list[str]:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(done.stdout.splitlines())


@pytest.fixture(scope="session")
def wheel() -> Path:
    run([TOP / "scripts/wheel", "--arch", "aarch64", WORK])
    [file] = (WORK / "dist").glob("*.whl")
    return file


@pytest.fixture(scope="session")
def root(wheel: Path) -> Root:
    place = WORK / "debian"
    run([TOP / "scripts/foreign_root", "aarch64", place])
    for folder in ("proc", "sys", "dev", "tmp", HOME):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / "etc/passwd").write_text(f"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/{HOME}:/bin/sh\n")
    shutil.copy(wheel, place / "tmp")
    root = Root(place)
    root.lines("rm", "-rf", "venv")
    root.lines("python3", "-m", "venv", "venv")
    root.lines("pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps", f"/tmp/{wheel.name}")
    return root


def test_auditwheel_accepts_it_for_glibc_2_28_and_later(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_aarch64.whl") and wheel.stat().st_size <= MOST_BYTES
    text = " ".join(run([WORK / "tools/bin/auditwheel", "show", wheel]).stdout.split())
    [minor] = re.findall(r'consistent with the following platform tag: "manylinux_2_(\d+)_aarch64"', text)
    assert int(minor) <= 28, text


def test_hvdrun_version_prints_the_libraries_in_the_wheel(root: Root) -> None:
    version, built = root.lines("hvdrun", "--version")[::-1]
    assert re.fullmatch(r"hvdrun [0-9.]+", version) and "libraries bundled: hwloc" in built, built


def test_check_build_prints_the_gpus_of_the_kernels(root: Root) -> None:
    assert f"    [X] CUDA kernels of libhvd's own: {KERNELS}" in root.lines("hvdrun", "--check-build")


def test_ranks_run_with_the_aarch64_wheel(root: Root) -> None:
    assert root.lines("hvdrun", "-np", "2", "python3", "-c", RANKS) == ["[0] 0 of 2 [0, 1]", "[1] 1 of 2 [0, 1]"]


@pytest.mark.parametrize("words, code, last", [
    (failing("sys.exit(7)"), 7, "rank 1 on .* failed: exit code 7"),
    (failing("os.kill(os.getpid(), 9)"), 137, "rank 1 on .* failed: .*SIGKILL"),
    (("no-such-program",), 127, "no-such-program")])
def test_a_rank_that_fails_ends_the_job(root: Root, words: tuple[str, ...], code: int, last: str) -> None:
    done = root.run("hvdrun", "-np", "2", *words)
    assert done.returncode == code, done.stderr
    assert re.search(last, [line for line in done.stderr.splitlines() if line.startswith("hvdrun: error: ")][-1]), done.stderr
