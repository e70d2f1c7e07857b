"""Tests that run inside the ranks of a job.

A module of cases/ has functions case_NAME() without arguments. Each rank of a job calls them one after the other, after
hvd.init(). A start takes longer than a case, so hvdrun starts one job per module and number of ranks (the module's SIZES,
else 1, 2 and 3). pytest reports each case with each number of ranks as a test. The gate runs one number of ranks (the
module's GATE_SIZE, else 2; 0 for none); tests with others are marked slow. A case fails if it raises on any rank. A test
that ends its job, such as the death of a rank, cannot be a case.
"""

from __future__ import annotations

import ast
import json
import os
from dataclasses import dataclass
from pathlib import Path

from harness import PYTHON, Sandbox, python_environment

CASES = Path(__file__).resolve().parent / "cases"
JOB_LIMIT = 300.0  # seconds; a job that takes longer hangs
RUNNER = Path(__file__).resolve().parent / "run_cases.py"

# The interpreter for each FRAMEWORK of a module; ./check installs TensorFlow in a virtual environment.
PYTHONS = {"": PYTHON,
           "torch": os.environ.get("HVD_TEST_TORCH", PYTHON),
           "tensorflow": os.environ.get("HVD_TEST_TENSORFLOW", str(Path.home() / ".cache/hvdrun/python/tensorflow/bin/python"))}


@dataclass(frozen=True)
class Module:
    """A module of cases, read without importing it."""

    path: Path
    sizes: tuple[int, ...]
    cases: tuple[str, ...]
    gate_size: int
    framework: str  # "torch", "tensorflow", or "" for none
    environment: tuple[tuple[str, str], ...]
    exit_code: int  # expected of its jobs

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def python(self) -> str:
        return PYTHONS[self.framework]


def read_module(path: Path) -> Module:
    tree = ast.parse(path.read_text(), str(path))
    cases = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")]
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id in ("SIZES", "GATE_SIZE", "FRAMEWORK", "ENVIRONMENT", "EXIT_CODE"):
                constants[node.targets[0].id] = ast.literal_eval(node.value)
    return Module(path, tuple(constants.get("SIZES", (1, 2, 3))), tuple(cases), constants.get("GATE_SIZE", 2),
                  constants.get("FRAMEWORK", ""), tuple(constants.get("ENVIRONMENT", {}).items()), constants.get("EXIT_CODE", 0))


def modules() -> list[Module]:
    return [read_module(path) for path in sorted(CASES.glob("*.py")) if not path.name.startswith("_")]


@dataclass(frozen=True)
class Results:
    """The results of one job."""

    job_fault: str  # why the job itself failed; "" if it did not
    by_rank: dict[int, dict[str, str]]  # by rank and case: the exception; "" if the case passed

    def fault(self, case: str) -> str:
        """Returns why the case failed; "" if it passed."""
        faults = []
        for rank, texts in sorted(self.by_rank.items()):
            if case not in texts:
                return f"rank {rank} did not finish the case; the job: {self.job_fault}"
            if texts[case]:
                faults.append(f"rank {rank}: {texts[case]}")
        return "\n".join(faults)


def run_module(module: Module, size: int, sandbox: Sandbox) -> Results:
    folder = sandbox.files / "results"
    folder.mkdir()
    variables = {"HVD_STALL_SHUTDOWN_TIME_SECONDS": "30", **dict(module.environment)}
    job = sandbox.start("-np", size, "--bind-to", "none", "-H", f"localhost:{size}", module.python, RUNNER, module.path,
                       folder, env=python_environment(variables))
    try:
        job.wait(JOB_LIMIT).expect(module.exit_code)
        job_fault = ""
    except AssertionError as error:  # the failure of each case without a result
        job_fault = str(error)
    by_rank: dict[int, dict[str, str]] = {}
    for rank in range(size):
        file = folder / f"rank{rank}.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        by_rank[rank] = {entry["case"]: entry["text"] for entry in map(json.loads, lines)}
    return Results(job_fault, by_rank)
