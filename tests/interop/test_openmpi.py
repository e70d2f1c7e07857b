"""Programs of Open MPI run under hvdrun, and programs of libhvd run under Open MPI's mpirun."""

from __future__ import annotations

import re
import shutil
import socket

import pytest

from harness import BUILD, SOAK, Done, Sandbox, program

ALLREDUCE = program("mpi_allreduce")
DIGITS = BUILD / "bin/examples/digits"
MPIRUN = "/usr/bin/mpirun.openmpi"
MPIRUN_OPTIONS = ("--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_cutoff", "100000")

# Variables that SLURM sets in a batch script, in an interactive session and in a step of one task.
SLURM = {
    "SLURM_JOB_ID": "1234", "SLURM_JOBID": "1234", "SLURM_NNODES": "1", "SLURM_NODELIST": "localhost",
    "SLURM_JOB_NODELIST": "localhost", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_STEP_ID": "4294967290", "SLURM_STEPID": "4294967290", "SLURM_TASKS_PER_NODE": "1",
    "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NODELIST": "localhost", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
    "SLURM_MPI_TYPE": "pmix", "PMIX_NAMESPACE": "slurm.pmix.1234.0", "PMIX_RANK": "0",
    "PMIX_SERVER_URI41": "pmix-server.1;tcp4://127.0.0.1:1", "OMPI_MCA_orte_precondition_transports": "1-2",
}


@pytest.mark.parametrize("around", [{}, SLURM], ids=["alone", "inside Slurm"])
@pytest.mark.parametrize("size", [1, 4])
def test_an_unmodified_mpi_program_runs_under_hvdrun(sandbox: Sandbox, size: int, around: dict[str, str]) -> None:
    done = sandbox.run("-np", size, "--label", "none", ALLREDUCE, env=around).expect(0)
    assert sorted(done.out_lines) == [f"rank {rank} of {size}: sum {size * (size + 1) // 2}" for rank in range(size)]


def test_ranks_without_pmix_are_said_to_be_separate(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--pmix", "off", "--label", "none", ALLREDUCE).expect(0)
    assert done.out_lines == ["rank 0 of 1: sum 1"] * 2
    assert "these may have been 2 separate runs of the program; a rank uses Open MPI, whose ranks find each other by PMIx, and " \
        "this job has none (--pmix)" in done.err_text, done
    for folder in sandbox.tmp.glob("ompi.*"):  # Open MPI 5 leaves it
        shutil.rmtree(folder)


def test_ranks_of_an_mpi_program_meet_by_a_published_name(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--label", "none", program("mpi_connect")).expect(0)
    assert sorted(done.out_lines) == ["rank 0 met rank 1", "rank 1 met rank 0"]


def test_repeated_runs_of_an_mpi_program_all_succeed(sandbox: Sandbox) -> None:
    for _ in range(50 if SOAK else 5):
        assert sandbox.run("-np", 4, ALLREDUCE).expect(0).out.count(b"sum 10") == 4


def test_concurrent_jobs_of_mpi_programs_stay_separate(sandbox: Sandbox) -> None:
    for job in [sandbox.start("-np", 3, ALLREDUCE) for _ in range(3)]:
        assert job.wait().expect(0).out.count(b"of 3: sum 6") == 3


@pytest.mark.parametrize("around", [{}, SLURM], ids=["alone", "inside Slurm"])
def test_mpi_abort_ends_hvdrun_with_its_exit_code(sandbox: Sandbox, around: dict[str, str]) -> None:
    done = sandbox.run("-np", 4, "--grace", "1", ALLREDUCE, "--abort", 2, env=around).expect(7)
    assert done.report["first_failure"] == 2 and "rank 2" in done.err_text


def losses(done: Done) -> list[float]:
    found = re.findall(r"epoch\s+\d+.*?loss\D*([0-9.eE+-]+)", done.out_text)
    assert found and "test accuracy" in done.out_text, done
    return [float(loss) for loss in found]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Returns the losses of the example digits, run without a launcher."""
    place = Sandbox(tmp_path_factory.mktemp("alone"))
    result = losses(place.run("--epochs", 3, tool=DIGITS).expect(0))
    place.close()
    return result


@pytest.mark.parametrize("size", [2, 4])
def test_digits_under_mpirun_has_the_losses_of_one_process(sandbox: Sandbox, alone: list[float], size: int) -> None:
    done = sandbox.run(*MPIRUN_OPTIONS, "-np", size, DIGITS, "--epochs", 3, tool=MPIRUN)
    assert done.code == 0, done
    assert losses(done) == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_digits_with_only_torchruns_variables_has_the_losses_of_one_process(sandbox: Sandbox, alone: list[float], size: int) -> None:
    """The environment has no PMIx and no variable of hvdrun, as under torchrun."""
    with socket.socket() as master:  # torchrun keeps this port; libhvd uses one of the next ports
        master.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": "0",
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(master.getsockname()[1]),
                  "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": sandbox.cookie}
        running = [sandbox.start("--epochs", 3, tool=DIGITS, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                   for rank in range(size)]
        first, *others = [job.wait() for job in running]
    assert [first.code, *(other.code for other in others)] == [0] * size, first
    assert losses(first) == pytest.approx(alone, rel=1e-5)
