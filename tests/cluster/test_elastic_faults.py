"""Hosts of a job with --min-np that come back after they were given up, are stopped, or are lost in several parts at once. Two worlds
never train at the same time: the ranks of a host that was given up end, and are not let in again."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from cluster import wait_until
from settings import TIME_LIMIT_S
from test_elastic_on_hosts import SILENT, TWO_HOSTS, Held, ranks_on, separated
from test_ssh import Jobs, jobs  # noqa: F401, the fixture

WAITS = "but its host does; waiting for it"
ALL_CONTINUE = [0, 1, 2, 3]
TWICE = ("7:-1:go", "14:-1:end")  # the others wait once more, so that the job does not end meanwhile


def await_end_on(jobs: Jobs, host: str, limit_s: float = TIME_LIMIT_S / 3) -> None:  # noqa: F811
    wait_until(lambda: not ranks_on(jobs, host), f"the end of the ranks on {host}, which was given up", limit_s)



def test_a_host_that_was_cut_off_for_3_s_is_not_lost(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared)
    jobs.cluster.cut("n2")
    held.let_go()
    time.sleep(3)
    jobs.cluster.join("n2")
    err = held.check_end(ALL_CONTINUE, "")
    assert "lost" not in err, err


@pytest.mark.parametrize("host_timeout, seconds", [pytest.param(1, 3, id="3-s"), pytest.param(5, 8, id="8-s"), pytest.param(5, 100, id="100-s")])
@pytest.mark.parametrize("computes", [pytest.param(False, id="in-collectives"), pytest.param(True, id="computing")])
def test_a_host_that_comes_back_after_it_was_given_up_trains_no_more(jobs: Jobs, shared: Path, host_timeout: int, seconds: int,  # noqa: F811
                                                                     computes: bool) -> None:
    """Ranks that compute, and call no collective, do not notice the cut. The job waits until the host is back."""
    holds = (*TWICE, "8:2:never", "8:3:never") if computes else TWICE
    held = Held(jobs, shared, "--host-timeout", host_timeout, "-x", "HVD_HOST_TIMEOUT=2", holds=holds)
    if computes:
        held.let_go()
    jobs.cluster.cut("n2")
    held.let_go()
    began = time.monotonic()
    said = held.wait_for_line("continue")
    assert re.search(SILENT.replace("1 s", f"{host_timeout} s"), said), said
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    if seconds > 15 * host_timeout:
        assert not ranks_on(jobs, "n2")
    jobs.cluster.join("n2")
    await_end_on(jobs, "n2")
    held.let_go("end")
    held.check_end([0, 1], "")


def test_a_frozen_host_is_waited_for(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """Its kernel answers."""
    held = Held(jobs, shared, "--host-timeout", 1)
    jobs.cluster.freeze("n2")
    held.let_go()
    held.wait_for_line(WAITS)
    jobs.cluster.thaw("n2")
    held.check_end(ALL_CONTINUE, "")


@pytest.mark.parametrize("joined", [pytest.param(True, id="joined"), pytest.param(False, id="cut")])
def test_a_host_that_was_frozen_and_given_up_trains_no_more(jobs: Jobs, shared: Path, joined: bool) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1, holds=TWICE)
    jobs.cluster.cut("n2")
    jobs.cluster.freeze("n2")
    held.let_go()
    said = held.wait_for_line("continue")
    assert re.search(SILENT, said), said
    jobs.cluster.thaw("n2")
    if joined:
        jobs.cluster.join("n2")
    await_end_on(jobs, "n2")
    held.let_go("end")
    held.check_end([0, 1], "")


@pytest.mark.parametrize("shell", [pytest.param("", id="ranks"), pytest.param('"$@"; exit $?', id="children-of-ranks", marks=pytest.mark.gate)])
@pytest.mark.parametrize("hosts, host", [pytest.param(TWO_HOSTS, "n2", id="n2"), pytest.param("login:2,n1:2", "login", id="login")])
def test_agent_and_guard_killed_at_once_leave_no_rank(jobs: Jobs, shared: Path, hosts: str, host: str, shell: str) -> None:  # noqa: F811
    held = Held(jobs, shared, "--reset-timeout", 10, hosts=hosts, holds=TWICE, shell=shell)
    jobs.cluster.kill_at_once(host, [jobs.pid_of(host, name) for name in ("hvd-guard", "hvdrun-agent")])
    held.let_go()
    said = held.wait_for_line("continue")
    assert re.search(rf"on {host} were lost \((with the agent|the guard of the agent on {host} was killed)", said), said
    await_end_on(jobs, host)
    held.let_go("end")
    lost = [0, 1] if host == "login" else [2, 3]
    held.check_end([rank for rank in ALL_CONTINUE if rank not in lost], "")


def test_an_agent_that_was_stopped_is_waited_for(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1)
    held.kill("n2", "hvdrun-agent", "STOP")
    held.wait_for_line(WAITS)
    held.kill("n2", "hvdrun-agent", "CONT")
    held.let_go()
    held.check_end(ALL_CONTINUE, "")


@pytest.mark.parametrize("how", ["stopped-for-a-while", "stopped", "all-stopped-for-a-while", "killed-and-its-guard-stopped"])
def test_the_ranks_of_an_agent_that_does_not_answer_are_lost_if_another_one_dies(jobs: Jobs, shared: Path, how: str) -> None:  # noqa: F811
    """The job ends, though the agent may never say that its ranks have ended."""
    held = Held(jobs, shared, "--host-timeout", 1, "--reset-timeout", 3, holds=TWICE)
    silent = {"all-stopped-for-a-while": "hvd-guard|hvdrun-agent|elastic_trainer",
              "killed-and-its-guard-stopped": "hvd-guard"}.get(how, "hvdrun-agent")
    held.kill("n2", silent, "STOP")
    if "killed" in how:
        held.kill("n2", "hvdrun-agent")
    jobs.cluster.output("kill", "-KILL", str(held.pids()[0]), on="n1", user="root")
    held.let_go()
    said = held.wait_for_line("continue")
    assert re.search(r"ranks 2-3 on n2 \(did not come to generation 2 within 3 s \(--reset-timeout\)\)", said), said
    if "for-a-while" in how:
        held.kill("n2", silent, "CONT")
        await_end_on(jobs, "n2")
    held.let_go("end")
    held.check_end([1], "")
    if "killed" in how:
        held.kill("n2", "hvd-guard", "CONT")


def test_ranks_continue_when_ssh_is_killed(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, "--ssh-client", "openssh", holds=TWICE)
    pid = jobs.cluster.output("pgrep", "-f", "^ssh .*n2", user="root").split()[0]
    jobs.cluster.output("kill", "-KILL", pid, user="root")
    held.let_go()
    said = held.wait_for_line("continue")
    assert re.search(r"on n2 were lost \(with the agent: ssh was killed by SIGKILL\)", said), said
    await_end_on(jobs, "n2")
    held.let_go("end")
    held.check_end([0, 1], "")


def test_a_host_that_only_the_launcher_cannot_reach_is_lost(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1, "--reset-timeout", 20, epochs=400)
    with separated(jobs, "login", "n2"):
        held.let_go()
        said = held.wait_for_line("continue")
        assert re.search(SILENT, said), said
        await_end_on(jobs, "n2")
    held.check_end([0, 1], "")


def test_the_launchers_host_continues_alone_when_it_is_cut_off(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1, hosts="login:2,n1:1,n2:1")
    jobs.cluster.cut("login")
    held.let_go()
    for host in ("n1", "n2"):
        await_end_on(jobs, host)
    jobs.cluster.join("login")
    held.check_end([0, 1], r"note: (?=.*rank 2 on n1)(?=.*rank 3 on n2).* were lost.*: 2 ranks continue")


def test_a_stopped_launcher_delays_the_next_generation_only(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1)
    held.kill("login", "hvdrun", "STOP")
    jobs.cluster.output("kill", "-KILL", str(held.pids()[0]), on="n1", user="root")
    held.let_go()
    time.sleep(3)
    held.kill("login", "hvdrun", "CONT")
    held.check_end([1, 2, 3], r"note: rank 0 on n1 was lost \(killed by SIGKILL\): 3 ranks continue")
