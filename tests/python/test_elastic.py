"""Python programs that continue when ranks are lost: hvd.elastic under hvdrun --min-np, and at fixed size."""

from __future__ import annotations

import math
import os
import random
import re
import signal
from pathlib import Path

import pytest

from harness import PYTHON, TOP, Done, Running, Sandbox, python_environment
from rank_cases import PYTHONS

PROGRAMS = Path(__file__).resolve().parent / "programs"
EXAMPLES = TOP / "examples/python"
STEPS = 12  # of elastic_torch.py
EPOCHS = 4  # of the examples


def run(sandbox: Sandbox, ranks: int, program: str, *arguments: object, options: tuple[object, ...] = ("--min-np", 1)) -> Done:
    return sandbox.run("-np", ranks, "--bind-to", "none", "-H", f"localhost:{ranks}", *options, PYTHON, PROGRAMS / program,
                       *arguments, env=python_environment())


def ends(done: Done) -> list[tuple[int, str, str, int]]:
    """Returns what each rank of elastic_steps.py had in the end: steps, the size at each step, those at resets, commits."""
    found = re.findall(r"^(?:\[\d\] )?steps (\d+) sizes (\d+) resets (\[.*\]) commits (\d+)$", done.out_text, re.MULTILINE)
    return [(int(steps), sizes, resets, int(commits)) for steps, sizes, resets, commits in found]


# ---- Losses -------------------------------------------------------------------------------------


def test_a_killed_rank_is_left_out_and_no_step_is_lost(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "elastic_steps.py", "kill").expect(0)
    assert ends(done) == [(10, "3333322222", "[2]", 10)] * 2, done
    assert "was lost (killed by SIGKILL): 2 ranks continue after" in done.err_text, done


def test_the_next_best_rank_gives_its_state_if_the_newest_dies_in_sync(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "elastic_steps.py", "root").expect(0)
    assert ends(done) == [(10, "3333311111", "[2, 1]", 10)], done


@pytest.mark.parametrize("what", ["raise", "exit", "leave"])
def test_an_exception_of_one_rank_is_a_loss(sandbox: Sandbox, what: str) -> None:
    done = run(sandbox, 3, "elastic_steps.py", what).expect(0)
    assert ends(done) == [(10, "3333322222", "[2]", 10)] * 2, done
    assert "rank 1" in done.err_text and "2 ranks continue after" in done.err_text, done
    assert "; 1 rank lost before" in done.err_text, done


def test_a_mismatch_after_a_reset_ends_the_job_and_names_the_tensor(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "elastic_steps.py", "mismatch")
    assert done.code not in (0, None) and not done.survivors, done
    assert 'MismatchError: allreduce "gradient of layer 3"' in done.err_text, done


@pytest.mark.parametrize("what", ["wait", "swallow"])
def test_a_rank_that_does_not_come_is_ended(sandbox: Sandbox, what: str) -> None:
    """The rank is in code of the program, or catches every exception and continues."""
    done = run(sandbox, 3, "elastic_steps.py", what, options=("--min-np", 1, "--reset-timeout", 1)).expect(0)
    assert ends(done) == [(10, "3333311111", "[1]", 10)], done
    assert "rank 1" in done.err_text and "did not come to generation 2 within 1 s" in done.err_text, done


@pytest.mark.parametrize("what", ["update", "internal"])
def test_all_ranks_form_a_new_generation_without_a_loss(sandbox: Sandbox, what: str) -> None:
    """One rank has recorded new hosts, or the program raises HorovodInternalError on all ranks."""
    done = run(sandbox, 3, "elastic_steps.py", what).expect(0)
    assert ends(done) == [(10, "3333333333", "[3]", 10)] * 3, done


# ---- New ranks ----------------------------------------------------------------------------------


def test_a_new_rank_takes_the_place_of_a_lost_one(sandbox: Sandbox) -> None:
    """It broadcasts before run(), while the others train."""
    done = run(sandbox, 3, "elastic_steps.py", "replace", options=("--min-np", 1, "--replace", "auto")).expect(0)
    assert sorted(ends(done)) == [(10, "3333322223", "[2, 3]", 10)] * 2 + [(10, "3333322223", "[3]", 10)], done
    assert "newcomer 3 rank 2 size 3 local 1" in done.out_text, done
    assert re.search(r"new rank 3 on \S+ has joined: 3 ranks continue after .*; rank 3 is rank 2 in the program", done.err_text), done


def test_spares_end_with_the_job(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "elastic_steps.py", "nothing", options=("--min-np", 1, "--spares", 2, "-H", "localhost:4")).expect(0)
    assert ends(done) == [(10, "2222222222", "[]", 10)] * 2 and "Traceback" not in done.err_text, done


# ---- Fixed size ---------------------------------------------------------------------------------


def test_a_program_for_elastic_jobs_runs_in_any_job(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "elastic_steps.py", "nothing", options=()).expect(0)
    assert ends(done) == [(10, "2222222222", "[]", 10)] * 2, done
    alone = sandbox.run(PROGRAMS / "elastic_steps.py", "nothing", tool=PYTHON, env=python_environment()).expect(0)
    assert ends(alone) == [(10, "1111111111", "[]", 10)], alone


def test_a_lost_rank_ends_a_job_of_fixed_size(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "elastic_steps.py", "kill", options=("--grace", 60))
    assert done.code == 137 and not ends(done) and not done.survivors, done


# ---- torch --------------------------------------------------------------------------------------


def start_undisturbed(sandbox: Sandbox, how: str = "plain") -> Running:
    """Starts the training on one rank, without hvdrun, beside the job of the test."""
    return sandbox.start(PROGRAMS / "elastic_torch.py", how, STEPS, tool=PYTHON, env=python_environment())


def loss_of(done: Done) -> float:
    [loss] = re.findall(r"\bloss (\S+) size", done.out_text)
    return float(loss)


def test_a_cnn_has_the_undisturbed_loss_after_two_losses(sandbox: Sandbox) -> None:
    """Member 2 dies in backward(). Then member 0, which has given its model to all, dies in sync."""
    alone = start_undisturbed(sandbox)
    done = run(sandbox, 3, "elastic_torch.py", "plain", STEPS, "2:6:backward", "0:6:sync").expect(0)
    assert "size 1 generation 3" in done.out_text, done
    assert math.isclose(loss_of(done), loss_of(alone.wait().expect(0)), rel_tol=1e-5), done


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", ["loop", "fit"])
def test_a_keras_model_has_the_undisturbed_loss_after_two_losses(sandbox: Sandbox, how: str) -> None:
    program, python = PROGRAMS / "elastic_keras.py", PYTHONS["tensorflow"]
    done = sandbox.run("-np", 3, "--min-np", 1, "--bind-to", "none", "-H", "localhost:3", python, program, how, 10, "2:3",
                       "0:7", env=python_environment()).expect(0)
    assert "size 1 generation 3" in done.out_text, done
    alone = sandbox.run(program, how, 10, tool=python, env=python_environment()).expect(0)
    assert math.isclose(loss_of(done), loss_of(alone), rel_tol=1e-5), done


def random_deaths(ranks: int, seed: int) -> list[str]:
    """Returns deaths of up to ranks - 1 members, each at a random step and point."""
    draw = random.Random(seed)
    members = draw.sample(range(ranks), draw.randint(1, ranks - 1))
    points = ("step", "backward", "optimizer", "commit", "committed", "sync")
    return [f"{member}:{draw.randrange(STEPS)}:{draw.choice(points)}" for member in members]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["passes", "clip"])
def test_accumulated_and_clipped_gradients_survive_a_loss(sandbox: Sandbox, how: str) -> None:
    alone = start_undisturbed(sandbox, how)
    done = run(sandbox, 4, "elastic_torch.py", how, STEPS, "2:6:backward", "0:8:optimizer").expect(0)
    assert "size 2 generation 3" in done.out_text, done
    assert math.isclose(loss_of(done), loss_of(alone.wait().expect(0)), rel_tol=1e-5), done


@pytest.mark.slow
def test_local_sgd_continues_at_the_same_place_in_the_period_on_all_ranks(sandbox: Sandbox) -> None:
    done = run(sandbox, 4, "elastic_torch.py", "LocalSGD", STEPS, "2:5:optimizer", "0:8:committed").expect(0)
    assert "size 2 generation 3" in done.out_text, done


@pytest.mark.slow
@pytest.mark.torch_loops
def test_a_scaler_of_gradients_survives_losses(sandbox: Sandbox) -> None:
    """PyTorch has had a GradScaler for CPUs since 2.3. Its scale grows every third step here."""
    python = PYTHONS["torch"]
    if python == PYTHON:
        pytest.skip("./check --soak makes the environment for it")
    env = python_environment()
    alone = sandbox.run(PROGRAMS / "elastic_torch.py", "scaled", STEPS, tool=python, env=env).expect(0)
    done = sandbox.run("-np", 3, "--min-np", 1, "--bind-to", "none", "-H", "localhost:3", python, PROGRAMS / "elastic_torch.py",
                       "scaled", STEPS, "2:4:backward", "0:7:committed", env=env).expect(0)
    assert "size 1 generation 3" in done.out_text, done
    assert math.isclose(loss_of(done), loss_of(alone), rel_tol=1e-5), done


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", ["LocalSGD", "Gossip"])
def test_methods_of_keras_that_keep_a_state_are_refused_in_elastic_jobs(sandbox: Sandbox, how: str) -> None:
    done = sandbox.run("-np", 2, "--min-np", 1, "--bind-to", "none", "-H", "localhost:2", PYTHONS["tensorflow"],
                       PROGRAMS / "elastic_keras.py", how, 4, env=python_environment())
    assert done.code == 1 and f"KerasState with {how}" in done.err_text and not done.survivors, done


@pytest.mark.slow
def test_methods_with_process_sets_are_refused_in_elastic_jobs(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "elastic_torch.py", "Gossip", STEPS)
    assert done.code == 1 and "TorchState with Gossip" in done.err_text and not done.survivors, done
    run(sandbox, 2, "elastic_torch.py", "Gossip", STEPS, options=()).expect(0)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_cnn_has_the_undisturbed_loss_after_random_deaths(sandbox: Sandbox, ranks: int) -> None:
    expected = loss_of(start_undisturbed(sandbox).wait().expect(0))
    for seed in range(8):
        deaths = random_deaths(ranks, seed)
        done = run(sandbox, ranks, "elastic_torch.py", "plain", STEPS, *deaths).expect(0)
        assert math.isclose(loss_of(done), expected, rel_tol=1e-5), (deaths, str(done))


# ---- The examples -------------------------------------------------------------------------------


@pytest.mark.parametrize("example", [pytest.param("elastic_torch.py", marks=pytest.mark.slow), "elastic_numpy.py"])
def test_the_examples_continue_with_the_losses_of_an_undisturbed_run(sandbox: Sandbox, example: str) -> None:
    def start(*arguments: object) -> Running:
        return sandbox.start("-np", 3, "--min-np", 1, "--bind-to", "none", "-H", "localhost:3", PYTHON, EXAMPLES / example,
                             "--epochs", EPOCHS, *arguments, env=python_environment())

    undisturbed = losses_by_epoch(start().wait().expect(0))
    job = start("--pause", "0.02")
    job.wait_for(b"epoch 2 ")
    [victim] = re.findall(rb"rank 2 is process (\d+)", bytes(job.out))
    os.kill(int(victim), signal.SIGKILL)
    done = job.wait().expect(0)
    assert "was lost (killed by SIGKILL): 2 ranks continue after" in done.err_text, done
    found = losses_by_epoch(done)
    assert list(found) == list(range(1, EPOCHS + 1)) and found == pytest.approx(undisturbed, abs=1e-3), done
    assert "with 2 ranks" in done.out_text, done


def losses_by_epoch(done: Done) -> dict[int, float]:
    return {int(epoch): float(loss) for epoch, loss in re.findall(r"epoch (\d+) loss ([\d.]+) with", done.out_text)}
