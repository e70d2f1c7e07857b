"""SIGKILL or SIGSTOP to any process of a job over ssh, at any moment. The restarted training ends with the losses of an
undisturbed one, hvdrun reports the true first cause, and nothing is left on any host.

A constant seed chooses process and moment, so that a failure is reproducible. ./check --all runs all trials, with a seed
A constant seed chooses process and moment, so that a failure is reproducible. ./check --all runs all trials, with a seed that
it prints."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness import BUILD, all_pids, parent_of
from test_ssh import SESSION_PROCESSES, Jobs, jobs  # noqa: F401, the fixture

SEED = int(os.environ.get("HVD_TEST_SEED", 11))
EPOCHS = 40
# What hvdrun may report after the end of a process of each role. An agent may report its guard before it ends itself.
CAUSES = {
    "launcher": "",
    "hvd-guard": r"the (guard of the )?agent on n[12] was (killed|lost)",
    "hvdrun-agent": r"the (guard of the )?agent on n[12] was (killed|lost)",
    "digits": r"rank [0-3] on n[12] failed: killed by SIGKILL",
    "sshd": r"the agent on n[12] was lost",
    "ssh": r"the agent on n[12] was lost: ssh was killed by SIGKILL",
}


def start(jobs: Jobs, shared: Path, client: str, *options: object) -> subprocess.Popen:  # noqa: F811
    return jobs.start("--ssh-client", client, "-H", "n1:2,n2:2", "--max-restarts", 3, *options, BUILD / "bin/examples/digits",
                      "--epochs", EPOCHS, "--seed", 1, "--checkpoint-dir", shared / "checkpoints")


def pids_of(jobs: Jobs, job: subprocess.Popen, role: str) -> list[int]:  # noqa: F811
    """Returns the pids on this machine of the job's processes with this role."""
    if role == "launcher":
        return [pid for pid in all_pids() if parent_of(pid) == job.pid]
    hosts = ("login",) if role == "ssh" else ("n1", "n2")
    names = SESSION_PROCESSES if role == "sshd" else f"{role} "
    lines = [line.split(" ", 2) for host in hosts for line in jobs.cluster.processes(host)]
    return [int(pid) for pid, _, words in lines if words.startswith(names)]


def wait_for_epoch(job: subprocess.Popen, epoch: int) -> str:
    """Waits for that epoch or the job's end; returns the output so far."""
    out = ""
    while f"epoch {epoch} " not in out and (line := job.stdout.readline()):
        out += line
    return out


def last_loss(out: str) -> str:
    return re.findall(r"epoch \d+ loss .*", out)[-1]


def undisturbed_loss(jobs: Jobs) -> str:  # noqa: F811
    done = jobs.run("-np", 1, BUILD / "bin/examples/digits", "--epochs", EPOCHS, "--seed", 1)
    assert done.returncode == 0, done.stderr
    return last_loss(done.stdout)


def send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_in_a_training(jobs: Jobs, shared: Path, client: str, roles: list[str], draw: random.Random) -> None:  # noqa: F811
    job = start(jobs, shared, client)
    epoch = draw.randrange(1, EPOCHS * 3 // 4)
    out = wait_for_epoch(job, epoch)
    hit = []
    for role in roles:
        pids = sorted(pids_of(jobs, job, role))
        if pids and send(draw.choice(pids), signal.SIGKILL):
            hit.append(role)
    rest, err = job.communicate()
    what = f"seed {SEED}: {roles} with {client} at epoch {epoch}, hit {hit}: code {job.returncode}\n{err}"
    if "launcher" in hit:
        assert job.returncode != 0, what
        return
    assert job.returncode == 0, what
    assert last_loss(out + rest) == undisturbed_loss(jobs), what
    if "restart 1 of 3" in err:
        first = next(line for line in err.splitlines() if "restart 1 of 3" in line)
        # If two processes die together, hvdrun may notice either first.
        assert any(re.search(CAUSES[role], first) for role in hit), what


@pytest.mark.gate
@pytest.mark.parametrize("role, client", [("hvd-guard", "libssh"), ("hvdrun-agent", "openssh"), ("digits", "libssh"), ("sshd", "openssh")])
def test_a_training_is_restarted_after_the_kill_of_one_process(jobs: Jobs, shared: Path, role: str, client: str) -> None:  # noqa: F811
    kill_in_a_training(jobs, shared, client, [role], random.Random(f"{SEED} {role}"))


@pytest.mark.parametrize("trial", range(30))
def test_a_training_is_restarted_after_the_kill_of_a_random_process(jobs: Jobs, shared: Path, trial: int) -> None:  # noqa: F811
    draw = random.Random(f"{SEED} one {trial}")
    client = draw.choice(["libssh", "openssh"])
    roles = [role for role in CAUSES if role != "ssh" or client == "openssh"]
    kill_in_a_training(jobs, shared, client, [draw.choice(roles)], draw)


@pytest.mark.parametrize("trial", range(24))
def test_a_training_is_restarted_after_the_kill_of_two_random_processes(jobs: Jobs, shared: Path, trial: int) -> None:  # noqa: F811
    draw = random.Random(f"{SEED} two {trial}")
    client = draw.choice(["libssh", "openssh"])
    roles = [role for role in CAUSES if role != "ssh" or client == "openssh"]
    kill_in_a_training(jobs, shared, client, [draw.choice(roles), draw.choice(roles)], draw)


def stop_in_a_training(jobs: Jobs, shared: Path, client: str, role: str, until: str) -> None:  # noqa: F811
    """Stops a process until hvdrun has printed `until`, or only for a moment if that is empty. The job must end as if undisturbed."""
    job = start(jobs, shared, client, "--host-timeout", 2)
    out = wait_for_epoch(job, 2)
    stopped = [pid for pid in pids_of(jobs, job, role)[-1:] if send(pid, signal.SIGSTOP)]
    said = ""
    while until and until not in said and (line := job.stderr.readline()):
        said += line
    for pid in stopped:
        send(pid, signal.SIGCONT)
    rest, err = job.communicate()
    assert job.returncode == 0 and stopped, f"{role}, {client}: code {job.returncode}\n{said}{err}"
    assert until in said + err and "restart" not in said + err, said + err
    assert last_loss(out + rest) == undisturbed_loss(jobs), said + err


@pytest.mark.gate
@pytest.mark.parametrize("role, client", [("hvdrun-agent", "libssh"), ("sshd", "openssh")])
def test_a_training_survives_a_long_stop_of_one_process(jobs: Jobs, shared: Path, role: str, client: str) -> None:  # noqa: F811
    stop_in_a_training(jobs, shared, client, role, "but its host does; waiting for it")


@pytest.mark.parametrize("client", ["libssh", "openssh"])
@pytest.mark.parametrize("role", ["launcher", "hvd-guard", "digits"])
def test_a_training_survives_a_short_stop_of_one_process(jobs: Jobs, shared: Path, role: str, client: str) -> None:  # noqa: F811
    stop_in_a_training(jobs, shared, client, role, "")
