"""hvdrun's report has the values of hvd.progress, also with hvd.run()."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from framework_cases import python_of
from harness import HVDRUN, PYTHON, Sandbox, python_environment
from rank_cases import PYTHONS

PROGRAMS = Path(__file__).resolve().parent / "programs"

LOOP = """if True:
    import hvd, numpy as np
    hvd.init()
    for epoch in range(3):
        for batch in hvd.progress([np.ones((4, 2))] * 5, epoch=epoch, epochs=3):
            hvd.progress(loss=0.25 + hvd.rank())
    hvd.shutdown()"""

CALLS = """if True:
    import hvd
    hvd.init()
    hvd.progress(step=10, steps=100, epoch=1, epochs=2)
    try:
        hvd.progress(step=50, steps=40, loss=7, epoch=5)
    except hvd.errors.InvalidArgumentError:
        pass
    hvd.progress(step=11, samples=8)
    hvd.shutdown()"""

RUN = """
import hvd

def train():
    hvd.init()
    for batch in hvd.progress(range(7)):
        pass
    hvd.shutdown()

if __name__ == "__main__":
    hvd.run(train, np=2)
"""


WITHOUT_INIT = """if True:
    import os, subprocess, sys, hvd
    hvd.set_metric("accuracy", 0.5)
    for epoch in range(2):
        for batch in hvd.progress(range(5), epoch=epoch, epochs=2, loss=0.25, samples=3):
            pass
    if os.fork() == 0:
        os._exit(0 if hvd.progress(samples=1) is None else 1)
    assert os.wait()[1] == 0
    if len(sys.argv) > 1:
        hvd.init()
        hvd.progress(step=11, steps=12)
        hvd.shutdown()
        hvd.progress(loss=0.125)
        subprocess.run([sys.executable, "-c", "import hvd; hvd.progress(step=99)"], check=True)"""

# What a callback needs of each package. The real ones run in test_the_callbacks_work_in_the_loops_of_other_packages.
PACKAGES = {"lightning/pytorch.py": "class Callback: pass", "lightning/__init__.py": "",
            "transformers.py": "class TrainerCallback: pass",
            "keras.py": "class callbacks:\n    class Callback: pass"}
HOOKS = """if True:
    import math, sys
    from types import SimpleNamespace as Some
    import hvd
    assert not {"lightning", "transformers", "keras"} & set(sys.modules)
    trainer = Some(current_epoch=0, global_step=0, estimated_stepping_batches=math.inf, max_epochs=-1)
    callback = hvd.callbacks.for_lightning()
    callback.on_train_epoch_start(trainer, None)
    callback.on_train_batch_end(trainer, None, None, [], 0)
    trainer.estimated_stepping_batches, trainer.max_epochs, trainer.global_step = 3.0, 1, 4
    callback.on_train_epoch_start(trainer, None)
    callback.on_train_batch_end(trainer, None, {"loss": 0.5}, [Some(shape=(7, 2))], 0)
    args, state = Some(train_batch_size=4, gradient_accumulation_steps=2), Some(global_step=5, max_steps=8, epoch=0.999, num_train_epochs=2)
    callback = hvd.callbacks.for_transformers()
    callback.on_train_begin(args, state, None, model=None)
    callback.on_epoch_begin(args, state, None, model=None)
    callback.on_step_end(args, state, None)
    callback.on_log(args, state, None, logs={"loss": 0.25})
    callback.on_log(args, state, None, logs={"eval_loss": 9})
    callback = hvd.callbacks.for_keras()
    callback.params = {"epochs": 3, "steps": None}
    callback.on_epoch_begin(2)
    callback.on_train_batch_end(0, {})"""


KERAS = """if True:
    import numpy as np
    import tensorflow as tf
    import hvd.tensorflow.keras as hvd
    hvd.init()
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss="mse")
    inputs = np.ones((32, 4), np.float32)
    history = model.fit(inputs, inputs[:, :1], batch_size=8, epochs=3, verbose=0,
                        callbacks=[hvd.callbacks.ProgressCallback(batch_size=8)])
    print("loss", history.history["loss"][-1], flush=True)
    hvd.shutdown()"""


def find_package(python: str, name: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([python, "-c", code]).returncode == 0


def test_progress_around_a_loop_reports_steps_samples_and_epochs(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, PYTHON, "-c", LOOP, env=python_environment()).expect(0)
    for rank in done.report["ranks"]:
        counters = rank["counters"]
        assert (counters["steps"], counters["steps_in_all"]) == (15, 15)
        assert (counters["samples"], counters["epochs_over"], counters["epochs_in_all"]) == (60, 3, 3)
        assert [epoch["samples"] for epoch in counters["epochs"]] == [20] * 3
        assert counters["metrics"] == {"loss": 0.25 + rank["rank"]}
    progress = done.report["progress"]
    assert progress["samples_per_second"] > 0 and progress["waiting_percent"] >= 0
    assert (progress["step"], progress["steps"], progress["epochs"], progress["loss"]) == (15, 15, 3, 0.25)
    assert "training: epoch 3/3, step 15/15, " in done.err_text and ", loss 0.25, " in done.err_text


def test_a_call_of_progress_with_an_error_changes_nothing(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, PYTHON, "-c", CALLS, env=python_environment()).expect(0)
    assert done.report["progress"] == {"epoch": 1, "epochs": 2, "step": 11, "steps": 100, "samples_per_second": None,
                                       "loss": None, "waiting_percent": None}
    assert "training: epoch 2/2, step 11/100\n" in done.err_text


def test_the_report_of_a_program_without_progress_has_none(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "true").expect(0)
    assert done.report["progress"] is None and "training:" not in done.err_text


def test_progress_is_reported_from_hvd_run(sandbox: Sandbox) -> None:
    program = sandbox.files / "program.py"
    program.write_text(RUN)
    path = {"PATH": f"{HVDRUN.parent}:/usr/bin:/bin"}
    done = sandbox.run(program, tool=PYTHON, env=python_environment(path)).expect(0)
    assert "training: step 7/7, " in done.err_text


@pytest.mark.parametrize("also_init", [False, True])
def test_progress_is_reported_without_init(sandbox: Sandbox, also_init: bool) -> None:
    """A child process does not report once the rank has joined the job."""
    words = ["init"] if also_init else []
    done = sandbox.run("-np", 1, PYTHON, "-c", WITHOUT_INIT, *words, env=python_environment()).expect(0)
    counters = done.report["ranks"][0]["counters"]
    assert (counters["steps"], counters["steps_in_all"]) == ((11, 12) if also_init else (10, 10))
    assert (counters["samples"], counters["epochs_in_all"]) == (31, 2), counters
    assert counters["metrics"] == {"accuracy": 0.5, "loss": 0.125 if also_init else 0.25}
    assert "training: epoch 2/2, step 1" in done.err_text, done
    sandbox.run("-c", WITHOUT_INIT, tool=PYTHON, env=python_environment()).expect(0)


def test_a_program_beside_hvdrun_of_another_version_reports_nothing(sandbox: Sandbox) -> None:
    page = sandbox.files / "page"
    page.write_bytes(bytes(65536))
    sandbox.run("-c", "import hvd; hvd.progress(step=1)", tool=PYTHON, env=python_environment({"HVD_STATUS": f"{page}@0"})).expect(0)
    assert page.read_bytes() == bytes(65536)


def test_the_callbacks_report_what_each_package_passes_to_them(sandbox: Sandbox) -> None:
    for name, text in PACKAGES.items():
        (sandbox.files / name).parent.mkdir(exist_ok=True)
        (sandbox.files / name).write_text(text)
    known = python_environment()
    done = sandbox.run("-np", 1, PYTHON, "-c", HOOKS, env={**known, "PYTHONPATH": f"{sandbox.files}:{known['PYTHONPATH']}"}).expect(0)
    counters = done.report["ranks"][0]["counters"]
    assert (counters["steps"], counters["steps_in_all"], counters["samples"]) == (1, 8, 15), counters
    assert (counters["epoch"], counters["epochs_in_all"], counters["metrics"]) == (2, 3, {"loss": 0.25})


@pytest.mark.slow
@pytest.mark.torch_loops
@pytest.mark.parametrize("how", ["lightning", "transformers", "keras"])
def test_the_callbacks_work_in_the_loops_of_other_packages(sandbox: Sandbox, how: str) -> None:
    python = python_of("TORCH")
    if not python or not find_package(python, how):
        pytest.skip("./check --soak makes the environment for it")
    done = sandbox.run("-np", 1, python, PROGRAMS / "progress_callbacks.py", how,
                       env=python_environment()).expect(0)
    counters = done.report["ranks"][0]["counters"]
    assert (counters["steps"], counters["steps_in_all"], counters["samples"]) == (6, 6, 24), counters
    assert (counters["epochs_over"], counters["epochs_in_all"]) == (2, 2) and counters["metrics"]["loss"] >= 0


@pytest.mark.tensorflow
def test_kerass_progress_callback_reports_steps_samples_and_loss(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "-H", "localhost:1", PYTHONS["tensorflow"], "-c", KERAS, env=python_environment()).expect(0)
    counters = done.report["ranks"][0]["counters"]
    assert (counters["steps"], counters["steps_in_all"], counters["samples"]) == (12, 12, 96)
    assert (counters["epochs_over"], counters["epochs_in_all"]) == (3, 3)
    assert done.report["progress"]["samples_per_second"] > 0
    assert counters["metrics"]["loss"] == float(done.out_text.split()[1])
