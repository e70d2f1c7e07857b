"""Runs each case of cases/ with each number of ranks (rank_cases.py)."""

from __future__ import annotations

import pytest

from harness import Sandbox
from rank_cases import Module, Results, jobs_of, modules, run_modules

_results: dict[tuple[str, int], Results] = {}


def jobs_with(size: int) -> dict[str, list[Module]]:
    return jobs_of(size, [module for module in modules() if size in module.sizes])


def marks_of(module: Module, size: int) -> list[pytest.MarkDecorator]:
    """Returns the marks of a test. One worker of pytest-xdist runs all cases of a job, because the first case starts the job."""
    [job] = [name for name, members in jobs_with(size).items() if module in members]
    marks = [pytest.mark.xdist_group(job)]
    marks += [pytest.mark.tensorflow] if module.framework == "tensorflow" else []
    return marks + ([pytest.mark.slow] if size != module.gate_size else [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("module, size, case", [
        pytest.param(module, size, case, id=f"{module.name}-{size}-{case.removeprefix('case_')}", marks=marks)
        for module in modules() for size in module.sizes for marks in [marks_of(module, size)] for case in module.cases])


def chosen_with(module: Module, size: int, session: pytest.Session) -> list[Module]:
    """Returns the modules of the same job of which pytest runs cases."""
    chosen = {item.callspec.params["module"].name for item in session.items
              if getattr(item, "callspec", None) and item.callspec.params.get("size") == size and "module" in item.callspec.params}
    [members] = [members for members in jobs_with(size).values() if module in members]
    return [member for member in members if member.name in chosen]


def test_case(module: Module, size: int, case: str, request: pytest.FixtureRequest,
              tmp_path_factory: pytest.TempPathFactory) -> None:
    if (module.name, size) not in _results:
        place = Sandbox(tmp_path_factory.mktemp(f"{module.name}-{size}") / "sandbox")
        for name, results in run_modules(chosen_with(module, size, request.session), size, place).items():
            _results[name, size] = results
        place.close()
    results = _results[module.name, size]
    fault = results.fault(case)
    if not fault and results.job_fault and case == module.cases[-1]:
        fault = f"all cases passed, but the job failed: {results.job_fault}"
    if fault:
        pytest.fail(fault, pytrace=False)
