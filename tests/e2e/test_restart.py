"""--max-restarts starts a failed job again as a whole, but not one that the user has ended."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import (HVDRUN_WORD, SOAK, Done, Running, Sandbox, alive, all_pids, blocks_in, hanging_ssh, parent_of, process_state,
                     program, read_bytes, wait_until)

# Each rank appends "RANK PID ATTEMPT" to a file in each attempt.
READY = 'echo "$HVD_RANK $$ $HVD_RESTART_COUNT" >> ready; '
WAIT = "while :; do sleep 0.01; done"


def attempts(sandbox: Sandbox) -> list[int]:
    """Returns the attempts in which ranks have started."""
    return sorted({int(words[2]) for words in sandbox.lines_of("ready")})


def ranks_of(sandbox: Sandbox, attempt: int, count: int) -> dict[int, int]:
    """Waits until all ranks of an attempt have started; returns their pids."""
    def found() -> dict[int, int]:
        return {int(rank): int(pid) for rank, pid, number in sandbox.lines_of("ready") if int(number) == attempt}

    wait_until(lambda: len(found()) == count, f"{count} ranks in attempt {attempt}")
    return found()


def codes(done: Done) -> list[int]:
    return [attempt["exit_code"] for attempt in done.report["attempts"]]


# ---- the number of attempts

FAILS_TWICE = READY + 'if [ "$HVD_RANK" = 1 ] && [ "$HVD_RESTART_COUNT" -lt 2 ]; then echo "trouble $HVD_RESTART_COUNT" >&2; exit 3; fi'


@pytest.mark.core
def test_a_job_that_fails_twice_succeeds_in_its_third_attempt(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--max-restarts", 2, "sh", "-c", FAILS_TWICE).expect(0)
    assert attempts(sandbox) == [0, 1, 2] and codes(done) == [3, 3, 0]
    for number in (1, 2):
        line = next(line for line in done.err_text.splitlines() if f"restart {number} of 2" in line)
        assert line.startswith("hvdrun: warning: rank 1 on ") and "exit code 3" in line
    assert "3 ranks succeeded" in done.err_text and "with 2 restarts" in done.err_text
    assert [attempt["failed_rank"] and attempt["failed_rank"]["last_stderr"] for attempt in done.report["attempts"]] == \
        [["trouble 0"], ["trouble 1"], None]
    assert done.report["reason"] == "" and done.report["first_failure"] is None


def test_max_restarts_limits_the_number_of_restarts(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--max-restarts", 1, "sh", "-c", FAILS_TWICE).expect(3)
    assert attempts(sandbox) == [0, 1] and codes(done) == [3, 3]
    assert done.report["first_failure"] == 1 and done.report["ranks"][1]["last_stderr"] == ["trouble 1"]
    assert "restart 1 of 1" in done.err_text and "with 1 restart;" in done.err_text
    assert "first start: rank 1 on " in done.err_text, "the final report lacks the reason of the first attempt's failure"


def test_without_max_restarts_a_failed_job_is_not_restarted(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "sh", "-c", FAILS_TWICE).expect(3)
    assert attempts(sandbox) == [0] and codes(done) == [3]
    assert "restart" not in done.err_text


def test_attempts_share_the_job_id_and_have_different_keys(sandbox: Sandbox) -> None:
    sandbox.run("-np", 1, "--max-restarts", 2, "sh", "-c", 'echo "$HVD_JOB_ID $HVD_JOB_KEY" >> jobs; exit 7').expect(7)
    assert len({job for job, _ in sandbox.lines_of("jobs")}) == 1
    assert len({key for _, key in sandbox.lines_of("jobs")}) == len(sandbox.lines_of("jobs")) == 3


@pytest.mark.core
def test_each_attempt_has_its_own_pmix_server(sandbox: Sandbox) -> None:
    client = f'[ "$HVD_RESTART_COUNT" = 2 ] && exec "{program("pmix_client")}"; "{program("pmix_client")}"; exit 9'
    done = sandbox.run("-np", 3, "--max-restarts", 2, "--pmix", "on", "sh", "-c", client).expect(0)
    assert codes(done) == [9, 9, 0]


# ---- failures after which hvdrun restarts the job, and nothing is left of the attempt before

def kill_rank(running: Running, ranks: dict[int, int]) -> None:
    os.kill(ranks[1], signal.SIGKILL)


def kill_helper(name: str) -> Callable[[Running, dict[int, int]], None]:
    return lambda running, ranks: os.kill(running.helper(name), signal.SIGKILL)


def kill_both_helpers(running: Running, ranks: dict[int, int]) -> None:
    guard, agent = running.helper("hvd-guard"), running.helper("hvdrun-agent")
    os.kill(guard, signal.SIGSTOP)  # so that it cannot clean up first
    os.kill(agent, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)


VICTIMS = {
    "a rank": (kill_rank, 137),
    "the agent": (kill_helper("hvdrun-agent"), 125),
    "the guard": (kill_helper("hvd-guard"), 125),
    "agent and guard": (kill_both_helpers, 125),
}


@pytest.mark.core
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_job_is_restarted_after_a_kill_of_rank_agent_or_guard(sandbox: Sandbox, victim: str) -> None:
    kill, code = VICTIMS[victim]
    running = sandbox.start(
        "-np", 2, "--max-restarts", 1, "--grace", "0.3", program("spawner"), "--pids", sandbox.files / "pids",
        "--children", 1, "--setsid", 1, "--daemons", 1, "--ignore-term", "--", "sh", "-c",
        READY + f'[ "$HVD_RESTART_COUNT" = 0 ] && {WAIT}; until [ -e go ]; do sleep 0.01; done')
    ranks = ranks_of(sandbox, 0, 2)
    wait_until(lambda: len(sandbox.lines_of("pids")) == 6, "all children of ranks")
    strays = [int(pid) for _, pid in sandbox.lines_of("pids")]
    kill(running, ranks)
    ranks_of(sandbox, 1, 2)
    assert not [pid for pid in [*ranks.values(), *strays] if alive(pid)], "a process of the first attempt runs in the second"
    assert [pid for pid in all_pids() if parent_of(pid) == running.pid] == [running.helper("hvd-guard")]
    (sandbox.files / "go").touch()
    done = running.wait().expect(0)
    assert codes(done) == [code, 0]


def test_a_job_is_restarted_after_pmix_abort(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--max-restarts", 1, "--pmix", "on", "sh", "-c",
                       f'[ "$HVD_RESTART_COUNT" = 1 ] && exit 0; exec "{program("pmix_client")}" --abort 1').expect(0)
    assert codes(done) == [7, 0] and "Abort with code 7" in done.err_text


def test_a_job_is_restarted_after_its_start_timeout(sandbox: Sandbox) -> None:
    hosts = ("--ssh-program", hanging_ssh(sandbox.files), "-H", "late:1")
    done = sandbox.run(*hosts, "--start-timeout", "200ms", "--max-restarts", 1, "sleep", "1000").expect(124)
    assert codes(done) == [124, 124] and "(--start-timeout); restart 1 of 1" in done.err_text


@pytest.mark.core
def test_many_restarts_leak_no_descriptor_thread_or_child(sandbox: Sandbox) -> None:
    """Each attempt records the numbers of hvdrun's descriptors, threads and children (zombies too) and of its agent's descriptors.

    A number may be too high for a moment. What an attempt leaks raises the minimum of the later ones."""
    restarts = 200 if SOAK else 20
    parent = "awk '{print $4}' /proc/%s/stat"
    done = sandbox.run("-np", 1, "--max-restarts", restarts, "sh", "-c",
                       f'guard=$({parent % "$PPID"}); hvdrun=$({parent % "$guard"}); '
                       'echo $(ls /proc/$hvdrun/fd | wc -l) $(ls /proc/$hvdrun/task | wc -l) '
                       '$(grep -s "^PPid:.$hvdrun$" /proc/[0-9]*/status | wc -l) $(ls /proc/$PPID/fd | wc -l) >> open; '
                       'exit 6').expect(6)
    assert codes(done) == [6] * (restarts + 1)
    samples = [tuple(map(int, words)) for words in sandbox.lines_of("open")]
    assert len(samples) == restarts + 1
    # hvdrun opens its socket for other commands a moment after its start.
    least_first, least_last = ([min(column) for column in zip(*part)] for part in (samples[len(samples) // 3:-7], samples[-7:]))
    assert least_first == least_last, samples
    assert least_last[2] == 1, f"hvdrun has other children than its guard: {samples}"


# ---- failures after which hvdrun does not restart the job

def test_a_missing_program_is_not_restarted(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--max-restarts", 3, "no-such-program")
    assert done.code == 127 and "restart" not in done.err_text


def test_a_program_that_cannot_be_executed_is_not_restarted(sandbox: Sandbox) -> None:
    script = sandbox.files / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = sandbox.run("-np", 2, "--max-restarts", 3, script)
    assert done.code in (126, 127) and len(codes(done)) == 1 and "restart" not in done.err_text


def test_a_job_is_not_restarted_after_exit_timeout(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--max-restarts", 3, "--grace", "0.3", "--exit-timeout", "0.2", "sh", "-c",
                       READY + f'[ "$HVD_RANK" = 1 ] && exit 0; {WAIT}').expect(124)
    assert attempts(sandbox) == [0] and "restart" not in done.err_text


def test_a_job_is_not_restarted_after_its_stdout_was_closed(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    running = sandbox.start("-np", 2, "--max-restarts", 3, "--grace", "0.3", "sh", "-c", READY + "echo words; " + WAIT,
                            stdout=write_end)
    os.close(write_end)
    running.wait().expect(128 + signal.SIGPIPE)
    assert attempts(sandbox) == [0]


def test_a_job_is_not_restarted_after_an_output_error(sandbox: Sandbox) -> None:
    with open("/dev/full", "wb") as full:
        sandbox.start("-np", 2, "--max-restarts", 3, "--grace", "0.3", "--on-output-error", "stop", "sh", "-c",
                      READY + "echo words; " + WAIT, stdout=full).wait().expect(125)
    assert attempts(sandbox) == [0]


# ---- signals

@pytest.mark.core
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_later_attempt_ends_the_job(sandbox: Sandbox, number: signal.Signals, code: int) -> None:
    running = sandbox.start("-np", 2, "--max-restarts", 5, "--grace", "0.3", "sh", "-c",
                            READY + f'[ "$HVD_RESTART_COUNT" = 0 ] && exit 3; {WAIT}')
    ranks_of(sandbox, 1, 2)
    running.signal(number)
    done = running.wait().expect(code)
    assert attempts(sandbox) == [0, 1] and codes(done) == [3, code]


def stopping(sandbox: Sandbox) -> Running:
    """Starts a job whose rank 1 has failed, whose rank 0 ignores SIGTERM and whose grace period is very long."""
    running = sandbox.start("-np", 2, "--max-restarts", 5, "--grace", "1000", "sh", "-c",
                            f'trap "touch got_sigterm" TERM; {READY} [ "$HVD_RANK" = 1 ] || {WAIT};'
                            "until [ $(wc -l < ready) = 2 ]; do sleep 0.01; done; exit 3")
    wait_until(lambda: (sandbox.files / "got_sigterm").exists(), "SIGTERM in rank 0")
    return running


def test_ctrl_c_while_a_failed_attempt_is_stopped_ends_the_job(sandbox: Sandbox) -> None:
    running = stopping(sandbox)
    running.signal(signal.SIGINT)
    running.wait_for(b"the ranks are being stopped with SIGTERM, after 1000 s with SIGKILL; Ctrl-C once more: SIGKILL now", "err")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert attempts(sandbox) == [0] and codes(done) == [3]
    assert done.report["not_restarted"] == "interrupted" and "not started again: interrupted" in done.err_text
    assert "rank 1 on " in done.err_text and done.report["first_failure"] == 1


def test_a_third_ctrl_c_in_a_later_attempt_kills_and_the_report_has_all_attempts(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--max-restarts", 5, "--grace", "1000", "sh", "-c",
                            f'trap "" INT TERM; {READY} [ "$HVD_RESTART_COUNT" = 0 ] && exit 3; {WAIT}')
    ranks_of(sandbox, 1, 2)
    for signal_sent_next in (b"once more: SIGTERM", b"once more: SIGKILL"):
        running.signal(signal.SIGINT)
        running.wait_for(signal_sent_next, "err")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert "with 1 restart: interrupted; exit code 130\n" in done.err_text and "first start: rank " in done.err_text


# Constants of <sys/ptrace.h> and <sys/wait.h>.
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_FOR_ANY_THREAD = 0x40000000


def trace(request: int, pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of process {pid}")


class Between:
    """A job whose agent was killed and whose guard cannot end: hvdrun waits between two attempts.

    hvdrun sends SIGCONT to its guard, so the guard is held by ptrace(2) and not by SIGSTOP."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.running = sandbox.start("-np", 2, "--max-restarts", 1, "sh", "-c",
                                     READY + f'[ "$HVD_RESTART_COUNT" = 1 ] || {WAIT}')
        ranks_of(sandbox, 0, 2)
        self.guard = self.running.helper("hvd-guard")
        trace(PTRACE_SEIZE, self.guard)
        trace(PTRACE_INTERRUPT, self.guard)
        os.waitpid(self.guard, WAIT_FOR_ANY_THREAD)
        os.kill(self.running.helper("hvdrun-agent"), signal.SIGKILL)
        wait_until(self.is_waited_for, "hvdrun to wait for the guard")

    def is_waited_for(self) -> bool:
        """Returns whether hvdrun has a pidfd: it opens one only to wait for its guard's end."""
        folder = Path(f"/proc/{self.running.pid}/fd")
        return any(os.path.basename(os.path.realpath(file)).endswith("[pidfd]") for file in folder.iterdir())

    def let_go(self) -> None:
        trace(PTRACE_DETACH, self.guard)


@pytest.mark.core
def test_ctrl_c_between_two_attempts_ends_the_job(sandbox: Sandbox) -> None:
    between = Between(sandbox)
    between.running.signal(signal.SIGINT)
    between.let_go()
    done = between.running.wait().expect(130)
    assert attempts(sandbox) == [0] and codes(done) == [125]
    assert done.report["not_restarted"] == "interrupted"


def test_sigtstp_between_two_attempts_stops_hvdrun(sandbox: Sandbox) -> None:
    between = Between(sandbox)
    between.running.signal(signal.SIGTSTP)
    between.let_go()
    wait_until(lambda: process_state(between.running.pid) == "T", "hvdrun stopped")
    assert attempts(sandbox) == [0]
    between.running.signal(signal.SIGCONT)
    between.running.wait().expect(0)
    assert attempts(sandbox) == [0, 1]


def test_hvdrun_reports_a_user_signal_between_two_attempts_as_not_delivered(sandbox: Sandbox) -> None:
    between = Between(sandbox)
    between.running.signal(signal.SIGUSR1)
    between.let_go()
    assert "SIGUSR1 came while no rank ran" in between.running.wait().expect(0).err_text


@pytest.mark.core
def test_job_control_works_in_a_later_attempt(sandbox: Sandbox) -> None:
    # The ranks wait without commands: a shell whose child is stopped between vfork and exec is in state D, not T.
    os.mkfifo(sandbox.files / "never")
    running = sandbox.start("-np", 2, "--max-restarts", 1, "sh", "-c",
                            f'trap "echo got it; exit 0" USR1; {READY} [ "$HVD_RESTART_COUNT" = 0 ] && exit 3; '
                            'read -r _ <> never',
                            start_new_session=True)
    pids = ranks_of(sandbox, 1, 2).values()
    # dash runs a trap between commands or when the signal interrupts read(2), but not if it comes just before read(2).
    wait_until(lambda: all(blocks_in(pid, "read") for pid in pids), "ranks to block in read(2)")
    running.signal(signal.SIGTSTP)
    wait_until(lambda: all(process_state(pid) == "T" for pid in [running.pid, *pids]), "launcher and ranks stopped")
    running.signal(signal.SIGCONT)
    running.signal(signal.SIGQUIT)
    for pid in pids:
        wait_until(lambda pid=pid: f" {pid} ".encode() in running.err, "the table of ranks")
    running.signal(signal.SIGUSR1)
    assert running.wait().expect(0).out.count(b"got it") == 2


def test_nothing_is_left_after_hvdrun_is_killed_in_a_later_attempt(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--max-restarts", 5, "--grace", "0.3", "sh", "-c",
                            READY + f'[ "$HVD_RESTART_COUNT" = 0 ] && exit 3; {WAIT}')
    ranks_of(sandbox, 1, 2)
    running.signal(signal.SIGKILL)
    running.process.wait()
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


# ---- output and input of several attempts

def test_output_files_have_the_lines_of_all_attempts(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--max-restarts", 2, "--output-filename", "logs", "sh", "-c",
                       'echo "out $HVD_RESTART_COUNT"; echo "err $HVD_RESTART_COUNT" >&2; '
                       'touch said.$HVD_RESTART_COUNT.$HVD_RANK; '
                       'until [ $(ls said.$HVD_RESTART_COUNT.* | wc -l) = 2 ]; do sleep 0.01; done; exit 4').expect(4)
    for rank in (0, 1):
        folder = sandbox.files / f"logs/rank.000{rank}"
        assert (folder / "stdout").read_text() == "out 0\nout 1\nout 2\n"
        assert (folder / "stderr").read_text() == "err 0\nerr 1\nerr 2\n"
        assert [line for line in done.out_lines if line.startswith(f"[{rank}]")] == [f"[{rank}] out {n}" for n in range(3)]
    blamed = done.report["first_failure"]
    assert done.report["ranks"][blamed]["last_stderr"] == ["err 2"], "the report's lines are not of the last attempt"


def test_a_partial_line_ends_with_its_attempt(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 1, "--label", "rank", "--output-filename", "logs", "--max-restarts", 1, "sh", "-c",
                            f'printf "try $HVD_RESTART_COUNT"; {READY} [ "$HVD_RESTART_COUNT" = 1 ] || {WAIT}')
    wait_until(lambda: read_bytes(sandbox.files / "logs/rank.0000/stdout") == b"try 0", "the beginning of a line")
    os.kill(running.helper("hvdrun-agent"), signal.SIGKILL)
    assert running.wait().expect(0).out_lines == ["[0] try 0", "[0] try 1"]


# Rank 1 fails in the first attempt once both ranks have read.
FROM_THE_START = ("cat > got.$HVD_RESTART_COUNT.$HVD_RANK; touch read.$HVD_RESTART_COUNT.$HVD_RANK; "
                  "[ $HVD_RANK$HVD_RESTART_COUNT = 10 ] || exit 0; until [ -e read.0.0 ]; do sleep 0.01; done; exit 3")


@pytest.mark.parametrize("to", ["0", "all"])
def test_a_later_attempt_reads_stdin_from_its_beginning(sandbox: Sandbox, to: str) -> None:
    """Tries a file and a pipe, which hvdrun cannot read twice."""
    data = b"x" * 200_000 + b"\n"
    (sandbox.files / "data").write_bytes(data)
    for source in ("{} < data", "cat data | {}"):
        for path in sandbox.files.glob("read.*"):
            path.unlink()
        command = f"{HVDRUN_WORD} -np 2 --stdin {to} --max-restarts 1 sh -c '{FROM_THE_START}'"
        sandbox.run("-c", source.format(command), tool="bash").expect(0)
        for attempt in range(2):
            for rank in range(2):
                expected = data if to == "all" or rank == 0 else b""
                assert (sandbox.files / f"got.{attempt}.{rank}").read_bytes() == expected, (source, attempt, rank)


def test_a_warning_says_that_a_later_attempt_gets_only_the_rest_of_a_large_pipe(sandbox: Sandbox) -> None:
    command = f"head -c 20000000 /dev/zero | {HVDRUN_WORD} -np 1 --max-restarts 1 sh -c '{FROM_THE_START.replace('= 10', '= 00')}'"
    done = sandbox.run("-c", command, tool="bash").expect(0)
    assert "warning: the restarted ranks get only the rest of the input: more than 16 MiB came through a pipe" in done.err_text
    assert (sandbox.files / "got.1.0").read_bytes() == b""


def test_typed_lines_reach_a_later_attempt(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, "--max-restarts", 1, "sh", "-c",
                            'read -r line; [ "$HVD_RANK" = 1 ] || echo "try $HVD_RESTART_COUNT got $line"; '
                            f'[ "$HVD_RANK" = 1 ] && {WAIT}; [ "$HVD_RESTART_COUNT" = 1 ] || exit 3; read -r line; echo "then $line"; kill $$',
                            stdin=read_end)
    os.close(read_end)
    os.write(write_end, b"one\n")
    running.wait_for(b"try 1 got one\n")
    os.write(write_end, b"two\n")
    running.wait_for(b"then two\n")
    os.close(write_end)
    running.wait().expect(128 + signal.SIGTERM)
