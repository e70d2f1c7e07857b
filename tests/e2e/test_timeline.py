"""The timeline of a training job: one file with the events of all ranks."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import defaultdict
from pathlib import Path

import pytest

from harness import BUILD, Sandbox, read_bytes, wait_until

DIGITS = BUILD / "bin/examples/digits"


# Largest accepted difference, in microseconds, of the clocks of two processes on one host. Their starts differ by far more.
CLOCKS_APART = 100


def read(path: Path) -> list[dict]:
    """Reads a timeline, checks the fields and the nesting that viewers need, and returns its events."""
    events = json.loads(path.read_text())["traceEvents"]
    rows: dict[tuple[int, int], list[dict]] = defaultdict(list)
    for event in events:
        assert event["ph"] in ("M", "X", "i") and {"pid", "tid", "name"} <= event.keys(), event
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    for row in rows.values():
        check_nesting(row)
    return events


def check_nesting(row: list[dict]) -> None:
    ends: list[float] = []
    for before, event in zip([row[0], *row], row):
        begin, end = event["ts"], event["ts"] + event["dur"]
        assert begin >= before["ts"], f"{event} is sorted after {before}"
        while ends and ends[-1] <= begin + 0.001:
            ends.pop()
        assert not ends or end <= ends[-1] + 0.001, f"{event} ends after its enclosing event, which ends at {ends[-1]}"
        ends.append(end)


def named(events: list[dict], name: str, rank: int) -> list[dict]:
    return [event for event in events if event["name"] == name and event["pid"] == rank]


@pytest.mark.core
@pytest.mark.parametrize("size", [2, 4])
def test_the_timeline_has_the_collectives_of_all_ranks(sandbox: Sandbox, size: int) -> None:
    sandbox.run("-np", size, "--timeline-filename", "run.json", DIGITS, "--epochs", 2).expect(0)
    events = read(sandbox.files / "run.json")
    assert not list(sandbox.files.glob(".hvd*")) and not list(sandbox.files.glob("run.json.*"))
    steps = [event for event in events if event["name"].startswith("step ") and event["pid"] == 0]
    assert len(steps) > 10
    for rank in range(size):
        assert named(events, "process_name", rank)[0]["args"]["name"].startswith(f"rank {rank} (")
        operations = [event for event in events if event.get("cat") == "operation"]
        gradients = named(operations, "allreduce gradients", rank)
        assert len(gradients) == len(steps)
        assert {event["args"]["type"] for event in gradients} == {"float64"}
        assert all(re.fullmatch(r"rank \d", event["args"]["last"]) for event in gradients)
    # A collective must not end on a rank before it has begun on all, within the stated accuracy of the clocks.
    stated = json.loads((sandbox.files / "run.json").read_text())["otherData"]["clocks agree within us"]
    for calls in zip(*(named(events, "allreduce gradients", rank) for rank in range(size))):
        begun = max(call["ts"] for call in calls)
        assert all(call["ts"] + call["dur"] + 2 * float(stated) + CLOCKS_APART >= begun for call in calls), calls


def test_horovods_variables_write_a_timeline_with_horovods_event_names(sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, "-x", "HOROVOD_TIMELINE=h.json", "-x", "HOROVOD_TIMELINE_MARK_CYCLES=1", DIGITS,
                "--epochs", 1).expect(0)
    events = read(sandbox.files / "h.json")
    for name in ("NEGOTIATE_ALLREDUCE", "ALLREDUCE"):
        found = named(events, name, 1)
        assert "allreduce.gradients" in {event["args"].get("tensor") for event in found}, found[:3]
    assert len(named(events, "CYCLE_START", 1)) > 1


def test_an_unwritable_timeline_ends_the_job_at_once(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--timeline-filename", "missing/run.json", DIGITS, "--epochs", 1)
    assert 0 < done.code < 128 and not done.survivors, done
    assert "missing/run.json: No such file or directory" in done.err_text, done


@pytest.mark.parametrize("killed", [0, 1])
def test_recordings_of_all_ranks_are_kept_after_a_rank_is_killed(sandbox: Sandbox, killed: int) -> None:
    # With a checkpoint folder the example handles SIGTERM and ends normally.
    run = sandbox.start("-np", 3, "--grace", 30, "--timeline-filename", "run.json", DIGITS, "--epochs", 100000,
                        "--checkpoint-dir", "saved")
    run.wait_for(b"epoch 2 ")
    files = [sandbox.files / (f"run.json.rank{rank}" if rank else "run.json") for rank in range(3)]
    wait_until(lambda: b"allreduce gradients" in read_bytes(files[killed]), "the rank's recording")
    os.kill(sandbox.ranks()[killed], signal.SIGKILL)
    done = run.wait().expect(128 + signal.SIGKILL)
    for rank in {0, 1, 2} - {killed}:
        assert f"hvd: the timeline of rank {rank} is in {files[rank]}" in done.err_text, done
        assert named(read(files[rank]), "allreduce gradients", rank)
    cut = json.loads(files[killed].read_text() + "]")
    assert named(cut, "allreduce gradients", killed), "the killed rank's recording is lost"
