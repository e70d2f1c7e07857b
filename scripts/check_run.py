"""What a step of ./check runs with: a log, commands that end with it, a tally of results."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path


class StepFailed(Exception):
    """A step could not do its work; its text says why."""


@dataclass(frozen=True)
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped


def tell(text: str) -> None:
    """One line, or several that belong together, on the screen: never inside another thread's."""
    with _SCREEN:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


_SCREEN = threading.Lock()


class Processes:
    """The commands that run at this moment, so that an interrupted check can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, command: list[str], **options: object) -> int:
        with self._lock:
            if self._ended:
                raise StepFailed("interrupted")
            # A session of its own, so that the end of a command is the end of all it started.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
            self._running.add(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                os.killpg(process.pid, signal.SIGTERM)


PROCESSES = Processes()


class Log:
    """One step's folder of logs. Used on that step's thread; run() and say() also on its helpers'."""

    def __init__(self, folder: Path, top: Path) -> None:
        self.folder = folder
        self.path = folder / "log.txt"
        self._top = top
        self._file = open(self.path, "ab", buffering=0)

    def say(self, text: str) -> None:
        self._file.write(f"{text}\n".encode())

    def run(self, command: list[object], environment: dict[str, str] | None = None, may_fail: bool = False,
            output: Path | None = None) -> int:
        """Runs a command in the checkout's folder; what it prints goes to the log, or to `output`.
        Returns its exit code. Error: the code is not 0 and that is not expected (may_fail)."""
        words = [str(word) for word in command]
        shown = shlex.join(words)
        self.say(f"$ {shown if len(shown) < 400 else shown[:400] + ' ...'}")
        sink = open(output, "wb") if output else self._file
        try:
            code = PROCESSES.run(words, cwd=self._top, stdout=sink, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(environment or {})})
        except OSError as error:
            raise StepFailed(f"cannot run {words[0]}: {error.strerror}") from error
        finally:
            if output:
                sink.close()
        if code != 0 and not may_fail:
            raise StepFailed(f"{words[0]} ended with code {code}")
        return code

    def tail(self, lines: int) -> str:
        return "\n".join(self.path.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        self._file.close()
