"""hvd says if all ranks train on the same data, and is silent about other programs."""

from __future__ import annotations

import subprocess

import pytest

from harness import PYTHON, Sandbox, python_environment
from rank_cases import PYTHONS

# What makes the optimizer, and what gives a rank its data, are expressions.
TORCH = """if True:
    import os, signal, socket, sys, torch, hvd, hvd.torch
    def train(make_optimizer, data):
        hvd.init()
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 2)
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = eval(make_optimizer)
        for step in range(14):
            torch.manual_seed(step + 1000 * eval(data))
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        hvd.shutdown()
"""

ROWS = [("hvd.torch.DistributedOptimizer(plain)", "hvd.rank()"),
        ("hvd.torch.DistributedOptimizer(plain, groups=1)", "0"),
        ("hvd.torch.DistributedOptimizer(plain, shard=True)", "0"),
        ("hvd.torch.DistributedOptimizer(plain, op=hvd.Adasum)", "0"),
        ("hvd.torch.LocalSGD(plain, every=1)", "0")]
# Forks the two ranks of each row, because a process says it once.
ALL_ROWS = TORCH + f"""
    for row in {ROWS}:
        print(*row, file=sys.stderr, flush=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            os.environ["HVD_PORT"] = str(free.getsockname()[1])
        children = []
        for rank in ("0", "1"):
            children.append(os.fork())
            if children[-1] == 0:
                signal.alarm(30)  # a row that hangs ends
                os.environ.update(RANK=rank, WORLD_SIZE="2", LOCAL_RANK=rank, LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                  HVD_JOB_KEY="5" * 64)
                train(*row)
                os._exit(0)
        ends = [os.waitpid(child, 0)[1] for child in children]
        assert ends == [0, 0], ends"""

KERAS = """if True:
    import sys, numpy as np, tensorflow as tf, hvd.tensorflow.keras as hvd
    hvd.init()
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(2)])
    model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), loss="mse")
    random = np.random.default_rng(eval(sys.argv[1]))
    model.fit(random.normal(size=(112, 4)), random.normal(size=(112, 2)), batch_size=8, shuffle=False, verbose=0)
    hvd.shutdown()"""

WARNING = ("[0] hvd: warning: all 2 ranks computed the same gradients in 10 steps, so they train on the same data; give each rank "
           "its part, with a sampler or a shard (docs/train/one-gpu-to-many.md, step 5); if it is on purpose, set "
           "HVD_DATA_CHECK_DISABLE=1")


def said_by(sandbox: Sandbox, python: str, program: str, *arguments: str) -> list[str]:
    done = sandbox.run("-np", 2, "--bind-to", "none", "-H", "localhost:2", python, "-c", program, *arguments,
                       env=python_environment()).expect(0)
    return [line for line in done.err_text.splitlines() if not line.startswith("hvdrun: ")]


def test_rank_0_says_once_that_all_ranks_train_on_the_same_data(sandbox: Sandbox) -> None:
    assert said_by(sandbox, PYTHON, TORCH + "    train('hvd.torch.DistributedOptimizer(plain)', '0')") == [WARNING]


def test_each_optimizer_says_it_and_none_if_the_data_are_divided(sandbox: Sandbox) -> None:
    done = subprocess.run([PYTHON, "-c", ALL_ROWS], env={"PATH": "/usr/bin:/bin", **python_environment()}, cwd=sandbox.files,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=200)
    expected = []
    for optimizer, data in ROWS:
        expected += [f"{optimizer} {data}", *([WARNING.removeprefix("[0] ")] if data == "0" else [])]
    assert done.returncode == 0 and done.stderr.splitlines() == expected, done.stderr


@pytest.mark.tensorflow
@pytest.mark.slow
def test_keras_says_it_too(sandbox: Sandbox) -> None:
    assert WARNING in said_by(sandbox, PYTHONS["tensorflow"], KERAS, "0")
    assert not [line for line in said_by(sandbox, PYTHONS["tensorflow"], KERAS, "hvd.rank()") if "same data" in line]
