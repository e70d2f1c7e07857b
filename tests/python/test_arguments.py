"""Wrong arguments and unknown names: hvd's exceptions name the function, the argument, what was given and what is allowed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import PYTHON, Sandbox, python_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"


def last_line(sandbox: Sandbox, program: str) -> str:
    """Returns the last line that a program without a launcher prints on stderr."""
    done = subprocess.run([PYTHON, "-c", program], env={"PATH": "/usr/bin:/bin", **python_environment()}, cwd=sandbox.files,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("module", ["hvd", "hvd.torch", "hvd.numpy", "hvd.data", "hvd.io", "hvd.checkpoint", "hvd.elastic",
                                    "hvd.torch.elastic"])
def test_nonsense_for_any_public_function_is_an_exception_that_helps(sandbox: Sandbox, module: str) -> None:
    done = subprocess.run([PYTHON, PROGRAMS / "nonsense.py", module], env={"PATH": "/usr/bin:/bin", **python_environment()},
                          cwd=sandbox.files, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1].startswith("walked "), done.stdout
    assert [line for line in lines if line.startswith(module)] == [], "\n".join(lines)


TENSOR = "import torch, hvd.torch as h; h.init(); "


@pytest.mark.parametrize("program, error", [
    (TENSOR + "h.allreduce(torch.ones(2), op='sum')",
     "TypeError: hvd.torch.allreduce: op is 'sum', not one of hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product or None; "
     "write hvd.Sum"),
    (TENSOR + "h.allreduce(torch.ones(2), prescale_factor='2')", "TypeError: hvd.torch.allreduce: prescale_factor is '2', not a number"),
    (TENSOR + "h.broadcast(torch.ones(2), root_rank='0')", "TypeError: hvd.torch.broadcast: root_rank is '0', not a whole number"),
    (TENSOR + "h.allreduce(torch.ones(2), process_set=[0])",
     "TypeError: hvd.torch.allreduce: process_set is [0], not an hvd.ProcessSet"),
    (TENSOR + "h.DistributedOptimizer(torch.nn.Linear(2, 2))",
     "TypeError: hvd.torch.DistributedOptimizer: optimizer is an object of the class torch.nn.modules.linear.Linear, not a "
     "torch.optim.Optimizer"),
    ("import hvd; hvd.rank()",
     "hvd.errors.NotInitializedError: hvd.rank(): called before hvd.init() or after hvd.shutdown()"),
    ("import hvd; hvd.set_metric('loss', 'low')", "TypeError: hvd.set_metric: value is 'low', not a number"),
    ("import hvd; hvd.set_metric(5, 1.0)", "TypeError: hvd.set_metric: name is 5, not a text"),
    ("import hvd; hvd.warmup(0.1, 1.0, 'a', 5)", "TypeError: hvd.warmup: step is 'a', not a whole number"),
    ("import hvd; hvd.run(print, np=0)", "ValueError: hvd.run: np is 0, not a number of ranks, 1 or more"),
    ("import hvd; hvd.run(print, np='2')", "TypeError: hvd.run: np is '2', not a number of ranks, 1 or more"),
    ("import hvd; hvd.elastic.run(5)", "TypeError: hvd.elastic.run: func is 5, not a function"),
])
def test_the_exception_says_what_to_write(sandbox: Sandbox, program: str, error: str) -> None:
    assert last_line(sandbox, program) == error


def test_the_other_ranks_learn_what_was_wrong(sandbox: Sandbox) -> None:
    program = ("import torch, hvd.torch as h\nh.init()\ntry:\n    h.allreduce(torch.ones(2), op='sum' if h.rank() else h.Sum)\n"
               "except Exception as error:\n    print(error)\nh.barrier()")
    done = sandbox.run("-np", 2, "--bind-to", "none", "-H", "localhost:2", PYTHON, "-c", program, env=python_environment()).expect(0)
    said = sorted(done.out_lines)
    assert "rank 1" in said[0] and "op is 'sum', not one of hvd.Average" in said[0], done
    assert said[1].startswith("[1] hvd.torch.allreduce: op is 'sum'"), done


@pytest.mark.parametrize("program, printed", [
    ("import hvd.torch as hvd; hvd.init(); hvd.print0('x', hvd.local_batch(6))", "x 6"),
    ("import hvd.numpy as hvd; hvd.init(); print(hvd.agree_stop(1).text == '', hvd.rank())", "True 0"),
    ("import hvd; hvd.init(); print(hvd.numpy.allreduce([2.0]), hvd.torch.Sum.name)", "[2.] Sum"),
    ("import hvd; print([name for name in ('annotations', 'launch', 'objects', 'job', 'types') if name in dir(hvd)], 'torch' in dir(hvd))",
     "[] True"),
])
def test_names_are_found_where_one_looks_for_them(sandbox: Sandbox, program: str, printed: str) -> None:
    done = sandbox.run("-np", 1, "-H", "localhost:1", PYTHON, "-c", program, env=python_environment()).expect(0)
    assert done.out_text.rstrip("\n") == printed, done


@pytest.mark.parametrize("program, words", [
    ("import hvd; hvd.allreduce", "hvd.torch, hvd.tensorflow, hvd.keras and hvd.numpy; for PyTorch: import hvd.torch as hvd"),
    ("import hvd; hvd.DistributedOptimizer", "it is in hvd.torch, hvd.tensorflow and hvd.keras"),
    ("import hvd; hvd.print1", "did you mean print0?"),
    ("import hvd.torch as h; h.DistributedGradientTape", "it is in hvd.tensorflow: import hvd.tensorflow as hvd"),
    ("import hvd.torch as h; h.alreduce", "did you mean allreduce?"),
    ("import hvd.numpy as h; h.sparse_allreduce_async", "it is in hvd.torch"),
])
def test_an_unknown_name_says_where_it_is(sandbox: Sandbox, program: str, words: str) -> None:
    line = last_line(sandbox, program)
    assert line.startswith("AttributeError: module 'hvd") and words in line, line
