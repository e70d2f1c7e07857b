"""`python -m hvd`: prints what hvd finds on this machine, one line per part, and what to type for what is missing;
with `--json` a JSON object.

Imports no framework and uses no GPU. Opens the CUDA driver and libraries only to read their versions.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

import hvd
from hvd import _library, _remedies, capabilities, launch
from hvd._find_library import find, mapped_path

# Modules, and the distributions that may install them.
_FRAMEWORKS = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tensorflow-macos"),
    "keras": ("keras",),
    "horovod": ("hvd-horovod", "horovod"),
}

# Launchers, and the variables in which each sets the rank and the number of ranks.
_LAUNCHERS = (
    ("hvdrun", "HVD_RANK", "HVD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("torchrun or alike", "RANK", "WORLD_SIZE"),
)


@dataclass(frozen=True)
class Part:
    """A program, library or module that was looked for."""

    found: bool
    version: Optional[str] = None
    path: Optional[str] = None
    note: Optional[str] = None
    fix: Optional[str] = None  # what to type, if it is missing or cannot be used

    def line(self) -> str:
        words = [self.version, self.path] if self.found else ["not found"]
        text = "  ".join(word for word in words if word) or "found"
        return f"{text}: {self.note}" if self.note else text


@dataclass(frozen=True)
class Place:
    """This process's rank in a job."""

    rank: int
    size: int
    host: str
    launcher: str

    def line(self) -> str:
        return f"rank {self.rank} of {self.size} on {self.host}, started by {self.launcher}"


def find_hvdrun() -> Part:
    """Finds the hvdrun that hvd.run() uses, and its version."""
    try:
        program = launch.find_hvdrun()
    except FileNotFoundError:
        return Part(False, note="needed to start jobs", fix=_remedies.hvdrun())
    note, fix = None, None
    if not shutil.which("hvdrun"):
        note, fix = "not on PATH", _remedies.put_on_path(str(Path(program).parent))
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Part(True, path=program, note=str(error))
    version = done.stdout.split("\n")[0].strip().removeprefix("hvdrun ")
    return Part(True, version or None, program, note, fix)


def find_library(soname: str, part: str, use: str) -> Part:
    """Finds a library that hvdrun opens at run time."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return Part(False, note=use, fix=_remedies.system_package(part))
    return Part(True, path=mapped_path(soname))


def find_ssh() -> Part:
    program = shutil.which("ssh")
    return Part(True, path=program) if program else Part(False, note="for -H", fix=_remedies.system_package("ssh"))


def find_mpi_plugin() -> Part:
    if not capabilities.mpi_built():
        return Part(False, note="large messages between hosts go over TCP only", fix=_remedies.system_package("Open MPI"))
    beside = Path(_library.path).resolve().parent / "libhvd_mpi.so"
    return Part(True, path=os.environ.get("HVD_MPI_LIBRARY") or str(beside))


def find_cuda_driver() -> Part:
    driver = find((os.environ.get("HVD_CUDA_DRIVER") or "libcuda.so.1",), "cuDriverGetVersion")
    if not driver:
        if not _remedies.find_nvidia_gpu():
            return Part(False, note="this machine has no GPU of NVIDIA's")
        return Part(False, fix=_remedies.cuda_driver())
    version = driver.version
    return Part(True, f"{version // 1000}.{version % 1000 // 10}" if version else None, driver.path)


def _lacks_cuda_library() -> Part:
    needs = _remedies.find_nvidia_gpu() and importlib.util.find_spec("torch") is None
    return Part(False, note="libhvd takes that which a framework brings, once it is imported",
                fix=_remedies.python_package("torch") if needs else None)


def find_cuda_runtime() -> Part:
    found = capabilities.find_cuda_runtime()
    return Part(True, path=found.path) if found else _lacks_cuda_library()


def find_nccl() -> Part:
    found = capabilities.find_nccl()
    if not found or not found.version:
        return _lacks_cuda_library()
    version = found.version
    return Part(True, f"{version // 10000}.{version // 100 % 100}.{version % 100}", found.path)


def find_gpu_kernels() -> Part:
    found, about = capabilities.gpu_kernels()
    return Part(found, note=about)


def find_module(name: str, distributions: tuple[str, ...]) -> Part:
    """Finds a module without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None and name == "horovod":
        return Part(False, note="for programs that import horovod", fix="hvdrun --horovod …")
    if spec is None:
        return Part(False, fix=_remedies.python_package(name))
    version = None
    for distribution in distributions:
        try:
            version = importlib.metadata.version(distribution)
            break
        except importlib.metadata.PackageNotFoundError:
            continue
    return Part(True, version, str(Path(spec.origin).parent) if spec.origin else None)


def find_parts() -> dict[str, Part]:
    return {
        "hvd": Part(True, hvd.__version__, str(Path(hvd.__file__).parent)),
        "libhvd": Part(True, hvd.version(), mapped_path(_library.SONAME.rpartition(".")[0]) or _library.path),
        "hvdrun": find_hvdrun(),
        "PMIx": find_library("libpmix.so.2", "PMIx", "for programs of Open MPI"),
        "libssh": find_library("libssh.so.4", "libssh", "logins without a process of ssh for each"),
        "ssh": find_ssh(),
        "OpenSSL": find_library("libssl.so.3", "OpenSSL", "for jobs of SLURM on several hosts"),
        "MPI plugin": find_mpi_plugin(),
        "CUDA driver": find_cuda_driver(),
        "CUDA runtime": find_cuda_runtime(),
        "NCCL": find_nccl(),
        "GPU kernels": find_gpu_kernels(),
        "Python": Part(True, platform.python_version(), sys.executable),
        **{name: find_module(name, distributions) for name, distributions in _FRAMEWORKS.items()},
    }


def find_place() -> Optional[Place]:
    """Reads the variables that launchers set. Returns None outside of a job."""
    for launcher, rank, size in _LAUNCHERS:
        values = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(value.isdigit() for value in values):
            host = os.environ.get("HVD_HOSTNAME") or socket.gethostname()
            return Place(int(values[0]), int(values[1]), host, launcher)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hvd", description="Prints what hvd finds on this machine.")
    parser.add_argument("--json", action="store_true", help="print it as a JSON object")
    as_json = parser.parse_args().json
    parts, place = find_parts(), find_place()
    if as_json:
        known = {name.lower().replace(" ", "_"): asdict(part) for name, part in parts.items()}
        print(json.dumps({**known, "job": asdict(place) if place else None}, indent=2))
        return
    lines = {**{name: part.line() for name, part in parts.items()},
             "in a job": place.line() if place else "no: hvdrun -np N starts one"}
    for name, text in lines.items():
        print(f"{name:<14}{text}")
        if (part := parts.get(name)) and part.fix:
            print(f"{'':<14}  type: {part.fix}")


if __name__ == "__main__":
    main()
