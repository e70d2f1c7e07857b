"""Importing a module of hvd without its framework raises an ImportError that says how to install it."""

from __future__ import annotations

import subprocess

import pytest

from harness import PYTHON, python_environment


@pytest.mark.parametrize("module, framework, words", [
    ("hvd.torch", "torch", "hvd.torch needs PyTorch: pip install torch"),
    ("hvd.tensorflow", "tensorflow", "hvd.tensorflow needs TensorFlow: pip install tensorflow"),
    ("hvd.tensorflow.keras", "tensorflow", "hvd.tensorflow needs TensorFlow: pip install tensorflow"),
    ("hvd.keras", "tensorflow", "hvd.tensorflow needs TensorFlow: pip install tensorflow"),
    ("hvd.numpy", "numpy", "hvd.numpy needs numpy: pip install numpy"),
])
def test_importing_a_module_without_its_framework_says_what_to_install(module: str, framework: str, words: str) -> None:
    done = subprocess.run([PYTHON, "-c", f"import sys; sys.modules[{framework!r}] = None; import {module}"],
                          env=python_environment(), capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == f"ImportError: {words}", done.stderr


def test_the_package_hvd_works_without_any_framework() -> None:
    program = ("import sys\n"
               "for name in ('numpy', 'torch', 'tensorflow', 'keras', 'ml_dtypes', 'cloudpickle'):\n"
               "    sys.modules[name] = None\n"
               "import hvd\n"
               "hvd.init()\n"
               "print(hvd.broadcast_object({'rank': hvd.rank()}), hvd.allgather_object(hvd.size()))\n")
    done = subprocess.run([PYTHON, "-c", program], env=python_environment(), capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "{'rank': 0} [1]\n", done.stderr
