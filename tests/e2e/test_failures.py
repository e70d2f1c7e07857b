"""A job that fails or is ended leaves no processes or files, and hvdrun's exit code has the cause.

The tests combine each cause with each kind of process that ranks may have started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import (BUILD, HOSTNAME, HVDRUN, PYTHON, SOAK, TIME_LIMIT, Running, Sandbox, alive, describe, hanging_ssh, program,
                     python_environment, read_bytes, wait_until)

RANKS = 4
BLAMED = 1

# Options of tests/programs/spawner: what each of the 4 ranks starts before it fails or waits.
KINDS: dict[str, list[str]] = {
    "plain": [],
    "ignoring TERM": ["--ignore-term"],
    "children": ["--children", "2"],
    "children ignoring TERM": ["--ignore-term", "--children", "1"],
    "setsid": ["--setsid", "1"],
    "daemons": ["--daemons", "1"],
    "daemons ignoring TERM without environment": ["--daemons", "1", "--ignore-term", "--clear-env"],
}


# For each end of the job, the two kinds of children that the gate tries. The thread sanitizer's build tries the first.
IN_GATE: dict[str, tuple[str, str]] = {
    "exit(3)": ("plain", "setsid"),
    "SIGKILL": ("children", "daemons ignoring TERM without environment"),
    "SIGINT": ("ignoring TERM", "daemons"),
    "SIGTERM": ("children ignoring TERM", "plain"),
    "SIGHUP": ("setsid", "children"),
    "agent killed": ("daemons", "ignoring TERM"),
    "guard killed": ("daemons ignoring TERM without environment", "children ignoring TERM"),
    "launcher killed": ("setsid", "daemons ignoring TERM without environment"),
}


def kinds_for(*causes: str) -> list[object]:
    """Returns each cause with each kind, and marks slow what the gate leaves out."""
    found = []
    for cause in causes:
        for kind in KINDS:
            marks = [pytest.mark.slow] if kind not in IN_GATE[cause] else []
            marks += [pytest.mark.core] if kind == IN_GATE[cause][0] else []
            found.append(pytest.param(cause, kind, id=f"{cause}-{kind}", marks=marks))
    return found


class Job:
    """A job of four ranks that have started all their children and wait; go() makes rank 1 fail."""

    def __init__(self, sandbox: Sandbox, kind: str, failure: tuple[str, ...], *options: str) -> None:
        self.sandbox = sandbox
        files = sandbox.files
        spawner = KINDS[kind]
        self.running = sandbox.start(
            "-np", RANKS, "--grace", "0.3", *options, program("spawner"), "--pids", files / "pids", *spawner, "--",
            program("crash"), "--rank", BLAMED, *failure, "--when", files / "go", "--ready", files / "ready")
        children = RANKS * sum(int(word) for word in spawner if word.isdigit())
        wait_until(lambda: len(sandbox.lines_of("ready")) == RANKS and len(sandbox.lines_of("pids")) == children
                   or self.running.process.poll() is not None, "all ranks and their children")
        assert self.running.process.poll() is None, f"ended too early: {self.running.wait()}"

    def rank(self, number: int) -> int:
        return next(int(pid) for rank, pid in self.sandbox.lines_of("ready") if int(rank) == number)

    def pids(self) -> list[int]:
        return [int(words[1]) for name in ("pids", "ready") for words in self.sandbox.lines_of(name)]

    def go(self) -> None:
        (self.sandbox.files / "go").touch()

    def expect(self, code: int) -> None:
        done = self.running.wait()
        left = [describe(pid) for pid in self.pids() if alive(pid)]
        assert not left, f"still there when hvdrun had returned: {left}\n{done}"
        done.expect(code)


# ---- a rank fails

FAILURES: dict[str, tuple[tuple[str, ...], int]] = {
    "exit(3)": (("--exit", "3"), 3),
    "SIGKILL": (("--signal", "9"), 137),
    "SIGSEGV": (("--signal", "11"), 139),
    "SIGTERM of its own": (("--signal", "15"), 143),
    "exit(255)": (("--exit", "255"), 255),
}


@pytest.mark.parametrize("failure, kind", kinds_for("exit(3)", "SIGKILL"))
def test_a_failed_rank_ends_the_job_with_its_code(sandbox: Sandbox, failure: str, kind: str) -> None:
    options, code = FAILURES[failure]
    job = Job(sandbox, kind, options)
    job.go()
    job.expect(code)


@pytest.mark.parametrize("failure", [name for name in FAILURES if name not in ("exit(3)", "SIGKILL")])
def test_hvdruns_code_is_that_of_the_failed_rank(sandbox: Sandbox, failure: str) -> None:
    options, code = FAILURES[failure]
    job = Job(sandbox, "plain", options)
    job.go()
    job.expect(code)


def test_a_rank_killed_by_another_process_ends_the_job(sandbox: Sandbox) -> None:
    job = Job(sandbox, "children", ())
    os.kill(job.rank(2), signal.SIGKILL)
    job.expect(137)


def test_hvdruns_code_is_the_ranks_if_all_fail_at_once(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", RANKS, "sh", "-c", "exit 9").expect(9)
    assert done.report["exit_code"] == 9


# ---- launcher, agent or guard gets a signal

def to_launcher(number: int) -> Callable[[Running], None]:
    return lambda running: running.signal(number)


def to_helper(name: str) -> Callable[[Running], None]:
    return lambda running: os.kill(running.helper(name), signal.SIGKILL)


ENDINGS: dict[str, tuple[Callable[[Running], None], int]] = {
    "SIGINT": (to_launcher(signal.SIGINT), 130),
    "SIGTERM": (to_launcher(signal.SIGTERM), 143),
    "SIGHUP": (to_launcher(signal.SIGHUP), 129),
    "agent killed": (to_helper("hvdrun-agent"), 125),
    "guard killed": (to_helper("hvd-guard"), 125),
}


@pytest.mark.parametrize("ending, kind", kinds_for(*ENDINGS))
def test_a_signal_to_launcher_agent_or_guard_ends_all_processes(sandbox: Sandbox, ending: str, kind: str) -> None:
    act, code = ENDINGS[ending]
    job = Job(sandbox, kind, ())
    act(job.running)
    job.expect(code)


def test_processes_that_ignore_sigterm_are_killed_under_an_old_seccomp_filter(sandbox: Sandbox) -> None:
    """The filter refuses pidfd_open(2), faccessat2(2) and getrandom(2), as those of old container runtimes do."""
    stubborn = 'setsid sh -c \'trap "" TERM; echo $$ > child; exec sleep 1000\' & until [ -s child ]; do sleep 0.01; done; exit 3'
    done = sandbox.run("--strict-filter", HVDRUN, "--grace", "0.3", "-np", 1, "/bin/sh", "-c", stubborn, tool=program("old_kernel"))
    done.expect(3)
    assert "could not be ended" not in done.err_text, done
    assert not alive(int((sandbox.files / "child").read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_report_names_the_signal_that_ended_the_agent(sandbox: Sandbox, number: signal.Signals) -> None:
    job = Job(sandbox, "plain", ())
    os.kill(job.running.helper("hvdrun-agent"), number)
    done = job.running.wait().expect(125)
    assert done.report["reason"].endswith(f"was lost: killed by {number.name}"), done


class FrozenAgent:
    """A job whose agent cannot be killed, because it is in a frozen cgroup (version 1)."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.group = Path(f"/sys/fs/cgroup/freezer/hvdtest-{sandbox.cookie}")
        try:
            self.group.mkdir()
        except OSError:
            pytest.skip("needs the right to make a freezer cgroup")
        self.job = Job(sandbox, "setsid", ())
        self.agent = self.job.running.helper("hvdrun-agent")
        (self.group / "cgroup.procs").write_text(str(self.agent))
        self.set_state("FROZEN")

    def set_state(self, state: str) -> None:
        (self.group / "freezer.state").write_text(state)

    def close(self) -> None:
        self.set_state("THAWED")
        wait_until(lambda: not self.job.sandbox.leftovers() and not read_bytes(self.group / "cgroup.procs"), "the end of agent and guard")
        self.group.rmdir()


@pytest.fixture
def frozen(sandbox: Sandbox) -> Iterator[FrozenAgent]:
    agent = FrozenAgent(sandbox)
    yield agent
    agent.close()


@pytest.mark.slow  # it waits as long as hvdrun waits for an agent
def test_an_unkillable_agent_is_reported_and_its_ranks_end(frozen: FrozenAgent) -> None:
    frozen.job.running.signal(signal.SIGTERM)
    wait_until(lambda: frozen.job.running.process.poll() is not None, "the end of hvdrun")
    assert not any(alive(pid) for pid in frozen.job.pids())
    left = f"error: could not be ended and is left: pid {frozen.agent} (hvdrun-agent) on {HOSTNAME}"
    assert left.encode() in frozen.job.running.err, frozen.job.running.err


@pytest.mark.slow  # it waits as long as the guard waits for an agent
def test_the_guard_ends_the_ranks_of_a_frozen_agent(frozen: FrozenAgent) -> None:
    frozen.job.running.signal(signal.SIGKILL)
    frozen.job.running.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in frozen.job.pids()), "the end of every rank and child")


@pytest.mark.parametrize("cause, kind", kinds_for("launcher killed"))
def test_nothing_is_left_after_the_launcher_is_killed(sandbox: Sandbox, cause: str, kind: str) -> None:
    job = Job(sandbox, kind, ())
    job.running.signal(signal.SIGKILL)
    assert job.running.process.wait(TIME_LIMIT) == -signal.SIGKILL
    wait_until(lambda: not any(alive(pid) for pid in job.pids()), "the end of every rank and child")
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


@pytest.mark.parametrize("helpers", [("hvdrun-agent", "hvd-guard"), ("hvd-guard", "hvdrun-agent")])
def test_nothing_is_left_after_agent_and_guard_are_killed(sandbox: Sandbox, helpers: tuple[str, str]) -> None:
    job = Job(sandbox, "setsid", ())
    victims = [job.running.helper(name) for name in helpers]
    os.kill(victims[0], signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # the second may have ended by now
        os.kill(victims[1], signal.SIGKILL)
    job.expect(125)


@pytest.mark.slow
def test_nothing_is_left_after_the_launcher_is_killed_during_start(sandbox: Sandbox) -> None:
    for attempt in range(100 if SOAK else 15):
        running = sandbox.start("-np", 8, "sleep", "1000")
        wait_until(lambda: len(running.descendants()) >= attempt % 11, "a first part of the job")
        running.signal(signal.SIGKILL)
        running.process.wait()
        wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


# ---- ranks that succeed while others still run

def test_other_ranks_continue_after_a_rank_exits_with_0(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 3, "--grace", "0.3", "sh", "-c",
                            f'[ "$HVD_RANK" = 1 ] && exit 0; until [ -e {sandbox.files}/go ]; do sleep 0.01; done')
    wait_until(lambda: len(sandbox.ranks()) == 2, "the end of rank 1")
    (sandbox.files / "go").touch()
    running.wait().expect(0)


def test_a_job_removes_old_unlocked_folders_of_earlier_jobs(sandbox: Sandbox) -> None:
    """SLURM leaves such folders if it kills all processes of a step at once."""
    memory = sandbox.shm if sandbox.isolated else Path("/dev/shm")
    orphan, held, young = (memory / f"hvd-{uuid.uuid4().hex}-0" for _ in range(3))
    temporary = sandbox.tmp / f"{orphan.name}-tmp"
    for folder in (orphan, held, young, temporary):
        folder.mkdir()
        (folder / "segment").touch()
    for folder in (orphan, held):
        os.utime(folder, (1, 1))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        sandbox.run("-np", 1, "true").expect(0)
        assert [folder.exists() for folder in (orphan, temporary, held, young)] == [False, False, True, True]
    finally:
        os.close(descriptor)
        for folder in (held, young):
            shutil.rmtree(folder, ignore_errors=True)


def test_ranks_begin_after_a_cleaner_has_removed_the_jobs_folder(sandbox: Sandbox) -> None:
    """systemd-logind removes it at a user's last logout (RemoveIPC), perhaps while the ranks still import their modules."""
    if not sandbox.isolated:
        pytest.skip("needs a /dev/shm of its own")
    running = sandbox.start("-np", 2, "sh", "-c", f'echo here; until [ -e {sandbox.files}/go ]; do sleep 0.01; done; exec "$0"',
                            BUILD / "bin/examples/hello")
    wait_until(lambda: running.out.count(b"here") == 2, "two ranks")
    folder, = sandbox.shm.glob("hvd-*")
    shutil.rmtree(folder)
    running.wait_for(b"was removed or emptied while the job runs, and was made again", "err")
    (sandbox.files / "go").touch()
    done = running.wait().expect(0)
    assert "status page" not in done.err_text, done


def test_exit_timeout_ends_a_job_after_its_first_rank_has_exited(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--grace", "0.3", "--exit-timeout", "0.2", "sh", "-c",
                       '[ "$HVD_RANK" = 1 ] && exit 0; sleep 1000').expect(124)
    assert "rank 1" in done.err_text and "--exit-timeout" in done.err_text


# ---- how ranks are stopped

def test_a_process_that_outlives_its_rank_is_reported_and_ended(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--grace", "0.3", "sh", "-c", "setsid sleep 1000 & exit 0").expect(0)
    assert "left" in done.err_text and "(sleep)" in done.err_text


def test_sigterm_handlers_of_other_ranks_run_after_a_failure(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "sh", "-c",
                       'trap "echo cleaned $HVD_RANK; exit 0" TERM; touch ready.$HVD_RANK;'
                       'if [ "$HVD_RANK" = 1 ]; then until [ -e ready.0 ] && [ -e ready.2 ]; do sleep 0.01; done; exit 3; fi;'
                       'while :; do sleep 0.01; done').expect(3)
    assert {line.split("] ")[1] for line in done.out_lines} == {"cleaned 0", "cleaned 2"}


def test_kill_signal_sets_the_signal_that_stops_ranks(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--kill-signal", "USR1", "sh", "-c",
                       'trap "echo got usr1; exit 0" USR1; touch ready.$HVD_RANK;'
                       'if [ "$HVD_RANK" = 1 ]; then until [ -e ready.0 ]; do sleep 0.01; done; exit 4; fi;'
                       'while :; do sleep 0.01; done').expect(4)
    assert "got usr1" in done.out_text


def test_grace_0_kills_ranks_that_ignore_sigterm(sandbox: Sandbox) -> None:
    job = Job(sandbox, "ignoring TERM", ("--exit", "3"), "--grace", "0")
    job.go()
    job.expect(3)


def test_a_third_ctrl_c_kills_ranks_at_once(sandbox: Sandbox) -> None:
    """--grace is longer than the test may run, so only the third Ctrl-C can end the job."""
    job = Job(sandbox, "ignoring TERM", (), "--grace", "1000")
    job.running.signal(signal.SIGINT)
    job.running.wait_for(b"Ctrl-C once more: SIGTERM now", "err")
    job.running.signal(signal.SIGINT)
    job.running.wait_for(b"Ctrl-C once more: SIGKILL now", "err")
    job.running.signal(signal.SIGINT)
    job.expect(130)


@pytest.mark.core
def test_many_failing_jobs_in_a_row_all_end(sandbox: Sandbox) -> None:
    for _ in range(200 if SOAK else 5):
        sandbox.run("-np", 8, "sh", "-c", "exit $((HVD_RANK == 5 ? 6 : 0))").expect(6)


def test_the_first_failure_is_the_rank_that_failed_even_if_it_exits_last(sandbox: Sandbox) -> None:
    """The other rank loses its peer and ends before the failed rank does."""
    done = sandbox.run("-np", 2, program("latecomer"), "--fails")
    assert done.code == 1 and done.report and done.report["first_failure"] == 0, done
    assert "hvdrun: error: rank 0 on" in done.err_text and "rank 1: exit code 1" in done.err_text, done
    assert 'its last error of hvd: hvd_set_metric' in done.err_text, done


ABORTS = """
import os, hvd

hvd.init()
hvd.broadcast_object(1)
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
try:
    while True:
        hvd.broadcast_object(1)
except hvd.Error:
    os.abort()
"""


def test_ranks_that_abort_because_of_a_killed_rank_are_not_blamed(sandbox: Sandbox) -> None:
    """The end of the killed rank is seen last."""
    shell = 'ulimit -c 0; "$0" -c "$1"; code=$?; [ $HVD_RANK = 1 ] && sleep 0.3; exit $code'
    done = sandbox.run("-np", 3, "sh", "-c", shell, PYTHON, ABORTS, env=python_environment()).expect(137)
    assert done.report["first_failure"] == 1


def test_start_timeout_ends_a_job_if_a_host_does_not_start(sandbox: Sandbox) -> None:
    hosts = ("--ssh-program", hanging_ssh(sandbox.files), "-H", "localhost:1,late:1")
    done = sandbox.run(*hosts, "--start-timeout", "200ms", "sleep", "1000").expect(124)
    assert "--start-timeout" in done.err_text
