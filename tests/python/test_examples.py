"""The programs of examples/python reach the same accuracy with every number of ranks, and print their results."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness import PYTHON, TOP, Done, Sandbox, python_environment, wait_until
from rank_cases import PYTHONS

pytestmark = pytest.mark.slow

EXAMPLES = TOP / "examples/python"
TIME_LIMIT = 200.0  # seconds per job; mostly for importing TensorFlow and tracing ResNet-50 twice

EPOCHS = 6
ACCURACY = 96.5  # percent. Measured with five seeds on one and two ranks: torch 98.1 to 98.6, Keras 97.8 to 99.2

EPOCH_LINE = re.compile(r"epoch (\d+): [\d.]+ s, \d+ images/s, test loss ([\d.]+), test accuracy ([\d.]+) %")


def run_example(sandbox: Sandbox, size: int, python: str, program: str, *arguments: object) -> Done:
    environment = python_environment({"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"})
    running = sandbox.start("-np", size, "--bind-to", "none", "-H", f"localhost:{size}", python, EXAMPLES / program,
                            *arguments, env=environment)
    wait_until(lambda: running.process.poll() is not None, f"the end of {program} with {size} ranks", TIME_LIMIT)
    return running.wait().expect(0)


def train(sandbox: Sandbox, size: int, python: str, program: str, *arguments: object) -> float:
    """Runs a training; returns the accuracy after the last epoch in percent."""
    done = run_example(sandbox, size, python, program, "--data", sandbox.files / "images", "--epochs", EPOCHS,
                       *arguments)
    lines = EPOCH_LINE.findall(done.out_text)
    assert [int(epoch) for epoch, _, _ in lines] == list(range(1, EPOCHS + 1)), f"not one line per epoch from rank 0: {done}"
    accuracy = float(lines[-1][2])
    for rank in done.report["ranks"]:
        counters = rank["counters"]
        assert counters["epochs_over"] == EPOCHS, counters
        assert counters["metrics"]["accuracy"] == pytest.approx(accuracy / 100, abs=1e-3), "ranks differ"
    return accuracy


def check_same_at_every_size(sandbox: Sandbox, python: str, program: str, *arguments: object) -> None:
    accuracies = {size: train(sandbox, size, python, program, *arguments) for size in (1, 2)}
    assert min(accuracies.values()) >= ACCURACY, f"accuracy by ranks: {accuracies}"
    assert abs(accuracies[1] - accuracies[2]) <= 1.0, f"accuracy by ranks: {accuracies}"


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.png")}


def test_make_images_writes_the_same_images_each_time(sandbox: Sandbox) -> None:
    for name in ("one", "two"):
        done = sandbox.run(EXAMPLES / "make_images.py", sandbox.files / name, tool=PYTHON).expect(0)
        assert "train: 1437 images" in done.out_text and "test: 360 images" in done.out_text, done
    assert files_below(sandbox.files / "one") == files_below(sandbox.files / "two")
    assert not list(sandbox.files.glob(".*")), "the temporary folder is left"


def test_torch_cnn_reaches_the_same_accuracy_on_one_and_two_ranks(sandbox: Sandbox) -> None:
    check_same_at_every_size(sandbox, PYTHONS["torch"], "torch_cnn.py")


def test_torch_cnn_continues_from_its_checkpoint(sandbox: Sandbox) -> None:
    arguments = ("--data", sandbox.files / "images", "--checkpoints", sandbox.files / "checkpoints", "--divide",
                 "--epochs")
    first = run_example(sandbox, 2, PYTHONS["torch"], "torch_cnn.py", *arguments, 1)
    then = run_example(sandbox, 1, PYTHONS["torch"], "torch_cnn.py", *arguments, 2)
    assert "continuing after epoch 1" in then.out_text and "continuing" not in first.out_text, then
    assert [epoch for epoch, _, _ in EPOCH_LINE.findall(then.out_text)] == ["2"], then
    before, after = (float(EPOCH_LINE.findall(done.out_text)[-1][1]) for done in (first, then))
    assert after < before, f"the loss rose from {before} to {after}"


@pytest.mark.tensorflow
@pytest.mark.parametrize("way", ["generator", "shard"])
def test_keras_cnn_reaches_the_same_accuracy_on_one_and_two_ranks(way: str, sandbox: Sandbox) -> None:
    checkpoints = sandbox.files / "checkpoints"
    check_same_at_every_size(sandbox, PYTHONS["tensorflow"], "keras_cnn.py", "--input", way, "--checkpoints",
                             checkpoints)
    assert sorted(path.name for path in checkpoints.iterdir()) == [f"epoch-00{n + 1}.keras" for n in range(EPOCHS)]


@pytest.mark.tensorflow
def test_resnet50_prints_seconds_per_epoch_and_images_per_second(sandbox: Sandbox) -> None:
    done = run_example(sandbox, 2, PYTHONS["tensorflow"], "resnet50.py", "--epochs", 2, "--batch_size", 2,
                       "--model_name", "resnet50", "--image_size", 32, "--steps", 4)
    text = done.out_text
    figures = re.findall(r"epoch time: ([\d.]+) s, images/sec: ([\d.]+)", text)
    assert len(figures) == 2 and all(float(seconds) > 0 for seconds, _ in figures), done
    assert re.search(r"^\[0\] Epoch 2/2$", text, re.MULTILINE), "rank 0 did not print Keras's lines"
    assert len(re.findall(r"2/2 - .*accuracy: ", text)) == 2, "the four steps of an epoch are not divided among two ranks"
    assert re.search(r"total time: [\d.]+ s on 2 ranks", text), done
    for rank in done.report["ranks"]:
        assert rank["counters"]["samples"] == 2 * 2 * 2, "not 2 epochs of 2 steps of 2 images"


def test_all_methods_reach_80_percent_and_send_the_expected_amount_of_data(sandbox: Sandbox) -> None:
    plot = sandbox.files / "losses.svg"
    done = run_example(sandbox, 2, PYTHONS["torch"], "methods.py", "--epochs", 5, "--target", 60, "--plot", plot)
    rows = re.findall(r"^\[0\] (\S.*?) +([\d.]+) % +(\d+) +([\d.]+) MB +[\d.]+ s +[\d.]+ s$", done.out_text, re.MULTILINE)
    assert len(rows) == 9 and {int(steps) for _, _, steps, _ in rows} == {225}, done
    assert min(float(accuracy) for _, accuracy, _, _ in rows) >= 80, done
    [synchronous, sharded, local, _, diloco, *_] = [float(sent) for *_, sent in rows]
    assert sharded == pytest.approx(synchronous, abs=0.2), done
    assert local < synchronous / 7 and diloco < synchronous / 20, done
    lines = ElementTree.parse(plot).findall(".//{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [225] * 9
    for line in lines:  # the loss falls, so the line ends lower, at a larger y
        heights = [float(point.split(",")[1]) for point in line.get("points").split()]
        assert heights[-1] > heights[0]


def test_methods_trains_a_cnn_with_the_chosen_methods(sandbox: Sandbox) -> None:
    done = run_example(sandbox, 2, PYTHONS["torch"], "methods.py", "--model", "cnn", "--epochs", 1, "--batch", 32, "--methods", "0,2")
    rows = re.findall(r"^\[0\] (\S.*?) +[\d.]+ % +(\d+) +([\d.]+) MB", done.out_text, re.MULTILINE)
    assert [(name, steps) for name, steps, _ in rows] == [("DistributedOptimizer", "23"), ("LocalSGD, every 8", "23")], done
