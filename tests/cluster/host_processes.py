"""Stops and continues all processes of a host without any of them noticing; kills users' processes.

The cgroup freezer would do the same, but many machines do not let a test make cgroups. With signals
the order matters: a running parent sees its child stop (waitpid with WUNTRACED), so parents
are stopped before their children and continued after them.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from settings import TIME_LIMIT_S

FIRST_USER_UID = 1000

_STOP_BIT = 1 << (signal.SIGSTOP - 1)


def processes_of(init: int) -> dict[int, int]:
    """Returns the pids in the PID namespace of this pid 1, each with its parent."""
    namespace = os.readlink(f"/proc/{init}/ns/pid")
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                found[pid] = int(_status(pid)["PPid"])
        except (OSError, KeyError):
            continue  # it has ended
    return found


def freeze(init: int, limit_s: float = TIME_LIMIT_S / 3) -> set[int]:
    """Stops all processes of the host; returns those that were not stopped before.
    Raises TimeoutError if one does not stop, after continuing the others."""
    stopped: set[int] = set()
    deadline = time.monotonic() + limit_s
    while awake := [pid for pid in _parents_first(processes_of(init)) if _is_awake(pid)]:
        if time.monotonic() > deadline:
            thaw(init, stopped)
            raise TimeoutError(f"processes {awake} did not stop in {limit_s:.0f} s")
        for pid in awake:
            if _signal(pid, signal.SIGSTOP):
                stopped.add(pid)
            # A parent that is returning from waitpid() would still see its child stop.
            while _is_awake(pid) and time.monotonic() < deadline:
                time.sleep(0.0002)
    return stopped


def thaw(init: int, stopped: set[int]) -> None:
    """Continues the processes that freeze() stopped."""
    for pid in reversed(_parents_first(processes_of(init))):
        if pid in stopped:
            _signal(pid, signal.SIGCONT)


def kill_users(init: int) -> None:
    """Kills the processes of ordinary users on the host, but not its services."""
    for pid in processes_of(init):
        try:
            if int(_status(pid)["Uid"].split()[0]) >= FIRST_USER_UID:
                _signal(pid, signal.SIGKILL)
        except (OSError, KeyError):
            continue  # it has ended


def _parents_first(parents: dict[int, int]) -> list[int]:
    def depth(pid: int) -> int:
        steps = 0
        while (pid := parents.get(pid, 0)) in parents:
            steps += 1
        return steps

    return sorted(parents, key=depth)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _is_awake(pid: int) -> bool:
    """Returns whether the process can still run its own code: it is not stopped, not dead, and not in a vfork(2) whose child
    was stopped first, which it cannot leave without stopping too."""
    try:
        status = _status(pid)
    except OSError:
        return False
    pending = int(status["ShdPnd"], 16) & _STOP_BIT
    return status["State"][0] not in "TtZX" and not (status["State"][0] == "D" and pending)


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
