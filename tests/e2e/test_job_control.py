"""Signals, job control and terminals: what a user can do to a running job from a shell."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shlex
import signal
import struct
import termios
import time
from pathlib import Path
from typing import BinaryIO

import pexpect
import pytest

from harness import HVDRUN, PYTHON, SOAK, TIME_LIMIT, Running, Sandbox, alive, process_state, program, read_bytes, wait_until


def terminal(sandbox: Sandbox, *arguments: object) -> pexpect.spawn:
    words = sandbox.command([HVDRUN, *arguments])
    return pexpect.spawn(words[0], words[1:], env=sandbox.environment({"TERM": "xterm"}), cwd=str(sandbox.files),
                         timeout=TIME_LIMIT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("option", ["--hostfile", "--config-file"])
def test_a_signal_ends_hvdrun_while_it_waits_for_a_file(sandbox: Sandbox, option: str, number: signal.Signals) -> None:
    """The file is a FIFO without a writer; a file system that hangs does the same."""
    fifo = sandbox.files / "fifo"
    os.mkfifo(fifo)
    running = sandbox.start(option, fifo, "true")
    with open_when_read(fifo):
        running.signal(number)
        running.wait().expect(-number)


def open_when_read(fifo: Path) -> BinaryIO:
    """Waits until a reader has opened the FIFO, and returns its write end."""
    opened: list[int] = []

    def open_now() -> bool:
        try:
            opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            assert error.errno == errno.ENXIO, error
        return bool(opened)

    wait_until(open_now, "a reader of the FIFO")
    return os.fdopen(opened[0], "wb")


# Replaces ssh: runs the agent on this machine; for the host "late" it first waits for a line from the FIFO "gate".
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
[ "$1" != late ] || read -r _ < gate
shift
exec /bin/sh -c "$*"
"""


def waiting_ranks(sandbox: Sandbox, count: int) -> list[int]:
    wait_until(lambda: len(sandbox.lines_of("ready")) == count, "all ranks to be ready")
    return [int(pid) for _, pid in sandbox.lines_of("ready")]


def crash(sandbox: Sandbox, *options: object) -> list[object]:
    return [program("crash"), "--rank", 0, "--when", sandbox.files / "go", "--ready", sandbox.files / "ready", *options]


@pytest.mark.core
def test_ctrl_c_on_a_terminal_ends_all_ranks(sandbox: Sandbox) -> None:
    child = terminal(sandbox, "-np", 2, *crash(sandbox))
    pids = waiting_ranks(sandbox, 2)
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert not any(alive(pid) for pid in pids)


def test_a_third_ctrl_c_on_a_terminal_kills_ranks_that_ignore_signals(sandbox: Sandbox) -> None:
    child = terminal(sandbox, "-np", 2, "--grace", "1000", program("spawner"), "--ignore-term", "--", *crash(sandbox))
    pids = waiting_ranks(sandbox, 2)
    child.sendintr()
    child.expect("once more: SIGTERM now")
    child.sendintr()
    child.expect("ranks 0-1 still run: .* once more: SIGKILL now")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert not any(alive(pid) for pid in pids)


SAVES_ON_INTERRUPT = """
import os, signal
try:
    open(f"up.{os.environ['HVD_RANK']}", "w").close()
    signal.pause()
except KeyboardInterrupt:
    print("saved", flush=True)
"""


def test_ctrl_c_raises_keyboard_interrupt_in_python_ranks(sandbox: Sandbox) -> None:
    """hvdrun must not wait for the grace period, which is longer than the test may run."""
    child = terminal(sandbox, "-np", 2, "--grace", "1000", PYTHON, "-c", SAVES_ON_INTERRUPT)
    wait_until(lambda: len(list(sandbox.files.glob("up.*"))) == 2, "both ranks")
    child.sendintr()
    shown = child.read().decode()
    child.close()
    assert child.exitstatus == 130
    assert shown.count(" saved\r\n") == 2, shown


NOTES_SIGNALS = """
for name in INT TERM; do trap "echo $name >> got" $name; done
trap "echo USR1 >> got; exit 0" USR1
touch up
while :; do sleep 0.01; done
"""


def signals_before_kill(sandbox: Sandbox, *options: object, number: signal.Signals = signal.SIGINT) -> list[str]:
    """Sends hvdrun a signal; returns the signals that a rank gets before SIGKILL if it ignores SIGINT and SIGTERM."""
    running = sandbox.start(*options, "-np", 1, "sh", "-c", NOTES_SIGNALS)
    wait_until(lambda: (sandbox.files / "up").exists(), "the rank")
    running.signal(number)
    running.wait().expect(128 + number)
    return [word for word, in sandbox.lines_of("got")]


def test_ctrl_c_sends_sigint_then_sigterm_to_ranks(sandbox: Sandbox) -> None:
    assert signals_before_kill(sandbox, "--grace", "1") == ["INT", "TERM"]


def test_hvdrun_prints_the_next_signal_and_when_it_follows(sandbox: Sandbox) -> None:
    running = sandbox.start("--grace", "0.4", "-np", 1, "sh", "-c", NOTES_SIGNALS)
    wait_until(lambda: (sandbox.files / "up").exists(), "the rank")
    running.signal(signal.SIGINT)
    text = running.wait().expect(130).err_text
    assert "interrupted: stopping 1 rank with SIGINT, after 0.2 s with SIGTERM; Ctrl-C once more: SIGTERM now\n" in text
    assert "rank 0 still runs: stopping it with SIGTERM, after 0.2 s with SIGKILL; Ctrl-C once more: SIGKILL now\n" in text


def test_sigterm_to_hvdrun_sends_ranks_only_sigterm(sandbox: Sandbox) -> None:
    assert signals_before_kill(sandbox, "--grace", "0.5", number=signal.SIGTERM) == ["TERM"]


def test_ctrl_c_with_kill_signal_sends_only_that_signal(sandbox: Sandbox) -> None:
    assert signals_before_kill(sandbox, "--grace", "1000", "--kill-signal", "USR1") == ["USR1"]


def test_closing_the_terminal_ends_the_job(sandbox: Sandbox) -> None:
    child = terminal(sandbox, "-np", 2, *crash(sandbox))
    waiting_ranks(sandbox, 2)
    child.close(force=False)
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


@pytest.mark.parametrize("where", ["comm", "cmdline"])
def test_nothing_is_left_after_all_processes_named_hvdrun_are_killed(sandbox: Sandbox, where: str) -> None:
    """Does the same as `pkill -9 hvdrun` and `pkill -9 -f hvdrun`, but only to processes of this job."""
    running = sandbox.start("-np", 2, "sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait")
    wait_until(lambda: running.out.count(b"up") == 2, "both ranks and their children")
    family = [running.pid, *running.descendants()]
    named = [pid for pid in family if b"hvdrun" in read_bytes(f"/proc/{pid}/{where}")]
    assert running.pid in named and running.helper("hvdrun-agent") in named
    # All are stopped first, so that none can react to the end of another.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in named:
            os.kill(pid, number)
    running.process.wait()
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


def test_a_job_under_nohup_survives_sighup(sandbox: Sandbox) -> None:
    running = sandbox.start(HVDRUN, "-np", 2, *crash(sandbox), tool="/usr/bin/nohup")
    waiting_ranks(sandbox, 2)
    running.signal(signal.SIGHUP)
    assert_still_running_after_earlier_signals(sandbox, running.pid)
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


def test_a_job_started_with_sigint_ignored_survives_sigint(sandbox: Sandbox) -> None:
    """A shell without job control starts background commands with SIGINT ignored."""
    running = sandbox.start("-c", 'trap "" INT; exec "$0" "$@"', HVDRUN, "-np", 2, *crash(sandbox), tool="/bin/sh")
    waiting_ranks(sandbox, 2)
    running.signal(signal.SIGINT)
    assert_still_running_after_earlier_signals(sandbox, running.pid)
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


def assert_still_running_after_earlier_signals(sandbox: Sandbox, pid: int) -> None:
    """Sends SIGQUIT and waits for its table: hvdrun has then handled all earlier signals."""
    before = len(error_text(sandbox))
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: "state\n" in error_text(sandbox)[before:], "the table of ranks")
    assert len(sandbox.ranks()) == 2


def error_text(sandbox: Sandbox) -> str:
    return "".join(path.read_text() for path in sandbox.files.glob("run*.err"))


# Options of env(1) with which hvdrun's parent ignores SIGCHLD, ignores all signals or blocks all signals.
PARENTS = ["--ignore-signal=CHLD", "--ignore-signal", "--block-signal"]
OF_LIBC = 3 << 31  # signals 32 and 33, which libc reserves
READ_SIGNALS = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]


@pytest.mark.parametrize("parent", PARENTS)
def test_a_job_ends_correctly_if_the_parent_ignores_or_blocks_signals(sandbox: Sandbox, parent: str) -> None:
    sandbox.run(parent, HVDRUN, "-np", 2, "sh", "-c", "exit 3", tool="/usr/bin/env").expect(3)
    assert not sandbox.leftovers()


@pytest.mark.parametrize("parent", PARENTS)
def test_ranks_do_not_inherit_ignored_or_blocked_signals(sandbox: Sandbox, parent: str) -> None:
    """hvdrun's parent or the ssh that starts an agent ignores or blocks the signals."""
    ssh = sandbox.files / "ssh"
    ssh.write_text(SSH.replace("exec", f"exec /usr/bin/env {parent}"))
    ssh.chmod(0o755)
    local = sandbox.run(parent, HVDRUN, "-np", 2, "--label", "none", *READ_SIGNALS, tool="/usr/bin/env").expect(0)
    remote = sandbox.run("--ssh-program", ssh, "-H", "one:1,two:1", "--label", "none", *READ_SIGNALS).expect(0)
    for done in (local, remote):
        masks = [int(line.split()[1], 16) & ~OF_LIBC for line in done.out_lines]
        assert masks == 4 * [0], done


def test_nothing_is_left_after_a_kill_of_hvdrun_with_sigchld_ignored(sandbox: Sandbox) -> None:
    running = sandbox.start("--ignore-signal=CHLD", HVDRUN, "-np", 2, *crash(sandbox), tool="/usr/bin/env")
    waiting_ranks(sandbox, 2)
    running.signal(signal.SIGKILL)
    running.process.wait()
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG, signal.SIGALRM, signal.SIGPWR, signal.SIGRTMIN + 5])
def test_user_signals_reach_every_rank(sandbox: Sandbox, number: signal.Signals) -> None:
    running = sandbox.start("-np", 3, "bash", "-c", f'trap "echo got it; exit 0" {int(number)}; echo ready;'
                                                  "while :; do sleep 0.01; done")
    wait_until(lambda: running.out.count(b"ready") == 3, "all ranks")
    running.signal(number)
    assert running.wait().expect(0).out.count(b"got it") == 3


# A training program and the wrappers that may start it.
TRAINER = """import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print("got it", flush=True) or os._exit(0))
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
if os.fork() == 0:
    while True: signal.pause()  # a worker, which inherits the handler
print("ready", flush=True)
signal.pause()
"""
WRAPPERS: dict[str, list[str]] = {
    "shell": ["sh", "-c", "/usr/bin/python3 train.py; exit $?"],
    "python": ["/usr/bin/python3", "-c", "import subprocess as s; exit(s.run(['/usr/bin/python3', 'train.py']).returncode)"],
    "timeout in a shell": ["bash", "-c", "timeout 1000 /usr/bin/python3 train.py; exit $?"],
    "blocking python": ["/usr/bin/python3", "-c", "import signal as g, subprocess as s; g.pthread_sigmask(g.SIG_BLOCK, {g.SIGUSR1}); "
                        "exit(s.run(['/usr/bin/python3', 'train.py']).returncode)"],
    "ignoring shell": ["sh", "-c", "trap '' USR1; /usr/bin/python3 train.py; exit $?"],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_user_signals_reach_the_training_program_below_a_wrapper(sandbox: Sandbox, wrapper: str) -> None:
    (sandbox.files / "train.py").write_text(TRAINER)
    running = sandbox.start("-np", 2, *WRAPPERS[wrapper])
    wait_until(lambda: running.out.count(b"ready") == 2, "both training programs to start")
    running.signal(signal.SIGUSR1)
    assert running.wait().expect(0).out.count(b"got it") == 2  # workers got no signal


def test_a_user_signal_without_a_handler_ends_the_rank(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 1, "sh", "-c", "echo ready; sleep 1000; exit $?")
    running.wait_for(b"ready")
    running.signal(signal.SIGUSR1)
    text = running.wait().expect(128 + signal.SIGUSR1).err_text
    assert "SIGUSR1 ends a program that does not handle it; hvdrun passes on to the ranks each one that it gets" in text


def test_a_job_with_requeue_says_which_signal_ended_its_program(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--max-requeues", 1, "sh", "-c", "echo ready; exec sleep 1000")
    wait_until(lambda: running.out.count(b"ready") == 2, "both ranks")
    running.signal(signal.SIGUSR1)
    text = running.wait().expect(128 + signal.SIGUSR1).err_text
    assert "SIGUSR1 is SLURM's warning before the time limit, which --requeue asks for, and the program does not handle it" in text


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_job_ends_if_its_output_is_not_read(sandbox: Sandbox, number: signal.Signals) -> None:
    reader, writer = os.pipe()
    running = sandbox.start("-np", 2, "yes", stdout=writer)
    os.close(writer)
    wait_until(lambda: struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0] > 32768, "a pipe that fills")
    running.signal(number)
    done = running.wait().expect(128 + number)
    os.close(reader)
    lost = r"[0-9,]+ bytes of output were dropped, because the job was stopped and the reader did not take them in time"
    assert re.search(lost, done.err_text)
    assert any(re.fullmatch(lost, note) for note in done.report["notes"]), done.report["notes"]


@pytest.mark.core
def test_sigquit_prints_a_table_of_ranks_and_the_job_continues(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 3, *crash(sandbox))
    pids = waiting_ranks(sandbox, 3)
    running.signal(signal.SIGQUIT)
    for rank, pid in sandbox.lines_of("ready"):
        line = re.compile(rf"^hvdrun: +{rank} .* {pid} .*(sleeping|running)".encode(), re.MULTILINE)
        wait_until(lambda: line.search(running.err), f"a line on rank {rank}")
    assert all(alive(pid) for pid in pids)
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


@pytest.mark.core
def test_sigtstp_stops_the_ranks_and_sigcont_continues_them(sandbox: Sandbox) -> None:
    """The agent does not treat a stopped launcher as dead."""
    running = sandbox.start("-np", 2, *crash(sandbox, "--exit", "5"), start_new_session=True)
    pids = waiting_ranks(sandbox, 2)
    running.signal(signal.SIGTSTP)
    wait_until(lambda: all(process_state(pid) == "T" for pid in [running.pid, *pids]), "launcher and ranks stopped")
    (sandbox.files / "go").touch()
    running.signal(signal.SIGCONT)
    running.wait().expect(5)


def test_sigcont_of_hvdrun_does_not_continue_a_rank_that_was_stopped_alone(sandbox: Sandbox) -> None:
    """timeout(1) sends SIGTERM and SIGCONT. The verdict on a hang then sees the rank."""
    running = sandbox.start("-np", 2, "--grace", "200ms", *crash(sandbox))
    pids = waiting_ranks(sandbox, 2)
    os.kill(pids[1], signal.SIGSTOP)
    running.signal(signal.SIGCONT)
    running.signal(signal.SIGQUIT)
    running.wait_for(b"stopped by a signal", "err")
    assert process_state(pids[1]) == "T"
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


@pytest.mark.parametrize("words", [(), ("--foreground",)], ids=["group", "process"])
def test_ranks_get_their_grace_from_timeout(words: tuple[str, ...], sandbox: Sandbox) -> None:
    """timeout(1) sends SIGTERM to its program, and at once to the whole group."""
    running = sandbox.start(*words, 1000, HVDRUN, "-np", 2, "--grace", "60", "sh", "-c",
                            'trap "sleep 0.2; echo got it; exit 0" TERM; echo ready; while :; do sleep 0.01; done', tool="timeout")
    wait_until(lambda: running.out.count(b"ready") == 2, "both ranks")
    running.signal(signal.SIGTERM)  # passes it on as at its end
    done = running.wait()
    assert done.out.count(b"got it") == 2, done


def test_sigterm_ends_a_stopped_job_once_it_continues(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, *crash(sandbox))
    pids = waiting_ranks(sandbox, 2)
    running.signal(signal.SIGTSTP)
    wait_until(lambda: all(process_state(pid) == "T" for pid in [running.pid, *pids]), "launcher and ranks stopped")
    running.signal(signal.SIGTERM)
    running.signal(signal.SIGCONT)
    running.wait().expect(143)


def test_ranks_get_their_grace_if_all_processes_of_a_job_get_sigterm(sandbox: Sandbox) -> None:
    """SLURM and systemd send SIGTERM to all processes. Here hvdrun gets it last."""
    running = sandbox.start("-np", 2, "--grace", "1000", "sh", "-c",
                            'trap "echo got it; exit 0" TERM; echo ready; while :; do sleep 0.01; done')
    wait_until(lambda: running.out.count(b"ready") == 2, "both ranks")
    os.kill(running.pid, signal.SIGSTOP)
    agent = running.helper("hvdrun-agent")
    for pid in [running.helper("hvd-guard"), agent]:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: pending_signals(agent) == 0, "the agent to take the signal")
    running.signal(signal.SIGTERM)
    running.signal(signal.SIGCONT)
    done = running.wait().expect(143)
    assert done.out.count(b"got it") == 2 and "the agent" not in done.err_text, done


def pending_signals(pid: int) -> int:
    return int(re.search(rb"ShdPnd:\t(\w+)", read_bytes(f"/proc/{pid}/status"))[1], 16)


def test_ctrl_z_in_a_shell_stops_the_ranks_and_fg_continues_them(sandbox: Sandbox) -> None:
    words = sandbox.command(["bash", "--norc", "--noprofile", "-i"])
    shell = pexpect.spawn(words[0], words[1:], env={**sandbox.environment(), "PS1": "$ "}, cwd=str(sandbox.files),
                          timeout=TIME_LIMIT)
    shell.sendline(shlex.join(str(word) for word in [HVDRUN, "-np", 2, *crash(sandbox, "--exit", "5")]))
    pids = waiting_ranks(sandbox, 2)
    shell.sendcontrol("z")
    shell.expect("Stopped")
    wait_until(lambda: all(process_state(pid) == "T" for pid in pids), "ranks stopped")
    (sandbox.files / "go").touch()
    shell.sendline("fg")
    shell.sendline("echo code=$?")
    shell.expect(r"code=(\d+)")
    assert shell.match[1] == b"5"
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()


def test_the_status_line_shows_the_progress_of_a_slow_start(sandbox: Sandbox) -> None:
    ssh = sandbox.files / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    os.mkfifo(sandbox.files / "gate")
    child = terminal(sandbox, "--ssh-program", ssh, "-H", "early:2,late:1", "--label", "none", "echo", "trained")
    child.expect_exact("starting: 1 of 2 hosts reached · 1 agent up · 0 ranks started".encode())
    (sandbox.files / "gate").write_text("open\n")
    child.expect_exact("\r\x1b[K\x1b[J" + "trained")
    assert "starting" not in child.read().decode().rpartition("\x1b[J")[2]
    child.close()
    assert child.exitstatus == 0


# ---- a process that is stopped for a while is not a failure

def test_ranks_that_finalize_while_the_agent_is_stopped_succeed(sandbox: Sandbox) -> None:
    """PMIx_Finalize waits only briefly for its server."""
    running = sandbox.start("-np", 2, "--stall-check-warning-time-seconds", "0.1", program("latecomer"),
                            "--until", sandbox.files / "go")
    running.wait_for(b"has waited", "err")
    agent = running.helper("hvdrun-agent")
    os.kill(agent, signal.SIGSTOP)
    pids = sandbox.ranks().values()
    (sandbox.files / "go").touch()
    wait_until(lambda: all(process_state(pid) == "Z" for pid in pids), "both ranks to end")
    os.kill(agent, signal.SIGCONT)
    running.wait().expect(0)


def stop_agent(sandbox: Sandbox, running: Running) -> int:
    """Stops the agent of two ranks and waits until hvdrun reports it."""
    waiting_ranks(sandbox, 2)
    agent = running.helper("hvdrun-agent")
    os.kill(agent, signal.SIGSTOP)
    running.wait_for(b"the agent has not answered for 1 s; waiting for it", "err")
    return agent


def test_a_stopped_agent_is_reported_and_the_job_continues_with_it(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--host-timeout", 1, *crash(sandbox, "--exit", "5"))
    os.kill(stop_agent(sandbox, running), signal.SIGCONT)
    running.wait_for(b"the agent answers again", "err")
    (sandbox.files / "go").touch()
    running.wait().expect(5)


def test_sigterm_ends_a_job_whose_agent_is_stopped(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--host-timeout", 1, *crash(sandbox))
    stop_agent(sandbox, running)
    running.signal(signal.SIGTERM)
    done = running.wait().expect(143)
    assert "is killed" not in done.err_text, done


@pytest.mark.parametrize("seconds", [1, 8, 30] if SOAK else [0.5])
@pytest.mark.parametrize("victim", ["hvdrun", "hvd-guard", "hvdrun-agent", "a rank"])
def test_a_job_survives_a_pause_of_one_process(sandbox: Sandbox, victim: str, seconds: float) -> None:
    running = sandbox.start("-np", 2, "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; echo complete")
    wait_until(lambda: running.out.count(b"up") == 2, "both ranks to start")
    pid = {"hvdrun": lambda: running.pid, "a rank": lambda: sandbox.ranks()[1]}.get(victim, lambda: running.helper(victim))()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)  # gives a wrong reaction to the pause time to happen
    (sandbox.files / "go").touch()
    if victim != "hvd-guard":  # the agent continues the guard when it ends
        os.kill(pid, signal.SIGCONT)
    done = running.wait().expect(0)
    assert done.out.count(b"complete") == 2, done
