"""./check --hunt: runs each known flaky test 200 times beside two processes that compute. A test that passes each time leaves
tests/flaky.txt. A test that fails stays, and its first failure is printed."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from check_run import Log, say
from check_steps import forget_logs
from check_tests import PYTHON, TOP, Case, PytestTests, Suite, UnitTests, first_lines

FLAKY = TOP / "tests/flaky.txt"
RUNS = 200
SPINNING = 2


@contextlib.contextmanager
def load() -> Iterator[None]:
    spinning = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(SPINNING)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def hunt(ids: list[str]) -> int:
    """Hunts these tests, or all of tests/flaky.txt. Returns the exit code: 0 when none has failed."""
    lines = FLAKY.read_text().splitlines()
    listed = [line.split("|")[0].strip() for line in lines if line.strip() and not line.startswith("#")]
    log = Log(forget_logs("hunt"), TOP)
    good: set[str] = set()
    hunted = ids or listed
    with load():
        for name in hunted:
            begin = time.monotonic()
            runs, failure = runs_until_failure(log, name)
            say(f"{name}: {runs} of {RUNS} passed in {time.monotonic() - begin:.0f} s")
            if failure:
                say("\n".join(f"    {line}" for line in first_lines(failure.said)[:15]))
            else:
                good.add(name)
    FLAKY.write_text("\n".join(line for line in lines if line.split("|")[0].strip() not in good) + "\n")
    say(f"{len(good)} passed, {len(hunted) - len(good)} failed, 0 skipped")
    return 0 if len(good) == len(hunted) else 1


def runs_until_failure(log: Log, name: str) -> tuple[int, Case | None]:
    suite = suite_of(name)
    for turn in range(RUNS):
        for case in suite.run(log, [name]):
            if case.outcome != "passed":
                return turn, case
    return RUNS, None


def suite_of(name: str) -> Suite:
    build = TOP / "build"
    if name.startswith("tests/"):
        return PytestTests(str(Path(name.split("::")[0]).parent), build, environment={"HVD_TEST_TORCH": PYTHON})
    return UnitTests(build, gate=False)
