"""The PTX that nvcc makes of libhvd's CUDA kernels. tests/unit/runtime/gpu tests what they compute."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness import TOP, Sandbox, cached

NVCC = cached("HVD_NVCC")
pytestmark = pytest.mark.skipif(cached("HVD_NVCC_WORKS") != "ON", reason="needs nvcc")


def compile_in(folder: Path, sandbox: Sandbox) -> str:
    """Returns the instructions (PTX) of a copy of the kernels in this folder."""
    for source in ("gpu", "collective"):
        shutil.copytree(TOP / "runtime" / source, folder / source)
    sandbox.run("-std=c++17", "-O3", "--ptx", "-arch=compute_80", "-o", folder / "kernels.ptx", folder / "gpu/kernels.cu", tool=NVCC,
                env={"PATH": "/usr/bin:/bin"}).expect(0)
    return (folder / "kernels.ptx").read_text()


def test_nvcc_output_does_not_depend_on_the_source_folder(sandbox: Sandbox) -> None:
    assert compile_in(sandbox.files / "a", sandbox) == compile_in(sandbox.files / "another", sandbox)


def test_the_copy_kernel_issues_four_loads_before_its_stores(sandbox: Sandbox) -> None:
    """Checks words of 16, 8, 4, 2 and 1 bytes."""
    text = compile_in(sandbox.files, sandbox).split(".entry hvd_copy_batch(")[1].split(".entry ")[0]
    calls = " ".join("".join(words) for words in re.findall(r"(ld|st)\.global(\.\S+)", text))
    for word in (".v4.u32", ".v2.u32", ".u32", ".u16", ".u8"):
        assert " ".join([f"ld{word}"] * 4 + [f"st{word}"] * 4) in calls, calls
