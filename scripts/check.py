"""./check: builds and tests, with a line on each step and a tally at the end.

The steps stand in check_steps.py. Two lanes run side by side: builds, and the tests of what is
built. A step that passed on exactly these files, packages and kernel is not repeated, unless
--again, CI=true or --soak asks for it; its results are counted as they were.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from check_run import Log, PROCESSES, StepFailed, Tally, tell
from check_steps import JOBS, Step, TOP, forget_logs, steps

STAMPS = TOP / ".cache/check"
SOAK_RESULT = TOP / "docs/soak.txt"
TAIL_LINES = 80
SILENCE_SECONDS = 60.0  # after this long a line says what is still running


@dataclass(frozen=True)
class Outcome:
    step: Step
    ok: bool
    tally: Tally
    words: str  # what the progress line says


class Check:
    """Runs steps in lanes. One thread a lane; `self._changed` guards what they share."""

    def __init__(self, chosen: list[Step], inputs: str | None, keep: Callable[[Outcome], None] | None) -> None:
        self._keep = keep  # is told each step's outcome
        self._waiting = list(chosen)
        self._names = {step.name for step in chosen}
        self._inputs = inputs  # what a step's result depends on; none: nothing is left out
        self._outcomes: dict[str, Outcome] = {}
        self._running: list[str] = []
        self._changed = threading.Condition()
        self._start = time.monotonic()

    def run(self) -> list[Outcome]:
        lanes = [threading.Thread(target=self._run_lane, args=(lane,), daemon=True)
                 for lane in sorted({step.lane for step in self._waiting})]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            while lane.is_alive():
                lane.join(SILENCE_SECONDS)
                if lane.is_alive():
                    self._say("still running", ", ".join(self._running))
        return list(self._outcomes.values())

    def _run_lane(self, lane: str) -> None:
        while (step := self._next(lane)) is not None:
            outcome = self._run_step(step)
            with self._changed:
                self._outcomes[step.name] = outcome
                if self._keep and not step.always:
                    self._keep(outcome)
                self._running.remove(step.name)
                self._changed.notify_all()

    def _next(self, lane: str) -> Step | None:
        """The first step of the lane whose needs are met; waits for them; none when all are done."""
        with self._changed:
            while True:
                mine = [step for step in self._waiting if step.lane == lane]
                if not mine:
                    return None
                for step in mine:
                    if all(need in self._outcomes for need in step.needs if need in self._names):
                        self._waiting.remove(step)
                        self._running.append(step.name)
                        return step
                self._changed.wait()

    def _run_step(self, step: Step) -> Outcome:
        failed_needs = [need for need in step.needs if need in self._outcomes and not self._outcomes[need].ok]
        if failed_needs:
            outcome = Outcome(step, False, Tally(failed=1), f"FAILED: needs {failed_needs[0]}, which failed")
        elif not step.always and (earlier := self._earlier(step)):
            outcome = Outcome(step, True, earlier, f"{earlier}: unchanged since it passed")
        else:
            outcome = self._really_run(step)
        self._say(step.name, outcome.words)
        return outcome

    def _really_run(self, step: Step) -> Outcome:
        log = Log(forget_logs(step.name), TOP)
        self._say(step.name, f"{step.about} ...")
        begin = time.monotonic()
        try:
            tally, why = step.run(log), ""
        except StepFailed as error:
            tally, why = Tally(failed=1), str(error)
        except Exception as error:  # a fault of the step's own; the other steps go on
            tally, why = Tally(failed=1), f"{type(error).__name__}: {error}"
        ok = tally.failed == 0
        if ok:
            self._stamp(step, tally)
        else:
            log.say(why)
            tell(f"{log.tail(TAIL_LINES)}\n-- the end of {log.path}")
        log.close()
        return Outcome(step, ok, tally, f"{'' if ok else 'FAILED: '}{why or tally} in {time.monotonic() - begin:.0f} s")

    def _say(self, name: str, words: str) -> None:
        elapsed = int(time.monotonic() - self._start)
        tell(f"[{elapsed // 60:2}:{elapsed % 60:02}] {name}: {words}")

    def _stamp_path(self, step: Step) -> Path:
        return STAMPS / f"{step.name}.json"

    def _earlier(self, step: Step) -> Tally | None:
        """The step's results on exactly these inputs, if it passed on them."""
        try:
            stamp = json.loads(self._stamp_path(step).read_text())
            return Tally(**stamp["tally"]) if self._inputs and stamp["inputs"] == self._inputs else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _stamp(self, step: Step, tally: Tally) -> None:
        # The files may have been edited while the step ran: then its result says nothing.
        if self._inputs and self._inputs == inputs_digest():
            STAMPS.mkdir(parents=True, exist_ok=True)
            self._stamp_path(step).write_text(json.dumps({"inputs": self._inputs, "tally": asdict(tally)}))


def inputs_digest() -> str | None:
    """One number for the checkout's files, the installed packages and the kernel; none without git."""
    listing = subprocess.run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True)
    packages = subprocess.run(["dpkg-query", "--show"], capture_output=True)
    if listing.returncode != 0:
        return None
    digest = hashlib.sha256(packages.stdout + platform.release().encode())
    for name in sorted(set(listing.stdout.split(b"\0")) - {b""}):
        path = TOP / os.fsdecode(name)
        if path == SOAK_RESULT or not path.is_file():
            continue
        digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def parse_arguments(known: list[Step]) -> argparse.Namespace:
    listing = "\n".join(f"{'*' if step.short else ' '} {step.name:<12}{step.about}" for step in known)
    parser = argparse.ArgumentParser(
        prog="./check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Installs what is missing, then builds and tests.",
        epilog=f"steps (* without --all):\n{listing}\n\nLogs are in build/check-logs/STEP/.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help="run only these, and the builds that they need")
    parser.add_argument("--all", action="store_true", help="the steps that take longer, too (without *)")
    parser.add_argument("--soak", action="store_true",
                        help="--all with large counts and long fuzzing; the result goes to docs/soak.txt")
    parser.add_argument("--again", action="store_true", help="repeat also what passed and has not changed")
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - {step.name for step in known}:
        parser.error(f"no such step: {', '.join(sorted(unknown))} (--help lists them)")
    return arguments


def choose(known: list[Step], names: list[str], everything: bool) -> list[Step]:
    if not names:
        return [step for step in known if step.short or everything]
    wanted = set(names).union(*(step.needs for step in known if step.name in names))
    return [step for step in known if step.name in wanted]


class SoakResult:
    """docs/soak.txt: the last soak of each step, with its date and commit. A soak takes an hour or more, so that
    steps may be run one by one."""

    HEAD = "The last ./check --soak of each step: step, date, commit, cores, result"

    def __init__(self, known: list[Step]) -> None:
        self._order = [step.name for step in known]
        self._lines: dict[str, str] = {}
        text = SOAK_RESULT.read_text() if SOAK_RESULT.exists() else ""
        for line in text.splitlines():
            if (name := line.split(" ")[0]) in self._order:
                self._lines[name] = line
        git = ["git", "-C", TOP]
        described = subprocess.run([*git, "describe", "--always"], capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", f":!{SOAK_RESULT.relative_to(TOP)}"],
                                 stderr=subprocess.DEVNULL)
        self._commit = (described.stdout.strip() or "unknown") + ("-dirty" if changed.returncode == 1 else "")

    def add(self, outcome: Outcome) -> None:
        injected = f"; {outcome.tally.injected} system calls failed or delayed" if outcome.tally.injected else ""
        self._lines[outcome.step.name] = (f"{outcome.step.name:<12}{time.strftime('%Y-%m-%d')}  {self._commit}  {JOBS} cores  "
                                          f"{outcome.words}{injected}")
        lines = [self._lines[name] for name in self._order if name in self._lines]
        SOAK_RESULT.write_text("\n".join([self.HEAD, "", *lines, ""]))


def only_check_here() -> IO[str] | None:
    """Two would build into the same folders. Holds a lock until it is closed; none: somebody else has it."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    lock = open(STAMPS / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def main() -> int:
    soak = "--soak" in sys.argv[1:]
    arguments = parse_arguments(steps(soak))
    if soak:
        os.environ["HVD_SOAK"] = "1"
    repeat = arguments.again or soak or "CI" in os.environ
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: what runs is ended, too
    alone = only_check_here()
    if alone is None:
        print("check: another one is running in this folder", file=sys.stderr)
        return 2
    chosen = choose(steps(soak), arguments.steps, arguments.all or soak)
    check = Check(chosen, None if repeat else inputs_digest(),
                  SoakResult(steps(soak)).add if soak else None)
    try:
        outcomes = check.run()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # ending takes seconds, and is not to be interrupted
        PROCESSES.end()
        print("check: interrupted", file=sys.stderr)
        return 130
    total = sum((outcome.tally for outcome in outcomes), Tally())
    for outcome in outcomes:
        if not outcome.ok:
            tell(f"{outcome.step.name} failed: build/check-logs/{outcome.step.name}/")
    if not arguments.steps and (left_out := [step.name for step in steps(soak) if not (step.short or arguments.all or soak)]):
        tell(f"not run: {', '.join(left_out)} (./check --all)")
    tell(str(total))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
