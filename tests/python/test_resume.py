"""Training resumes from checkpoints: the digits example with torch, training methods, and killed ranks."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from harness import PYTHON, TOP, Done, Sandbox, python_environment, wait_until

EXAMPLE = TOP / "examples/digits/train.py"
METHODS = Path(__file__).resolve().parent / "programs/methods_resume.py"
SAVER = Path(__file__).resolve().parent / "programs/saver.py"


def python(size: int, *words: object) -> tuple[list[object], dict[str, str]]:
    """Returns arguments and environment of hvdrun for a Python program."""
    return (["-np", size, "-H", f"localhost:{size}", "--bind-to", "none", "--grace", "0.3", PYTHON, *words],
            python_environment())


def run(sandbox: Sandbox, size: int, *words: object) -> Done:
    arguments, environment = python(size, *words)
    return sandbox.run(*arguments, env=environment)


def epochs(done: Done) -> dict[int, list[float]]:
    """Returns by epoch: training loss and accuracy, validation loss and accuracy."""
    numbers = r"loss (\S+) train accuracy (\S+) % validation loss (\S+) accuracy (\S+) %"
    return {int(epoch): [float(value) for value in values]
            for epoch, *values in re.findall(rf"epoch (\d+) {numbers}", done.out_text)}


@pytest.mark.slow
def test_the_example_resumes_with_another_number_of_ranks(sandbox: Sandbox) -> None:
    whole = epochs(run(sandbox, 1, EXAMPLE, "--checkpoints", "whole", "--epochs", 4).expect(0))
    assert list(whole) == [1, 2, 3, 4]
    first = run(sandbox, 2, EXAMPLE, "--checkpoints", "parts", "--epochs", 2).expect(0)
    second = run(sandbox, 3, EXAMPLE, "--checkpoints", "parts", "--epochs", 4).expect(0)
    assert "continuing from step 46" in second.out_text, second
    parts = {**epochs(first), **epochs(second)}
    assert list(epochs(second)) == [3, 4], second
    for epoch, values in whole.items():
        assert parts[epoch] == pytest.approx(values, rel=1e-3), f"epoch {epoch} differs"


@pytest.mark.slow
def test_sigterm_to_one_rank_stops_the_example_on_all_at_the_same_step(sandbox: Sandbox) -> None:
    arguments, environment = python(2, EXAMPLE, "--checkpoints", "run", "--epochs", 100_000, "--patience", 0)
    job = sandbox.start(*arguments, env=environment)
    job.wait_for(b"epoch 1 ")
    os.kill(sandbox.ranks()[1], signal.SIGTERM)
    done = job.wait().expect(124)
    stopped = re.search(r"stopped after step (\d+): signal 15 \(SIGTERM\)", done.out_text)
    assert stopped, done
    again = run(sandbox, 1, EXAMPLE, "--checkpoints", "run", "--epochs", 1)
    assert f"continuing from step {stopped[1]}" in again.expect(0).out_text


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_checkpoint_is_complete_after_a_rank_is_killed_while_saving(sandbox: Sandbox, victim: int) -> None:
    durable = 0
    for size in (2, 3):
        arguments, environment = python(size, SAVER, "folder")
        job = sandbox.start(*arguments, env=environment)
        job.wait_for(f"durable {durable + 3}\n".encode())
        os.kill(sandbox.ranks()[victim], signal.SIGKILL)
        done = job.wait()
        assert done.code != 0 and not done.survivors, done
        durable = max(int(step) for step in re.findall(r"durable (\d+)\n", done.out_text))
        wait_until(lambda: not sandbox.leftovers(), "the cleanup after the kill")
        loaded = run(sandbox, 1, SAVER, "folder", "check").expect(0)
        step = int(re.search(r"loaded (\d+)", loaded.out_text)[1])
        assert step >= durable, f"step {step} was loaded, but step {durable} was durable"
        durable = step


def losses(sandbox: Sandbox, method: str, folder: str, *parts: tuple[int, int]) -> list[float]:
    """Runs one job for each of `parts`, its number of ranks and of steps; returns the loss after each."""
    found = []
    for size, steps in parts:
        done = run(sandbox, size, METHODS, method, folder, steps).expect(0)
        found.append(float(re.search(r"^\[0\] step \d+ loss (\S+)$", done.out_text, re.MULTILINE)[1]))
    return found


@pytest.mark.parametrize("method", ["shard", pytest.param("ParameterServer", marks=pytest.mark.slow)])
def test_a_method_resumes_exactly_with_another_number_of_ranks(sandbox: Sandbox, method: str) -> None:
    *_, parts = losses(sandbox, method, "parts", (2, 3), (3, 3))
    [whole] = losses(sandbox, method, "whole", (2, 6))
    assert parts == pytest.approx(whole, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["LocalSGD", "DiLoCo"])
def test_a_method_with_local_steps_resumes_within_a_period(sandbox: Sandbox, method: str) -> None:
    *_, same = losses(sandbox, method, "same", (2, 6), (2, 5))
    [whole] = losses(sandbox, method, "whole", (2, 11))
    assert same == whole, "the loss differs with the same number of ranks"
    before, after = losses(sandbox, method, "other", (2, 6), (3, 60))
    assert after < before, "the loss does not fall with another number of ranks"
