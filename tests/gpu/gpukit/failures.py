"""Runs jobs that fail in known ways. Checks their output, exit code, time to the end, and that the GPU's memory is free then."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from gpukit.kit import PROGRAMS, Kit
from gpukit.results import record

SAMPLE_SECONDS = 0.05
FREE_WITHIN_SECONDS = 1.0
SPARE_BYTES = 16 << 20
FAILS = re.compile(r"fails ([0-9.]+)$")  # programs/fail.py prints this line just before it fails


@dataclass(frozen=True)
class Failure:
    """One way to fail, see programs/fail.py."""

    how: str
    codes: tuple[int, ...]  # the allowed exit codes of hvdrun
    seconds: float  # the limit from the failure, or from Ctrl-C, to hvdrun's end
    says: tuple[str, ...]  # regular expressions; a line of the output must match each
    twins: bool = False  # through NCCL
    on_cpus: bool = True  # runs without a GPU too
    stall_seconds: Optional[int] = None  # the time of the stall check; Ctrl-C follows its warning
    interrupt_seconds: Optional[float] = None  # from the failure to Ctrl-C


STALL = r"^hvd.*(after 0.*rank 1|rank 1.*after 0)"  # the collective that waits, and the missing rank
FAILURES = (
    Failure("kernel", (137,), 3, ("told after.*PeerError", "rank 1 .*SIGKILL", "still computes: True"), twins=True, on_cpus=False),
    Failure("kill", (137,), 3, ("told after.*PeerError", "rank 1 .*SIGKILL")),
    Failure("stuck", (130,), 6, (STALL, "waited.*rank 1"), twins=True, stall_seconds=3),
    Failure("assert", (1, 134), 8, ("device-side assert", "rank 1"), twins=True, on_cpus=False),
    Failure("oom", (1,), 8, ("OutOfMemoryError", "rank 1"), on_cpus=False),
    Failure("hang", (130,), 4, ("rank 1 .*stuck", "waited"), on_cpus=False, interrupt_seconds=2),
)


def used_memory_reader() -> Optional[Callable[[], int]]:
    """Returns a function that returns the used bytes of GPU 0. Returns None without NVML."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()  # total, free, used
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
        return None

    def read() -> int:
        nvml.nvmlDeviceGetMemoryInfo(device, memory)
        return int(memory[2])
    return read


class MemoryWatch:
    """Samples the GPU's used memory on a thread while a job runs and after it."""

    def __init__(self) -> None:
        self._read = used_memory_reader()
        self._before = self._peak = self._read() if self._read else 0
        self._ended = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while self._read and not self._ended.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, self._read())

    def record_end(self, check: str) -> None:
        """Waits until the job's GPU memory is free, and records how long that took."""
        self._ended.set()
        if not self._read:
            return
        end, free_after = time.monotonic(), None
        while free_after is None and time.monotonic() < end + 4 * FREE_WITHIN_SECONDS:
            if self._read() <= self._before + SPARE_BYTES:
                free_after = time.monotonic() - end
            time.sleep(SAMPLE_SECONDS / 2)
        record(check, free_after is not None and free_after < FREE_WITHIN_SECONDS, free_after, f"< {FREE_WITHIN_SECONDS:g}",
               peak_mb=(self._peak - self._before) >> 20, left_mb=(self._read() - self._before) >> 20)


class FailingJob:
    """Runs one Failure and records its checks."""

    def __init__(self, kit: Kit, failure: Failure) -> None:
        self._kit = kit
        self._failure = failure
        self._name = failure.how + (", twins" if failure.twins else "")
        self._since: Optional[float] = None  # the time to hvdrun's end starts here (time.time())
        self._stalled_after: Optional[float] = None

    def run(self) -> None:
        failure = self._failure
        variables = {"HVD_STALL_CHECK_TIME_SECONDS": str(failure.stall_seconds)} if failure.stall_seconds else {}
        memory = MemoryWatch()
        done = self._kit.job(2, sys.executable, PROGRAMS / "fail.py", failure.how, twins=failure.twins,
                             limit=25, environment=variables, on_line=self._see)
        took = time.time() - (self._since or time.time())
        record(f"{self._name}: exit code", done.code in failure.codes, done.code, failure.codes)
        self._record_time("seconds from the failure (or Ctrl-C) to hvdrun's end", round(took, 3), failure.seconds)
        if failure.stall_seconds and self._stalled_after is not None:
            self._record_time("seconds from the failure to the stall check's line", round(self._stalled_after, 3),
                              2 * failure.stall_seconds)
        memory.record_end(f"{self._name}: seconds from hvdrun's end until the GPU's memory is free")
        for wanted in failure.says:
            record(f"{self._name}: says {wanted!r}", any(re.search(wanted, line) for line in done.lines),
                   [line for line in done.lines if line.startswith("hvd")][-4:])

    def _record_time(self, what: str, seconds: float, most: float) -> None:
        """Records a time. On a machine without a GPU, which may be busy, the time is only a measurement."""
        record(f"{self._name}: {what}", seconds < most if self._kit.gpu else None, seconds, f"< {most:g}")

    def _see(self, line: str, process: subprocess.Popen[str]) -> None:
        """Handles a line of the job's output, on the thread that reads it."""
        if found := FAILS.search(line):
            self._since = float(found[1])
            if self._failure.interrupt_seconds:
                threading.Timer(self._failure.interrupt_seconds, self._interrupt, [process]).start()
        elif self._failure.stall_seconds and self._stalled_after is None and re.search(STALL, line):
            self._stalled_after = time.time() - (self._since or time.time())
            self._interrupt(process)

    def _interrupt(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            self._since = time.time()
            process.send_signal(signal.SIGINT)


def run_failures(kit: Kit) -> None:
    """Runs the failing jobs one after the other, because each measures the GPU's memory. On CPUs runs them at once."""
    jobs = [FailingJob(kit, failure).run for failure in FAILURES if kit.gpu or failure.on_cpus]
    if kit.gpu:
        for run in jobs:
            run()
        return
    kit.together(*jobs)
    for failure in FAILURES:
        if not failure.on_cpus:
            record(failure.how, None, "left out: no GPU")
