"""libhvd's CUDA kernels as nvcc compiles them. What they compute is in tests/unit/runtime/gpu."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness import TOP, Sandbox, cached

NVCC = cached("HVD_NVCC")
pytestmark = pytest.mark.skipif(cached("HVD_NVCC_WORKS") != "ON", reason="is built where nvcc is")


def compile_in(folder: Path, sandbox: Sandbox) -> str:
    """Returns the instructions (PTX) of a copy of the kernels in this folder."""
    for source in ("gpu", "collective"):
        shutil.copytree(TOP / "runtime" / source, folder / source)
    sandbox.run("-std=c++17", "-O3", "--ptx", "-arch=compute_80", "-o", folder / "kernels.ptx", folder / "gpu/kernels.cu", tool=NVCC,
                env={"PATH": "/usr/bin:/bin"}).expect(0)
    return (folder / "kernels.ptx").read_text()


def test_they_are_the_same_from_every_folder(sandbox: Sandbox) -> None:
    assert compile_in(sandbox.files / "a", sandbox) == compile_in(sandbox.files / "another", sandbox)


def test_a_thread_that_copies_has_four_loads_under_way(sandbox: Sandbox) -> None:
    """With words of 16, 8, 4, 2 and 1 bytes; what is less than a word goes by single bytes."""
    text = compile_in(sandbox.files, sandbox).split(".entry hvd_copy_batch(")[1].split(".entry ")[0]
    calls = " ".join("".join(words) for words in re.findall(r"(ld|st)\.global(\.\S+)", text))
    for word in (".v4.u32", ".v2.u32", ".u32", ".u16", ".u8"):
        assert " ".join([f"ld{word}"] * 4 + [f"st{word}"] * 4) in calls, calls
