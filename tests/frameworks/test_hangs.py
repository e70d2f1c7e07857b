"""Why a program of TensorFlow or JAX hangs: `hvdrun why` names the rank that the others wait for, and its line."""

from __future__ import annotations

import subprocess

import pytest

from framework_cases import python_of
from harness import HVDRUN, Sandbox, python_environment, wait_until

TENSORFLOW = """\
import time
import tensorflow as tf
import hvd.tensorflow as hvd
def load():
    time.sleep(1000)
hvd.init()
rank = hvd.rank()
@tf.function
def meet():
    return hvd.allreduce(tf.ones(4), name="grads")
"""
JAX = """\
import time
import jax
from jax.experimental.multihost_utils import process_allgather
def load():
    time.sleep(1000)
jax.distributed.initialize()
rank = jax.process_index()
def meet():
    return process_allgather(jax.numpy.ones(4))
"""
BODY = """\
for _ in range(3):
    meet()
print("ready", flush=True)
if rank == 1:
    load()
meet()
"""
ROWS = {
    "TENSORFLOW": (TENSORFLOW, (), "rank 1 has not come to allreduce \"grads\" (call 4), for which 2 ranks have waited "),
    "JAX": (JAX, ("--for", "jax"), "2 ranks are in process_allgather, called from train.py:9; "),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_rank_and_its_line_are_named(name: str, sandbox: Sandbox) -> None:
    if not python_of(name):
        pytest.skip("./check --all makes the environment for it")
    text, options, others = ROWS[name]
    script = sandbox.files / "train.py"
    script.write_text(text + BODY)
    job = sandbox.start("-np", 3, "-H", "localhost:3", "--bind-to", "none", "--grace", "0.2", *options, python_of(name), script,
                        env=python_environment({"TMPDIR": str(sandbox.files)}))  # autograph leaves files if it is ended
    wait_until(lambda: job.out.count(b"ready") == 3 or job.process.poll() is not None, "the ranks to begin")
    said: list[str] = []

    def is_named() -> bool:
        done = subprocess.run([HVDRUN, "why", str(job.pid)], capture_output=True, text=True, timeout=60, env=sandbox.environment())
        said.append(done.stdout + done.stderr)
        verdict = said[-1].partition("\n")[0]
        return verdict.startswith(others) and " in train.py:5 load(), sleeping" in verdict

    try:
        wait_until(is_named, "the verdict", 30)
    except AssertionError:
        raise AssertionError(f"{said[-1]}\n{job.err.decode()}") from None
    job.process.terminate()
    job.wait()
