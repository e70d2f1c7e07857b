"""Tests that run inside the ranks of a job.

A module of cases/ has functions case_NAME() without arguments, which every rank of a job calls, one after the other,
after hvd.init(). hvdrun starts one job for a module and a number of ranks (SIZES of the module, else 1, 2 and 3), as
starting takes longer than a case; pytest shows each case at each size as a test of its own. The gate has the cases at one
size (GATE_SIZE of the module, else 2; 0 for none); other sizes are marked slow. A case fails when it raises on any rank.
What ends a job (a rank's death) needs a job of its own, and is no case.
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

# The Python that a module's FRAMEWORK is for; ./check has put TensorFlow into a virtual environment.
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
    framework: str  # "torch", "tensorflow" or none: ""
    environment: tuple[tuple[str, str], ...]
    exit_code: int  # of its jobs

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
    """Of one job."""

    job_fault: str  # how the job itself has failed; "" when it has not
    by_rank: dict[int, dict[str, str]]  # what a rank's case has raised; "" when it has passed

    def fault(self, case: str) -> str:
        """Why the case has failed; "" when it has not."""
        faults = []
        for rank, texts in sorted(self.by_rank.items()):
            if case not in texts:
                return f"rank {rank} did not come to its end; the job: {self.job_fault}"
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
    except AssertionError as error:  # for every case that it leaves without a result
        job_fault = str(error)
    by_rank: dict[int, dict[str, str]] = {}
    for rank in range(size):
        file = folder / f"rank{rank}.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        by_rank[rank] = {entry["case"]: entry["text"] for entry in map(json.loads, lines)}
    return Results(job_fault, by_rank)
