"""The status line on a real terminal (tmux), and its numbers in the report."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import BUILD, HVDRUN, PYTHON, TOP, Sandbox, program, wait_until
from terminal import Terminal

LINE = re.compile(r"epoch 3/20 · step [\d,]+/9,380 · [\d,.]+ samples/s · loss 0\.12( · \d+ % waiting)? · \d+:\d\d left")
SHORT = re.compile(r"epoch 3/20 · step [\d,]+/9,380")

# Replaces ssh: runs the agent on this machine.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
exec /bin/sh -c "$*"
"""


@pytest.fixture
def terminal(sandbox: Sandbox) -> Iterator[Terminal]:
    place = Terminal(sandbox)
    yield place
    place.close()


def trainer(sandbox: Sandbox, *options: object) -> list[object]:
    return [program("trainer"), "--until", sandbox.files / "go", "--ready", sandbox.files / "ready", *options]


def hosts(sandbox: Sandbox, count: int) -> list[object]:
    if count == 1:
        return ["-np", 2]
    ssh = sandbox.files / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    return ["--ssh-program", ssh, "-H", "first:1,second:1"]


def status_rows(rows: list[str]) -> list[str]:
    return [row for row in rows if "·" in row or "samples/s ·" in row]


@pytest.mark.core
@pytest.mark.parametrize("count", [1, 2])
def test_the_status_line_is_below_all_output_and_is_erased_at_the_end(sandbox: Sandbox, terminal: Terminal, count: int) -> None:
    terminal.start(*hosts(sandbox, count), *trainer(sandbox, "--lines", 100))
    terminal.wait_for(LINE)
    wait_until(lambda: "[0] line 99" in terminal.screen(), "all lines")
    terminal.wait_for(LINE)
    assert len(status_rows(terminal.screen("-S-"))) == 1
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)
    rows = terminal.screen("-S-")
    assert not status_rows(rows), rows
    assert [row for row in rows if row.startswith("[0] line")] == [f"[0] line {number}" for number in range(100)]
    training, = (row for row in rows if "training: " in row)
    fields = re.search(r"training: epoch 3/20, step ([\d,]+)/9,380, [\d,.]+ samples/s, loss 0\.12, \d+ % waiting", training)
    assert fields, training
    progress = json.loads((sandbox.files / "report").read_text())["progress"]
    assert progress["epoch"] == 2 and progress["epochs"] == 20 and progress["steps"] == 9380
    assert progress["step"] == int(fields[1].replace(",", "")) > 1204
    assert progress["loss"] == 0.12 and progress["samples_per_second"] > 0 and 0 <= progress["waiting_percent"] <= 100


def test_the_status_line_fits_the_terminal_after_each_resize(sandbox: Sandbox, terminal: Terminal) -> None:
    """The screen is full: otherwise tmux moves rows to its history at each resize, and hvdrun cannot erase them there."""
    terminal.start("-np", 2, *trainer(sandbox, "--lines", 60))
    wait_until(lambda: "[0] line 59" in terminal.screen(), "all lines")
    terminal.wait_for(LINE)
    for _ in range(2):
        terminal.resize(40)
        terminal.wait_for(SHORT)
        assert len(status_rows(terminal.screen("-S-"))) == 1, "a part of the wider line is left"
        terminal.resize(100)
        terminal.wait_for(LINE)
        assert len(status_rows(terminal.screen("-S-"))) == 1
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)
    assert not status_rows(terminal.screen("-S-"))


@pytest.mark.parametrize("cause", ["Ctrl-C", "TERM", "rank", "agent"])
def test_the_status_line_is_erased_however_the_job_ends(sandbox: Sandbox, terminal: Terminal, cause: str) -> None:
    terminal.start("-np", 2, *trainer(sandbox))
    terminal.wait_for(LINE)
    rank = sandbox.ranks()[1]
    agent = next(pid for pid in sandbox.processes() if Path(f"/proc/{pid}/comm").read_text() == "hvdrun-agent\n")
    if cause == "Ctrl-C":
        terminal.type("C-c")
    elif cause == "TERM":
        os.kill(pid_of_hvdrun(sandbox), signal.SIGTERM)
    else:
        os.kill(rank if cause == "rank" else agent, signal.SIGKILL)
    terminal.wait_for_end({"Ctrl-C": 130, "TERM": 143, "rank": 137, "agent": 125}[cause])
    assert not status_rows(terminal.screen("-S-"))


def pid_of_hvdrun(sandbox: Sandbox) -> int:
    return next(pid for pid in sandbox.processes() if os.readlink(f"/proc/{pid}/exe") == str(HVDRUN)
                and Path(f"/proc/{pid}/comm").read_text() == "hvdrun\n")


def test_the_status_line_is_erased_after_hvdrun_is_killed(sandbox: Sandbox, terminal: Terminal) -> None:
    """hvdrun's parent writes nothing. A shell's prompt would overwrite the line."""
    command = sandbox.command([HVDRUN, "-np", 2, *trainer(sandbox)])
    terminal.open(shlex.join([PYTHON, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command]) + "; read -r _")
    terminal.wait_for(LINE)
    os.kill(pid_of_hvdrun(sandbox), signal.SIGKILL)
    wait_until(lambda: not status_rows(terminal.screen()), "the status line to be erased")


def test_the_status_line_appears_again_after_a_restart(sandbox: Sandbox, terminal: Terminal) -> None:
    terminal.start("-np", 2, "--max-restarts", 1, *trainer(sandbox))
    terminal.wait_for(LINE)
    os.kill(sandbox.ranks()[1], signal.SIGKILL)
    wait_until(lambda: len(sandbox.lines_of("ready")) == 4, "the ranks' second start")
    terminal.wait_for(LINE)
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)
    assert not status_rows(terminal.screen("-S-"))


def test_the_status_line_shows_how_many_ranks_are_in_hvd_init(sandbox: Sandbox, terminal: Terminal) -> None:
    terminal.start("-np", 3, *trainer(sandbox, "--late", 1, "--init", sandbox.files / "init"))
    terminal.wait_for("starting: 1 host reached · 2 of 3 ranks in hvd.init")
    (sandbox.files / "init").touch()
    terminal.wait_for(LINE)
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)


def test_the_status_line_is_erased_while_the_job_is_stopped(sandbox: Sandbox, terminal: Terminal) -> None:
    terminal.open("PS1='shell> ' exec bash --norc")
    terminal.wait_for("shell>")
    terminal.type(shlex.join(map(str, sandbox.command([HVDRUN, "-np", 2, *trainer(sandbox)]))), "Enter")
    terminal.wait_for(LINE)
    terminal.type("C-z")
    terminal.wait_for("shell>")
    assert not status_rows(terminal.screen())
    terminal.type("fg", "Enter")
    terminal.wait_for(LINE)
    (sandbox.files / "go").touch()
    terminal.wait_for("shell>")
    assert not status_rows(terminal.screen())
    terminal.type("exit", "Enter")


def test_the_status_line_does_not_cover_a_prompt_of_the_program(sandbox: Sandbox, terminal: Terminal) -> None:
    code = """if True:
        import hvd
        hvd.init()
        hvd.progress(step=1, steps=2, loss=0.5)
        assert input("go on? ") == "yes"
        hvd.progress(step=2)
        hvd.shutdown()"""
    terminal.start("-np", 1, "-x", f"HVD_LIBRARY={BUILD / 'lib/libhvd.so.0'}", "-x", f"PYTHONPATH={TOP / 'python'}", PYTHON, "-B", "-c", code)
    terminal.wait_for(r"go on\?")
    terminal.type("yes", "Enter")
    terminal.wait_for_end(0)
    assert "go on? yes" in terminal.screen()


# ---- programs that report nothing

BURN = "import sys, os\nwhile not os.path.exists(sys.argv[1]): pass"


def test_a_program_that_reports_nothing_has_a_line_with_the_time_and_its_use(sandbox: Sandbox, terminal: Terminal) -> None:
    gpus = ";".join(f"GPU-{at},0000:1{at}:00.0,NVIDIA H200,150754820096,busy {busy} 5" for at, busy in enumerate((70, 50)))
    env = shlex.join(["env", f"LD_LIBRARY_PATH={BUILD / 'lib/doubles'}", f"HVD_FAKE_NVML={gpus}"])
    terminal.start("-np", 2, PYTHON, "-c", BURN, sandbox.files / "go", env=env)
    terminal.wait_for(r"0:\d\d elapsed · (?!0\.0)\d+\.\d cores · 2 GPUs 60 % busy")
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)
    assert not status_rows(terminal.screen("-S-"))


# ---- output without a status line

@pytest.mark.parametrize("options, env, redirect", [
    ([], "", "2>err"), ([], "", ">out 2>&1"), ([], "", "| cat"), ([], "NO_COLOR=1", ""), ([], "TERM=dumb", ""),
    (["--progress", "never"], "", ""), (["--progress", "log"], "", ""), (["--progress", "always"], "", "2>err")],
    ids=["stderr to a file", "all to a file", "stdout to a pipe", "NO_COLOR", "dumb", "never", "log", "always"])
def test_no_status_line_is_written_without_a_suitable_terminal(sandbox: Sandbox, terminal: Terminal, options: list[str], env: str,
                                                               redirect: str) -> None:
    terminal.start("-np", 2, *options, *trainer(sandbox, "--lines", 100), redirect=redirect, env=env)
    recorded = terminal.record()
    # The ranks write for about a second, in which agents read the status pages several times.
    wait_until(lambda: b"line 99" in all_output(sandbox, recorded), "all lines")
    (sandbox.files / "go").touch()
    terminal.wait_for(r"code=\d+")
    assert "·".encode() not in all_output(sandbox, recorded)


@pytest.mark.parametrize("options, env, redirect", [
    (["--progress", "always"], "NO_COLOR=1", ""), (["--progress", "always"], "", "| cat"), ([], "", ">out")],
    ids=["NO_COLOR", "stdout to a pipe", "stdout to a file"])
def test_a_terminal_on_stderr_or_progress_always_shows_the_status_line(sandbox: Sandbox, terminal: Terminal, options: list[str],
                                                                       env: str, redirect: str) -> None:
    terminal.start("-np", 2, *options, *trainer(sandbox), redirect=redirect, env=env)
    terminal.wait_for(LINE)
    (sandbox.files / "go").touch()
    terminal.wait_for_end(0)


def all_output(sandbox: Sandbox, recorded: Path) -> bytes:
    files = [recorded, sandbox.files / "out", sandbox.files / "err"]
    return b"".join(file.read_bytes() for file in files if file.exists())


@pytest.mark.slow
def test_progress_log_prints_the_use_of_a_program_that_reports_nothing(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--progress", "log", PYTHON, "-c", BURN, sandbox.files / "go")
    wait_until(lambda: b"elapsed" in running.err, "a line", 180)
    (sandbox.files / "go").touch()
    text = running.wait().expect(0).err_text
    assert re.match(r"hvdrun: note: 1:\d\d elapsed, \d+\.\d cores\n", text), text


@pytest.mark.slow
def test_progress_log_prints_a_plain_line_every_minute(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, "--progress", "log", *trainer(sandbox))
    wait_until(lambda: b"samples/s" in running.err, "a line of progress", 180)
    (sandbox.files / "go").touch()
    text = running.wait().expect(0).err_text
    assert re.match(r"hvdrun: note: epoch 3/20, step [\d,]+/9,380, [\d,.]+ samples/s, loss 0\.12, ", text), text
    assert "\x1b" not in text
