"""nccl_built() and cuda_built() load no library: a framework imported later would get that library by its soname.

The doubles of CUDA and NCCL serve as the system's libraries and as a framework's own.
"""

from __future__ import annotations

import os
import shutil

from harness import BUILD, PYTHON, Done, Sandbox, python_environment

DOUBLES = BUILD / "lib/doubles"


def python(sandbox: Sandbox, program: str, **environment: str) -> Done:
    return sandbox.run("-c", program, tool=PYTHON, env=python_environment(environment)).expect(0)


def test_nccl_built_and_cuda_built_load_no_library(sandbox: Sandbox) -> None:
    done = python(sandbox, """
from hvd import capabilities
for _ in range(2):
    print(capabilities.nccl_built() > 20000, capabilities.cuda_built())
maps = open("/proc/self/maps").read()
print("libnccl" in maps, "libcudart" in maps)
""", LD_LIBRARY_PATH=str(DOUBLES))
    assert done.out_lines == ["True True", "True True", "False False"]


def test_a_framework_loads_its_own_cuda_runtime_after_cuda_built(sandbox: Sandbox) -> None:
    """Its NCCL needs a CUDA runtime by soname. cuda_built() has inspected another one with the same soname."""
    other = sandbox.files / "libcudart.so.13"
    shutil.copy(DOUBLES / "libcudart.so.13", other)
    done = python(sandbox, f"""
import ctypes
from hvd import _find_library, capabilities
print(capabilities.cuda_built())
ctypes.CDLL("{DOUBLES}/libnccl.so.2")
print(_find_library.mapped_path("libcudart.so"))
print(capabilities.cuda_built(), capabilities.nccl_built() > 20000)
""", HVD_CUDA_LIBRARY=str(other))
    assert done.out_lines == ["True", os.path.realpath(DOUBLES / "libcudart.so.13"), "True True"]


def test_nccl_built_uses_a_library_that_is_already_loaded(sandbox: Sandbox) -> None:
    """The loader does not find PyTorch's NCCL, for example."""
    done = python(sandbox, f"""
import ctypes
from hvd import capabilities
print(capabilities.nccl_built())
ctypes.CDLL("{DOUBLES}/libnccl.so.2")
print(capabilities.nccl_built() > 20000, capabilities.find_nccl().path)
""", LD_LIBRARY_PATH="")
    assert done.out_lines[1:] == [f"True {os.path.realpath(DOUBLES / 'libnccl.so.2')}"]


def test_a_broken_or_missing_library_is_not_built(sandbox: Sandbox) -> None:
    broken = sandbox.files / "broken.so"
    broken.write_text("no library\n")
    done = python(sandbox, "from hvd import capabilities as c\nprint(c.nccl_built(), c.cuda_built())",
                  HVD_NCCL_LIBRARY=str(broken), HVD_CUDA_LIBRARY=str(sandbox.files / "nowhere.so"))
    assert done.out_lines == ["0 False"]


def test_python_m_hvd_prints_the_paths_of_cuda_and_nccl(sandbox: Sandbox) -> None:
    done = sandbox.run("-m", "hvd", tool=PYTHON, env=python_environment({"LD_LIBRARY_PATH": str(DOUBLES)})).expect(0)
    lines = {line[:14].rstrip(): line for line in done.out_lines}
    assert str(DOUBLES / "libcudart.so.13") in lines["CUDA runtime"]
    assert str(DOUBLES / "libnccl.so.2") in lines["NCCL"]
