"""hvdrun why, top and logs from the login host, for a SLURM job whose hvdrun runs on the job's first host."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from cluster import Cluster, wait_until
from harness import BUILD
from settings import TIME_LIMIT_S
from terminal import is_raw

HVDRUN = BUILD / "bin/hvdrun"
PRINTS = 'echo "rank $HVD_RANK on $(hostname)"; exec sleep 7777'


def hvdrun(cluster: Cluster, shared: Path, *words: object, code: int = 0, **options: object) -> subprocess.CompletedProcess:
    done = cluster.run(HVDRUN, *words, folder=shared, **options)
    assert done.returncode == code, done
    return done


def has_begun(cluster: Cluster, shared: Path, job: str) -> bool:
    file = cluster.root_of("login") / str(shared)[1:] / f"slurm-{job}.out"
    return file.exists() and file.read_text().count(" on n") == 2


@pytest.fixture
def job(cluster: Cluster, shared: Path) -> Iterator[str]:
    """A job of two ranks on two hosts, which have printed their lines."""
    number = hvdrun(cluster, shared, "sbatch", "-np", 2, "--ranks-per-host", 1, "--gpus-per-node", 0, "--time", 5, "--submit", "--",
                    "sh", "-c", PRINTS).stdout.strip()
    wait_until(lambda: has_begun(cluster, shared, number), "both ranks to print")
    yield number
    cluster.run("scancel", number)


@pytest.mark.gate
def test_a_job_is_looked_into_from_the_login_host(cluster: Cluster, shared: Path, job: str) -> None:
    shown = hvdrun(cluster, shared, "logs", "--rank", "1", job)
    assert shown.stdout == "[1] rank 1 on n2\n" and shown.stderr == f"hvdrun: note: job {job} runs on n1: looking there\n", shown
    state = json.loads(hvdrun(cluster, shared, "top", "--json", job).stdout)
    assert [host["host"] for host in state["hosts"]] == ["n1", "n2"] and (state["job"]["scheduler"], state["job"]["scheduler_job"]) == ("SLURM", job), state
    assert [rank["state"] for rank in state["ranks"]] == ["sleeping", "sleeping"], state
    # The only job needs no name, and the host where it runs needs no SLURM.
    verdict = json.loads(hvdrun(cluster, shared, "why", "--json").stdout)
    assert verdict["text"].startswith("ranks 0-1 are sleeping"), verdict
    assert hvdrun(cluster, shared, "logs", job, on="n1").stderr == ""
    refused = hvdrun(cluster, shared, "logs", "--rank", "7", job, code=2)
    assert refused.stderr.endswith("hvdrun: error: there is no rank 7: the job has 2 ranks\n") and "srun" not in refused.stderr, refused
    other = cluster.run(HVDRUN, "why", job, user="other")
    assert other.returncode == 2 and f"SLURM's job {job} is user's, and only user can look into it" in other.stderr, other


@pytest.mark.gate
def test_lines_are_followed_from_the_login_host_and_ctrl_c_leaves_the_job(cluster: Cluster, shared: Path, job: str) -> None:
    process = cluster.start(HVDRUN, "logs", "-f", job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert sorted(lines[1:]) == ["[0] rank 0 on n1\n", "[1] rank 1 on n2\n"], lines
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=TIME_LIMIT_S)[0] == "" and process.returncode == 130, process
    assert cluster.output("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    wait_until(lambda: len(cluster.output("squeue", "-h", "-s", "-j", job).splitlines()) == 2, "the look's step to end")


@pytest.mark.gate
def test_lines_are_followed_to_the_end_of_the_job(cluster: Cluster, shared: Path) -> None:
    program = f'echo "rank $HVD_RANK on $(hostname)"; while ! test -e {shared}/go; do sleep 0.05; done; seq 100; echo the last'
    job = hvdrun(cluster, shared, "sbatch", "-np", 2, "--ranks-per-host", 1, "--gpus-per-node", 0, "--submit", "--", "sh", "-c", program).stdout.strip()
    wait_until(lambda: has_begun(cluster, shared, job), "both ranks to print")
    process = cluster.start(HVDRUN, "logs", "-f", job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)][2].startswith("[")
    cluster.output("touch", shared / "go")
    rest = process.communicate(timeout=TIME_LIMIT_S)[0].splitlines()
    assert process.returncode == 0 and rest[-1] == "hvdrun: note: the job has ended", rest
    assert [sum(line == f"[{rank}] the last" for line in rest) for rank in range(2)] == [1, 1], rest


@pytest.mark.gate
def test_top_draws_on_the_terminal_of_the_login_host(cluster: Cluster, shared: Path, job: str) -> None:
    command = cluster.command([HVDRUN, "top", job], tty=True, environment={"TERM": "xterm"})
    child = pexpect.spawn(command[0], command[1:], timeout=TIME_LIMIT_S, dimensions=(24, 100))
    child.expect_exact("\x1b[?1049h")
    assert child.before == b"", "srun says nothing"
    child.expect_exact("2 ranks on 2 hosts")
    child.expect_exact("q quit")
    child.send("q")
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    assert not is_raw(child)
    child.close()
    assert child.exitstatus == 0, child.before


@pytest.mark.gate
def test_a_job_that_does_not_run_is_named(cluster: Cluster, shared: Path) -> None:
    job = hvdrun(cluster, shared, "sbatch", "-np", 1, "--gpus-per-node", 0, "--submit", "--sbatch-arg=--hold", "--", "true").stdout.strip()
    said = hvdrun(cluster, shared, "top", job, code=2).stderr
    assert f"job {job} does not run yet: pending (JobHeldUser): held; scontrol release lets it go; hvdrun follow {job}" in said, said
    cluster.output("scancel", job)
    said = hvdrun(cluster, shared, "why", job, code=2).stderr
    assert re.search(f"job {job} has ended \\(cancelled\\); hvdrun follow {job} shows how|SLURM knows no such job", said), said
    assert "no job of yours runs on this machine" in hvdrun(cluster, shared, "why", code=2).stderr
    said = hvdrun(cluster, shared, "logs", 999999, code=2).stderr
    assert "no job 999999 of yours runs on this machine" in said and said.endswith("SLURM knows no such job\n"), said
