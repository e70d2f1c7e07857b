"""Prints the versions of Python's packages, and how long torch takes to start."""

from __future__ import annotations

import sys
import time
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("numpy", "jax", "lightning", "accelerate", "transformers", "cupy-cuda13x", "mpi4py")
LIBRARIES = ("nccl", "cudart", "libcuda.", "nvidia-ml")


def print_torch() -> None:
    start = time.perf_counter()
    import torch
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, imported in {time.perf_counter() - start:.1f} s")
    if torch.cuda.is_available():
        start = time.perf_counter()
        torch.ones(1, device="cuda").item()
        print(f"first kernel after {time.perf_counter() - start:.1f} s; NCCL {torch.cuda.nccl.version()}")
        print(torch.cuda.get_device_properties(0))


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


print(f"Python {sys.version.split()[0]}; " + ", ".join(f"{package} {version_of(package)}" for package in PACKAGES))
try:
    print_torch()
except ImportError as error:
    print(f"torch: {error}")
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if "/" in line}
print("libraries of torch: " + ", ".join(sorted(file for file in files if any(word in file.rsplit("/", 1)[-1] for word in LIBRARIES))))
