"""hvdrun's report has the values of hvd.progress, also with hvd.run()."""

from __future__ import annotations

import pytest

from harness import HVDRUN, PYTHON, Sandbox, python_environment
from rank_cases import PYTHONS

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


@pytest.mark.tensorflow
def test_kerass_progress_callback_reports_steps_samples_and_loss(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "-H", "localhost:1", PYTHONS["tensorflow"], "-c", KERAS, env=python_environment()).expect(0)
    counters = done.report["ranks"][0]["counters"]
    assert (counters["steps"], counters["steps_in_all"], counters["samples"]) == (12, 12, 96)
    assert (counters["epochs_over"], counters["epochs_in_all"]) == (3, 3)
    assert done.report["progress"]["samples_per_second"] > 0
    assert counters["metrics"]["loss"] == float(done.out_text.split()[1])
