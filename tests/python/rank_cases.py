"""Tests that run inside the ranks of a job.

A module of cases/ has functions case_NAME() without arguments. Each rank of a job calls them one after the other, after
hvd.init(). A start takes longer than a case, so one job runs all cases of some modules that need the same (run_cases.py),
once for each number of ranks (the module's SIZES, else 1, 2 and 3). pytest reports each case with each number of ranks as a test. The gate runs one number of ranks (the
module's GATE_SIZE, else 2; 0 for none); tests with others are marked slow. A case fails if it raises on any rank. A test
that ends its job, such as the death of a rank, cannot be a case.
"""

from __future__ import annotations

import ast
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from harness import PYTHON, Sandbox, python_environment

MOST_IN_JOB = 6  # modules; several jobs share the processors
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
    imports: str  # what takes long to import: "torch", "tensorflow" or ""

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
    framework = constants.get("FRAMEWORK", "")
    imports = framework or ("torch" if re.search(r"^(import|from) (hvd\.)?torch\b", path.read_text(), re.MULTILINE) else "")
    return Module(path, tuple(constants.get("SIZES", (1, 2, 3))), tuple(cases), constants.get("GATE_SIZE", 2), framework,
                  tuple(constants.get("ENVIRONMENT", {}).items()), constants.get("EXIT_CODE", 0), imports)


def modules() -> list[Module]:
    return [read_module(path) for path in sorted(CASES.glob("*.py")) if not path.name.startswith("_")]


def jobs_of(size: int, chosen: list[Module]) -> dict[str, list[Module]]:
    """Returns the modules that share a job, by a name of the job. A module whose job fails by design has one of its own."""
    alike: dict[tuple[object, ...], list[Module]] = {}
    for module in chosen:
        alone = module.name if module.exit_code else ""
        alike.setdefault((module.python, module.imports, module.environment, alone), []).append(module)
    jobs = [group[at:at + MOST_IN_JOB] for group in alike.values() for at in range(0, len(group), MOST_IN_JOB)]
    return {f"{job[0].name}-{size}": job for job in jobs}


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


def run_modules(modules: list[Module], size: int, sandbox: Sandbox) -> dict[str, Results]:
    """Runs the modules of one job. Returns their results by their names."""
    folder = sandbox.files / "results"
    folder.mkdir()
    first = modules[0]
    variables = {"HVD_STALL_SHUTDOWN_TIME_SECONDS": "30", **dict(first.environment)}
    job = sandbox.start("-np", size, "--bind-to", "none", "-H", f"localhost:{size}", first.python, RUNNER, folder,
                        first.imports or "-", *(module.path for module in modules), env=python_environment(variables))
    try:
        job.wait(JOB_LIMIT).expect(first.exit_code)
        job_fault = ""
    except AssertionError as error:  # the failure of each case without a result
        job_fault = str(error)
    results = {}
    for module in modules:
        by_rank: dict[int, dict[str, str]] = {}
        for rank in range(size):
            file = folder / f"{module.name}-{rank}.jsonl"
            lines = file.read_text().splitlines() if file.exists() else []
            by_rank[rank] = {entry["case"]: entry["text"] for entry in map(json.loads, lines)}
        results[module.name] = Results(job_fault, by_rank)
    return results
