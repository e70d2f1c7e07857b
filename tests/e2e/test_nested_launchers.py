"""Launchers that hvdrun starts once in each slot, and jobs of schedulers other than SLURM."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from harness import HOSTNAME, HVDRUN, PYTHON, Sandbox, copy_for_others

# Starts two ranks of its own, as torchrun does, and waits for the first.
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
         for rank in range(2)]
print("started", flush=True)
ranks[0].wait()
"""


def test_a_launcher_that_no_table_knows_is_named_while_it_runs(sandbox: Sandbox) -> None:
    launcher = sandbox.files / "mylauncher"
    launcher.write_text(LAUNCHER)
    running = sandbox.start("-np", 2, PYTHON, launcher)
    running.wait_for(b"has started ranks of its own", "err")
    assert b"each of 2 ranks has started ranks of its own (below rank " in running.err
    assert b"mylauncher has started process " in running.err and b"so the job runs 2 times" in running.err
    running.signal(signal.SIGINT)
    running.wait()


def test_processes_of_a_rank_are_no_launchers(sandbox: Sandbox) -> None:
    """One rank may start a job of its own, and each may start workers."""
    program = sandbox.files / "trainer"
    program.write_text("""
import os, subprocess, sys, time
number = int(os.environ["RANK"])
names = range(2) if number == 0 else [number, number]
workers = [subprocess.Popen(["sleep", "4"], env={**os.environ, "RANK": str(rank)}) for rank in names]
for worker in workers: worker.wait()
""")
    done = sandbox.run("-np", 2, PYTHON, program).expect(0)
    assert "ranks of its own" not in done.err_text


@pytest.mark.parametrize(("variables", "line"), [
    ({"PBS_JOBID": "12.server", "PBS_NODEFILE": "nodes"}, "hvdrun --hostfile $PBS_NODEFILE"),
    ({"JOB_ID": "5", "PE_HOSTFILE": "slots"}, "hvdrun -H a:2,b:2"),
    ({"FLUX_URI": "local:///x", "FLUX_JOB_NNODES": "2"}, 'hvdrun -H "$(flux getattr hostlist)"'),
])
def test_a_job_of_several_hosts_of_another_scheduler_is_refused(sandbox: Sandbox, variables: dict[str, str], line: str) -> None:
    (sandbox.files / "nodes").write_text("a\na\nb\nb\n")
    (sandbox.files / "slots").write_text("a 2 all.q@a UNDEFINED\nb 2 all.q@b UNDEFINED\n")
    done = sandbox.run("-np", 2, "true", env=variables).expect(2)
    assert line in done.err_text and done.err_text.count("\n") == 1
    sandbox.run("-np", 2, "-H", "localhost:2", "true", env=variables).expect(0)


def test_a_job_of_this_host_of_another_scheduler_has_its_slots(sandbox: Sandbox) -> None:
    (sandbox.files / "nodes").write_text(f"{HOSTNAME}\n" * 3)
    done = sandbox.run("echo", "rank", env={"PBS_JOBID": "12", "PBS_NODEFILE": str(sandbox.files / "nodes")}).expect(0)
    assert len(done.out_lines) == 3


def test_the_last_rank_may_be_named(sandbox: Sandbox) -> None:
    for name in ("last", "-1"):
        done = sandbox.run("-np", 3, f"--only-rank={name}", "--label", "none", "sh", "-c", "echo $RANK").expect(0)
        assert done.out_lines == ["2"]
    done = sandbox.run("-np", 3, "--stdin", "last", "--label", "none", "sh", "-c", "cat | sed s/^/$RANK/", stdin=b"line\n").expect(0)
    assert done.out_lines == ["2line"]
    done = sandbox.run("-np", 3, "--wrap", "last:env WRAPPED=yes", "--label", "none", "sh", "-c", "echo $RANK$WRAPPED").expect(0)
    assert sorted(done.out_lines) == ["0", "1", "2yes"]
    assert "there is no rank -4" in sandbox.run("-np", 3, "--only-rank=-4", "true").expect(2).err_text


@pytest.mark.parametrize(("text", "words"), [
    (b"#!/bin/sh\r\necho hello\r\n", "Windows line ends"),
    (b"#!/usr/bin/env python3\r\nprint()\r\n", "Windows line ends"),
    (b"\xef\xbb\xbf#!/bin/sh\necho hello\n", "byte order mark"),
])
def test_a_script_of_a_windows_editor_is_named(sandbox: Sandbox, text: bytes, words: str) -> None:
    script = sandbox.files / "run.sh"
    script.write_bytes(text)
    script.chmod(0o755)
    done = sandbox.run("-np", 1, script).expect(126)
    assert words in done.err_text and "sed -i" in done.err_text


def test_a_chosen_port_that_is_taken_is_named_at_the_start(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = sandbox.run("-np", 2, "-x", f"MASTER_PORT={port}", "sh", "-c", f"echo 'Address already in use: {port}' >&2; exit 1")
    assert f"has the port of -x MASTER_PORT={port}; without -x MASTER_PORT" in done.err_text
    assert "hvdrun chooses a free one: hvdrun " in done.err_text


def test_a_home_that_may_not_be_seen_has_no_config_file(sandbox: Sandbox, tmp_path: Path) -> None:
    if not sandbox.isolated:
        pytest.skip("needs root, to become another user")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with copy_for_others(HVDRUN) as hvdrun:
        sandbox.run("--reuid=65534", "--regid=65534", "--clear-groups", hvdrun, "--print-env", "-np", 1, "true",
                    tool="setpriv", env={"HOME": str(home)}, cwd=Path("/")).expect(0)
