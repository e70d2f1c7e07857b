"""bench/speed compares ratios to peers with those in docs/benchmarks.md. The benches themselves are replaced."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import pytest
from harness import TOP

PAGE = """# Benchmarks

{heading}
| bench: ratio | cores | hyperthreads |
|---|---|---|
| launch: 2 | 1.00 | 0.50 |
| launch: 8 | 2.00 |  |

## Launching
"""


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(TOP / "bench"))
    loader = importlib.machinery.SourceFileLoader("speed", str(TOP / "bench/speed"))
    spec = importlib.util.spec_from_loader("speed", loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "speed", module)
    loader.exec_module(module)
    monkeypatch.setattr(module, "BENCHES", {"launch": []})
    return module


def replace_bench(monkeypatch: pytest.MonkeyPatch, speed, *runs: dict[str, dict[str, float]]) -> list[int]:
    """Makes the bench return these ratios, one per run. Returns a list that grows with each run."""
    left, made = list(runs), []

    def measure(bench: str) -> dict[str, dict[str, float]]:
        made.append(len(made))
        return {f"{bench}: {name}": dict(kinds) for name, kinds in left.pop(0).items()}

    monkeypatch.setattr(speed, "measure", measure)
    return made


def figures(speed, tmp_path: Path) -> dict[str, dict[str, float]]:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(heading=speed.HEADING))
    return speed.read_page(page).figures


def test_a_ratio_up_to_a_quarter_larger_passes(speed, tmp_path, monkeypatch):
    made = replace_bench(monkeypatch, speed, {"2": {"cores": 1.24}, "8": {"cores": 1.0}})
    assert speed.compare(figures(speed, tmp_path))
    assert len(made) == 1


def test_a_ratio_that_is_larger_in_both_runs_fails(speed, tmp_path, monkeypatch, capsys):
    slow = {"2": {"cores": 1.30}, "8": {"cores": 1.0}}
    made = replace_bench(monkeypatch, speed, slow, slow)
    assert not speed.compare(figures(speed, tmp_path))
    assert len(made) == 2
    assert "SLOWER launch: 2: 1.30 (cores), the page has 1.00 (cores), 0.50 (hyperthreads)" in capsys.readouterr().out


def test_a_ratio_that_is_larger_in_one_run_passes(speed, tmp_path, monkeypatch):
    replace_bench(monkeypatch, speed, {"2": {"cores": 1.30}, "8": {"cores": 1.0}}, {"2": {"cores": 1.1}, "8": {"cores": 9.0}})
    assert speed.compare(figures(speed, tmp_path))


def test_only_figures_of_the_same_kind_of_processors_are_compared(speed, tmp_path, monkeypatch, capsys):
    replace_bench(monkeypatch, speed, *[{"2": {"hyperthreads": 0.7}, "8": {"hyperthreads": 9.0}}] * 2)
    assert not speed.compare(figures(speed, tmp_path))
    output = capsys.readouterr().out
    assert "1 have no figure there for this kind of processors: launch: 8" in output and "SLOWER launch: 2" in output


def test_a_missing_ratio_fails(speed, tmp_path, monkeypatch, capsys):
    replace_bench(monkeypatch, speed, {"2": {"cores": 1.0}})
    assert not speed.compare(figures(speed, tmp_path))
    assert "launch: 8: was not measured" in capsys.readouterr().out


def test_writing_figures_keeps_those_of_other_processors_and_the_rest_of_the_page(speed, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(heading=speed.HEADING))
    speed.write_page(page, speed.read_page(page), {"launch: 2": {"cores": 1.5}, "launch: 32": {"cores": 3.0}})
    expected = PAGE.format(heading=speed.HEADING).replace("| 1.00 |", "| 1.50 |").replace("| launch: 8 | 2.00 |", "| launch: 32 | 3.00 |")
    assert page.read_text() == expected


def test_the_benchmarks_page_has_figures(speed):
    found = speed.read_page(speed.PAGE).figures
    assert len(found) > 20
    assert os.access(TOP / "bench/speed", os.X_OK)
