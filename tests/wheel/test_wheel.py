"""The wheel for every Linux (scripts/wheel) works for an ordinary user on Debian 11 and 12 with only Python.

The test needs root, Debian's archive, the package index, and Open MPI's mpicc. The built files remain in build-manylinux/. The
first run takes up to 20 minutes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from debian_root import HOMES, SYSTEM_PATH, USER, Root, make_root, run
from harness import TOP, program
from installation import RANKS, TWO_RANKS

pytestmark = pytest.mark.xdist_group("wheel")  # one process builds it

WORK = TOP / "build-manylinux"
MOST_BYTES = 10_000_000
KERNELS = "for compute capability 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 and later"

HOROVOD = """\
import torch
import horovod.torch as hvd
hvd.init()
print(hvd.allreduce(torch.ones(2) * hvd.rank(), op=hvd.Sum).tolist())
"""

MPI = """\
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %d\\n", rank, size, sum);
  return MPI_Finalize();
}
"""


def root_with_wheel(name: str, release: str, wheel: Path, *packages: str) -> Root:
    """Makes a system, and installs the wheel in a virtual environment of its user. A later run uses the same system."""
    root = Root(WORK / name, f"/{HOMES[USER]}/venv/bin:{SYSTEM_PATH}")
    if not (root.home / "complete").exists():
        make_root(root.place, release, "python3", "python3-venv", *packages)
        (root.home / "complete").touch()
    [file] = root.give(wheel)
    root.lines("rm", "-rf", "venv")
    root.lines("python3", "-m", "venv", "--system-site-packages", "venv")
    root.lines("pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps", file)
    return root


@pytest.fixture(scope="session", params=["bullseye", "bookworm"])
def root(request: pytest.FixtureRequest, wheel: Path) -> Root:
    """Makes a Debian system with only Python and the wheel."""
    return root_with_wheel(f"root-{request.param}", request.param, wheel)


@pytest.fixture(scope="session")
def training_root(wheel: Path) -> Root:
    return root_with_wheel("root-training", "bookworm", wheel, "libopenmpi3", "openmpi-bin", "python3-torch")


def test_the_wheel_has_at_most_10_megabytes_and_all_files(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    assert wheel.stat().st_size <= MOST_BYTES
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert {"hvdrun", "libhvd.so.0", "libpmix.so.2", "libssh.so.4", "libssl-hvd.so.3", "libcrypto-hvd.so.3", "bundled.txt",
            "hvdrun.1", "hvdrun.fish", "_hvdrun", "hvd.hpp", "hvdConfig.cmake", "hvd.pc", "generic.sbatch"} <= names


def test_auditwheel_accepts_it_for_glibc_2_28_and_later(wheel: Path) -> None:
    text = " ".join(run([WORK / "tools/bin/auditwheel", "show", wheel]).stdout.split())
    [minor] = re.findall(r'consistent with the following platform tag: "manylinux_2_(\d+)_x86_64"', text)
    assert int(minor) <= 28, text


def test_ranks_run_with_the_wheel(root: Root) -> None:
    assert root.lines("hvdrun", "-np", "2", "--label", "none", "python3", "-c", RANKS) == TWO_RANKS


def failing(line: str) -> tuple[str, ...]:
    return "python3", "-c", f"import hvd, os, sys; hvd.init()\nif hvd.rank() == 1: {line}\nhvd.allgather_object(0)"


@pytest.mark.parametrize("words, code, last", [
    (failing("sys.exit(7)"), 7, "rank 1 on .* failed: exit code 7"),
    (failing("raise ValueError('bad batch')"), 1, "rank 1 on .* failed: exit code 1"),
    (failing("os.kill(os.getpid(), 9)"), 137, "rank 1 on .* failed: .*SIGKILL"),
    (failing("os.abort()"), 134, "rank 1 on .* failed: .*SIGABRT"),
    (("no-such-program",), 127, "no-such-program"),
    (("/etc/passwd",), 126, "/etc/passwd")])
def test_a_rank_that_fails_ends_the_job(root: Root, words: tuple[str, ...], code: int, last: str) -> None:
    done = root.run("hvdrun", "-np", "2", *words)
    assert done.returncode == code, done.stderr
    lines = done.stderr.splitlines()
    assert re.search(last, [line for line in lines if line.startswith("hvdrun: error: ")][-1]), done.stderr
    if "bad batch" in words[-1]:
        assert lines[-1] == "hvdrun:   | ValueError: bad batch", done.stderr


def test_hvdrun_version_prints_the_compiler_glibc_and_libraries_of_the_wheel(root: Root) -> None:
    version, built = root.lines("hvdrun", "--version")[::-1]
    assert re.fullmatch(r"hvdrun [0-9.]+", version)
    assert re.fullmatch(r"built with Clang [0-9.]+ for glibc 2\.28; libraries bundled: hwloc [0-9].*, libevent .*, libssh .*, "
                        r"openssl .*, pmix .*", built), built


def test_libhvd_has_the_cuda_kernels(wheel: Path) -> None:
    """A fat binary of nvcc begins with its magic number, version and size."""
    libhvd = zipfile.ZipFile(wheel).read("hvd/lib/libhvd.so.0")
    [image] = [match.start() for match in re.finditer(re.escape(struct.pack("<IHH", 0xBA55ED50, 1, 16)), libhvd)]
    [size] = struct.unpack_from("<Q", libhvd, image + 8)
    assert 100_000 < size < 2_000_000


def test_hvd_and_check_build_print_the_gpus_of_the_kernels(root: Root) -> None:
    assert f"GPU kernels   found: {KERNELS}" in root.lines("python3", "-m", "hvd")
    assert f"    [X] CUDA kernels of libhvd's own: {KERNELS}" in root.lines("hvdrun", "--check-build")


def test_ranks_run_with_the_system_calls_of_linux_4_18(root: Root) -> None:
    """RHEL 8 has this kernel. The program old_kernel makes newer system calls fail."""
    shutil.copy(program("old_kernel"), root.place / "tmp")
    assert root.lines("/tmp/old_kernel", "hvdrun", "-np", "2", "--label", "none", "python3", "-c", RANKS) == TWO_RANKS


def test_the_wheel_brings_libpmix_and_libssh(root: Root) -> None:
    """The minimal system of debootstrap has no libpmix and no libssh."""
    assert not list(root.place.glob("usr/lib/*/libpmix.so*")) and not list(root.place.glob("usr/lib/*/libssh.so*"))
    text = "\n".join(root.lines("hvdrun", "--check-build"))
    assert "[X] libpmix.so.2" in text and "[X] libssh.so.4" in text


def test_a_program_of_open_mpi_runs(training_root: Root, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(MPI)
    run(["mpicc.openmpi", "-o", training_root.place / "tmp/sum", tmp_path / "sum.c"])
    assert training_root.lines("hvdrun", "-np", "2", "/tmp/sum") == ["[0] 0 of 2: 1", "[1] 1 of 2: 1"]


def test_a_program_for_horovod_runs(training_root: Root) -> None:
    assert training_root.lines("hvdrun", "--horovod", "-np", "2", "python3", "-c", HOROVOD) == ["[0] [1.0, 1.0]", "[1] [1.0, 1.0]"]


def test_a_second_build_of_the_wheel_has_the_same_bytes(wheel: Path) -> None:
    before = hashlib.sha256(wheel.read_bytes()).hexdigest()
    shutil.rmtree(WORK / "build")
    run([TOP / "scripts/wheel", WORK])
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == before
