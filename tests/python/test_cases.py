"""Runs each case of cases/ with each number of ranks (rank_cases.py)."""

from __future__ import annotations

import pytest

from harness import Sandbox
from rank_cases import Module, Results, modules, run_module

_results: dict[tuple[str, int], Results] = {}


def marks_of(module: Module, size: int) -> list[pytest.MarkDecorator]:
    """Returns the marks of a test. One worker of pytest-xdist runs all cases of a job, because the first case starts the job."""
    marks = [pytest.mark.xdist_group(f"{module.name}-{size}")]
    marks += [pytest.mark.tensorflow] if module.framework == "tensorflow" else []
    return marks + ([pytest.mark.slow] if size != module.gate_size else [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("module, size, case", [
        pytest.param(module, size, case, id=f"{module.name}-{size}-{case.removeprefix('case_')}",
                     marks=marks_of(module, size))
        for module in modules() for size in module.sizes for case in module.cases])


def test_case(module: Module, size: int, case: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    key = module.name, size
    if key not in _results:
        place = Sandbox(tmp_path_factory.mktemp(f"{module.name}-{size}") / "sandbox")
        _results[key] = run_module(module, size, place)
        place.close()
    results = _results[key]
    fault = results.fault(case)
    if not fault and results.job_fault and case == module.cases[-1]:
        fault = f"all cases passed, but the job failed: {results.job_fault}"
    if fault:
        pytest.fail(fault, pytrace=False)
