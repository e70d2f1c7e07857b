"""The object that stages work with: the built programs, facts about this machine, and functions that run jobs on it."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Optional, Union

from gpukit.results import record
from gpukit.runner import Done, Runner

HERE = Path(__file__).resolve().parent.parent
PROGRAMS = HERE / "programs"
GPU_VARIABLE = "GPUKIT_GPU"  # 1: tensors are on a GPU; 0: all tensors are on CPUs
GRACE_SECONDS = 2  # hvdrun's --grace

# Twins: NCCL and libhvd take the two ranks for ranks on different hosts, so that they may share a GPU. NCCL uses the loopback.
TWIN_VARIABLES = {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo"}
TWIN = ("sh", "-c", 'exec env NCCL_HOSTID="twin$HVD_RANK" "$@"', "twin")


@dataclass(frozen=True)
class Kit:
    """One run of tests/gpu/device."""

    built: Path  # the folder from tests/gpu/pack or of a build, with bin/ and share/
    top: Path  # the checkout
    out: Path  # results, which the user copies back from the machine
    work: Path  # files of the run, which `out` gets as an archive
    runner: Runner
    gpu: bool

    @property
    def options(self) -> tuple[str, ...]:
        """Returns the options of hvdrun for several ranks that share the GPU."""
        return "--oversubscribe", "--pmix", "off", "--grace", f"{GRACE_SECONDS * self.runner.patience:g}"

    def set_environment(self) -> None:
        """Sets the environment that all commands inherit."""
        os.environ["PATH"] = f"{self.built}/bin:{os.environ.get('PATH', '')}"
        paths = [str(HERE), str(self.built / "share/hvd/python"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = ":".join(filter(None, paths))
        os.environ[GPU_VARIABLE] = "1" if self.gpu else "0"
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ.setdefault("NCCL_DEBUG", "WARN")
        os.environ["HVD_STALL_SHUTDOWN_TIME_SECONDS"] = f"{40 * self.runner.patience:.0f}"
        os.environ.update(self._libraries())

    def _libraries(self) -> dict[str, str]:
        """Returns variables with the paths of CUDA and NCCL, for programs without torch: in Python's packages, or in the toolkit."""
        torch = importlib.util.find_spec("torch")
        packages = Path(torch.origin).parent.parent / "nvidia" if torch and torch.origin else Path("/nowhere")
        places = {"HVD_CUDA_LIBRARY": (packages / "cu13/lib/libcudart.so.13", Path("/usr/local/cuda/lib64/libcudart.so.13"),
                                       packages / "cuda_runtime/lib/libcudart.so.12"),
                  "HVD_NCCL_LIBRARY": (packages / "nccl/lib/libnccl.so.2", Path("/usr/local/cuda/lib64/libnccl.so.2"))}
        found = {}
        for variable, files in places.items():
            file = next((file for file in files if file.exists()), None)
            if self.gpu and file and variable not in os.environ:
                found[variable] = str(file)
        return found

    def missing(self, need: str) -> Optional[str]:
        """Returns why this machine cannot run a stage that needs this, or None if it can."""
        if need == "a GPU":
            return None if self.gpu else "no GPU"
        if need == "a device":
            return None if self.gpu or self.devices() > 0 else "no GPU, and no doubles of CUDA"
        if need == "torch 2":
            return None if torch_version() >= (2, 0) else "no PyTorch 2"
        return None if importlib.util.find_spec(need) else f"no Python package {need}"

    def devices(self) -> int:
        """Returns the number of devices that libhvd sees, on GPUs or on doubles."""
        counted = subprocess.run([self.built / "bin/gpu_check", "count"], capture_output=True, text=True, timeout=60)
        return int(counted.stdout or "0")

    def job(self, ranks: int, *program: Union[str, Path, int], twins: bool = False, options: Optional[Collection[str]] = None,
            limit: float = float("inf"), environment: Optional[Mapping[str, str]] = None, folder: Optional[Path] = None,
            on_line: Optional[Callable[[str, subprocess.Popen[str]], None]] = None) -> Done:
        """Runs a program with `ranks` ranks under hvdrun."""
        wrapper: tuple[str, ...] = TWIN if twins else ()
        variables = {**(TWIN_VARIABLES if twins else {}), **(environment or {})}
        return self.runner.run(["hvdrun", *(options or self.options), "-np", ranks, *wrapper, *program], limit, variables, folder, on_line)

    def rank_program(self, ranks: int, name: str, *arguments: Union[str, Path, int], twins: bool = False,
                     options: Optional[Collection[str]] = None, environment: Optional[Mapping[str, str]] = None) -> None:
        """Runs a program of the kit, which records its checks itself. Records a wrong check if the job fails."""
        done = self.job(ranks, sys.executable, PROGRAMS / name, *arguments, twins=twins, options=options, environment=environment)
        if done.code != 0:
            words = " ".join(map(str, (name, *(Path(str(each)).name for each in arguments))))
            record(f"{words[:120]}, ranks: {ranks}{', twins' if twins else ''}", False, f"exit code {done.code}: {done.last(3)}")

    def expect(self, check: str, done: Done, last: int = 3) -> None:
        """Records a check that is right if the command has ended with code 0."""
        record(check, done.code == 0, f"exit code {done.code}: {done.last(last)}" if done.code else done.last(last))

    def measure(self, check: str, done: Done, last: int) -> None:
        """Records the last lines of a command as a measurement, if it has ended with code 0."""
        record(check, None if done.code == 0 else False, done.last(last))

    def together(self, *functions: Callable[[], None]) -> None:
        """Calls the functions at once, each on its own thread, and waits for all. Raises the first exception."""
        with ThreadPoolExecutor(len(functions)) as pool:
            for future in [pool.submit(function) for function in functions]:
                future.result()


def torch_version() -> tuple[int, int]:
    """Returns the major and minor version of torch; (0, 0) without torch."""
    try:
        major, minor, *_ = version("torch").split(".")
    except PackageNotFoundError:
        return 0, 0
    return int(major), int(minor)


def own_name_resolves() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True
