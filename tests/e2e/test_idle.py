"""What an idle job costs its host: how often hvdrun's processes wake up, and what they read. The tests count both over a time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import HVDRUN, Sandbox, wait_until
from terminal import spawn

OTHERS = 300  # other processes of the host
LOOK_S = 12  # longer than any look of the agent at its ranks while they are young


def named(pids: list[int]) -> dict[int, str]:
    return {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}


def wakeups(pid: int) -> dict[str, int]:
    """Returns how often each thread has slept, by its number."""
    found = {}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        found[status.parent.name] = int(fields["voluntary_ctxt_switches"])
    return found


def reads(pid: int) -> int:
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["syscr"])


def settle(sandbox: Sandbox, ranks: int) -> None:
    wait_until(lambda: len(sandbox.ranks()) == ranks, "the ranks' start")
    time.sleep(15)  # looks become rarer with the age of a job


def woken(pids: list[int]) -> tuple[dict[str, float], float]:
    """Returns how often the processes of each name woke up, and in how many seconds."""
    before, begin = {pid: wakeups(pid) for pid in pids}, time.monotonic()
    time.sleep(LOOK_S)
    seconds = time.monotonic() - begin
    wakes: dict[str, float] = {}
    for pid, name in named(pids).items():
        after = wakeups(pid)
        wakes[name] = wakes.get(name, 0) + sum(count - before[pid].get(thread, 0) for thread, count in after.items())
    return wakes, seconds


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.measures
def test_an_idle_job_wakes_hvdrun_and_the_agent_at_most_once_a_second(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 8, "--pmix", "off", "sleep", "7777")
    settle(sandbox, 8)
    wakes, seconds = woken([running.pid, *running.descendants()])
    for name in ("hvdrun", "hvdrun-agent"):
        assert wakes[name] <= seconds + 1, wakes
    assert wakes["hvd-guard"] == 0 and wakes["sleep"] == 0, wakes
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.measures
@pytest.mark.parametrize("place", ["file", "terminal"])
def test_an_idle_job_does_not_read_of_other_processes(sandbox: Sandbox, place: str) -> None:
    others: list[subprocess.Popen] = []
    try:
        for _ in range(OTHERS):
            others.append(subprocess.Popen(["sleep", "7777"]))
        if place == "terminal":
            child = spawn(sandbox, HVDRUN, "-np", 2, "--pmix", "off", "sleep", "7777")
        else:
            child = sandbox.start("-np", 2, "--pmix", "off", "sleep", "7777")
        settle(sandbox, 2)
        [agent] = [pid for pid, name in named(sandbox.processes()).items() if name == "hvdrun-agent"]
        before = reads(agent)
        time.sleep(LOOK_S)
        assert reads(agent) - before < OTHERS
        os.kill(child.pid, signal.SIGTERM)
        child.wait()
    finally:
        for other in others:
            other.kill()
        for other in others:
            other.wait()
