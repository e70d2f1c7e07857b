"""Unmodified programs of frameworks in a SLURM job, whose SLURM_ variables the frameworks read.

./check runs programs with Debian's packages in one kind of allocation; ./check --all and --soak also run those with packages
from PyPI."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from framework_cases import ACCELERATE_CONFIG, BY_NAME, CASES, Case, marks_of, parameters
from harness import HVDRUN_WORD
from settings import TIME_LIMIT_S
from test_slurm import salloc
from test_ssh import Jobs, jobs  # noqa: F401, the fixture

# Options of salloc, and options with which hvdrun starts two ranks there.
SHAPES = {
    "two-hosts": (("-N2", "--ntasks-per-node=1"), ()),
    "a-part": (("-N4", "--ntasks-per-node=4"), ("-np", 2, "--nnodes", 2)),
    "one-task-a-host": (("-N1", "--ntasks-per-node=1"), ("-np", 2)),
}
IN_GATE = [(program, "a-part") for program in ("torch_ddp", "slurm_script")]
# In SLURM, JAX finds its cluster without --for.
IN_SLURM = [case.without_options() if case.program == "jax_gather" else case for case in CASES]
JOBS = [pytest.param(case, shape, id=f"{case.program}-{shape}",
                     marks=[*marks_of(case), *([pytest.mark.gate] if (case.program, shape) in IN_GATE else [])])
        for case in IN_SLURM for shape in SHAPES]


@pytest.mark.parametrize("case, shape", JOBS)
def test_ranks_of_a_framework_find_each_other_in_slurm(jobs: Jobs, shared: Path, case: Case, shape: str) -> None:  # noqa: F811
    asked, used = SHAPES[shape]
    jobs.cluster.output("mkdir", "-p", shared / "huggingface/accelerate")
    jobs.cluster.output("tee", shared / "huggingface/accelerate/default_config.yaml", input=ACCELERATE_CONFIG)
    done = salloc(jobs, *asked, "--", *used, *case.words(), environment=case.variables(str(shared)),
                  timeout=3 * TIME_LIMIT_S)
    for host in jobs.cluster.hosts:  # DeepSpeed leaves its buffers under every launcher
        jobs.cluster.output("sh", "-c", "rm -f /dev/shm/deepspeed_allreduce_buffer_*", on=host, user="root")
    assert done.returncode == 0, done.stderr
    case.expect_both_ranks(done.stdout, f"{done.stdout}\n{done.stderr}")


@pytest.mark.parametrize("case", parameters([replace(BY_NAME["jax_gather"], program="jax_beside", options=())]))
def test_two_jax_jobs_in_one_allocation_use_different_ports(jobs: Jobs, shared: Path, case: Case) -> None:  # noqa: F811
    """JAX's default port depends only on the allocation's id. Two coordinators can share a port, and would then mix the ranks
    of both jobs."""
    numbers = (7, 8)
    starts = [f"{HVDRUN_WORD} -np 2 --nnodes 2 {shlex.join(case.words(shared, own, other))} > {shared}/{own}.out 2>&1 & p{own}=$!\n"
              for own, other in (numbers, numbers[::-1])]
    done = jobs.cluster.run("salloc", "-Q", "-N2", "--ntasks-per-node=2", "timeout", int(TIME_LIMIT_S), "sh", "-c",
                            "".join(starts) + "wait $p7 && wait $p8", environment=case.variables(str(shared)), timeout=2 * TIME_LIMIT_S)
    said = jobs.cluster.output("sh", "-c", f"cat {shared}/*.out")
    assert done.returncode == 0, f"{done.stderr}\n{said}"
    for number in numbers:
        replace(case, said=f"gathered [{number}, {number}]").expect_both_ranks(said, said)
