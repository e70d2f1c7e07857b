"""--tty for a rank on another host, over ssh and under srun."""

from __future__ import annotations

import pexpect
import pytest

from harness import PYTHON
from settings import TIME_LIMIT_S
from test_ssh import HVDRUN, Jobs, jobs  # noqa: F401

PROGRAM = """if True:
    import os, socket, time
    if os.environ["RANK"] == "1":
        loss, over = 0.25, False
        breakpoint()
        print("waits", flush=True)
        while not over: time.sleep(0.01)  # not pause(): Ctrl-C might come before it
"""


def terminal(jobs: Jobs, *words: object) -> pexpect.spawn:  # noqa: F811
    plain = jobs.cluster.command(words, tty=True)
    return pexpect.spawn(plain[0], plain[1:], timeout=TIME_LIMIT_S, dimensions=(30, 100))


def check_debugging(child: pexpect.spawn) -> None:
    """Checks pdb in rank 1: its history, a resize of the terminal, and Ctrl-C, which interrupts only that rank."""
    child.expect_exact("(Pdb) ")
    child.send("p loss * 2\r")
    child.expect_exact("0.5\r\n(Pdb) ")
    child.send("\x1b[A")
    child.expect_exact("p loss * 2")
    child.send("\r")
    child.expect_exact("0.5\r\n(Pdb) ")
    child.setwinsize(40, 70)
    child.send("while os.get_terminal_size().columns != 70: time.sleep(0.01)\r")
    child.expect_exact("(Pdb) ")
    child.send("c\r")
    child.expect_exact("waits")
    child.sendintr()
    child.expect_exact("Program interrupted")
    child.expect_exact("(Pdb) ")
    child.send("socket.gethostname()\r")
    child.expect_exact("'n2'\r\n(Pdb) ")
    child.send("over = True\r")
    child.expect_exact("(Pdb) ")
    child.send("c\r")
    child.expect_exact("2 ranks succeeded")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.gate
@pytest.mark.parametrize("client", ["libssh", "openssh"])
def test_a_rank_on_another_host_over_ssh_has_the_terminal(jobs: Jobs, client: str) -> None:  # noqa: F811
    check_debugging(terminal(jobs, HVDRUN, "--ssh-client", client, "-H", "n1:1,n2:1", "--tty", 1, PYTHON, "-c", PROGRAM))


def test_a_rank_on_another_host_under_srun_has_the_terminal(jobs: Jobs) -> None:  # noqa: F811
    check_debugging(terminal(jobs, "salloc", "-Q", "-N2", "--ntasks-per-node=1", HVDRUN, "--tty", 1, PYTHON, "-c", PROGRAM))


def test_nothing_is_left_after_the_terminal_of_a_tty_job_closes(jobs: Jobs) -> None:  # noqa: F811
    """The fixture `jobs` checks all hosts."""
    child = terminal(jobs, HVDRUN, "-H", "n1:1,n2:1", "--tty", 1, "sh", "-c", "echo up; exec sleep 7777")
    child.expect_exact("up")
    jobs.wait_for_ranks("n2", 1)
    child.ptyproc.fileobj.close()
    child.closed = child.ptyproc.closed = True
