"""./check that is interrupted leaves nothing running."""

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
    """A command of a check, which says in a file which process it has started; then the check is interrupted."""

    def __init__(self, folder: Path, script: str) -> None:
        self.processes = Processes(shared_memory=folder)
        self._pid = folder / "pid"
        self._thread = threading.Thread(target=lambda: self.processes.run(["sh", "-c", script], cwd=folder), daemon=True)
        self._thread.start()
        wait_until(lambda: read_bytes(self._pid).endswith(b"\n"), "the command's child")
        self.child = int(read_bytes(self._pid))
        # Its mark cannot be read while it is becoming another program.
        wait_until(lambda: self.child in self.processes.marked(), "the mark of the command's child")

    def end(self) -> None:
        self.processes.end(patience=0.3)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the command itself still runs"
        wait_until(lambda: not alive(self.child), "the end of the command's child")
        assert self.processes.marked() == []


@pytest.mark.parametrize("script", [
    "sleep 1000 & echo $! > pid; wait",
    "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait",  # has left the command's session
    "setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.01; done' & wait",
    "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &); sleep 1000",  # and is no descendant of it any more
])
def test_what_a_command_has_started_ends_with_it(tmp_path: Path, script: str) -> None:
    Interrupted(tmp_path, script).end()


def test_a_command_may_tidy_up(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path, "trap 'kill $!; touch tidy; exit' TERM; sleep 1000 & echo $! > pid; wait")
    interrupted.end()
    assert (tmp_path / "tidy").exists()


def test_folders_in_shared_memory_go_with_it(tmp_path: Path) -> None:
    interrupted = Interrupted(tmp_path, 'mkdir "hvdtest-${HVD_CHECK}1"; mkdir hvdtest-other; sleep 1000 & echo $! > pid; wait')
    interrupted.end()
    assert [path.name for path in tmp_path.glob("hvdtest-*")] == ["hvdtest-other"]


def test_nothing_starts_any_more(tmp_path: Path) -> None:
    processes = Processes(shared_memory=tmp_path)
    processes.end(patience=0.1)
    with pytest.raises(StepFailed):
        processes.run(["touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists() and os.listdir(tmp_path) == []
