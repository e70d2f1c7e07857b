"""A job ends correctly when a system call fails in hvdrun, its agent, its guard or a rank.

Each run of the job makes one system call of one process fail or take 8 s (tests/programs/fault_injector.cpp). The run
succeeds, or fails with a line that names the error. It leaves no processes or files and loses no checkpoint. ./check runs the cases
of IN_GATE, ./check --all one call for each error. The soak runs the first, a middle and the last call with each error.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import HVDRUN, SANITIZED, SOAK, Done, Sandbox, program, read_bytes, wait_until

INJECTOR, VICTIM = program("fault_injector"), program("fault_victim")
ROLES = ["launcher", "agent", "guard", "rank"]
DELAY_MS = 8000
START_TIMEOUT_S = 30  # the limit for a client of libpmix that cannot watch its socket
JOBS_AT_ONCE = 2  # each has seven processes

# Errors that the manual pages list for a call and that hvdrun can meet. Non-blocking descriptors ("+") get EAGAIN too.
ERRORS: dict[str, list[str]] = {
    "accept": ["EINTR", "EAGAIN"],  # no EMFILE: libpmix then stops listening, and its clients wait
    "allocate": ["EINTR", "EIO", "ENOSPC"],
    "chdir": ["EIO", "ENOMEM"],
    "clone": ["EAGAIN", "ENOMEM"],
    "connect": ["EAGAIN"],
    "directory": ["EIO", "ENOSPC", "ENOMEM"],
    "duplicate": ["EMFILE"],
    "epoll": ["EINTR"],
    "eventfd": ["EMFILE", "ENFILE", "ENOMEM"],
    "mmap": ["ENOMEM"],
    "open": ["EINTR", "EMFILE", "ENFILE", "ENOMEM", "EIO"],
    "pidfd": ["EMFILE", "ENFILE", "ENOMEM", "EPERM"],
    "pipe": ["EMFILE", "ENFILE"],
    "poll": ["EINTR", "ENOMEM"],
    "random": ["EPERM", "ENOSYS"],
    "read": ["EINTR", "EIO"],
    "rename": ["EIO", "ENOSPC", "ENOMEM"],
    "signalfd": ["EMFILE", "ENFILE", "ENOMEM"],
    "socket": ["EMFILE", "ENFILE", "ENOMEM"],
    "sync": ["EIO", "ENOSPC", "EINTR"],
    "timerfd": ["EMFILE", "ENFILE", "ENOMEM"],
    "truncate": ["EINTR", "EIO"],
    "watch": ["EMFILE", "ENOMEM", "ENOSPC"],
    "write": ["EINTR", "EIO", "ENOSPC", "ENOBUFS", "ENOMEM"],
}
# In a sanitizer's build these calls are also made by the sanitizer's runtime.
CALLS = sorted(set(ERRORS) - ({"clone", "mmap", "pipe"} if SANITIZED else set()))
# (hosts, role, call): at least one case of each role, and only cases with few faults.
IN_GATE = {(1, "launcher", "clone"), (1, "launcher", "socket"), (1, "agent", "clone"), (1, "agent", "eventfd"),
           (1, "guard", "pipe"), (1, "rank", "rename"), (1, "rank", "sync"), (2, "rank", "connect")}
# Errors of a disk, which pipes, sockets and eventfds do not give.
OF_FILES = {"EIO", "ENOSPC"}
# Errors of a kernel that lacks memory for a packet.
OF_SOCKETS = {"ENOBUFS", "ENOMEM"}
# Messages that do not name the error: those of libpmix, of libhvd when libpmix has lost a message, and of a failed
# pthread_create(3).
OTHER_WORDS = ["PMIX ERROR: UNREACHABLE", f"did not come within {START_TIMEOUT_S} s (HVD_START_TIMEOUT)",
               "pmix_progress_thread_start failed", "input in flex scanner failed", "FD_SETSIZE on fd_set"]

# One worker of pytest-xdist runs all of these tests, so that no two run at the same time.
pytestmark = pytest.mark.xdist_group("faults")


@dataclass(frozen=True)
class Calls:
    """How often a job without a fault makes a call of one kind."""
    role: str
    call: str
    kind: str
    count: int

    def errors(self) -> list[str]:
        fitting = [name for name in ERRORS[self.call]
                   if name not in OF_FILES or self.kind.rstrip("+") in ("file", "proc", "-")]
        if self.call == "write" and self.kind.rstrip("+") != "socket":
            fitting = [name for name in fitting if name not in OF_SOCKETS]
        if self.kind.endswith("+"):
            fitting = [name for name in fitting if name != "EINTR"]  # a call that never waits is not interrupted
        return fitting + (["EAGAIN"] if self.kind.endswith("+") and "EAGAIN" not in fitting else [])

    def numbers(self) -> list[int]:
        return sorted({1, (self.count + 1) // 2, self.count})

    def faults(self) -> Iterator[str]:
        """Yields faults in the injector's syntax: in the soak each call with each error, else one call for each error."""
        for at, error in enumerate(self.errors()):
            numbers = self.numbers()
            for number in numbers if SOAK else [numbers[at % len(numbers)]]:
                yield self.fault(number, error)

    def delays(self) -> Iterator[str]:
        """Yields delays in the injector's syntax."""
        numbers = self.numbers()
        for number in numbers if SOAK else [numbers[len(self.errors()) % len(numbers)]]:
            yield self.fault(number, str(DELAY_MS))

    def fault(self, number: int, what: str) -> str:
        return f"{self.role}:{self.call}:{self.kind}:{number}:{what}"


class Trial:
    """Runs a job in a sandbox of its own and checks its end."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.sandbox = Sandbox(folder)
        self.happened = False  # whether the fault was injected
        # A rank of each "host" has its own folder for shared memory.
        self.rank = ["sh", "-c", 'if [ "$1" = 2 ]; then export HVD_SHM_DIR="$2/$HVD_RANK"; mkdir -p "$HVD_SHM_DIR"; fi; '
                                 'exec "$3" "$4"', "rank", hosts, self.sandbox.files / "segments", VICTIM, self.sandbox.files]

    def run(self, *options: object) -> Done:
        """Runs hvdrun under the injector."""
        report = self.sandbox.files / "report.json"
        report.unlink(missing_ok=True)
        running = self.sandbox.start(*options, "--", HVDRUN, "-np", 2, "-x", f"HVD_START_TIMEOUT={START_TIMEOUT_S}", "--grace", 5,
                                     "--report", report, "--output-filename", self.sandbox.files / "out",
                                     "--timeline-filename", self.sandbox.files / "timeline.json", *self.rank, tool=INJECTOR)
        return running.wait()

    def count_calls(self) -> list[Calls]:
        path = self.sandbox.files / "counts"
        done = self.run("--counts", path).expect(0)
        assert done.out_text.count("complete") == 2, done
        lines = [line.split() for line in read_bytes(path).decode().splitlines()]
        return [Calls(role, call, kind, int(count)) for role, call, kind, count in lines]

    def newest(self) -> int:
        """Returns the step of the newest checkpoint; 0 if there is none."""
        done = self.sandbox.run("-np", 2, VICTIM, self.sandbox.files, "--read").expect(0)
        found = re.search(r"loaded (\d+)|nothing", done.out_text)
        assert found, done
        return int(found[1] or 0)

    def fault(self, fault: str) -> str | None:
        """Runs the job with the fault. Returns what was wrong with its end."""
        before = self.newest()
        log = self.sandbox.files / "log.fault"
        log.unlink(missing_ok=True)
        try:
            done = self.run("--fault", fault, "--log", log)
        except AssertionError as error:
            return f"{fault}: {error}"
        self.happened = log.exists()
        wrong = self.complaints(done, fault.rpartition(":")[2]) if self.happened else []
        try:
            wait_until(lambda: not self.sandbox.leftovers(), "the cleanup of processes and files")
        except AssertionError:
            wrong.append(f"left: {self.sandbox.leftovers()}")
            self.sandbox.kill_all()
        try:
            after = self.newest()
            if after != before + 3 if done.code == 0 else after < before:
                wrong.append(f"the newest checkpoint is of step {after}, it was {before}")
        except AssertionError as error:
            wrong.append(f"the checkpoint: {error}")
        happened = read_bytes(log).decode().strip() if self.happened else "did not happen"
        return f"{fault} ({happened}): {'; '.join(wrong)}\n{done}" if wrong else None

    def complaints(self, done: Done, what: str) -> list[str]:
        # Without events hvdrun ends at once, and its guard a moment later.
        ended_at_once = "cannot wait for events" in done.err_text
        wrong = [f"survivors: {done.survivors}"] if done.survivors and not ended_at_once else []
        if done.code == 0:
            if done.out_text.count("complete\n") != 2 and "is lost from here on" not in done.err_text:
                wrong.append("exit code 0, but output is missing")
            return wrong
        if what.isdigit():
            return [*wrong, "the job failed although the call was only slow"]
        lines = [line for line in done.err_text.splitlines() if line.startswith("hvdrun: ")]
        words = os.strerror(getattr(errno, what))
        meant = [words, *OTHER_WORDS, *([os.strerror(errno.EAGAIN)] if what == "ENOMEM" else [])]
        if not any(text.lower() in done.err_text.lower() for text in meant):
            wrong.append(f"no line says {words!r}")
        ends = [line for line in lines if ": job stopped after " in line]
        if not lines or (ends and not ends[-1].endswith(f"exit code {done.code}")):
            wrong.append("the line on the job's end does not say the exit code")
        return wrong


@pytest.fixture(scope="session")
def calls_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Calls]]:
    """Returns a function that gives the calls of a job without a fault on the given number of hosts."""
    @functools.cache
    def counted(hosts: int) -> list[Calls]:
        trial = Trial(tmp_path_factory.mktemp("faults"), hosts)
        try:
            return trial.count_calls()
        finally:
            trial.sandbox.close()

    return counted


def check_ends(folder: Path, hosts: int, faults: list[str], at_once: int) -> None:
    """Runs the job once for each fault. At least one fault must happen; a late one may not, as the number of calls varies."""
    happened: list[str] = []
    with ThreadPoolExecutor(at_once) as pool:
        def attempt(at: int) -> str | None:
            trial = Trial(folder / str(at), hosts)
            wrong = trial.fault(faults[at])
            if trial.happened:
                happened.append(faults[at])
            try:
                trial.sandbox.close()
            except AssertionError as error:
                return wrong or f"{faults[at]}: {error}"
            return wrong
        wrong = [text for text in pool.map(attempt, range(len(faults))) if text]
    assert not wrong, f"{len(wrong)} of {len(faults)}:\n" + "\n\n".join(wrong)
    assert happened or not faults, f"none of these faults happened: {faults}"


HOSTS_AND_ROLES = [*((1, role) for role in ROLES), (2, "rank")]


@pytest.mark.parametrize("hosts, role, call", [
    pytest.param(hosts, role, call, id=f"{hosts}-{role}-{call}",
                 marks=() if (hosts, role, call) in IN_GATE else pytest.mark.slow)
    for hosts, role in HOSTS_AND_ROLES for call in CALLS])
def test_a_job_ends_correctly_when_a_system_call_fails(tmp_path: Path, calls_of: Callable[[int], list[Calls]], hosts: int,
                                                     role: str, call: str) -> None:
    faults = [fault for one in calls_of(hosts) if (one.role, one.call) == (role, call) for fault in one.faults()]
    check_ends(tmp_path, hosts, faults, JOBS_AT_ONCE)


@pytest.mark.slow
@pytest.mark.skipif(SANITIZED, reason="takes too long")
@pytest.mark.parametrize("call", CALLS if SOAK else ["read", "write"])
@pytest.mark.parametrize("hosts, role", HOSTS_AND_ROLES)
def test_a_job_waits_for_a_slow_system_call(tmp_path: Path, calls_of: Callable[[int], list[Calls]],
                                                       hosts: int, role: str, call: str) -> None:
    faults = [fault for one in calls_of(hosts) if (one.role, one.call) == (role, call) for fault in one.delays()]
    check_ends(tmp_path, hosts, faults, 2 * JOBS_AT_ONCE)  # these jobs mostly wait
