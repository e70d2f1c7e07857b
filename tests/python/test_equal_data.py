"""hvd says if all ranks train on the same data, and is silent about other programs."""

from __future__ import annotations

import pytest

from harness import PYTHON, Sandbox, python_environment
from rank_cases import PYTHONS

# Arguments: what makes the optimizer, and what gives a rank its data, as expressions.
TORCH = """if True:
    import sys, torch, hvd, hvd.torch
    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = eval(sys.argv[1])
    for step in range(14):
        torch.manual_seed(step + 1000 * eval(sys.argv[2]))
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    hvd.shutdown()"""

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


def warnings_of(sandbox: Sandbox, python: str, program: str, *arguments: str, **variables: str) -> list[str]:
    done = sandbox.run("-np", 2, "--bind-to", "none", "-H", "localhost:2", python, "-c", program, *arguments,
                       env=python_environment(variables)).expect(0)
    return [line for line in done.err_text.splitlines() if "same data" in line]


@pytest.mark.parametrize("optimizer", [
    "hvd.torch.DistributedOptimizer(plain)",
    "hvd.torch.DistributedOptimizer(plain, groups=1)",
    "hvd.torch.DistributedOptimizer(plain, shard=True)",
    "hvd.torch.DistributedOptimizer(plain, op=hvd.Adasum)",
    "hvd.torch.LocalSGD(plain, every=1)",
])
def test_rank_0_says_once_that_all_ranks_train_on_the_same_data(sandbox: Sandbox, optimizer: str) -> None:
    assert warnings_of(sandbox, PYTHON, TORCH, optimizer, "0") == [WARNING]


@pytest.mark.parametrize("optimizer", ["hvd.torch.DistributedOptimizer(plain)", "plain"])
def test_hvd_is_silent_if_the_data_are_divided(sandbox: Sandbox, optimizer: str) -> None:
    assert warnings_of(sandbox, PYTHON, TORCH, optimizer, "hvd.rank()") == []


def test_a_variable_silences_it(sandbox: Sandbox) -> None:
    assert warnings_of(sandbox, PYTHON, TORCH, "hvd.torch.DistributedOptimizer(plain)", "0", HVD_DATA_CHECK_DISABLE="1") == []


@pytest.mark.tensorflow
@pytest.mark.slow
def test_keras_says_it_too(sandbox: Sandbox) -> None:
    assert warnings_of(sandbox, PYTHONS["tensorflow"], KERAS, "0") == [WARNING]
    assert warnings_of(sandbox, PYTHONS["tensorflow"], KERAS, "hvd.rank()") == []
