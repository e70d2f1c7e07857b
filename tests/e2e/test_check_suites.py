"""./check runs failed tests again, each alone, and lists failures in its last lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import TOP

sys.path.insert(0, str(TOP / "scripts"))
import check  # noqa: E402
import check_python  # noqa: E402
import check_steps  # noqa: E402
import check_tests  # noqa: E402
from check_run import Failure, Log, Result, StepFailed, Tally  # noqa: E402
from check_steps import Step  # noqa: E402
from check_tests import Case, ChangedTests  # noqa: E402


class FakeSuite:
    """A suite whose tests fail the given number of times, then pass."""

    def __init__(self, failures: dict[str, int], said: str = "E   assert 1 == 2") -> None:
        self._left = dict(failures)
        self._said = said
        self.runs: list[list[str] | None] = []

    def run(self, log: Log, ids: list[str] | None = None) -> list[Case]:
        self.runs.append(ids)
        cases = []
        for name in ids if ids is not None else list(self._left):
            fails = self._left[name] > 0
            self._left[name] -= 1
            cases.append(Case(name, "failed", self._said) if fails else Case(name, "passed"))
        return cases


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(check_tests, "changed_tests", lambda: ChangedTests(()))
    return Log(tmp_path, tmp_path)


def names(failures: list[Failure]) -> list[str]:
    return [failure.name for failure in failures]


def test_a_test_that_passes_when_run_again_is_flaky(log: Log) -> None:
    suite = FakeSuite({"good": 0, "once": 1, "twice": 2})
    result = check_tests.run_suite(log, suite)
    assert result.tally == Tally(passed=3)
    assert sorted(names(result.flaky)) == ["once", "twice"] and result.flaky[0].lines == ["E   assert 1 == 2"]
    assert suite.runs == [None, ["once", "twice"], ["twice"]]


def test_a_test_that_fails_three_times_fails_the_suite(log: Log) -> None:
    result = check_tests.run_suite(log, FakeSuite({"good": 0, "bad": 3}))
    assert result.tally == Tally(passed=1, failed=1) and names(result.failures) == ["bad"] and not result.flaky


@pytest.mark.parametrize("said", ["WARNING: ThreadSanitizer: data race", "a.cpp:3:4: runtime error: signed integer overflow",
                                  "==1==ERROR: AddressSanitizer: heap-use-after-free", "worker 'gw0' crashed while running 'x'"])
def test_a_sanitizer_report_or_crashed_worker_is_a_failure_at_once(log: Log, said: str) -> None:
    result = check_tests.run_suite(log, FakeSuite({"race": 1, "good": 0}, said))
    assert names(result.failures) == ["race"] and not result.flaky


def test_more_than_five_flaky_tests_fail_the_suite(log: Log) -> None:
    assert check_tests.run_suite(log, FakeSuite({f"t{at}": 1 for at in range(5)})).tally == Tally(passed=5)
    assert check_tests.run_suite(log, FakeSuite({f"t{at}": 1 for at in range(6)})).tally == Tally(failed=6)


def test_more_than_ten_failures_are_not_run_again(log: Log) -> None:
    suite = FakeSuite({f"t{at}": 1 for at in range(11)})
    assert check_tests.run_suite(log, suite).tally == Tally(failed=11) and suite.runs == [None]


def test_a_listed_flaky_test_does_not_fail_the_suite(log: Log) -> None:
    result = check_tests.run_suite(log, FakeSuite({"known": 9, "good": 0}), frozenset({"known"}))
    assert result.tally == Tally(passed=2) and names(result.flaky) == ["known"]


def test_a_changed_test_must_pass_five_more_times(log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed = ChangedTests((check_tests.re.compile("^changed$"),))
    monkeypatch.setattr(check_tests, "changed_tests", lambda: changed)
    suite = FakeSuite({"changed": 0, "other": 0})
    assert check_tests.run_suite(log, suite).tally == Tally(passed=2)
    assert suite.runs == [None] + 5 * [["changed"]]
    assert names(check_tests.run_suite(log, FakeSuite({"changed": 1, "other": 0})).failures) == ["changed"]

    class Later(FakeSuite):
        def run(self, log: Log, ids: list[str] | None = None) -> list[Case]:
            cases = super().run(log, ids)
            return [Case("changed", "failed", "later")] if len(self.runs) == 4 else cases

    assert names(check_tests.run_suite(log, Later({"changed": 0})).failures) == ["changed"]


def test_changed_lines_of_a_diff_select_their_tests() -> None:
    here = Path(__file__).relative_to(TOP)
    text = (TOP / here).read_text().splitlines()
    inside = text.index("def test_more_than_ten_failures_are_not_run_again(log: Log) -> None:") + 2
    diff = f"--- a/{here}\n+++ b/{here}\n@@ -1 +{inside} @@\n-x\n+y\n@@ -1 +3,2 @@\n"
    [(file, lines)] = check_tests.changed_lines(diff)
    assert file == here and lines == [inside, 3, 4]
    patterns = list(check_tests.patterns_of(file, lines))
    changed = ChangedTests(tuple(map(check_tests.re.compile, patterns)))
    assert changed.matches(f"{here}::test_more_than_ten_failures_are_not_run_again") and len(patterns) == 1


def test_the_last_sixty_lines_list_every_failure() -> None:
    step = Step("unit", "", lambda log: Result(Tally()))
    failures = [Failure(f"Suite.Test{at}", [f"line {line}" for line in range(40)]) for at in range(12)]
    flaky = [Failure(f"Suite.Flaky{at}", ["why"]) for at in range(4)]
    lines = check.last_lines([check.Outcome(step, Result(Tally(100, 12, 1), failures, flaky), "")])
    assert len(lines) <= 60 and lines[-1] == "100 passed, 12 failed, 1 skipped"
    assert sum(line.startswith("FAILED unit: Suite.Test") for line in lines) == 12
    assert "    line 0" in lines and "flaky unit: Suite.Flaky3: why" in lines


def test_results_of_pytest_and_lines_of_googletest_are_parsed(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text("""<testsuites><testsuite>
      <testcase file="tests/e2e/test_a.py" name="test_b[x@y]@group" time="1"><failure>E   no</failure></testcase>
      <testcase file="tests/e2e/test_a.py" name="test_b[x@y]@group" time="1"><error>E   left behind</error></testcase>
      <testcase file="tests/e2e/test_a.py" name="test_c" time="1"><skipped/></testcase>
    </testsuite></testsuites>""")
    cases = check_tests.PytestTests.cases(results)
    assert [(case.id, case.outcome) for case in cases] == [("tests/e2e/test_a.py::test_b[x@y]", "failed"),
                                                           ("tests/e2e/test_a.py::test_c", "skipped")]
    assert check_tests.first_lines(cases[0].said) == ["E   no", "E   left behind"]
    assert check_tests.first_lines("[ RUN      ] A.B\na.cpp:3: Failure\nboth are 1\n") == ["a.cpp:3: Failure", "both are 1"]


def test_the_gate_builds_with_nvidias_nvml_header(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build step fails without nvml.h: the build compares our declarations with that header."""
    ran: list[str] = []
    monkeypatch.setattr(check_python, "FOLDER", tmp_path)
    monkeypatch.setattr(check_python, "download", lambda _log, environment: environment.folder.mkdir())
    monkeypatch.setattr(log, "run", lambda command, **_: ran.append(" ".join(map(str, command))) or 0)
    build = next(step for step in check_steps.steps(check_steps.Options()) if step.name == "build")
    with pytest.raises(StepFailed, match="no nvml.h"):
        build.run(log)
    headers = tmp_path / "nvml/lib/include"
    headers.mkdir(parents=True)
    (headers / "nvml.h").touch()
    build.run(log)
    assert f" -DHVD_NVML_HEADERS={headers}" in ran[0]
