"""Runs stages and their commands. Every command has a time limit. At the limit, all processes of the command are ended."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Optional, Union

from gpukit.results import STAGE_VARIABLE, record

COOKIE_VARIABLE = "GPUKIT_COMMAND"  # in the environment of all processes of a command
DUMP_VARIABLE = "GPUKIT_DUMP_SECONDS"  # after this time a program of the kit prints the stacks of its threads and ends
SECONDS_TO_END = 5.0  # from SIGTERM to SIGKILL
LEAST_SECONDS = 3.0  # a stage does not begin if less time is left
Words = Sequence[Union[str, Path, int]]


@dataclass(frozen=True)
class Stage:
    """A part of the run. `function` gets the subject of run_stage(), and records results."""

    name: str
    seconds: float
    function: Callable[..., None]
    needs: tuple[str, ...] = ()  # what the machine must have: names that Kit.missing() knows


class StageCut(Exception):
    """The stage has reached its time limit. Its command has been ended."""


@dataclass
class Done:
    """A command that has ended."""

    code: int  # as in a shell; 124 if the command reached its own time limit
    lines: list[str] = field(default_factory=list)  # stdout and stderr

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def last(self, count: int) -> str:
        return "; ".join(self.lines[-count:])


def processes_with(cookie: str) -> list[int]:
    """Returns the processes whose environment has the cookie, in any session and with any parent."""
    wanted = f"{COOKIE_VARIABLE}={cookie}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to another user
        if wanted in variables:
            found.append(int(name))
    return found


class Runner:
    """Runs commands within the time limits of the stage and of the whole run. Threads may run several commands at once."""

    def __init__(self, log: IO[str], budget: float, patience: float = 1.0) -> None:
        self.patience = patience  # multiplies all time limits except the budget
        self._log = log
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._end = self._began + budget
        self._deadline = self._end  # of the current stage
        self._stage_end = self._end  # where its deadline would be without the budget

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Returns the remaining time of the stage."""
        return self._deadline - time.monotonic()

    def write(self, text: str) -> None:
        with self._lock:
            self._log.write(text)
            self._log.flush()

    def run_stage(self, stage: Stage, subject: object) -> str:
        """Runs a stage. Records if it raises an exception or reaches its time limit. Returns its outcome in a word."""
        os.environ[STAGE_VARIABLE] = stage.name
        limit, left = stage.seconds * self.patience, self._end - time.monotonic()
        if left < min(LEAST_SECONDS, limit):
            record("stage", None, "not begun: the budget is used up")
            return "not begun"
        self._stage_end = time.monotonic() + limit
        self._deadline = min(self._stage_end, self._end)
        self.write(f"===== {stage.name}\n")
        try:
            stage.function(subject)
        except StageCut as cut:
            by_budget = left < limit
            record("stage", None if by_budget else False,
                   f"cut after {min(limit, left):.0f} s{', where the budget ended' if by_budget else ''}: {cut}")
            return "cut"
        except Exception as error:  # the other stages still run
            self.write(traceback.format_exc())
            record("stage", False, f"{type(error).__name__}: {error}")
            return "failed"
        return "done"

    def run(self, command: Words, limit: float = float("inf"), environment: Optional[Mapping[str, str]] = None,
            folder: Optional[Path] = None, on_line: Optional[Callable[[str, subprocess.Popen[str]], None]] = None) -> Done:
        """Runs a command until it ends, without stdin. A thread calls `on_line` with each line of its output.

        Returns code 124 if the command reaches `limit`. Raises StageCut if it reaches the time limit of the stage.
        """
        words = [str(word) for word in command]
        now = time.monotonic()
        own_end = now + limit * self.patience
        end = min(own_end, self._deadline)
        if now >= self._deadline:
            raise StageCut(f"no time for {shlex.join(words)[:200]}")
        cookie = uuid.uuid4().hex
        variables = {**os.environ, **(environment or {}), COOKIE_VARIABLE: cookie,
                     DUMP_VARIABLE: f"{max(1.0, min(own_end, self._stage_end) - now - SECONDS_TO_END):.0f}"}
        self.write(f"$ {shlex.join(words)}\n")
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace", env=variables, cwd=folder, start_new_session=True)
        except OSError as error:
            self.write(f"{error}\n")
            return Done(127, [str(error)])
        done = Done(0)
        reader = threading.Thread(target=self._read, args=(process, done, on_line), daemon=True)
        reader.start()
        try:
            code = process.wait(max(0.0, end - time.monotonic()))
            done.code = code if code >= 0 else 128 - code
            reader.join(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            done.code = 124
        finally:
            end_processes(process, cookie)
        reader.join(SECONDS_TO_END)
        if done.code == 124 and end >= self._deadline:
            raise StageCut(f"{shlex.join(words)[:200]} had printed: {done.last(2)[-300:]}")
        return done

    def _read(self, process: subprocess.Popen[str], done: Done,
              on_line: Optional[Callable[[str, subprocess.Popen[str]], None]]) -> None:
        assert process.stdout
        for line in process.stdout:
            done.lines.append(line.rstrip("\n"))
            self.write(line)
            if on_line:
                on_line(done.lines[-1], process)


def end_processes(process: subprocess.Popen[str], cookie: str) -> None:
    """Ends a command's process, and kills the remaining processes that it has started."""
    if process.poll() is None:
        process.terminate()  # hvdrun then stops its ranks and prints which ones
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            pass
    for _ in range(10):  # again: a process may start another one during the search
        left = processes_with(cookie)
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    process.wait()
