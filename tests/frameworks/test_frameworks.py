"""Unmodified programs of each framework find their ranks. docs/frameworks/index.md shows what is tested here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import PYTHON, Done, Sandbox

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Case:
    program: str
    said: str  # by rank R, after the framework's version; {} is R
    options: tuple[str, ...] = ()
    python: str = PYTHON


def python_of(name: str) -> str:
    """What scripts/check_python.py has put into a virtual environment."""
    return os.environ.get(f"HVD_TEST_{name}", "")


CASES = [
    Case("torch_ddp", "gradient 0.5", python=python_of("TORCH") or PYTHON),
    Case("torch_fsdp", "gradient 0.5, 2 rows here", python=python_of("TORCH_LOOPS")),
    Case("lightning_fit", "2 steps", python=python_of("TORCH_LOOPS")),
    Case("accelerate_gather", "gathered [0, 1], bf16", ("--for", "accelerate"), python_of("TORCH_LOOPS")),
    Case("jax_gather", "gathered [0, 1], 2 devices", ("--for", "jax"), python_of("JAX")),
    Case("tensorflow_workers", "sum 2.0", ("--for", "tensorflow"), python_of("TENSORFLOW")),
    Case("mpi4py_sum", "sum 1"),
]
BY_NAME = {case.program: case for case in CASES}


def by_torch(case: Case) -> object:
    """Those of the virtual environment that only ./check --soak makes have a mark."""
    loops = case.program in ("torch_fsdp", "lightning_fit", "accelerate_gather")
    return pytest.param(case, id=case.program, marks=[pytest.mark.torch_loops] if loops else [])


def run(sandbox: Sandbox, case: Case, *options: str, env: dict[str, str] | None = None) -> Done:
    if not case.python:
        pytest.skip("./check --all and ./check --soak make the environment for it")
    home = sandbox.files / "home"
    config = home / ".cache/huggingface/accelerate/default_config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nmixed_precision: bf16\n")
    return sandbox.run("-np", 2, "--label", "none", *case.options, *options, case.python,
                       PROGRAMS / f"{case.program}.py",
                       env={"HOME": str(home), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1",
                            "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1",
                            "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"), **(env or {})})


def expect_both_ranks(done: Done, case: Case) -> None:
    done.expect(0)
    for rank in range(2):
        line = rf"^\S+ \S+: rank {rank} of 2, {re.escape(case.said)}$"
        assert re.search(line, done.out_text, re.MULTILINE), done


@pytest.mark.parametrize("case", [by_torch(case) for case in CASES])
def test_its_ranks_find_each_other(sandbox: Sandbox, case: Case) -> None:
    expect_both_ranks(run(sandbox, case), case)


@pytest.mark.slow  # it is said of jobs of five seconds and more
def test_workers_of_tensorflow_that_ran_apart_hear_of_tf_config(sandbox: Sandbox) -> None:
    case = Case("tensorflow_workers", "", ("sh", "-c", '"$@" && exec sleep 5.2', "sh"), python_of("TENSORFLOW"))
    said = run(sandbox, case).expect(0).err_text
    assert "these may have been 2 separate runs of the program; the ranks had no TF_CONFIG, which TensorFlow's " \
        "MultiWorkerMirroredStrategy reads: --for tensorflow sets it\n" in said, said


# What an allocation of another shape says: hvdrun uses a part of it.
ALLOCATION = {"SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "16", "SLURM_NNODES": "4",
              "SLURM_JOB_NUM_NODES": "4", "SLURM_NTASKS_PER_NODE": "4", "SLURM_STEP_NODELIST": "elsewhere[1-4]",
              "SLURM_NODELIST": "elsewhere[1-4]"}


@pytest.mark.parametrize("case", [by_torch(BY_NAME[name]) for name in ("lightning_fit", "jax_gather")])
def test_under_slurm_it_takes_the_jobs_ranks_not_the_allocations(sandbox: Sandbox, case: Case) -> None:
    """Lightning compares its arguments with SLURM's variables; JAX takes all that it needs from them."""
    plain = Case(case.program, case.said, python=case.python)  # without --for
    expect_both_ranks(run(sandbox, plain, "-H", "localhost:2", env=ALLOCATION), plain)


def test_torchrun_is_imitated_on_request_only(sandbox: Sandbox) -> None:
    code = ("import torch.distributed as dist\n"
            "dist.init_process_group('gloo')\n"
            "print(dist.is_torchelastic_launched(), dist.get_world_size())\n")
    python = python_of("TORCH") or PYTHON
    for options, said in (((), b"False 2\n"), (("--for", "torchrun"), b"True 2\n")):
        done = sandbox.run("-np", 2, "--label", "none", *options, python, "-c", code).expect(0)
        assert done.out == 2 * said, done
