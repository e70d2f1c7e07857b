"""How slow this machine is, and how busy it was while a step ran."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROCESSES = 200  # started by measured_slowness()
# Seconds that both parts of measured_slowness() take on a quiet machine with two cores of an AMD EPYC at 2.5 GHz.
REFERENCE_SECONDS = 0.45
BUSY_STOLEN, BUSY_PRESSURE = 0.10, 0.60


def measured_slowness() -> float:
    """How many times longer than on the reference machine work takes here now, at least 1. Time limits of tests grow by it.
    Starts processes and computes: tests do both."""
    begin = time.perf_counter()
    for _ in range(PROCESSES):
        subprocess.run(["/bin/true"], check=False)
    total = 0
    for number in range(2_000_000):
        total += number & 7
    return max(1.0, (time.perf_counter() - begin) / REFERENCE_SECONDS)


def slowness() -> float:
    """What measured_slowness() returned when this check began."""
    return float(os.environ.get("HVD_TEST_SLOWNESS", "1"))


def describe() -> str:
    return f"{os.cpu_count()} processors, slowness {slowness():.2f}"


@dataclass(frozen=True)
class Moment:
    wall: float  # seconds
    stolen: float  # processor seconds that the hypervisor gave to others
    waited: float  # seconds in which something waited for a processor; 0 where the kernel does not say


class Load:
    """Reads /proc/stat and /proc/pressure/cpu: proc(5), and "PSI" in the kernel's documentation."""

    def now(self) -> Moment:
        words = Path("/proc/stat").read_text().splitlines()[0].split()
        stolen = int(words[8]) / os.sysconf("SC_CLK_TCK") if len(words) > 8 else 0.0
        try:
            waited = int(Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
        except OSError:
            waited = 0.0
        return Moment(time.monotonic(), stolen, waited)

    def busy_since(self, before: Moment) -> str:
        """For example "pressure 41 %, stolen 2 %", with "busy machine" where that is much."""
        after = self.now()
        wall = max(1e-3, after.wall - before.wall)
        pressure = (after.waited - before.waited) / wall
        stolen = (after.stolen - before.stolen) / wall / (os.cpu_count() or 1)
        busy = "busy machine: " if stolen > BUSY_STOLEN or pressure > BUSY_PRESSURE else ""
        return f"{busy}pressure {100 * pressure:.0f} %, stolen {100 * stolen:.0f} %"
