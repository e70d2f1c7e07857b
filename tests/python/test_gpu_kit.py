"""tests/gpu/device without a GPU: on CPUs, and on doubles of CUDA and NCCL."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness import BUILD, PYTHON, SLOWNESS, TOP, Done, Sandbox

DOUBLES = {"HVD_CUDA_LIBRARY": str(BUILD / "lib/doubles/libcudart.so.13"), "HVD_NCCL_LIBRARY": str(BUILD / "lib/doubles/libnccl.so.2"),
           "HVD_CUDA_DRIVER": str(BUILD / "lib/doubles/libcuda.so.1"), "HVD_DOUBLE_DEVICES": "1"}


def run_kit(sandbox: Sandbox, *arguments: object, environment: dict[str, str] | None = None) -> Done:
    variables = {"OUT": str(sandbox.files / "out"), "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1", **(environment or {})}
    return sandbox.start(PYTHON, TOP / "tests/gpu/device", "--built", BUILD, "--patience", 4 * SLOWNESS, "--budget", 10_000,
                         *arguments, tool="env", env=variables).wait(300 * SLOWNESS)


def results(sandbox: Sandbox) -> list[dict]:
    return [json.loads(line) for line in (sandbox.files / "out/results.jsonl").read_text().splitlines()]


def wrong(sandbox: Sandbox) -> list[str]:
    return [f"{result['stage']}: {result['check']}" for result in results(sandbox) if result["ok"] is False]


# A short name: a socket of Python's multiprocessing has it in its path, of at most 107 bytes.
def test_on_cpus(sandbox: Sandbox) -> None:
    """It says that there is no GPU, and tries all that it can."""
    done = run_kit(sandbox, "--only", "nvml,check_one,failures,probe_share,report").expect(0)
    assert done.out_lines[0] == "no GPU: everything that can runs on CPUs"
    assert "check_one: left out: no GPU, and no doubles of CUDA" in done.out_text
    right = {(result["stage"], result["check"]) for result in results(sandbox) if result["ok"]}
    assert right >= {("nvml", "hvdrun true"), ("failures", "stuck, twins: exit code"), ("probe_share", "every type and operation"),
                     ("probe_share", "join"), ("probe_share", "checkpoint")}, done
    assert (sandbox.files / "out/summary.txt").read_text() in done.out_text
    assert sorted(path.name for path in (sandbox.files / "out").iterdir()) == ["details.tar.gz", "log.txt", "results.jsonl", "summary.txt"]


def test_a_gpu_can_be_required(sandbox: Sandbox) -> None:
    done = run_kit(sandbox, "--require-gpu", "--only", "nvml").expect(1)
    assert "sees no GPU" in done.err_text, done
    assert not results(sandbox)


def test_on_doubles_ranks_that_share_a_gpu_use_nccl_as_twins(sandbox: Sandbox) -> None:
    done = run_kit(sandbox, "--only", "check_one,join", environment=DOUBLES).expect(0)
    right = {result["check"] for result in results(sandbox) if result["ok"]}
    assert right >= {"gpu_check, one rank", "gpu_check, two ranks that share the GPU: through host memory",
                     "gpu_check, twins, by NCCL", "gpu_check, twins, by NCCL: through NCCL", "gpu_check join",
                     "gpu_check join, twins"}, done


def test_a_fault_of_nccl_makes_the_kit_fail(sandbox: Sandbox) -> None:
    done = run_kit(sandbox, "--only", "check_one", environment={**DOUBLES, "HVD_DOUBLE_NCCL_FAILS": "ncclAllReduce"}).expect(1)
    assert "check_one: gpu_check, twins, by NCCL" in wrong(sandbox), done
    assert "NCCL: internal error" in done.out_text, done


KIT_WITH_STAGES = """
import subprocess, sys
sys.argv[1:1] = ["--built", {build!r}]
sys.path.insert(0, {kit!r})
from gpukit import stages
from gpukit.runner import Stage

def hang(kit):
    kit.runner.run(["sh", "-c", "echo here; trap '' TERM; sleep 1000 & setsid sleep 1000 & while :; do wait; done"])

def break_off(kit):
    raise ValueError("a fault of the stage")

stages.STAGES = (Stage("hang", 0.5, hang), Stage("break_off", 5, break_off), Stage("after", 5, lambda kit: None))
import runpy
runpy.run_path({device!r}, run_name="__main__")
"""


def run_own_stages(sandbox: Sandbox, *arguments: object) -> Done:
    program = KIT_WITH_STAGES.format(build=str(BUILD), kit=str(TOP / "tests/gpu"), device=str(TOP / "tests/gpu/device"))
    (sandbox.files / "kit.py").write_text(program)
    return sandbox.run(PYTHON, "-B", "kit.py", *arguments, tool="env", env={"OUT": str(sandbox.files / "out")})


def test_a_stage_that_hangs_or_breaks_is_wrong_and_the_next_one_runs(sandbox: Sandbox) -> None:
    run_own_stages(sandbox).expect(1)
    assert wrong(sandbox) == ["hang: stage", "break_off: stage"]
    seconds = results(sandbox)[-1]
    assert seconds["check"] == "seconds of the stages" and list(seconds["value"]) == ["hang", "break_off", "after"]


def test_what_the_budget_cuts_is_not_wrong(sandbox: Sandbox) -> None:
    done = run_own_stages(sandbox, "--only", "hang", "--budget", 4, "--patience", 100).expect(0)
    assert "cut after 4 s, where the budget ended: sh -c" in done.out_text, done
    assert wrong(sandbox) == []


def test_a_summary_that_is_too_long_is_cut() -> None:
    sys.path.insert(0, str(TOP / "tests/gpu"))
    try:
        from gpukit.results import MOST_SUMMARY_BYTES, Result, summarize
    finally:
        sys.path.pop(0)
    text = summarize([Result("stage", f"check {number}", number % 2 == 0, "…" * 1000, "…" * 1000) for number in range(200)], 12)
    assert text.startswith("100 right, 100 wrong, 12 s\n\nWRONG\n  stage: check 1: …") and text.endswith("(results.jsonl has all)\n")
    assert len(text.encode()) <= MOST_SUMMARY_BYTES
