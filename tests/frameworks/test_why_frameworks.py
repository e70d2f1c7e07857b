"""Why a program of TensorFlow or JAX hangs: the rank that the others wait for, among the many threads of these libraries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from asking import ask_until, end
from framework_cases import python_of
from harness import Sandbox, python_environment, wait_until

# In each, ranks meet in a collective, and rank 1 does something else before the last one, in other().
HVD = """\
import os, time
import tensorflow as tf
import hvd.tensorflow as hvd
hvd.init()
rank = hvd.rank()
@tf.function
def meet(): return hvd.allreduce(tf.ones(4), name="grad/layer3")
"""
# A thread of TensorFlow runs the function that loads.
HVD_DATA = """\
import os
import tensorflow as tf
import hvd.tensorflow as hvd
hvd.init()
rank = hvd.rank()
def load(index):
    if index == 3 and rank == 1:
        os.read(os.pipe()[0], 1)
    return index
for index in tf.data.Dataset.range(9).map(lambda index: tf.py_function(load, [index], tf.int64)):
    hvd.allreduce(tf.ones(4), name="grad/layer3")
    if index == 2: print("ready", flush=True)
"""
TENSORFLOW = """\
import os, time
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = int(os.environ["RANK"])
@tf.function
def total(): return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
def meet(): total()
"""
JAX = """\
import os, time
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize()
rank = jax.process_index()
def meet(): multihost_utils.process_allgather(jax.numpy.array(rank))

"""
# JAX computes on its own threads. The program runs on until it needs the result.
JAX_THREADS = """\
import os, time, jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
rank = jax.process_index()
sharding = NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x"))
batch = jax.make_array_from_process_local_data(sharding, jax.numpy.ones((64, 256)))
def meet(): return jax.jit(lambda x: jax.numpy.tanh(x @ x.T) @ x)(batch).block_until_ready()
"""
OTHER = """\
def other():
    BODY
for _ in range(3): meet()
print("ready", flush=True)
if rank == 1:
    other()
meet()
"""
BODY_LINE = 9


@dataclass
class Row:
    python: str
    text: str
    words: tuple[str, ...]
    options: tuple[str, ...] = ()


FOR_JAX, FOR_TENSORFLOW = ("--for", "jax"), ("--for", "tensorflow")
SLEEPS = "time.sleep(1000)"
READS = "os.read(os.pipe()[0], 1)"
ROWS = {
    "sleeps while a function of TensorFlow waits in hvd": Row("TENSORFLOW", HVD + OTHER.replace("BODY", SLEEPS), (
        "rank 1 has not come to allreduce \"grad/layer3\"", f"it is in train.py:{BODY_LINE} other(), sleeping")),
    "reads in a thread of TensorFlow": Row("TENSORFLOW", HVD_DATA, (
        "rank 1 has not come to allreduce \"grad/layer3\"", "its other thread is in train.py:8 load(), waiting for fd", "pipe")),
    # TensorFlow's ring is in a stack, or it waits for the network and is in none ("a tf.function").
    "sleeps while TensorFlow waits": Row("TENSORFLOW", TENSORFLOW + OTHER.replace("BODY", SLEEPS), (
        "rank 0 is in ", f", called from train.py:7; rank 1 is in train.py:{BODY_LINE} other(), sleeping",), FOR_TENSORFLOW),
    "reads while TensorFlow waits": Row("TENSORFLOW", TENSORFLOW + OTHER.replace("BODY", READS), (
        "rank 0 is in ", f", called from train.py:7; rank 1 is in train.py:{BODY_LINE} other(), waiting for fd",), FOR_TENSORFLOW),
    "sleeps while JAX waits": Row("JAX", JAX + OTHER.replace("BODY", SLEEPS), (
        f"rank 0 is in process_allgather, called from train.py:6; rank 1 is in train.py:{BODY_LINE} other(), sleeping",), FOR_JAX),
    "reads while JAX waits": Row("JAX", JAX + OTHER.replace("BODY", READS), (
        f"rank 0 is in process_allgather, called from train.py:6; rank 1 is in train.py:{BODY_LINE} other(), waiting for fd",), FOR_JAX),
    "sleeps while a thread of JAX waits": Row("JAX", JAX_THREADS + OTHER.replace("BODY", SLEEPS), (
        "rank 0 is in gloo::", f", called from train.py:7; rank 1 is in train.py:{BODY_LINE} other(), sleeping"), FOR_JAX),
}


def parameters() -> list[object]:
    return [pytest.param(row, id=name, marks=() if python_of(row.python) else pytest.mark.environment) for name, row in ROWS.items()]


@pytest.mark.parametrize("row", parameters())
def test_the_rank_and_the_line_are_named(row: Row, sandbox: Sandbox) -> None:
    python = python_of(row.python)
    if not python:
        pytest.skip("./check --all makes the environment for it")
    script = sandbox.files / "train.py"
    script.write_text(row.text)
    environment = {**python_environment(), "HOME": str(sandbox.files), "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    job = sandbox.start("-np", 2, "--grace", "200ms", *row.options, python, script, env=environment)
    wait_until(lambda: job.out.count(b"ready") == 2 or job.process.poll() is not None, "the ranks to begin", 120)
    ask_until(job, row.words, 60)
    hang = end(job)
    for left in sandbox.tmp.glob("__autograph_generated_file*"):  # of processes that were stopped
        left.unlink()
    assert hang["blamed"] == [1] and hang["kind"] == "hangs", hang
