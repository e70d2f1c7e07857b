"""A job for benches that measure the end of a job after a rank has failed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from measure import HVDRUN, tool


class WaitingJob:
    """A job of at least four ranks that have all started. Rank 1 fails when fail() is called."""

    def __init__(self, folder: Path, ranks: int, *failure: str, hvdrun: str = HVDRUN) -> None:
        """Starts the job and waits until its ranks run. All hosts must share `folder`. `failure`: options of tests/programs/crash."""
        self._go, ready = folder / "go", folder / "ready"
        self._go.unlink(missing_ok=True)
        ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [hvdrun, "-np", str(ranks), tool("crash"), "--rank", "1", *failure, "--when", self._go, "--ready", ready],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ready.exists() or ready.read_text().count("\n") < ranks:
            if self._process.poll() is not None:
                sys.exit(f"hvdrun ended with code {self._process.returncode} before its ranks were ready")
            time.sleep(0.001)
        self.pids = {int(rank): int(pid) for rank, pid in map(str.split, ready.read_text().splitlines())}
        self.pid = self._process.pid

    def fail(self) -> None:
        self._go.touch()

    def wait(self) -> None:
        self._process.wait()

    def survivors(self) -> list[int]:
        """Returns the pids of the ranks on this host that still run."""
        return [pid for pid in self.pids.values() if Path(f"/proc/{pid}").exists()]
