"""The digits example trains on real data with the same result for every number of ranks."""

from __future__ import annotations

import gzip
import os
import re
import signal
from pathlib import Path

import pytest

from harness import BUILD, TOP, Done, Sandbox

DIGITS = BUILD / "bin/examples/digits"
DIGITS_CUDA = BUILD / "bin/examples/digits_cuda"


def losses(done: Done) -> list[float]:
    """Returns the loss of each epoch, in order."""
    found = re.findall(r"epoch\s+(\d+).*?loss\D*([0-9.eE+-]+)", done.out_text)
    assert [int(epoch) for epoch, _ in found] == list(range(int(found[0][0]), int(found[0][0]) + len(found)))
    return [float(loss) for _, loss in found]


@pytest.mark.core
def test_two_ranks_reach_95_percent_accuracy(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, DIGITS, "--epochs", 20).expect(0)
    accuracy = re.search(r"test accuracy: ([0-9.]+) %", done.out_text)
    assert accuracy and float(accuracy[1]) >= 95.0, done
    assert done.out_text.count("test accuracy") == 1, "more than one rank printed the accuracy"


def test_losses_are_the_same_for_every_number_of_ranks(sandbox: Sandbox) -> None:
    alone = losses(sandbox.run("--epochs", 5, tool=DIGITS).expect(0))
    assert len(alone) == 5
    for size in (1, 2, 3, 4):
        other = losses(sandbox.run("-np", size, DIGITS, "--epochs", 5).expect(0))
        assert other == pytest.approx(alone, rel=1e-5), f"{size} ranks"


@pytest.mark.slow
def test_the_last_loss_is_the_same_after_ranks_were_lost(sandbox: Sandbox) -> None:
    words = (DIGITS, "--epochs", 200, "--seed", 1)
    alone = losses(sandbox.run(*words[1:], tool=DIGITS).expect(0))
    running = sandbox.start("--min-np", 2, "-np", 4, *words)
    for epoch, rank in ((1, 3), (5, 0)):
        running.wait_for(f"epoch {epoch} ".encode())
        os.kill(sandbox.ranks()[rank], signal.SIGKILL)
    done = running.wait().expect(0)
    found = re.findall(r"epoch (\d+) loss ([0-9.eE+-]+)", done.out_text)
    assert int(found[-1][0]) == 200 and float(found[-1][1]) == pytest.approx(alone[-1], rel=1e-5), done
    assert [entry["size"] for entry in done.report["generations"]] == [4, 3, 2], done


def rows() -> list[str]:
    with gzip.open(TOP / "examples/data/digits.csv.gz", "rt") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("bad", ["1,2,3", "x" + ",0" * 64])
def test_the_error_for_a_bad_row_names_file_and_line(sandbox: Sandbox, bad: str) -> None:
    path: Path = sandbox.files / "broken.csv.gz"
    lines = rows()
    lines[41] = bad
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")
    done = sandbox.run("-np", 2, "--grace", "0.3", DIGITS, "--data", path, "--epochs", 1)
    assert 0 < done.code < 128 and not done.survivors, done
    assert f"{path}:42" in done.err_text


def test_a_missing_data_file_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", DIGITS, "--data", "missing.csv.gz")
    assert 0 < done.code < 128 and "missing.csv.gz" in done.err_text


@pytest.mark.skipif(not DIGITS_CUDA.exists(), reason="was built without nvcc or cuBLAS")
def test_digits_cuda_without_a_gpu_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", "env", "CUDA_VISIBLE_DEVICES=", DIGITS_CUDA)
    assert done.code == 1 and not done.survivors, done
    assert done.err_text.count("] digits_cuda: no CUDA device") == 1, "more than one rank printed the error"
