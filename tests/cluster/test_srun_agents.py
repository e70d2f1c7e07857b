"""Agents that srun starts: their connections to the launcher, their failures and their cleanup.
Uses tests/programs/srun_agents.cpp as launcher."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import PYTHON, Cluster, wait_until
from harness import HVDRUN, HVDRUN_WORD, program, read_bytes

HOSTS = ["n1", "n2", "n3", "n4"]
# A rank that ends one second after SIGTERM.
SLOW_RANK = "trap 'sleep 1; echo left; exit 0' TERM; echo up; while :; do sleep 0.1; done"
# Opens 200 silent connections and 200 that send garbage, prints "ready" and waits for the end of stdin.
CROWD = """
import socket, sys
def connect():
    return socket.create_connection((sys.argv[1], int(sys.argv[2])))
crowd = []
for number in range(200):
    crowd.append(connect())
    crowd.append(connect())
    crowd[-1].sendall(b"\\x16\\x03\\x01" + bytes([number]) * 300)
print("ready", flush=True)
sys.stdin.read()
"""


class Agents:
    """A running srun_agents in an allocation of its own, started on the login host."""

    def __init__(self, cluster: Cluster, *words: object, allocation: tuple[str, ...] | None = ("-N4",),
                 agent: object = HVDRUN, user: str = "user", environment: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        salloc = [] if allocation is None else ["salloc", "-Q", *allocation]
        self.process = cluster.start(
            *salloc, program("srun_agents"), agent, *words, user=user, environment=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_for(self, text: str, count: int = 1) -> str:
        """Waits for `count` lines with the text; returns the last of these."""
        while len(found := [line for line in self.lines if text in line]) < count:
            line = self.process.stdout.readline()
            assert line, f"srun_agents ended before {count} lines with {text!r}: {self.lines}"
            self.lines.append(line.rstrip("\n"))
            assert text == "trouble" or not line.startswith("trouble"), line
        return found[count - 1]

    def wait(self) -> list[str]:
        """Waits for its end; returns all of its lines."""
        self.lines += self.process.stdout.read().splitlines()
        assert self.process.wait() == 0, self.lines
        return self.lines

    def say(self, word: str) -> None:
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def said(self, begin: str) -> list[str]:
        return sorted(line for line in self.lines if line.startswith(begin))

    @property
    def job(self) -> str:
        return self.wait_for("job ").split()[1]


@pytest.fixture
def started(cluster: Cluster) -> Iterator[list[Agents]]:
    """A list of Agents that are ended after the test."""
    running: list[Agents] = []
    yield running
    for agents in running:
        agents.process.kill()
        agents.process.wait()
        agents.process.stdin.close()
        agents.process.stdout.close()


def pids(cluster: Cluster, host: str, name: str) -> list[int]:
    """Returns the host's pids of its processes of that name."""
    return [int(word) for word in cluster.run("pgrep", "-x", name, on=host, user="root").stdout.split()]


def leftovers(cluster: Cluster, job: str) -> list[str]:
    """Returns processes and folders of the job that are left on any host."""
    found = []
    for host in ["login", *cluster.hosts]:
        for line in cluster.processes(host):
            pid, _, name, *_ = line.split()
            if re.search("hvdrun|srun", name) or f"HVD_JOB_ID={job}".encode() in read_bytes(f"/proc/{pid}/environ"):
                found.append(f"{host}: {line}")
        root = cluster.root_of(host)
        found += [f"{host}: /{folder}/{name}" for folder in ("tmp", "dev/shm") for name in os.listdir(root / folder) if job in name]
    return found


def assert_nothing_left(cluster: Cluster, job: str) -> None:
    wait_until(lambda: not leftovers(cluster, job), "the cleanup of processes and folders")


@pytest.mark.parametrize("user", ["user", "root"])
def test_an_agent_on_each_host_connects_and_ends_on_request(cluster: Cluster, started: list[Agents], user: str) -> None:
    agents = Agents(cluster, *HOSTS, user=user)
    started.append(agents)
    agents.wait_for("hello", 4)
    agents.say("stop")
    agents.wait()
    assert agents.said("hello") == [f"hello {host} {host}" for host in HOSTS]
    assert agents.said("done") == [f"done {host}" for host in HOSTS]
    assert not agents.said("trouble") and not agents.said("refused") and not agents.said("lost"), agents.lines
    assert agents.lines[-1] == "reaped yes"
    assert_nothing_left(cluster, agents.job)


@pytest.mark.gate
def test_srun_ends_once_all_agents_have_connected(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, "--rank", SLOW_RANK, *HOSTS)
    started.append(agents)
    agents.wait_for("output", 4)
    wait_until(lambda: not pids(cluster, "login", "srun"), "the end of srun")
    agents.say("stop")
    agents.wait()
    assert len(agents.said("exited")) == len(agents.said("done")) == 4, agents.lines
    assert_nothing_left(cluster, agents.job)


@pytest.mark.gate
def test_only_the_launcher_listens_and_only_until_all_agents_connect(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, *HOSTS)
    started.append(agents)
    address = agents.wait_for("listens").split()[1]
    assert address == "10.80.0.1"  # the address from which the hosts are reached
    agents.wait_for("hello", 4)
    port = agents.said("listens")[0].split()[2]
    wait_until(lambda: f":{port} " not in cluster.output("ss", "-Hltn", on="login", user="root"), "the launcher to stop listening")
    agents.say("stop")
    agents.wait()


def test_network_interface_sets_the_launchers_address(cluster: Cluster, started: list[Agents]) -> None:
    wrong = Agents(cluster, "--interface", "ib7", *HOSTS)
    started.append(wrong)
    assert "this host has no network interface ib7 (--network-interface)" in wrong.wait_for("error")
    name = cluster.output("sh", "-c", "ip -o -4 addr show | awk '$4 ~ /^10.80/ {print $2}'").strip()
    agents = Agents(cluster, "--interface", name, *HOSTS)
    started.append(agents)
    agents.wait_for("hello", 4)
    assert len(agents.said("listens")) == 2, "the launcher does not listen on IPv4 and IPv6"
    agents.say("stop")
    agents.wait()


def test_hosts_with_different_numbers_of_gpus_show_all_of_theirs(cluster: Cluster, started: list[Agents]) -> None:
    show = "tr '\\0' '\\n' < /proc/$PPID/environ | grep ^CUDA_VISIBLE_DEVICES="
    agents = Agents(cluster, "--rank", show, "n1:4", "n2:3", allocation=("-n7", "--gpus-per-task=1"))
    started.append(agents)
    agents.wait_for("hello", 2)
    agents.wait()
    assert agents.said("output") == ["output n1 CUDA_VISIBLE_DEVICES=0,1,2,3", "output n2 CUDA_VISIBLE_DEVICES=0,1,2"]


def test_agents_connect_despite_hundreds_of_foreign_connections(cluster: Cluster, started: list[Agents], shared: Path) -> None:
    gate = shared / "go"
    slow = shared / "slow-agent"
    script = f'#!/bin/sh\nwhile ! [ -e {gate} ]; do sleep 0.02; done\nexec {HVDRUN_WORD} "$@"\n'
    cluster.output("sh", "-c", f"cat > {slow}; chmod +x {slow}", input=script)
    agents = Agents(cluster, *HOSTS, agent=slow)
    started.append(agents)
    _, address, port = agents.wait_for("listens").split()
    crowd = cluster.start(PYTHON, "-c", CROWD, address, port, on="n2", user="other", text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert crowd.stdout.readline() == "ready\n"
        cluster.output("touch", gate)
        agents.wait_for("hello", 4)
        agents.say("stop")
        agents.wait()
    finally:
        crowd.communicate("")
    refused = agents.wait_for("refused").split()
    assert refused[2:] == "connections without the job's key were refused".split()
    assert int(refused[1]) >= 200  # silent connections are not accepted and stay in the kernel
    assert len(agents.said("done")) == 4


@pytest.mark.gate
def test_nothing_is_left_after_a_kill_of_the_launcher_under_srun(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, "--rank", SLOW_RANK, *HOSTS)
    started.append(agents)
    agents.wait_for("output", 4)
    cluster.output("pkill", "-KILL", "-x", "srun_agents")
    assert_nothing_left(cluster, agents.job)


def test_nothing_is_left_after_a_kill_of_the_launcher_before_agents_connect(
        cluster: Cluster, started: list[Agents], shared: Path) -> None:
    waiting = shared / "waiting-agent"
    script = f'#!/bin/sh\ntouch {shared}/$SLURMD_NODENAME\ncat > /dev/null\nexec {HVDRUN_WORD} "$@"\n'
    cluster.output("sh", "-c", f"cat > {waiting}; chmod +x {waiting}", input=script)
    agents = Agents(cluster, *HOSTS, agent=waiting)
    started.append(agents)
    agents.wait_for("listens")
    wait_until(lambda: len(cluster.output("ls", shared).split()) == 5, "the start of all agents")
    cluster.output("pkill", "-KILL", "-x", "srun_agents")
    assert_nothing_left(cluster, agents.job)


@pytest.mark.parametrize("name", ["hvd-guard", "hvdrun-agent", "hvdrun-link"])
def test_nothing_is_left_after_a_kill_of_guard_agent_or_link(cluster: Cluster, started: list[Agents], name: str) -> None:
    agents = Agents(cluster, "--rank", SLOW_RANK, *HOSTS)
    started.append(agents)
    agents.wait_for("output", 4)
    [victim] = pids(cluster, "n3", name)
    cluster.output("kill", "-KILL", victim, on="n3", user="root")
    agents.wait_for("failed n3" if name == "hvd-guard" else "closed n3")
    agents.say("stop")
    agents.wait()
    assert len(agents.said("closed")) == 4
    assert agents.lines[-1] == "reaped yes", agents.lines
    # When a task is dead, SLURM kills the rest of its step on that host, so the launcher cleans up n3 afterwards.
    assert ("cleaned up" in agents.lines) == (name != "hvd-guard")
    assert_nothing_left(cluster, agents.job)


@pytest.mark.gate
def test_nothing_is_left_after_a_kill_of_guard_and_agent_under_srun(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, "--rank", SLOW_RANK, *HOSTS)
    started.append(agents)
    agents.wait_for("output", 4)
    victims = pids(cluster, "n3", "hvd-guard") + pids(cluster, "n3", "hvdrun-agent")
    cluster.kill_at_once("n3", victims)
    agents.wait_for("closed n3")
    agents.say("stop")
    agents.wait()
    assert_nothing_left(cluster, agents.job)


def test_a_kill_of_srun_ends_the_job(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, "--keep-srun", "--rank", SLOW_RANK, *HOSTS)
    started.append(agents)
    agents.wait_for("output", 4)
    cluster.output("pkill", "-KILL", "-o", "-x", "srun")
    agents.wait()
    assert len(agents.said("closed")) == 4
    assert agents.said("lost")[0] == "lost n1 srun was killed by SIGKILL, and SLURM has ended its step"
    assert "cleaned up" in agents.lines
    assert_nothing_left(cluster, agents.job)


def test_scancel_lets_ranks_use_their_grace_period(cluster: Cluster, shared: Path) -> None:
    """SLURM sends SIGTERM to all processes of the job, but only the launcher ends the ranks, after their grace period."""
    script = (f"#!/bin/sh\nmkfifo {shared}/input\n"
              f"exec {shlex.quote(program('srun_agents'))} {HVDRUN_WORD} --rank \"{SLOW_RANK}\" {' '.join(HOSTS)} 0<>{shared}/input\n")
    cluster.output("sh", "-c", f"cat > {shared}/job.sh", input=script)
    said = cluster.output("sbatch", "-N4", "-o", shared / "output", shared / "job.sh").split()
    output = cluster.root_of("login") / str(shared / "output").lstrip("/")

    def lines() -> list[str]:
        return output.read_text().splitlines() if output.exists() else []

    wait_until(lambda: sum(" up" in line for line in lines()) == 4, "all ranks to start")
    cluster.output("scancel", said[-1])
    wait_until(lambda: any(line.startswith("reaped") for line in lines()), "the end of srun_agents")
    assert sum(line.startswith("exited") and line.endswith(" 0") for line in lines()) == 4, lines()
    assert not any(line.startswith("failed") for line in lines()), lines()
    assert lines()[-1] == "reaped yes"
    job = next(line.split()[1] for line in lines() if line.startswith("job"))
    assert_nothing_left(cluster, job)


@pytest.mark.gate
def test_the_error_names_a_host_without_hvdrun(cluster: Cluster, started: list[Agents]) -> None:
    for host in ["n1", "n2", "n4"]:
        cluster.output("cp", HVDRUN, "/tmp/hvdrun-copy", on=host)
    try:
        agents = Agents(cluster, *HOSTS, agent="/tmp/hvdrun-copy")
        started.append(agents)
        trouble = agents.wait_for("trouble")
        assert trouble == ("trouble n3: hvdrun not found at /tmp/hvdrun-copy; install the same version there, or say "
                           "where it is with --agent-path")
        agents.process.stdin.close()
        agents.wait()
        assert_nothing_left(cluster, agents.job)
    finally:
        for host in ["n1", "n2", "n4"]:
            cluster.output("rm", "/tmp/hvdrun-copy", on=host)


@pytest.mark.parametrize(("allocation", "hosts", "words"), [
    (("-N2",), ["n1", "n4"], "SLURM cannot start a step there; is each host in the allocation, and up?"),
    (("-N2", "--gres=gpu:1"), ["n1:2", "n2:2"], "the allocation has fewer GPUs on these hosts than were asked for"),
])
def test_the_error_explains_why_slurm_refuses_a_step(cluster: Cluster, started: list[Agents], allocation: tuple[str, ...],
                                         hosts: list[str], words: str) -> None:
    agents = Agents(cluster, *hosts, allocation=allocation)
    started.append(agents)
    assert words in agents.wait_for("trouble")
    agents.process.stdin.close()
    agents.wait()


@pytest.mark.gate
def test_the_error_explains_that_the_allocation_has_ended(cluster: Cluster, started: list[Agents]) -> None:
    agents = Agents(cluster, "n1", allocation=None, environment={"SLURM_JOB_ID": "99999"})
    started.append(agents)
    assert "the allocation has ended, or SLURM_JOB_ID names another" in agents.wait_for("trouble")
    agents.process.stdin.close()
    agents.wait()
