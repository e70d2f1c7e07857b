"""When something fails: every row leaves nothing behind, and hvdrun's code says what happened.

The rows are causes times what the ranks have started: the failure table of peers, as a matrix.
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

from harness import HOSTNAME, HVDRUN, SOAK, TIME_LIMIT, Running, Sandbox, alive, describe, program, read_bytes, wait_until

RANKS = 4
BLAMED = 1

# What each of the 4 ranks starts before it fails or waits: options of tests/programs/spawner.
KINDS: dict[str, list[str]] = {
    "plain": [],
    "ignoring TERM": ["--ignore-term"],
    "children": ["--children", "2"],
    "children ignoring TERM": ["--ignore-term", "--children", "1"],
    "setsid": ["--setsid", "1"],
    "daemons": ["--daemons", "1"],
    "daemons ignoring TERM without environment": ["--daemons", "1", "--ignore-term", "--clear-env"],
}


# Of causes times kinds the gate has two kinds a cause, and each kind twice at least; thread sanitizers have the first.
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
    """Each cause with each kind; what the gate leaves out is marked slow."""
    found = []
    for cause in causes:
        for kind in KINDS:
            marks = [pytest.mark.slow] if kind not in IN_GATE[cause] else []
            marks += [pytest.mark.core] if kind == IN_GATE[cause][0] else []
            found.append(pytest.param(cause, kind, id=f"{cause}-{kind}", marks=marks))
    return found


class Job:
    """Four ranks that have started all their children and wait; rank 1 fails when told."""

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
def test_a_rank_fails(sandbox: Sandbox, failure: str, kind: str) -> None:
    options, code = FAILURES[failure]
    job = Job(sandbox, kind, options)
    job.go()
    job.expect(code)


@pytest.mark.parametrize("failure", [name for name in FAILURES if name not in ("exit(3)", "SIGKILL")])
def test_the_failures_code_is_hvdruns(sandbox: Sandbox, failure: str) -> None:
    options, code = FAILURES[failure]
    job = Job(sandbox, "plain", options)
    job.go()
    job.expect(code)


def test_a_rank_killed_from_outside(sandbox: Sandbox) -> None:
    job = Job(sandbox, "children", ())
    os.kill(job.rank(2), signal.SIGKILL)
    job.expect(137)


def test_all_ranks_fail_at_once(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", RANKS, "sh", "-c", "exit 9").expect(9)
    assert done.report["exit_code"] == 9


# ---- the launcher, or a part of it, is told to end or is killed

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
def test_the_job_is_ended_from_outside(sandbox: Sandbox, ending: str, kind: str) -> None:
    act, code = ENDINGS[ending]
    job = Job(sandbox, kind, ())
    act(job.running)
    job.expect(code)


def test_under_an_old_seccomp_filter_stubborn_processes_are_killed(sandbox: Sandbox) -> None:
    """The filter refuses pidfd_open(2), faccessat2(2) and getrandom(2), as those of old container runtimes do."""
    stubborn = 'setsid sh -c \'trap "" TERM; echo $$ > child; exec sleep 1000\' & until [ -s child ]; do sleep 0.01; done; exit 3'
    done = sandbox.run("--strict-filter", HVDRUN, "--grace", "0.3", "-np", 1, "/bin/sh", "-c", stubborn, tool=program("old_kernel"))
    done.expect(3)
    assert "could not be ended" not in done.err_text, done
    assert not alive(int((sandbox.files / "child").read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_signal_that_ends_the_agent_is_named(sandbox: Sandbox, number: signal.Signals) -> None:
    job = Job(sandbox, "plain", ())
    os.kill(job.running.helper("hvdrun-agent"), number)
    done = job.running.wait().expect(125)
    assert done.report["reason"].endswith(f"was lost: killed by {number.name}"), done


class FrozenAgent:
    """A job whose agent cannot be killed: it is in a frozen control group of version 1."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.group = Path(f"/sys/fs/cgroup/freezer/hvdtest-{sandbox.cookie}")
        try:
            self.group.mkdir()
        except OSError:
            pytest.skip("no right to make a control group that freezes")
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
def test_an_agent_that_cannot_be_killed_is_named_and_its_ranks_end(frozen: FrozenAgent) -> None:
    frozen.job.running.signal(signal.SIGTERM)
    wait_until(lambda: frozen.job.running.process.poll() is not None, "the end of hvdrun")
    assert not any(alive(pid) for pid in frozen.job.pids())
    left = f"error: could not be ended and is left: pid {frozen.agent} (hvdrun-agent) on {HOSTNAME}"
    assert left.encode() in frozen.job.running.err, frozen.job.running.err


@pytest.mark.slow  # it waits as long as the guard waits for an agent
def test_the_guard_ends_the_ranks_of_an_agent_that_does_nothing(frozen: FrozenAgent) -> None:
    frozen.job.running.signal(signal.SIGKILL)
    frozen.job.running.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in frozen.job.pids()), "the end of every rank and child")


@pytest.mark.parametrize("cause, kind", kinds_for("launcher killed"))
def test_the_launcher_is_killed(sandbox: Sandbox, cause: str, kind: str) -> None:
    job = Job(sandbox, kind, ())
    job.running.signal(signal.SIGKILL)
    assert job.running.process.wait(TIME_LIMIT) == -signal.SIGKILL
    wait_until(lambda: not any(alive(pid) for pid in job.pids()), "the end of every rank and child")
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


@pytest.mark.parametrize("helpers", [("hvdrun-agent", "hvd-guard"), ("hvd-guard", "hvdrun-agent")])
def test_agent_and_guard_are_killed_together(sandbox: Sandbox, helpers: tuple[str, str]) -> None:
    job = Job(sandbox, "setsid", ())
    victims = [job.running.helper(name) for name in helpers]
    os.kill(victims[0], signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # the second may have done its work by now
        os.kill(victims[1], signal.SIGKILL)
    job.expect(125)


@pytest.mark.slow
def test_everything_of_hvdrun_is_killed_while_it_starts(sandbox: Sandbox) -> None:
    """At whatever moment the launcher dies, nothing is left."""
    for attempt in range(100 if SOAK else 15):
        running = sandbox.start("-np", 8, "sleep", "1000")
        wait_until(lambda: len(running.descendants()) >= attempt % 11, "a first part of the job")
        running.signal(signal.SIGKILL)
        running.process.wait()
        wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


# ---- ranks that succeed while others run on

def test_a_rank_that_exits_0_early_is_noted_and_the_others_run_on(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 3, "--grace", "0.3", "sh", "-c",
                            f'[ "$HVD_RANK" = 1 ] && exit 0; until [ -e {sandbox.files}/go ]; do sleep 0.01; done')
    wait_until(lambda: len(sandbox.ranks()) == 2, "the end of rank 1")
    (sandbox.files / "go").touch()
    running.wait().expect(0)


def test_folders_that_nobody_holds_are_removed_by_the_users_next_job(sandbox: Sandbox) -> None:
    """As SLURM leaves them when it kills all of a step at once."""
    memory = sandbox.shm if sandbox.isolated else Path("/dev/shm")
    orphan, held, young = (memory / f"hvd-{uuid.uuid4().hex}-0" for _ in range(3))
    temporary = sandbox.tmp / orphan.name
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


def test_exit_timeout_ends_a_job_that_one_rank_has_left(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--grace", "0.3", "--exit-timeout", "0.2", "sh", "-c",
                       '[ "$HVD_RANK" = 1 ] && exit 0; sleep 1000').expect(124)
    assert "rank 1" in done.err_text and "--exit-timeout" in done.err_text


# ---- how ranks are stopped

def test_what_a_rank_leaves_behind_is_named_and_ended(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--grace", "0.3", "sh", "-c", "setsid sleep 1000 & exit 0").expect(0)
    assert "left" in done.err_text and "(sleep)" in done.err_text


def test_ranks_get_time_to_clean_up(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "sh", "-c",
                       'trap "echo cleaned $HVD_RANK; exit 0" TERM; touch ready.$HVD_RANK;'
                       'if [ "$HVD_RANK" = 1 ]; then until [ -e ready.0 ] && [ -e ready.2 ]; do sleep 0.01; done; exit 3; fi;'
                       'while :; do sleep 0.01; done').expect(3)
    assert {line.split("] ")[1] for line in done.out_lines} == {"cleaned 0", "cleaned 2"}


def test_the_kill_signal_can_be_chosen(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--kill-signal", "USR1", "sh", "-c",
                       'trap "echo got usr1; exit 0" USR1; touch ready.$HVD_RANK;'
                       'if [ "$HVD_RANK" = 1 ]; then until [ -e ready.0 ]; do sleep 0.01; done; exit 4; fi;'
                       'while :; do sleep 0.01; done').expect(4)
    assert "got usr1" in done.out_text


def test_no_grace_kills_at_once(sandbox: Sandbox) -> None:
    job = Job(sandbox, "ignoring TERM", ("--exit", "3"), "--grace", "0")
    job.go()
    job.expect(3)


def test_a_third_interrupt_kills_at_once(sandbox: Sandbox) -> None:
    """The grace is longer than the test's patience: only the user can end the job."""
    job = Job(sandbox, "ignoring TERM", (), "--grace", "1000")
    job.running.signal(signal.SIGINT)
    job.running.wait_for(b"Ctrl-C once more: SIGTERM now", "err")
    job.running.signal(signal.SIGINT)
    job.running.wait_for(b"Ctrl-C once more: SIGKILL now", "err")
    job.running.signal(signal.SIGINT)
    job.expect(130)


@pytest.mark.core
def test_many_jobs_in_a_row_all_end(sandbox: Sandbox) -> None:
    for _ in range(200 if SOAK else 5):
        sandbox.run("-np", 8, "sh", "-c", "exit $((HVD_RANK == 5 ? 6 : 0))").expect(6)


def test_a_rank_that_fails_is_blamed_even_if_its_exit_lasts(sandbox: Sandbox) -> None:
    """The other rank loses its peer, and has ended before the one that failed."""
    done = sandbox.run("-np", 2, program("latecomer"), "--fails")
    assert done.code == 1 and done.report and done.report["first_failure"] == 0, done
    assert "hvdrun: error: rank 0 on" in done.err_text and "rank 1: exit code 1" in done.err_text, done
    assert 'its last error of hvd: hvd_set_metric' in done.err_text, done


def test_ranks_that_do_not_start_in_time_end_the_job(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 64, "--start-timeout", "1ms", "sleep", "1000").expect(124)
    assert "--start-timeout" in done.err_text
