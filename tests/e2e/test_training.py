"""Training loops of the examples with checkpoints, restarts, early stopping, signals and learning rates."""

from __future__ import annotations

import os
import re
import signal

import pytest

from harness import BUILD, Done, Running, Sandbox

DIGITS = BUILD / "bin/examples/digits"
CNN = BUILD / "bin/examples/cnn"
EPOCH = re.compile(r"epoch (\d+) loss ([0-9.]+) train")
# Long enough that the test can interrupt it after the first epochs, also on a busy machine.
LONG = ("--epochs", 150, "--batch", 256)


def losses(done: Done) -> dict[int, float]:
    """Returns the loss of each epoch. An epoch that is printed before and after a restart must have the same loss."""
    found: dict[int, float] = {}
    for epoch, loss in EPOCH.findall(done.out_text):
        assert found.setdefault(int(epoch), float(loss)) == pytest.approx(float(loss), rel=1e-5), epoch
    return found


def assert_same(found: dict[int, float], wanted: dict[int, float]) -> None:
    assert found.keys() == wanted.keys()
    for epoch, loss in wanted.items():
        assert found[epoch] == pytest.approx(loss, rel=1e-5), f"epoch {epoch}"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    sandbox = Sandbox(tmp_path_factory.mktemp("uninterrupted"))
    try:
        return losses(sandbox.run("-np", 2, DIGITS, *LONG).expect(0))
    finally:
        sandbox.close()


def start_long(sandbox: Sandbox, size: int, *arguments: object) -> Running:
    """Starts a long training and waits until it has saved a checkpoint."""
    run = sandbox.start("-np", size, *arguments, DIGITS, *LONG, "--checkpoint-dir", "run")
    run.wait_for(b"epoch 4 ")
    return run


@pytest.mark.core
@pytest.mark.parametrize("victim", [0, 1])
def test_a_job_restarted_after_a_kill_reaches_the_same_losses(
        sandbox: Sandbox, uninterrupted: dict[int, float], victim: int) -> None:
    run = start_long(sandbox, 2, "--max-restarts", 1)
    os.kill(sandbox.ranks()[victim], signal.SIGKILL)
    done = run.wait().expect(0)
    assert done.out_text.count("continuing from run/") == 1, done
    assert_same(losses(done), uninterrupted)


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_killed_job_resumes_with_another_number_of_ranks(
        sandbox: Sandbox, uninterrupted: dict[int, float], size: int) -> None:
    first = start_long(sandbox, 2)
    first.signal(signal.SIGKILL)
    before = losses(first.wait())
    done = sandbox.run("-np", size, DIGITS, *LONG, "--checkpoint-dir", "run", "--resume").expect(0)
    after = losses(done)
    assert min(after) > 1, "the job began anew"
    # The last line before the kill may be lost with hvdrun.
    assert [*before] == [*range(1, max(before) + 1)] and [*after] == [*range(min(after), max(uninterrupted) + 1)]
    found = {**before, **after}
    assert_same(found, {epoch: uninterrupted[epoch] for epoch in found})


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGUSR1, marks=pytest.mark.slow)])
def test_a_signal_to_one_rank_stops_all_at_the_same_step_with_a_checkpoint(
        sandbox: Sandbox, uninterrupted: dict[int, float], number: signal.Signals) -> None:
    first = start_long(sandbox, 2)
    # Only one rank gets the signal; it must inform the others.
    os.kill(sandbox.ranks()[1], number)
    stopped = first.wait().expect(124)
    assert "hvdrun: note: 2 ranks stopped early, as requested, after " in stopped.err_text, stopped
    assert stopped.err_text.endswith("hvdrun: note: the program stopped before its end; exit code 124\n"), stopped
    assert stopped.report["exit_code"] == 124 and stopped.report["first_failure"] is None, stopped.report
    assert f"signal {number.value} ({number.name})" in stopped.out_text, stopped
    assert "test accuracy" not in stopped.out_text
    step = re.search(r"stopped after step (\d+):", stopped.out_text)
    assert step, stopped
    done = sandbox.run("-np", 2, DIGITS, *LONG, "--checkpoint-dir", "run", "--resume").expect(0)
    assert f"step {step[1]}\n" in done.out_text, done
    assert_same({**losses(stopped), **losses(done)}, uninterrupted)


def test_sigterm_to_hvdrun_saves_a_checkpoint_of_the_last_step(sandbox: Sandbox) -> None:
    run = start_long(sandbox, 2, "--grace", 30)
    run.signal(signal.SIGTERM)
    done = run.wait().expect(128 + signal.SIGTERM)
    assert "stopped after step" in done.out_text, done


def test_a_failed_last_checkpoint_fails_the_job(sandbox: Sandbox) -> None:
    run = start_long(sandbox, 2)
    (sandbox.files / "run").rename(sandbox.files / "elsewhere")
    (sandbox.files / "run").mkdir()
    run.wait_for(b"not saved: ", "err")
    os.kill(sandbox.ranks()[0], signal.SIGUSR1)
    done = run.wait().expect(1)
    assert done.err_text.count("is not the one that was opened; is its file system still mounted?") > 1, done
    assert "stopped after step" not in done.out_text


def test_without_resume_training_begins_anew(sandbox: Sandbox) -> None:
    first = losses(sandbox.run("-np", 2, DIGITS, "--epochs", 3, "--checkpoint-dir", "run").expect(0))
    again = sandbox.run("-np", 2, DIGITS, "--epochs", 3, "--checkpoint-dir", "run").expect(0)
    assert_same(losses(again), first)
    # A resumed job continues from the second job's checkpoint, although its steps are not higher than the first job's.
    longer = losses(sandbox.run("-np", 2, DIGITS, "--epochs", 4, "--checkpoint-dir", "run", "--resume").expect(0))
    assert list(longer) == [4]


def test_early_stopping_ends_at_the_same_epoch_for_every_number_of_ranks(sandbox: Sandbox) -> None:
    ends = []
    for size in (1, 2, 3):
        done = sandbox.run("-np", size, DIGITS, "--epochs", 400, "--patience", 5).expect(0)
        assert "stopping early: no better validation loss for 5 epochs" in done.out_text, done
        ends.append(max(losses(done)))
    assert len(set(ends)) == 1 and ends[0] < 400, ends


@pytest.mark.parametrize("rule", ["linear", pytest.param("sqrt", marks=pytest.mark.slow), "two-thirds"])
def test_scaled_learning_rates_reach_95_percent_accuracy(sandbox: Sandbox, rule: str) -> None:
    done = sandbox.run("-np", 3, DIGITS, "--scale", rule, "--warmup", 3).expect(0)
    accuracy = re.search(r"test accuracy: ([0-9.]+) %", done.out_text)
    assert accuracy and float(accuracy[1]) >= 95.0, done


@pytest.mark.slow
@pytest.mark.core
def test_the_cnn_reaches_98_percent_accuracy_with_one_and_two_ranks(sandbox: Sandbox) -> None:
    reached = []
    for size in (1, 2):
        done = sandbox.run("-np", size, CNN, "--epochs", 10).expect(0)
        accuracy = re.search(r"test accuracy: ([0-9.]+) %", done.out_text)
        assert accuracy, done
        reached.append(float(accuracy[1]))
    assert min(reached) >= 98.0, reached
    assert abs(reached[0] - reached[1]) <= 0.5, reached


def test_the_log_file_has_each_line_once_with_its_time(sandbox: Sandbox) -> None:
    sandbox.run("-np", 3, DIGITS, "--epochs", 2, "--log", "train.log", "--quiet").expect(0)
    lines = (sandbox.files / "train.log").read_text().splitlines()
    assert [bool(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} epoch [12] loss ", line)) for line in lines] \
        == [True, True], lines


@pytest.mark.parametrize("arguments, message", [
    (("--scale", "cubic"), "--scale: "),
    (("--resume",), "--resume needs --checkpoint-dir"),
])
def test_an_error_in_arguments_is_printed_by_one_rank(sandbox: Sandbox, arguments: tuple[str, ...], message: str) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", DIGITS, *arguments)
    assert 0 < done.code < 128 and not done.survivors, done
    said = [line for line in done.err_text.splitlines() if message in line and not line.startswith("hvdrun:")]
    assert len(said) == 1, done


@pytest.mark.parametrize("arguments, message", [
    (("--log", "/no/such/folder/log"), "cannot open the log /no/such/folder/log: No such file or directory"),
    (("--checkpoint-dir", "/dev/null/run"), "cannot create the folder /dev/null/run: Not a directory"),
])
def test_an_error_of_rank_0_ends_all_ranks(sandbox: Sandbox, arguments: tuple[str, ...], message: str) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", DIGITS, *arguments)
    assert 0 < done.code < 128 and not done.survivors, done
    assert "[0] digits: " in done.err_text and message in done.err_text
