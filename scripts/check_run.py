"""What a step of ./check runs with: a log, commands that end with it, a tally of results."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# In the environment of everything that this check starts, however far it has gone its own way since; tests name their
# folders in shared memory by it, too.
MARK = "HVD_CHECK"


class StepFailed(Exception):
    """A step could not do its work; its text says why."""


@dataclass(frozen=True)
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    injected: int = 0  # faults that tests put into system calls, and that happened

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                     self.injected + other.injected)

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


def tell_process(how: Callable[[int, int], None], pid: int, number: int) -> None:
    """os.kill or os.killpg, of a process that may have ended."""
    try:
        how(pid, number)
    except ProcessLookupError:
        pass


class Processes:
    """The commands that run at this moment, so that an interrupted check can end them, and what they have started."""

    def __init__(self, shared_memory: Path = Path("/dev/shm")) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False
        self._shared_memory = shared_memory
        self._mark = uuid.uuid4().hex

    def run(self, command: list[str], **options: object) -> int:
        with self._lock:
            if self._ended:
                raise StepFailed("interrupted")
            # A session of its own, so that the end of a command is the end of all it started.
            environment = {**(options.pop("env", None) or os.environ), MARK: self._mark}
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment,
                                       **options)
            self._running.add(process)
        try:
            return process.wait()
        finally:
            with self._lock:
                self._running.discard(process)

    def end(self, patience: float = 15.0) -> None:
        """Ends all commands and what they have started: the commands may tidy up for `patience` seconds, what has left
        them is told, too, then all that is left is killed."""
        with self._lock:
            self._ended = True
            for process in self._running:
                tell_process(os.killpg, process.pid, signal.SIGTERM)
        self._await_none(patience)
        self._signal_all(signal.SIGTERM)
        self._await_none(patience / 3)
        self._await_none(5.0, lambda: self._signal_all(signal.SIGKILL))
        for folder in self._shared_memory.glob(f"hvdtest-{self._mark}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _await_none(self, limit: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + limit
        while self.marked() and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.05)

    def _signal_all(self, number: int) -> None:
        for pid in self.marked():
            tell_process(os.kill, pid, number)

    def marked(self) -> list[int]:
        """What this check has started and still runs."""
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:  # it has ended, or is not ours to look at
                pass
        return found


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
