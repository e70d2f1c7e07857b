"""Lists the unmodified programs of frameworks/programs: how a test starts each one, and what its ranks print.

Debian's Python has the packages that most of them need. For the others ./check makes virtual environments. Without one the
test is skipped.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness import PYTHON, TOP, TORCH_OF_DEBIAN

PROGRAMS = TOP / "tests/frameworks/programs"


def python_of(name: str) -> str:
    """Returns the virtual environment's Python; "" if ./check has made none and the variable is Debian's Python."""
    python = os.environ.get(f"HVD_TEST_{name}", "")
    return "" if python == PYTHON else python


def environments_of_python() -> list[Path]:
    """Returns the folders of the virtual environments."""
    pythons = {python_of(name) for name in ("JAX", "NOTEBOOK", "TENSORFLOW", "TORCH")} - {""}
    return [Path(python).parent.parent for python in sorted(pythons)]


@dataclass(frozen=True)
class Case:
    """A program that ends with the line "FRAMEWORK VERSION: rank R of 2, SAID". `said` is SAID."""

    program: str
    said: str
    options: tuple[str, ...] = ()  # hvdrun's
    python: str = PYTHON
    environment: tuple[tuple[str, str], ...] = ()
    alone: bool = True  # false: it runs only inside SLURM
    marks: tuple[str, ...] = ()

    def words(self, *arguments: object) -> list[str]:
        """Returns the arguments of hvdrun that follow the options for the hosts and the number of ranks."""
        if not self.python:
            pytest.skip("./check --all and ./check --soak make the environment for it")
        return ["--label", "none", *self.options, self.python, str(PROGRAMS / f"{self.program}.py"), *map(str, arguments)]

    def variables(self, home: str) -> dict[str, str]:
        """Returns the program's environment. The program writes only into the folder `home`."""
        return {"HOME": home, "HF_HOME": f"{home}/huggingface", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1", "DS_ACCELERATOR": "cpu",
                "TORCHINDUCTOR_CACHE_DIR": f"{home}/inductor", "TRITON_CACHE_DIR": f"{home}/triton",
                "TORCH_EXTENSIONS_DIR": f"{home}/extensions", **TORCH_OF_DEBIAN, **dict(self.environment)}

    def expect_both_ranks(self, out: str, said: object) -> None:
        for rank in range(2):
            line = rf"^\S+ \S+: rank {rank} of 2, {re.escape(self.said)}$"
            assert re.search(line, out, re.MULTILINE), said

    def without_options(self) -> Case:
        return replace(self, options=())


# The file that `accelerate config` writes below HF_HOME.
ACCELERATE_CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nmixed_precision: bf16\n"

LOOPS = {"python": python_of("TORCH"), "marks": ("torch_loops",)}
TENSORFLOW = python_of("TENSORFLOW")
FOR_TENSORFLOW = ("--for", "tensorflow")

CASES = [
    Case("torch_ddp", "gradient 0.5", python=python_of("TORCH") or PYTHON),
    Case("torch_fsdp", "gradient 0.5, 2 rows here", **LOOPS),
    Case("lightning_fit", "2 steps", **LOOPS),
    Case("fabric_step", "gradient 0.5", **LOOPS),
    Case("accelerate_gather", "gathered [0, 1], bf16", ("--for", "accelerate"), **LOOPS),
    Case("deepspeed_steps", "5 steps", **LOOPS),
    Case("transformers_trainer", "2 steps", **LOOPS),
    Case("jax_gather", "gathered [0, 1], 2 devices", ("--for", "jax"), python_of("JAX")),
    Case("tensorflow_workers", "sum 2.0", FOR_TENSORFLOW, TENSORFLOW),
    Case("tensorflow_fit", "weight 0.75", FOR_TENSORFLOW, TENSORFLOW, (("TF_USE_LEGACY_KERAS", "1"),)),
    Case("tensorflow_slurm", "sum 2.0", (), TENSORFLOW, alone=False),
    Case("mpi4py_sum", "sum 1"),
    Case("horovod_sum", "sum 1.0", ("--horovod",), python_of("TORCH") or PYTHON),
    Case("slurm_script", "sum 1", alone=False),
]
BY_NAME = {case.program: case for case in CASES}


def marks_of(case: Case) -> list[pytest.MarkDecorator]:
    marks = case.marks if case.python else (*case.marks, "environment")
    return [getattr(pytest.mark, mark) for mark in marks]


def parameters(cases: list[Case]) -> list[object]:
    """Returns the cases as parameters for pytest.mark.parametrize."""
    return [pytest.param(case, id=case.program, marks=marks_of(case)) for case in cases]
