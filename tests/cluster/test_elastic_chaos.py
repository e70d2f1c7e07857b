"""SIGKILL, SIGSTOP or a cut network for any part of a job with --min-np on four hosts with two ranks each, at any moment. The
ranks that are left end the training with the loss of an undisturbed one, hvdrun says truly who was lost, and nothing is left.

A constant seed chooses part and moment, so that a failure is reproducible; ./check --all has a seed that it prints."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from cluster import wait_until
from settings import TIME_LIMIT_S
from test_chaos import send
from test_elastic_on_hosts import TRAINER
from test_ssh import Jobs, finish, jobs  # noqa: F401, the fixture

SEED = int(os.environ.get("HVD_TEST_SEED", 11))
HOSTS = ("n1", "n2", "n3", "n4")
EPOCHS = 40
RESULT = rf"member (\d+) pid \d+ generation \d+ rank \d+ size (\d+) step {5 * EPOCHS} loss (\S+) used (\d+) (\d+)"
# What hvdrun says of a rank that is lost with a part that was killed.
CAUSES = {
    "elastic_trainer": r"killed by SIGKILL",
    "hvdrun-agent": r"with the agent|the guard of the agent on n[1-4] was killed",
    "hvd-guard": r"the guard of the agent on n[1-4] was killed|with the agent",
    "sshd": r"with the agent",
    "cut": r"the host has not answered for 1 s \(--host-timeout\)|with the agent",
}


def pids_of(jobs: Jobs, host: str, part: str) -> list[int]:  # noqa: F811
    """Returns the pids on this machine of the job's processes of this kind on the host."""
    name = "sshd sshd: user" if part == "sshd" else f"{part} "
    lines = [line.split(" ", 2) for line in jobs.cluster.processes(host)]
    return sorted(int(pid) for pid, _, words in lines if words.startswith(name))


def disturb(jobs: Jobs, part: str, host: str, draw: random.Random) -> bool:  # noqa: F811
    """Kills the part on the host, or cuts the host off. Returns False if the part has ended."""
    if part == "cut":
        jobs.cluster.cut(host)
        return True
    pids = pids_of(jobs, host, part)
    return bool(pids) and send(draw.choice(pids), signal.SIGKILL)


@pytest.mark.parametrize("trial", range(int(os.environ.get("HVD_CHAOS_TRIALS", 40))))
def test_the_ranks_that_are_left_train_to_the_undisturbed_loss(jobs: Jobs, shared: Path, trial: int) -> None:  # noqa: F811
    draw = random.Random(f"{SEED} elastic {trial}")
    parts = [draw.choice(list(CAUSES)) for _ in range(draw.choice([1, 1, 2, 3]))]
    alone = jobs.run("-np", 1, TRAINER, "--epochs", EPOCHS)
    [(_, _, loss, _, _)] = re.findall(RESULT, alone.stdout)
    job = jobs.start("--ssh-client", draw.choice(["libssh", "openssh"]), "--host-timeout", 1, "-x", "HVD_HOST_TIMEOUT=2",
                     "--min-np", 1, "-np", 8, "-H", ",".join(f"{host}:2" for host in HOSTS), TRAINER, "--epochs", EPOCHS, "--pause", 8000)
    for _ in range(8):
        assert job.stdout.readline(), job.communicate()
    hit: list[tuple[str, str]] = []
    victims = draw.sample(HOSTS[1:], len(parts)) if "cut" in parts else draw.sample(HOSTS, len(parts))
    for part, host in zip(parts, victims):
        time.sleep(draw.random() * 1.5)
        stopped = pids_of(jobs, draw.choice(HOSTS), "elastic_trainer")[:1] if draw.random() < 0.3 else []
        stopped = [pid for pid in stopped if send(pid, signal.SIGSTOP)]
        if disturb(jobs, part, host, draw):
            hit.append((part, host))
        time.sleep(draw.random() * 0.3)
        for pid in stopped:
            send(pid, signal.SIGCONT)
    code, out, err = finish(job)
    what = f"seed {SEED}, trial {trial}: {list(zip(parts, victims))}, hit {hit}: code {code}\n{out}{err}"
    # A part that is killed in the last moment may take the output of ranks that had succeeded with it.
    assert code == 0 or (code == 125 and "was lost" in err), what
    results = re.findall(RESULT, out)
    assert results and len({size for _, size, *_ in results}) <= 2, what
    for _, _, own_loss, least, most in results:
        assert float(own_loss) == pytest.approx(float(loss), rel=1e-5), what
        assert (least, most) == (str(EPOCHS), str(EPOCHS)), what
    for note in re.findall(r"note: (.* lost \(.*\)): \d+ ranks? continue", err):
        assert any(re.search(CAUSES[part], note) for part, _ in hit), what
    for part, host in hit:
        if part == "cut":
            wait_until(lambda: not pids_of(jobs, host, "elastic_trainer"), "the end of the ranks that were cut off", TIME_LIMIT_S / 3)
            jobs.cluster.join(host)
