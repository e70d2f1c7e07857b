"""tests/gpu/device on machines without a GPU: on CPUs, and with doubles of CUDA and NCCL."""

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


# The name is short: it is part of the path of a socket of Python's multiprocessing, which has at most 107 bytes.
def test_on_cpus(sandbox: Sandbox) -> None:
    """The kit says that there is no GPU and runs all stages that can run on CPUs."""
    done = run_kit(sandbox, "--only", "nvml,check_one,failures,probe_share,report").expect(0)
    assert done.out_lines[0] == "no GPU: everything that can runs on CPUs"
    assert "check_one: left out: no GPU, and no doubles of CUDA" in done.out_text
    right = {(result["stage"], result["check"]) for result in results(sandbox) if result["ok"]}
    assert right >= {("nvml", "hvdrun true"), ("failures", "stuck, twins: exit code"), ("probe_share", "every type and operation"),
                     ("probe_share", "join"), ("probe_share", "checkpoint")}, done
    assert (sandbox.files / "out/summary.txt").read_text() in done.out_text
    assert sorted(path.name for path in (sandbox.files / "out").iterdir()) == ["details.tar.gz", "log.txt", "results.jsonl", "summary.txt"]


def test_require_gpu_fails_without_a_gpu(sandbox: Sandbox) -> None:
    done = run_kit(sandbox, "--require-gpu", "--only", "nvml").expect(1)
    assert "sees no GPU" in done.err_text, done
    assert not results(sandbox)


def test_ranks_that_share_a_gpu_use_nccl_as_twins_on_doubles(sandbox: Sandbox) -> None:
    done = run_kit(sandbox, "--only", "check_one,join", environment=DOUBLES).expect(0)
    right = {result["check"] for result in results(sandbox) if result["ok"]}
    assert right >= {"gpu_check, one rank", "gpu_check, two ranks that share the GPU: through host memory",
                     "gpu_check, twins, by NCCL", "gpu_check, twins, by NCCL: through NCCL", "gpu_check join",
                     "gpu_check join, twins"}, done


def test_an_error_of_nccl_makes_the_kit_fail(sandbox: Sandbox) -> None:
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


def test_stages_run_after_one_that_hangs_or_raises(sandbox: Sandbox) -> None:
    run_own_stages(sandbox).expect(1)
    assert wrong(sandbox) == ["hang: stage", "break_off: stage"]
    seconds = results(sandbox)[-1]
    assert seconds["check"] == "seconds of the stages" and list(seconds["value"]) == ["hang", "break_off", "after"]


def test_a_stage_cut_by_the_budget_is_not_a_failure(sandbox: Sandbox) -> None:
    done = run_own_stages(sandbox, "--only", "hang", "--budget", 4, "--patience", 100).expect(0)
    assert "cut after 4 s, where the budget ended: sh -c" in done.out_text, done
    assert wrong(sandbox) == []


def test_a_summary_over_the_size_limit_is_cut() -> None:
    sys.path.insert(0, str(TOP / "tests/gpu"))
    try:
        from gpukit.results import MOST_SUMMARY_BYTES, Result, summarize
    finally:
        sys.path.pop(0)
    text = summarize([Result("stage", f"check {number}", number % 2 == 0, "…" * 1000, "…" * 1000) for number in range(200)], 12)
    assert text.startswith("100 right, 100 wrong, 12 s\n\nWRONG\n  stage: check 1: …") and text.endswith("(results.jsonl has all)\n")
    assert len(text.encode()) <= MOST_SUMMARY_BYTES
