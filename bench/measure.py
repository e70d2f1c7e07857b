"""What the benches share: running contenders in turns, and ratios between them round by round.

Times on a shared machine drift; so every figure is a ratio of two runs of one round, taken within
moments of each other, and what is told is the median over the rounds with its quartiles.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("HVD_BUILD", TOP / "build")).resolve()
HVDRUN = str(BUILD / "bin/hvdrun")
HYDRA = "/usr/bin/mpiexec.hydra"
MPIRUN = "/usr/bin/mpirun.openmpi"
# Debian's mpirun hangs with 32 or more local ranks that exit at once without the last option.
MPIRUN_OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_cutoff", "100000"]


def tool(name: str) -> str:
    """A program that the build made for tests or benches."""
    for folder in ("bench", "tests"):
        if (path := BUILD / "bin" / folder / name).exists():
            return str(path)
    sys.exit(f"{name} is not built; ./check build makes it")


@dataclass(frozen=True)
class Contender:
    name: str
    command: list[str]


def run_once(command: list[str]) -> float:
    """Milliseconds from the start of a command to its end. Stops the bench when it fails."""
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, errors.fileno(), 2)])
        _, status = os.waitpid(pid, 0)
        elapsed = time.perf_counter() - begin
        if status != 0:
            errors.seek(0)
            sys.exit(f"{errors.read().decode(errors='replace')}wait status {status} of {' '.join(command)}")
    return elapsed * 1000


def training_ms(command: list[str]) -> float:
    """An example's training, from the end of its first epoch to the end of the last one."""
    ends = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("epoch "):
                ends.append(time.perf_counter())
        errors = process.stderr.read()
    if process.returncode != 0 or len(ends) < 2:
        sys.exit(f"{errors}exit code {process.returncode} of {' '.join(command)}")
    return (ends[-1] - ends[0]) * 1000


def in_turns(contenders: list[Contender], rounds: int,
             measure: Callable[[list[str]], float] = run_once) -> dict[str, list[float]]:
    """Each contender once a round, in another order each time. The first round only warms up."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(rounds + 1):
        for contender in random.sample(contenders, len(contenders)):
            elapsed = measure(contender.command)
            if turn > 0:
                times[contender.name].append(elapsed)
    return times


@dataclass(frozen=True)
class Spread:
    low: float
    median: float
    high: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        if len(values) < 2:
            return Spread(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(low, median, high)

    def __str__(self) -> str:
        return f"{self.median:8.2f}  ({self.low:.2f} to {self.high:.2f})"


def ratios(times: dict[str, list[float]], mine: str, peer: str) -> Spread:
    return Spread.of([own / other for own, other in zip(times[mine], times[peer])])


def verdict(value: float, target: float, at_least: bool = False) -> str:
    met = value >= target if at_least else value <= target
    return f"{'at least' if at_least else 'at most'} {target:g}: {'pass' if met else 'MISS'}"


def print_machine() -> None:
    commit = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], capture_output=True, text=True)
    print(f"hvdrun {commit.stdout.strip()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; "
          "median (quartiles) over the rounds")
