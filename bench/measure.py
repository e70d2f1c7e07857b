"""Runs the contenders of a bench in turns, and computes ratios between them round by round. All benches use it.

Times on a shared machine drift. Every figure is therefore a ratio of two runs of one round, shortly after each other. The
benches print the median over the rounds and the quartiles. The two processors of a virtual machine are sometimes two cores
and sometimes two hyperthreads of one core. That may change within seconds. Each round measures the kind of processors before
it and after each contender. The benches compare only rounds of one kind.
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
# A cache line takes 300 ns between two cores and back. Two hyperthreads share their caches and take far less.
HYPERTHREADS_NS = 180
# Debian's mpirun hangs with 32 or more local ranks that exit at once without the last option.
MPIRUN_OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_cutoff", "100000"]


def tool(name: str) -> str:
    """Returns the path of a built program of the tests or benches."""
    for folder in ("bench", "tests"):
        if (path := BUILD / "bin" / folder / name).exists():
            return str(path)
    sys.exit(f"{name} is not built; ./check build makes it")


# Where a user's shell leaves the two streams: `>out 2>err`, `>log 2>&1`, `2>&1 | cat`, and nothing.
PLACES = ("apart", "one file", "pipe", "terminal")


@dataclass(frozen=True)
class Contender:
    name: str
    command: list[str]
    place: str | None = None  # one of PLACES; None: as the bench measures


def run_once(command: list[str]) -> float:
    """Returns the milliseconds from the start of a command to its end. Ends the bench if the command fails."""
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


def run_in(place: str, command: list[str]) -> float:
    """Returns the same as run_once() while the command's two streams go where a user leaves them."""
    with tempfile.TemporaryDirectory(prefix="hvd-bench-") as folder:
        file, reader = (os.POSIX_SPAWN_OPEN, 1, f"{folder}/out", os.O_WRONLY | os.O_CREAT, 0o600), None
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), file, (os.POSIX_SPAWN_DUP2, 1, 2)]
        ours: list[int] = []
        if place == "apart":
            actions[2] = (os.POSIX_SPAWN_OPEN, 2, f"{folder}/err", os.O_WRONLY | os.O_CREAT, 0o600)
        elif place == "pipe":
            reader, writer = os.pipe()
            ours = [writer]
            actions[1] = (os.POSIX_SPAWN_DUP2, writer, 1)
        elif place == "terminal":
            reader, line = os.openpty()
            ours = [line]
            # The first terminal that a new session opens becomes its own.
            actions = [(os.POSIX_SPAWN_OPEN, 0, os.ttyname(line), os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, 0, 1),
                       (os.POSIX_SPAWN_DUP2, 0, 2)]
        begin = time.perf_counter()
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=place == "terminal")
        for descriptor in ours:
            os.close(descriptor)
        try:
            while reader is not None and os.read(reader, 1 << 16):
                pass
        except OSError:  # a terminal ends with EIO
            pass
        _, status = os.waitpid(pid, 0)
        elapsed = time.perf_counter() - begin
        if reader is not None:
            os.close(reader)
        if status != 0:
            sys.exit(f"wait status {status} of {' '.join(command)} ({place})")
    return elapsed * 1000


def training_ms(command: list[str]) -> float:
    """Returns the milliseconds of an example from the end of its first epoch to the end of the last one."""
    ends = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("epoch "):
                ends.append(time.perf_counter())
        errors = process.stderr.read()
    if process.returncode != 0 or len(ends) < 2:
        sys.exit(f"{errors}exit code {process.returncode} of {' '.join(command)}")
    return (ends[-1] - ends[0]) * 1000


def cache_line_ns() -> float | None:
    """Returns the ns in which a cache line moves between the first two processors and back. Returns None with one processor."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        return None
    done = subprocess.run([tool("core_ping"), *map(str, processors)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def kind_of_processors() -> str:
    """Returns "cores", "hyperthreads" or "one processor"."""
    time_ns = cache_line_ns()
    if time_ns is None:
        return "one processor"
    return "hyperthreads" if time_ns < HYPERTHREADS_NS else "cores"


MIXED = "processors that changed"
compared_kind = ""  # the kind of the rounds that were compared last


def kind_of_round(seen: list[str]) -> str:
    """Returns the kind of a round from the kinds that were measured before it and after each contender."""
    return seen[0] if len(set(seen)) == 1 else MIXED


def of_one_kind(kinds: list[str]) -> list[int]:
    """Returns the numbers of the rounds on the most frequent kind of processors. Prints how many rounds it leaves out."""
    global compared_kind
    compared_kind = kind = max(sorted(set(kinds) - {MIXED}), key=kinds.count, default=MIXED)
    if len(set(kinds)) > 1:
        print(f"  {len(kinds) - kinds.count(kind)} of {len(kinds)} rounds are left out: they were not on {kind}")
    return [number for number, each in enumerate(kinds) if each == kind]


def of_rounds(times: dict[str, dict[int, list[float]]], rounds: list[int]) -> dict[str, dict[int, list[float]]]:
    """Returns the times by system and size of only these rounds."""
    return {name: {size: [values[number] for number in rounds] for size, values in sizes.items()}
            for name, sizes in times.items()}


def in_turns(contenders: list[Contender], rounds: int,
             measure: Callable[[list[str]], float] = run_once) -> dict[str, list[float]]:
    """Runs each contender once in each round, in a random order. The first round is a warm-up."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    kinds = []
    for turn in range(rounds + 1):
        seen = [kind_of_processors()]
        for contender in random.sample(contenders, len(contenders)):
            elapsed = run_in(contender.place, contender.command) if contender.place else measure(contender.command)
            seen.append(kind_of_processors())
            if turn > 0:
                times[contender.name].append(elapsed)
        if turn > 0:
            kinds.append(kind_of_round(seen))
    chosen = of_one_kind(kinds)
    return {name: [values[number] for number in chosen] for name, values in times.items()}


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


def compare_places(title: str, command: list[str], rounds: int, target: float | None = None,
                   places: tuple[str, ...] = PLACES) -> None:
    """Compares a command whose two streams go to one place with the same while they go apart. Prints times in ms."""
    times = in_turns([Contender(place, command, place) for place in places], rounds)
    for place in places:
        print(f"  {title}, {place:<12}{Spread.of(times[place])}")
    for place in places[1:]:
        ratio = ratios(times, place, places[0])
        keep_ratio(f"{title}: {place} / {places[0]}", ratio.median)
        said = f"  {verdict(ratio.median, target)}" if target else ""
        print(f"  {title}, {f'{place} / {places[0]}':<24}{ratio}{said}")


def keep_ratio(name: str, ratio: float) -> None:
    """Adds hvdrun's time divided by the peer's to the file of bench/speed, if bench/speed runs this bench."""
    if path := os.environ.get("HVD_BENCH_RATIOS"):
        with open(path, "a") as file:
            file.write(f"{name}\t{compared_kind}\t{ratio:.3f}\n")


def verdict(value: float, target: float, at_least: bool = False) -> str:
    met = value >= target if at_least else value <= target
    return f"{'at least' if at_least else 'at most'} {target:g}: {'pass' if met else 'MISS'}"


def print_machine() -> None:
    commit = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty"], capture_output=True, text=True)
    time_ns = cache_line_ns()
    between = f" ({kind_of_processors()}: a cache line there and back takes {time_ns:.0f} ns)" if time_ns else ""
    print(f"hvdrun {commit.stdout.strip()}, {os.cpu_count()} processors{between}, {time.strftime('%Y-%m-%d')}; "
          "median (quartiles) over the rounds")
