"""An interrupted ./check leaves no process running."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from harness import TOP, alive, read_bytes, wait_until

sys.path.insert(0, str(TOP / "scripts"))
from check_run import Processes, StepFailed  # noqa: E402


class Interrupted:
    """A command of ./check that writes the pid of its child to a file, until the check is interrupted."""

    def __init__(self, folder: Path, script: str) -> None:
        self.processes = Processes(shared_memory=folder)
        self._pid = folder / "pid"
        self._thread = threading.Thread(target=lambda: self.processes.run(["sh", "-c", script], cwd=folder), daemon=True)
        self._thread.start()
        wait_until(lambda: read_bytes(self._pid).endswith(b"\n"), "the command's child")
        self.child = int(read_bytes(self._pid))
        # /proc shows no environment, and so no mark, during exec().
        wait_until(lambda: self.child in self.processes.marked(), "the mark in the child's environment")

    def end(self) -> None:
        self.processes.end(patience=0.3)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the command itself still runs"
        wait_until(lambda: not alive(self.child), "the end of the command's child")
        assert self.processes.marked() == []


@pytest.mark.parametrize("script", [
    "sleep 1000 & echo $! > pid; wait",
    "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait",  # in a session of its own
    "setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.01; done' & wait",
    "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &); sleep 1000",  # no longer a descendant
])
def test_interrupting_a_check_ends_what_its_command_started(tmp_path: Path, script: str) -> None:
    Interrupted(tmp_path, script).end()


def test_an_interrupted_command_may_run_its_cleanup(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path, "trap 'kill $!; touch tidy; exit' TERM; sleep 1000 & echo $! > pid; wait")
    interrupted.end()
    assert (tmp_path / "tidy").exists()


def test_interrupting_a_check_removes_only_its_own_folders_in_shared_memory(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path, 'mkdir "hvdtest-${HVD_CHECK}1"; mkdir hvdtest-other; sleep 1000 & echo $! > pid; wait')
    interrupted.end()
    assert [path.name for path in tmp_path.glob("hvdtest-*")] == ["hvdtest-other"]


def test_an_interrupted_check_starts_no_further_command(tmp_path: Path) -> None:
    processes = Processes(shared_memory=tmp_path)
    processes.end(patience=0.1)
    with pytest.raises(StepFailed):
        processes.run(["touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists() and os.listdir(tmp_path) == []
