"""hvdrun salloc on a cluster with real Slurm, with and without a terminal."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from cluster import Cluster, wait_until
from harness import BUILD, HVDRUN_WORD, SOAK
from settings import TIME_LIMIT_S

HVDRUN = BUILD / "bin/hvdrun"


@contextmanager
def terminal(cluster: Cluster, folder: Path, *words: object, environment: dict[str, str] | None = None) -> Iterator[pexpect.spawn]:
    command = cluster.command(words, folder=folder, tty=True, environment={"TERM": "dumb", **(environment or {})})
    child = pexpect.spawn(command[0], command[1:], encoding="utf-8", timeout=TIME_LIMIT_S, dimensions=(40, 200))
    try:
        yield child
    finally:
        child.close(force=True)


def end_of(child: pexpect.spawn) -> tuple[str, int]:
    """Waits for the child's end; returns its further output and its exit code."""
    child.expect(pexpect.EOF)
    child.wait()
    return child.before, child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus


@contextmanager
def full(cluster: Cluster, shared: Path) -> Iterator[None]:
    """Keeps all hosts busy with another job."""
    job = cluster.output("sbatch", "--parsable", "-N4", "--exclusive", "--output=/dev/null", folder=shared,
                         input="#!/bin/sh\nexec sleep 7777\n").strip()
    wait_until(lambda: cluster.output("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", "the job that keeps hosts busy")
    yield
    cluster.run("scancel", job)


def own_jobs(cluster: Cluster) -> list[str]:
    return cluster.output("squeue", "-h", "-o", "%A %T").splitlines()


@pytest.mark.gate
def test_salloc_runs_a_program_on_an_allocation_and_releases_it(cluster: Cluster, shared: Path) -> None:
    done = cluster.run(HVDRUN, "salloc", "-np", 4, "--nodes", 2, "--label", "none", "--", "sh", "-c", "echo $HVD_RANK $(hostname)",
                       folder=shared)
    assert sorted(done.stdout.splitlines()) == ["0 n1", "1 n1", "2 n2", "3 n2"], done.stdout + done.stderr
    assert "hvdrun: note: 4 ranks: 2 nodes × 2 GPUs, 4 CPUs per rank\n" in done.stderr
    assert re.search(r"hvdrun: note: job \d+ has its allocation\n", done.stderr), done.stderr
    assert done.returncode == 0
    failed = cluster.run(HVDRUN, "salloc", "-np", 2, "--", "sh", "-c", "exit 3", folder=shared)
    assert failed.returncode == 3 and "failed: exit code 3" in failed.stderr, failed.stderr
    wait_until(lambda: own_jobs(cluster) == [], "the allocation to be released")


def test_a_shell_or_a_script_that_starts_ranks_runs_once(cluster: Cluster, shared: Path) -> None:
    """As with SLURM's own salloc; hvdrun would start it on each rank."""
    done = cluster.run(HVDRUN, "salloc", "-np", 2, "--nodes", 1, "bash", folder=shared, input="echo shell of $SLURM_JOB_NUM_NODES\n")
    assert done.stdout == "shell of 1\n" and done.returncode == 0, done
    done = cluster.run(HVDRUN, "salloc", "-np", 2, "--nodes", 1, "bash", "-c", f"{HVDRUN} --label none sh -c 'echo rank $RANK'; exit 3",
                       folder=shared)
    assert sorted(done.stdout.splitlines()) == ["rank 0", "rank 1"], done
    assert "bash runs once, as the shell of the job, because it starts ranks itself" in done.stderr
    assert done.returncode == 3


@pytest.mark.gate
def test_hvdrun_in_the_shell_of_salloc_uses_the_whole_allocation(cluster: Cluster, shared: Path) -> None:
    """The shell has the terminal and job control; its end releases the allocation."""
    with terminal(cluster, shared, HVDRUN, "salloc", "-np", 8, "--gpus-per-node", 4,
                  environment={"SHELL": "/bin/bash", "PS1": "ready> "}) as child:
        child.expect("in this shell, hvdrun PROGRAM uses all of it; exit gives it back")
        child.sendline("PS1='ready> '; tty -s && echo is'-'a-terminal")
        child.expect("is-a-terminal")
        child.sendline(f"{HVDRUN_WORD} --label none sh -c 'echo rank=$HVD_RANK $(hostname)'; echo code=$?")
        child.expect("code=0")
        assert sorted(re.findall(r"rank=(\d) (n\d)\r", child.before)) == [(str(rank), f"n{rank // 4 + 1}") for rank in range(8)], child.before
        # Ctrl-C ends the running command, not the shell.
        child.sendline(f"{HVDRUN_WORD} sh -c 'printf %sted star; sleep 7777'; echo code=$?")
        child.expect("started")
        child.sendintr()
        child.expect("code=130")
        child.sendline("exit 5")
        said, code = end_of(child)
        assert code == 5, said
    wait_until(lambda: own_jobs(cluster) == [], "the allocation to be released")


def test_ctrl_c_withdraws_a_pending_request(cluster: Cluster, shared: Path) -> None:
    with full(cluster, shared), terminal(cluster, shared, HVDRUN, "salloc", "-np", 2, "--", "true") as child:
        child.expect(r"hvdrun: \S+ job (\d+) is pending \(\w+\)")
        job = child.match.group(1)
        child.sendintr()
        said, code = end_of(child)
        assert f"job {job}: the request is withdrawn" in said and code == 130, said
        wait_until(lambda: not any(line.startswith(job) for line in own_jobs(cluster)), "the request to be withdrawn")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_withdraws_a_pending_request(cluster: Cluster, shared: Path, number: int) -> None:
    with full(cluster, shared):
        process = cluster.start(HVDRUN, "salloc", "-np", 2, "--", "true", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: any("PENDING" in line for line in own_jobs(cluster)), "the request to be in the queue")
        process.send_signal(number)
        said, _ = process.communicate(timeout=TIME_LIMIT_S)
        assert process.returncode == 128 + number and "the request is withdrawn" in said, said
        wait_until(lambda: not any("PENDING" in line for line in own_jobs(cluster)), "the request to be withdrawn")


@pytest.mark.gate
def test_a_pending_request_runs_the_program_once_granted(cluster: Cluster, shared: Path) -> None:
    with full(cluster, shared), terminal(cluster, shared, HVDRUN, "salloc", "-np", 2, "--label", "none", "--", "echo", "ran") as child:
        child.expect("is pending")
        cluster.output("scancel", "--state=RUNNING", "--user=user")
        child.expect(r"has its allocation")
        said, code = end_of(child)
        assert said.count("ran\r\n") == 2 and code == 0, said


@contextmanager
def running(cluster: Cluster, shared: Path, *through: object) -> Iterator[subprocess.Popen]:
    """Runs a program with two ranks on two hosts, whose ranks end half a second after SIGINT or SIGTERM."""
    process = cluster.start(*through, HVDRUN, "salloc", "-np", 2, "--nodes", 2, "--", "sh", "-c",
                            "trap 'sleep 0.5; echo asked; exit 0' INT TERM; echo started; while :; do sleep 0.1; done",
                            folder=shared, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        for _ in range(2):
            assert "started" in process.stdout.readline()
        yield process


def pid_started_by_salloc(cluster: Cluster) -> str:
    """Returns the pid of the hvdrun that salloc has started."""
    return cluster.output("sh", "-c", "pgrep -P $(pgrep -x salloc)", user="root").strip()


def assert_nothing_left(cluster: Cluster) -> None:
    wait_until(lambda: own_jobs(cluster) == [], "the allocation to be released")
    for host in ("login", "n1", "n2"):
        wait_until(lambda: cluster.run("pgrep", "-l", "hvdrun|salloc", on=host, user="root").stdout == "",  # noqa: B023
                   f"the end of its processes on {host}")


@pytest.mark.gate
def test_a_kill_of_salloc_ends_the_program_and_the_job(cluster: Cluster, shared: Path) -> None:
    with running(cluster, shared) as process:
        cluster.output("pkill", "-KILL", "-x", "salloc", user="root")
        out, said = process.communicate(timeout=TIME_LIMIT_S)
        assert process.returncode == 125 and out.count("asked") == 2, out + said
        assert re.search(r"hvdrun: error: salloc was killed by SIGKILL; its job \d+ is ended\n", said), said
    assert_nothing_left(cluster)


def test_a_kill_of_salloc_ends_the_shell(cluster: Cluster, shared: Path) -> None:
    with terminal(cluster, shared, HVDRUN, "salloc", "-np", 2, environment={"SHELL": "/bin/bash"}) as child:
        child.expect("in this shell, hvdrun PROGRAM uses all of it")
        child.sendline("echo is'-'up")
        child.expect("is-up")
        cluster.output("pkill", "-KILL", "-x", "salloc", user="root")
        said, code = end_of(child)
        assert "salloc was killed by SIGKILL; its job" in said and code == 125, said
    assert_nothing_left(cluster)


def test_a_kill_of_salloc_withdraws_a_pending_request(cluster: Cluster, shared: Path) -> None:
    with full(cluster, shared):
        process = cluster.start(HVDRUN, "salloc", "-np", 2, "--", "true", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        wait_until(lambda: any("PENDING" in line for line in own_jobs(cluster)), "the request to be in the queue")
        cluster.output("pkill", "-KILL", "-x", "salloc", user="root")
        said, _ = process.communicate(timeout=TIME_LIMIT_S)
        assert process.returncode == 125 and "salloc was killed by SIGKILL; its job" in said, said
        wait_until(lambda: not any("PENDING" in line for line in own_jobs(cluster)), "the request to be withdrawn")


def test_a_kill_of_the_hvdrun_in_the_allocation_gives_125(cluster: Cluster, shared: Path) -> None:
    """salloc itself then exits with 0."""
    with running(cluster, shared) as process:
        cluster.output("kill", "-9", pid_started_by_salloc(cluster), user="root")
        _, said = process.communicate(timeout=TIME_LIMIT_S)
        assert process.returncode == 125 and "hvdrun: error: the hvdrun that ran over the allocation was killed before" in said, said
    assert_nothing_left(cluster)


@pytest.mark.parametrize("through", [(), ("timeout", "7777")], ids=["", "timeout"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_hvdrun_alone_stops_the_ranks(cluster: Cluster, shared: Path, number: int, through: tuple[str, ...]) -> None:
    """timeout(1) sends a signal to hvdrun, and then to hvdrun's whole process group."""
    with running(cluster, shared, *through) as process:
        process.send_signal(number)
        out, said = process.communicate(timeout=TIME_LIMIT_S)
        assert process.returncode == 128 + number and out.count("asked") == 2, out + said
    assert_nothing_left(cluster)


def test_a_kill_of_hvdrun_salloc_ends_the_job(cluster: Cluster, shared: Path) -> None:
    with running(cluster, shared) as process:
        process.kill()
        process.communicate(timeout=TIME_LIMIT_S)
    assert_nothing_left(cluster)


def test_a_kill_of_hvdrun_salloc_withdraws_a_pending_request(cluster: Cluster, shared: Path) -> None:
    with full(cluster, shared):
        process = cluster.start(HVDRUN, "salloc", "-np", 2, "--", "true", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        wait_until(lambda: any("PENDING" in line for line in own_jobs(cluster)), "the request to be in the queue")
        process.kill()
        process.wait()
        wait_until(lambda: not any("PENDING" in line for line in own_jobs(cluster)), "the request to be withdrawn")


def test_scancel_ends_the_program_with_an_error(cluster: Cluster, shared: Path) -> None:
    process = cluster.start(HVDRUN, "salloc", "-np", 2, "--nodes", 2, "--", "sh", "-c", "echo started; sleep 7777", folder=shared,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and "started" in process.stdout.readline()
    cluster.output("scancel", own_jobs(cluster)[0].split()[0])
    _, said = process.communicate(timeout=TIME_LIMIT_S)
    assert re.search(r"the allocation was lost: job \d+ was cancelled", said), said
    assert process.returncode not in (0, 2), said


def test_scancel_ends_the_shell_of_salloc(cluster: Cluster, shared: Path) -> None:
    with terminal(cluster, shared, HVDRUN, "salloc", "-np", 1, environment={"SHELL": "/bin/bash"}) as child:
        child.expect("exit gives it back")
        child.sendline("echo is'-'up")
        child.expect("is-up")
        cluster.output("scancel", own_jobs(cluster)[0].split()[0])
        said, code = end_of(child)
        assert "the allocation was lost: job" in said and code != 0, said


# SLURM checks time limits once per minute, so this is part of the soak.
if SOAK:
    def test_the_time_limit_ends_the_program_with_code_124(cluster: Cluster, shared: Path) -> None:
        done = cluster.run(HVDRUN, "salloc", "-np", 1, "--time", 1, "--", "sleep", "7777", timeout=300)
        assert "time limit" in done.stderr.splitlines()[-1] and done.returncode == 124, done.stderr


@pytest.mark.gate
def test_requests_that_salloc_cannot_make_are_an_error(cluster: Cluster, shared: Path) -> None:
    inside = cluster.run(HVDRUN, "salloc", "-np", 1, "--", "true", environment={"SLURM_JOB_ID": "7"})
    assert inside.returncode == 2 and "inside SLURM job 7 already: hvdrun -np N program uses it" in inside.stderr
    nowhere = cluster.run(HVDRUN, "salloc", "-np", 1, "--partition", "nix", "--", "true")
    assert "hvdrun: warning: --partition nix: there is no such partition; SLURM's sinfo lists " in nowhere.stderr, nowhere.stderr
    assert nowhere.returncode == 2, nowhere.stderr
    assert re.search(r"salloc: Job submit/allocate failed: Invalid partition name .*sinfo -s", nowhere.stderr), nowhere.stderr
    missing = cluster.run(HVDRUN, "salloc", "-np", 1, "--", "true", environment={"PATH": "/nowhere"})
    assert missing.returncode == 127 and "there is no SLURM on this machine" in missing.stderr, missing.stderr
    batch = cluster.run(HVDRUN, "salloc", "-np", 1, "--follow", "--", "true")
    assert batch.returncode == 2 and "--follow is an option of hvdrun sbatch only" in batch.stderr
