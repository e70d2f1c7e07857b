"""Unmodified programs of each framework find their ranks. docs/frameworks/index.md lists the versions tested here."""

from __future__ import annotations

import pytest

from framework_cases import ACCELERATE_CONFIG, BY_NAME, CASES, TENSORFLOW, Case, parameters, python_of
from harness import PYTHON, Done, Sandbox

# DeepSpeed leaves these files in /dev/shm, under every launcher.
DEEPSPEED_BUFFERS = "deepspeed_allreduce_buffer_*"
ALONE = [case for case in CASES if case.alone]


def run(sandbox: Sandbox, case: Case, *options: str, env: dict[str, str] | None = None) -> Done:
    home = sandbox.files / "home"
    config = home / "huggingface/accelerate/default_config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(ACCELERATE_CONFIG)
    done = sandbox.run("-np", 2, *options, *case.words(), env={**case.variables(str(home)), **(env or {})})
    for buffer in sandbox.shm.glob(DEEPSPEED_BUFFERS):
        buffer.unlink()
    return done


@pytest.mark.parametrize("case", parameters(ALONE))
def test_ranks_of_a_framework_find_each_other(sandbox: Sandbox, case: Case) -> None:
    done = run(sandbox, case).expect(0)
    case.expect_both_ranks(done.out_text, done)


# No server listens there. No variable excludes the job's hosts from the proxy.
PROXY = "http://127.0.0.1:9"
PROXIES = {name: PROXY for lower in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy") for name in (lower, lower.upper())}


@pytest.mark.parametrize("case", parameters(ALONE))
def test_a_proxy_in_the_environment_is_not_used_between_ranks(sandbox: Sandbox, case: Case) -> None:
    done = run(sandbox, case, env=PROXIES).expect(0)
    case.expect_both_ranks(done.out_text, done)


@pytest.mark.slow  # hvdrun prints the hint only for jobs of five seconds and more
def test_tensorflow_workers_without_tf_config_get_a_hint_at_the_end(sandbox: Sandbox) -> None:
    case = Case("tensorflow_workers", "", ("sh", "-c", '"$@" && exec sleep 5.2', "sh"), TENSORFLOW)
    said = run(sandbox, case).expect(0).err_text
    assert "these may have been 2 separate runs of the program; the ranks had no TF_CONFIG, which TensorFlow's " \
        "MultiWorkerMirroredStrategy reads: --for tensorflow sets it\n" in said, said


@pytest.mark.parametrize("program, option", [("jax_gather", "jax"), ("tensorflow_slurm", "tensorflow")])
def test_a_failed_framework_program_without_its_option_for_gets_that_advice(sandbox: Sandbox, program: str, option: str) -> None:
    said = run(sandbox, BY_NAME[program].without_options()).expect(1).err_text
    assert f": hvdrun --for {option} -np 2 " in said, said


# Variables of a SLURM allocation that is larger than the job: hvdrun uses a part of it.
ALLOCATION = {"SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "16", "SLURM_NNODES": "4",
              "SLURM_JOB_NUM_NODES": "4", "SLURM_NTASKS_PER_NODE": "4", "SLURM_STEP_NODELIST": "elsewhere[1-4]",
              "SLURM_NODELIST": "elsewhere[1-4]"}


@pytest.mark.parametrize("case", parameters([BY_NAME["lightning_fit"], BY_NAME["jax_gather"].without_options()]))
def test_a_framework_inside_slurm_uses_the_ranks_of_the_job_not_of_the_allocation(sandbox: Sandbox, case: Case) -> None:
    """Lightning compares its arguments with SLURM's variables. JAX reads its ranks and hosts from them."""
    done = run(sandbox, case, "-H", "localhost:2", env=ALLOCATION).expect(0)
    case.expect_both_ranks(done.out_text, done)


def test_torch_detects_torchrun_only_with_for_torchrun(sandbox: Sandbox) -> None:
    code = ("import torch.distributed as dist\n"
            "dist.init_process_group('gloo')\n"
            "print(dist.is_torchelastic_launched(), dist.get_world_size())\n"
            "dist.destroy_process_group()\n")
    python = python_of("TORCH") or PYTHON
    for options, said in (((), b"False 2\n"), (("--for", "torchrun"), b"True 2\n")):
        done = sandbox.run("-np", 2, "--label", "none", *options, python, "-c", code).expect(0)
        assert done.out == 2 * said, done
