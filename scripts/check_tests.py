"""Test suites of ./check: what runs a suite, how its results are read, and which failed tests are tried again.

A failed test runs again alone, after its suite, at most twice. It is flaky if it passes then. A test that this commit adds or
changes is not tried again; it runs five more times and must pass each time. All is called on the step's own thread. A suite
whose runner leaves no results raises StepFailed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from check_run import Failure, Log, Result, StepFailed, Tally

TOP = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
JOBS = os.cpu_count() or 2
WORKERS = max(2, JOBS // 2)

TRIES_ALONE = 2
MOST_FLAKY = 5  # in a step; more are a fault of the product or the machine
MOST_TRIED_AGAIN = 10  # more failures than this are no accident
CHANGED_RUNS = 5
CHANGED_SECONDS = 60.0  # for all further runs of changed tests in a step
TEST_SECONDS = 60.0  # a test of the gate, on a machine of slowness 1
SLOW_TEST_SECONDS = 300.0

# True whatever a second run says: a race was seen, or the runner itself is at fault.
NEVER_FLAKY = re.compile(r"(Thread|Address|Leak|Memory)Sanitizer|: runtime error: |^worker '\w+' crashed", re.MULTILINE)

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:disable_coredump=0",
    "LSAN_OPTIONS": f"suppressions={TOP}/scripts/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:disable_coredump=0:atexit_sleep_ms=0",
}


Test = dict[str, Any]  # one of `ctest --show-only=json-v1`


@dataclass(frozen=True)
class Case:
    """One test and what came of it."""

    id: str
    outcome: str  # passed, failed or skipped
    said: str = ""  # what a failed test printed
    seconds: float = 0.0


class Suite(Protocol):
    def run(self, log: Log, ids: list[str] | None = None) -> list[Case]:
        """Runs the suite's own selection, or these tests one after the other."""


def slowness() -> float:
    return float(os.environ.get("HVD_TEST_SLOWNESS", "1"))


@dataclass(frozen=True)
class UnitTests:
    """The tests that ctest knows in a build folder."""

    build: Path
    gate: bool  # without the labels slow and timing
    name: str = ""  # only tests with this in their names
    leave_out: frozenset[str] = frozenset()
    stamps: Path | None = None  # where the programs that have passed are noted; none: all run
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, log: Log, ids: list[str] | None = None) -> list[Case]:
        known = self._known()
        if ids is not None:
            return self._run(log, [test for test in known if test["name"] in set(ids)], 1)
        chosen = [test for test in known if self._wanted(test)]
        if not self.stamps or self.name:
            return self._run(log, chosen, JOBS)
        return self._run_changed_programs(log, chosen)

    def _run_changed_programs(self, log: Log, chosen: list[Test]) -> list[Case]:
        """A program that has not changed since all its tests passed is not run again; its tests are counted as passed."""
        assert self.stamps
        programs = sorted({test["command"][0] for test in chosen})
        stamp_of = {program: self._stamp(program) for program in programs}
        passed = {program for program, stamp in stamp_of.items() if stamp and stamp.exists()}
        if passed:
            log.say(f"unchanged since they passed: {', '.join(Path(program).name for program in sorted(passed))}")
        to_run = [test for test in chosen if test["command"][0] not in passed]
        cases = self._run(log, to_run, JOBS) if to_run else []
        failed = {case.id for case in cases if case.outcome == "failed"}
        red = {test["command"][0] for test in to_run if test["name"] in failed}
        for program in set(programs) - passed - red:
            if (stamp := stamp_of[program]) and stamp == self._stamp(program):
                stamp.parent.mkdir(parents=True, exist_ok=True)
                stamp.touch()
        return cases + [Case(test["name"], "passed") for test in chosen if test["command"][0] in passed]

    def _stamp(self, program: str) -> Path | None:
        """A name made of all that the program's tests depend on; none if that is not known."""
        assert self.stamps
        if not Path(program).is_relative_to(self.build):
            return None  # a script of the checkout
        relative = str(Path(program).relative_to(self.build))
        inputs = subprocess.run(["ninja", "-C", self.build, "-t", "inputs", relative], capture_output=True, text=True)
        if inputs.returncode != 0:
            return None
        digest = hashlib.sha256(f"{self.gate} {sorted(self.leave_out)}".encode())
        built = [self.build / name for name in [relative, *inputs.stdout.split()] if re.match(r"(bin|lib)/", name)]
        for path in [*sorted(set(built)), *data_of_unit_tests()]:
            if path.is_file():
                digest.update(f"{path.relative_to(TOP)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return self.stamps / f"{Path(program).name}-{digest.hexdigest()[:32]}"

    def _known(self) -> list[Test]:
        listing = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], capture_output=True, text=True)
        if listing.returncode != 0:
            raise StepFailed(f"ctest cannot list the tests: {listing.stderr.strip()}")
        tests = json.loads(listing.stdout)["tests"]
        missing = [test["name"] for test in tests if "command" not in test]
        if missing:
            raise StepFailed(f"not built: {', '.join(missing)}")
        return [{**test, "number": at} for at, test in enumerate(tests, 1)]

    def _wanted(self, test: Test) -> bool:
        labels = {label for each in test.get("properties", []) if each["name"] == "LABELS" for label in each["value"]}
        if self.name:
            return self.name in test["name"]
        return not (self.gate and labels & {"slow", "timing"}) and test["name"] not in self.leave_out

    def _run(self, log: Log, tests: list[Test], jobs: int) -> list[Case]:
        if not tests:
            raise StepFailed("there is no such test")
        numbers = "0,0,0," + ",".join(str(test["number"]) for test in tests)  # start, end, stride, then single tests
        results = log.folder / "results.xml"
        results.unlink(missing_ok=True)
        # A test's own TIMEOUT property wins over this.
        log.run(["ctest", "--test-dir", self.build, "--output-on-failure", "--no-tests=error", "--parallel", str(jobs),
                 "--timeout", f"{TEST_SECONDS * slowness():.0f}", "--test-output-size-passed", "0",
                 "--test-output-size-failed", "65536", "--output-junit", results, "--tests-information", numbers],
                environment={**SANITIZER_ENVIRONMENT, **self.environment}, may_fail=True)
        return read_results(results, lambda case: case.get("name", ""))


def data_of_unit_tests() -> Iterator[Path]:
    """What unit tests read of the checkout itself."""
    for folder in ("tests/unit", "docs", "completions", "templates", "examples/data", "runtime/include", "launcher/cli"):
        yield from sorted(path for path in (TOP / folder).rglob("*") if path.is_file() and path.suffix not in (".cpp", ".hpp"))
    yield TOP / "README.md"


@dataclass(frozen=True)
class PytestTests:
    """Tests of one folder of tests/."""

    path: str
    build: Path
    marks: str = ""
    name: str = ""
    leave_out: frozenset[str] = frozenset()
    environment: dict[str, str] = field(default_factory=dict)
    workers: int = WORKERS

    def run(self, log: Log, ids: list[str] | None = None) -> list[Case]:
        results = log.folder / "results.xml"
        results.unlink(missing_ok=True)
        command = [PYTHON, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", "-o",
                   f"faulthandler_timeout={SLOW_TEST_SECONDS * slowness():.0f}", "--durations=10", "--junitxml", results]
        if ids is not None:
            command += ["-p", "no:xdist", *ids]
        else:
            command += ["-n", str(self.workers), "--dist", "loadgroup", self.path]
            command += ["-k", self.name] if self.name else ["-m", self.marks]
            command += [word for each in sorted(self.leave_out) for word in ("--deselect", each)]
        code = log.run(command, environment={**SANITIZER_ENVIRONMENT, "HVD_BUILD": str(self.build), **self.environment},
                       may_fail=True)
        if code not in (0, 1, 5):  # 5: no test was selected
            raise StepFailed(f"pytest ended with code {code}")
        return self.cases(results)

    @staticmethod
    def cases(results: Path) -> list[Case]:
        return read_results(results, lambda case: f"{case.get('file')}::{plain_name(case.get('name', ''))}")


def plain_name(name: str) -> str:
    """Without the group that xdist's loadgroup appends to a test's name."""
    return re.sub(r"@[\w-]+$", "", name)


def read_results(results: Path, id_of: Callable[[ElementTree.Element], str]) -> list[Case]:
    """The cases of a JUnit file. A test that fails and whose fixture fails too has two entries there: they become one."""
    if not results.exists():
        raise StepFailed("the test runner left no results")
    cases: dict[str, Case] = {}
    for element in ElementTree.parse(results).getroot().iter("testcase"):
        faults = element.findall("failure") + element.findall("error")
        if faults:
            said = "\n".join(fault.text or "" for fault in faults).strip() or element.findtext("system-out", "")
            case = Case(id_of(element), "failed", said, float(element.get("time", "0")))
        elif element.find("skipped") is not None or element.get("status") in ("notrun", "disabled"):
            case = Case(id_of(element), "skipped")
        else:
            case = Case(id_of(element), "passed", "", float(element.get("time", "0")))
        earlier = cases.get(case.id)
        if earlier and earlier.outcome == "failed":
            case = Case(case.id, "failed", f"{earlier.said}\n{case.said}".strip())
        cases[case.id] = case
    return list(cases.values())


def run_suite(log: Log, suite: Suite, known_flaky: frozenset[str] = frozenset()) -> Result:
    """Runs the suite, its failed tests again, and the tests that this commit changes five times more.
    Failures of tests in `known_flaky` are reported as flaky."""
    cases = {case.id: case for case in suite.run(log)}
    if not cases:
        raise StepFailed("the test runner ran no test")
    failed = {case.id: case for case in cases.values() if case.outcome == "failed"}
    for case in failed.values():
        log.say(f"\n---- {case.id}\n{case.said}")
    changed = changed_tests()
    again = {name for name, case in failed.items()
             if not NEVER_FLAKY.search(case.said) and not changed.matches(name) and name not in known_flaky}
    flaky = {name: case for name, case in failed.items() if name in known_flaky and not NEVER_FLAKY.search(case.said)}
    if 0 < len(failed) <= MOST_TRIED_AGAIN:
        for turn in range(TRIES_ALONE):
            if not again:
                break
            log.say(f"\n==== alone, try {turn + 1}: {', '.join(sorted(again))}")
            passed = {case.id for case in suite.run(log, sorted(again)) if case.outcome == "passed"}
            for name in again & passed:
                flaky[name] = failed[name]
            again -= passed
    if len(flaky.keys() - known_flaky) <= MOST_FLAKY:
        for name in flaky:
            del failed[name]
    for case in repeat_changed(log, suite, [case.id for case in cases.values()
                                            if case.outcome == "passed" and changed.matches(case.id)]):
        failed.setdefault(case.id, case)
    skipped = sum(case.outcome == "skipped" for case in cases.values())
    return Result(Tally(len(cases) - len(failed) - skipped, len(failed), skipped),
                  [Failure(case.id, first_lines(case.said)) for case in failed.values()],
                  [Failure(name, first_lines(case.said)) for name, case in flaky.items() if name not in failed])


def repeat_changed(log: Log, suite: Suite, ids: list[str]) -> list[Case]:
    """Runs the tests five more times, for at most a minute; returns the failures."""
    end = time.monotonic() + CHANGED_SECONDS * slowness()
    failed: dict[str, Case] = {}
    for turn in range(CHANGED_RUNS if ids else 0):
        if time.monotonic() > end:
            log.say(f"==== changed tests: {turn} of {CHANGED_RUNS} further runs; a minute is over")
            break
        log.say(f"==== changed tests, run {turn + 1} of {CHANGED_RUNS}")
        for case in suite.run(log, ids):
            if case.outcome == "failed":
                failed.setdefault(case.id, Case(case.id, "failed", f"(in one of {CHANGED_RUNS} further runs of a changed test)\n"
                                                                   f"{case.said}"))
    return list(failed.values())


@dataclass(frozen=True)
class ChangedTests:
    """The tests that the last commit or the working tree adds or changes."""

    patterns: tuple[re.Pattern[str], ...]

    def matches(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self.patterns)


GTEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)|^TYPED_TEST\(\s*(\w+),\s*(\w+)\)")
PYTEST = re.compile(r"^def (test_\w+)\(")


def changed_tests() -> ChangedTests:
    """Compares with the commit before the last one; none where git has no such commit."""
    diff = subprocess.run(["git", "-C", TOP, "diff", "--unified=0", "--no-color", "--no-renames", "HEAD~1", "--", "tests"],
                          capture_output=True, text=True, errors="replace")
    patterns: set[str] = set()
    if diff.returncode == 0:
        for file, lines in changed_lines(diff.stdout):
            patterns.update(patterns_of(file, lines))
    return ChangedTests(tuple(re.compile(pattern) for pattern in sorted(patterns)))


def changed_lines(diff: str) -> Iterator[tuple[Path, list[int]]]:
    """Each file of a diff without context, with the numbers of its new lines."""
    file: Path | None = None
    lines: list[int] = []
    for line in diff.splitlines():
        if line.startswith("+++ "):
            if file:
                yield file, lines
            file, lines = (Path(line[6:]) if line.startswith("+++ b/") else None), []
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            lines += range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or "1"))
    if file:
        yield file, lines


def patterns_of(file: Path, lines: list[int]) -> Iterator[str]:
    """Expressions that match the names of the tests in which these lines are. A change outside all tests changes none."""
    if not (TOP / file).is_file() or file.suffix not in (".cpp", ".py"):
        return
    text = (TOP / file).read_text(errors="replace").splitlines()
    for number in lines:
        for at in range(min(number, len(text)) - 1, -1, -1):
            if file.suffix == ".py" and (found := PYTEST.match(text[at])):
                yield rf"^{re.escape(str(file))}::{found[1]}(\[|$)"
                break
            if file.suffix == ".cpp" and (found := GTEST.match(text[at])):
                suite, test = found[1] or found[3], found[2] or found[4]
                yield rf"(^|/){suite}(/\d+)?\.{test}(/|$)"
                break
            if text[at] and not text[at][0].isspace() and at != number - 1 and text[at].startswith(("}", "def ", "class ")):
                break


def first_lines(said: str) -> list[str]:
    """What is worth showing of a failure, most important first: pytest's lines of error, or what GoogleTest printed."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E  ")]
    if errors:
        return errors + [line for line in lines if re.match(r"^\S+\.py:\d+: ", line)]
    noise = re.compile(r"^(Note: Google Test filter|\[=+\]|\[-+\]|\[ RUN|\[  PASSED|Running main\(\))")
    return [line for line in lines if not noise.match(line)]


def known_flaky(path: Path = TOP / "tests/flaky.txt") -> frozenset[str]:
    """The tests that tests/flaky.txt lists."""
    return frozenset(line.split("|")[0].strip() for line in path.read_text().splitlines() if line.strip() and line[0] != "#")


def of_folder(ids: Iterable[str], path: str) -> frozenset[str]:
    return frozenset(name for name in ids if name.startswith(f"{path}/"))
