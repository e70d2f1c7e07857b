"""A job with --min-np on two hosts: it continues when a rank is lost, and ends with the true reason when a host is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster import wait_until
from harness import BUILD
from settings import TIME_LIMIT_S
from test_ssh import Jobs, finish, jobs  # noqa: F401, the fixture

TRAINER = BUILD / "bin/tests/elastic_trainer"
ON_TWO_HOSTS = ("--min-np", 1, "-np", 4, "-H", "n1:2,n2:2")
RESULT = r"member (\d+) pid \d+ generation (\d+) rank \d+ size (\d+) step 20 loss (\S+) used (\d+) (\d+)"


@pytest.mark.parametrize("victim", [0, 1, pytest.param(2, marks=pytest.mark.gate), 3])
def test_the_other_ranks_continue_after_a_death(jobs: Jobs, victim: int) -> None:  # noqa: F811
    alone = jobs.run("-np", 1, TRAINER)
    [(*_, loss, _, _)] = re.findall(RESULT, alone.stdout)
    done = jobs.run(*ON_TWO_HOSTS, TRAINER, "--die", f"step:{victim}:1:kill:7")
    assert done.returncode == 0, done.stderr
    results = re.findall(RESULT, done.stdout)
    assert sorted(int(result[0]) for result in results) == [rank for rank in range(4) if rank != victim], done.stdout
    for _, generation, size, own_loss, least, most in results:
        assert float(own_loss) == pytest.approx(float(loss), rel=1e-5)
        assert (int(generation), int(size), least, most) == (2, 3, "4", "4"), done.stdout
    assert re.search(rf"note: rank {victim} on n[12] was lost \(killed by SIGKILL\): 3 ranks continue", done.stderr), done.stderr


@pytest.mark.parametrize("held", [1, 3])
def test_a_host_that_loses_power_ends_the_job_with_its_reason(jobs: Jobs, shared: Path, held: int) -> None:  # noqa: F811
    """One rank computes, on either host. The others wait for it, and notice before hvdrun does that the host is silent."""
    job = jobs.start(*ON_TWO_HOSTS, TRAINER, "--hold", f"7:{held}:{shared}/go", "--ready", shared / "ready")
    wait_until((jobs.cluster.root_of("login") / f".{shared}" / "ready").exists, "the rank in its step")
    jobs.cluster.kill("n2")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost: the host has not answered for 5 s" in err, err
    wait_until(lambda: not jobs.left(("login", "n1")), "the cleanup on the other hosts", TIME_LIMIT_S / 12)
    jobs.cluster.power_on("n2")
