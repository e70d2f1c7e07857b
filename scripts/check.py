"""./check: builds and tests, one step after the other; the last lines name what failed.

The steps are in check_steps.py. Without an option it is the gate: what every commit must pass. A step that passed on exactly these
files, packages and kernel is not run again; its results are counted as they were (--again runs it all the same).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import check_hunt
import check_machine
from check_cache import CACHE, Cache
from check_run import Failure, Log, PROCESSES, Result, StepFailed, Tally, say
from check_steps import ALL, DEPTHS, GATE, SOAK, Options, Step, forget_logs, steps
from check_tests import JOBS, TOP

RECORDS = {ALL: TOP / "docs/check-all.txt", SOAK: TOP / "docs/soak.txt"}
SILENCE_SECONDS = 60.0  # after this long a line says what is still running
LAST_LINES = 55  # so that the last 60 lines of a log have them all


@dataclass(frozen=True)
class Outcome:
    step: Step
    result: Result
    words: str  # what the progress line says

    @property
    def ok(self) -> bool:
        return self.result.tally.failed == 0


class Check:
    """Runs the steps, on a thread of its own; the main thread waits, and prints what still runs."""

    def __init__(self, chosen: list[Step], cache: Cache, record: Record | None) -> None:
        self.outcomes: list[Outcome] = []
        self._chosen = chosen
        self._cache = cache
        self._record = record
        self._running = ""
        self._start = time.monotonic()
        self._machine = check_machine.Load()

    def run(self) -> None:
        worker = threading.Thread(target=self._run_steps, daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(SILENCE_SECONDS)
            if worker.is_alive():
                self._say("still running", self._running)

    def _run_steps(self) -> None:
        for step in self._chosen:
            self._running = step.name
            outcome = self._run_step(step)
            self.outcomes.append(outcome)
            if self._record and not step.always:
                self._record.add(outcome)
            self._say(step.name, outcome.words)

    def _run_step(self, step: Step) -> Outcome:
        failed = {outcome.step.name for outcome in self.outcomes if not outcome.ok}
        if needed := next((need for need in step.needs if need in failed), None):
            return Outcome(step, Result(Tally(failed=1), [Failure(step.name, [f"not run: it needs {needed}, which failed"])]),
                           f"FAILED: needs {needed}, which failed")
        if not step.always and (earlier := self._cache.earlier(step)):
            return Outcome(step, earlier, f"{earlier.tally}: unchanged since it passed")
        return self._really_run(step)

    def _really_run(self, step: Step) -> Outcome:
        begin = time.monotonic()
        log = Log(forget_logs(step.name), TOP, begin + 60 * step.minutes * check_machine.slowness())
        self._say(step.name, f"{step.about} ...")
        before = self._machine.now()
        try:
            result = step.run(log)
        except StepFailed as error:
            log.say(str(error))
            result = Result(Tally(failed=1), [Failure(step.name, [*str(error).splitlines(), *errors_in(log)])])
        except Exception as error:  # a fault of the step's own; the other steps still run
            result = Result(Tally(failed=1), [Failure(step.name, [f"{type(error).__name__}: {error}"])])
        busy = self._machine.busy_since(before)
        log.say(busy)
        log.close()
        if result.tally.failed == 0 and not step.always:
            self._cache.keep(step, result)
        flaky = f", {len(result.flaky)} flaky" if result.flaky else ""
        failed = "FAILED: " if result.tally.failed else ""
        return Outcome(step, result, f"{failed}{result.tally}{flaky} in {time.monotonic() - begin:.0f} s ({busy})")

    def _say(self, name: str, words: str) -> None:
        elapsed = int(time.monotonic() - self._start)
        say(f"[{elapsed // 60:2}:{elapsed % 60:02}] {name}: {words}")


def errors_in(log: Log) -> list[str]:
    """What a compiler or another tool printed of its errors; without such lines the end of the log."""
    lines = log.path.read_text(errors="replace").splitlines()
    errors = [line for line in lines if any(word in line for word in ("error:", "Error", "FAILED:", "undefined reference"))]
    return errors[:15] or lines[-15:]


def last_lines(outcomes: list[Outcome]) -> list[str]:
    """Each failure with the first lines of its error, each flaky test in a line, the tally."""
    failures = [(outcome.step.name, failure) for outcome in outcomes for failure in outcome.result.failures]
    flaky = [(outcome.step.name, each) for outcome in outcomes for each in outcome.result.flaky]
    room = LAST_LINES - min(len(flaky), 10) - 3
    each = max(0, min(15, room // max(1, len(failures)) - 1))
    lines: list[str] = []
    for step, failure in failures[:room]:
        lines.append(f"FAILED {step}: {failure.name}  (build/check-logs/{step}/)"[:300])
        lines += [f"    {line[:200]}" for line in failure.lines[:each]]
    if len(failures) > room:
        lines.append(f"... and {len(failures) - room} more failures: see build/check-logs/")
    for step, one in flaky[:10]:
        lines.append(f"flaky {step}: {one.name}: {(one.lines or [''])[0][:160]}")
    if len(flaky) > 10:
        lines.append(f"... and {len(flaky) - 10} more flaky tests: see build/check-logs/")
    lines.append(str(sum((outcome.result.tally for outcome in outcomes), Tally())))
    return lines


class Record:
    """docs/check-all.txt or docs/soak.txt: the last result of each step, with its date and commit. A long check may be run step
    by step."""

    def __init__(self, depth: str, seed: str, known: list[Step]) -> None:
        self._path = RECORDS[depth]
        self._head = f"The last ./check --{depth} of each step: step, date, commit, cores, seed, result"
        self._seed = seed
        self._order = [step.name for step in known]
        text = self._path.read_text() if self._path.exists() else ""
        self._lines = {name: line for line in text.splitlines() if (name := line.split(" ")[0]) in self._order}
        git = ["git", "-C", str(TOP)]
        described = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", *(f":!{path.relative_to(TOP)}" for path in
                                                                               RECORDS.values())], stderr=subprocess.DEVNULL)
        self._commit = (described.stdout.strip() or "unknown") + ("-changed" if changed.returncode == 1 else "")

    def add(self, outcome: Outcome) -> None:
        self._lines[outcome.step.name] = (f"{outcome.step.name:<13} {time.strftime('%Y-%m-%d')}  {self._commit}  {JOBS} cores  "
                                          f"seed {self._seed}  {outcome.words}")
        lines = [self._lines[name] for name in self._order if name in self._lines]
        self._path.write_text("\n".join([self._head, "", *lines, ""]))


def parse_arguments(known: list[Step]) -> argparse.Namespace:
    listing = "\n".join(f"  {step.name:<13} {'' if step.depth == GATE else f'(--{step.depth}) '}{step.about}" for step in known)
    parser = argparse.ArgumentParser(
        prog="./check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Installs what is missing, builds, and runs the tests that every commit must pass: 13 to 17 minutes on two cores, and "
                    "longer the first time.",
        epilog=f"steps:\n{listing}\n\nLogs are in build/check-logs/STEP/. A failed test is run again alone; it is flaky if it "
               f"passes then.\ntests/flaky.txt lists tests that do not gate.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="run only these, and the builds that they need")
    parser.add_argument("-k", dest="name", default="", metavar="NAME", help="only tests with this in their names, also slow ones")
    parser.add_argument("--all", action="store_true",
                        help="everything that takes longer too, an hour or more; the result goes to docs/check-all.txt")
    parser.add_argument("--soak", action="store_true", help="--all with large counts, for hours; the result goes to docs/soak.txt")
    parser.add_argument("--seed", metavar="N", help="what random tests of --all and --soak draw from (a fresh number)")
    parser.add_argument("--again", action="store_true", help="repeat also what passed and has not changed")
    parser.add_argument("--hunt", action="store_true",
                        help="run the tests of tests/flaky.txt, or those named as STEP, 200 times each under load")
    arguments = parser.parse_args()
    if not arguments.hunt and (unknown := set(arguments.steps) - {step.name for step in known}):
        parser.error(f"no such step: {', '.join(sorted(unknown))} (--help lists them)")
    if arguments.name and not arguments.steps:
        parser.error("-k needs a step: ./check e2e -k NAME")
    return arguments


def choose(known: list[Step], names: list[str], depth: str) -> list[Step]:
    if not names:
        return [step for step in known if DEPTHS.index(step.depth) <= DEPTHS.index(depth)]
    wanted = set(names).union(*(step.needs for step in known if step.name in names))
    return [step for step in known if step.name in wanted]


def only_check_here() -> IO[str] | None:
    """Two would build into the same folders. Holds a lock until it is closed; returns None when another check has it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = open(CACHE / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def prepare_environment(depth: str, seed: str) -> None:
    """What tests read of this check: check_machine.py and tests/harness.py name the variables."""
    os.environ["HVD_TEST_SLOWNESS"] = f"{check_machine.measured_slowness():.2f}"
    if depth != GATE:
        os.environ["HVD_TEST_ALL"] = "1"
        os.environ["HVD_TEST_SEED"] = seed
    if depth == SOAK:
        os.environ["HVD_SOAK"] = "1"


def main() -> int:
    arguments = parse_arguments(steps(Options()))
    depth = SOAK if arguments.soak else ALL if arguments.all else GATE
    seed = arguments.seed or str(random.SystemRandom().randrange(1, 10**9))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: what runs is ended, too
    alone = only_check_here()
    if alone is None:
        print("check: another one is running in this folder", file=sys.stderr)
        return 2
    prepare_environment(depth, seed)
    say(f"== {check_machine.describe()}" + (f"; seed {seed}" if depth != GATE else ""))
    try:
        if arguments.hunt:
            return check_hunt.hunt(arguments.steps)
        return run_steps(arguments, depth, seed)
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # ending takes seconds, and is not to be interrupted
        PROCESSES.end()
        print("check: interrupted", file=sys.stderr)
        return 130


def run_steps(arguments: argparse.Namespace, depth: str, seed: str) -> int:
    begin = time.monotonic()
    again = arguments.again or depth == SOAK
    known = steps(Options(depth, arguments.name, None if again or depth != GATE else CACHE / "programs"))
    chosen = choose(known, arguments.steps, depth)
    cache = Cache(f"{depth} {arguments.seed or ''}", read=not again and not arguments.name, write=not arguments.name)
    record = Record(depth, seed, known) if depth != GATE and not arguments.name else None
    check = Check(chosen, cache, record)
    check.run()
    took = int(time.monotonic() - begin)
    say(f"== {took // 60} min {took % 60:02} s")
    say("\n".join(last_lines(check.outcomes)))
    return 0 if len(check.outcomes) == len(chosen) and all(outcome.ok for outcome in check.outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
