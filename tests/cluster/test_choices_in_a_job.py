"""What the user chooses in a SLURM job: some of its hosts, some of its GPUs; and the variables of srun that programs read."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness import HVDRUN_WORD
from test_slurm import salloc
from test_ssh import Jobs, jobs  # noqa: F401, the fixture

SHOW = ("--label", "none", "sh", "-c", "echo $HVD_RANK $(hostname) ${CUDA_VISIBLE_DEVICES-unset}")
GPUS = ("-N2", "--ntasks-per-node=2", "--gpus-per-node=2")
LEAVE_OUT = "in a SLURM job hvdrun finds the hosts"


def ranks(done: subprocess.CompletedProcess) -> list[str]:
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def batch(jobs: Jobs, shared: Path, options: str, script: str) -> list[str]:  # noqa: F811
    """Runs lines of a batch script. Returns what it has printed."""
    done = jobs.cluster.run("sbatch", "--wait", *options.split(), "--output", shared / "out", input=f"#!/bin/sh\n{script}\n")
    said = jobs.cluster.output("cat", shared / "out")
    assert done.returncode == 0, done.stderr + said
    return said.splitlines()


# ---- hosts


@pytest.mark.gate
def test_a_hostfile_of_the_jobs_hosts_chooses_them_by_srun(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """As scripts for DeepSpeed and Horovod make it. The ranks have SLURM's GPUs."""
    said = batch(jobs, shared, " ".join(GPUS), f"""
scontrol show hostnames | sed 's/$/ slots=2/' > {shared}/hosts
{HVDRUN_WORD} --verbose --hostfile {shared}/hosts {shlex.join(SHOW)} 2> {shared}/err""")
    assert sorted(said) == ["0 n1 0,1", "1 n1 0,1", "2 n2 0,1", "3 n2 0,1"]
    err = jobs.cluster.output("cat", shared / "err")
    assert re.search(r"n2 +\d+ +srun ", err) and " ssh " not in err, err


def test_hosts_are_chosen_by_any_of_their_names_in_their_order(jobs: Jobs) -> None:  # noqa: F811
    done = salloc(jobs, "-N3", "--gpus-per-node=2", "--", "-H", "10.80.0.13:1,N1.example", *SHOW)
    assert ranks(done) == ["0 n3 0,1", "1 n1 0,1", "2 n1 0,1"]
    here = jobs.cluster.run("salloc", "-Q", "-N2", "-wn[1-2]", "--gpus-per-node=2", "srun", "-N1", "-n1", "--gres=gpu:2", HVDRUN_WORD,
                            "-H", "n1:1,n2:1", *SHOW, stdin=subprocess.DEVNULL)
    assert ranks(here) == ["0 n1 0,1", "1 n2 0,1"], "a step may use hosts of the whole job"
    assert "only there are ranks" not in here.stderr, here.stderr


@pytest.mark.gate
def test_hosts_and_slots_that_the_job_does_not_have_are_refused(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    def refused(*words: object) -> str:
        done = salloc(jobs, *GPUS, "--", *words)
        assert done.returncode == 2 and done.stdout == "", done.stderr
        return done.stderr

    assert "-H: n3 is not among the hosts of SLURM job" in (said := refused("-H", "n1,n3", *SHOW)), said
    assert f"which are n[1-2]; leave -H out: {LEAVE_OUT}" in said
    assert LEAVE_OUT in refused("-H", "localhost", *SHOW), "the login host"
    assert "n1 has 4 slots here, but SLURM job" in refused("-H", "n1:4", *SHOW)
    assert "leave other@ out" in refused("-H", "other@n1", *SHOW)
    jobs.cluster.output("tee", shared / "hosts", input="n4 slots=2\n")
    assert f"leave --hostfile {shared}/hosts out: {LEAVE_OUT}" in refused("--hostfile", shared / "hosts", *SHOW)
    jobs.cluster.output("tee", shared / "config.json", input='{"hosts": "n4:2"}\n')
    config = jobs.cluster.run("salloc", "-Q", *GPUS, "env", f"HVDRUN_CONFIG={shared}/config.json", HVDRUN_WORD, *SHOW)
    assert config.returncode == 2 and LEAVE_OUT in config.stderr, config.stderr


def test_without_slurms_job_hosts_are_reached_by_ssh(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.cluster.run("salloc", "-Q", *GPUS, "env", "-u", "SLURM_JOB_ID", HVDRUN_WORD, "-H", "n3:1,n4:1", *SHOW)
    assert ranks(done) == ["0 n3 unset", "1 n4 unset"]


@pytest.mark.gate
def test_another_user_at_this_host_is_reached_by_ssh(jobs: Jobs) -> None:  # noqa: F811
    """As the same user there is no need for ssh."""
    def user_of(name: str) -> subprocess.CompletedProcess:
        return jobs.run("-H", f"{name}@localhost:1", "--label", "none", "id", "-un", user="root")

    done = user_of("user")
    assert done.stdout == "user\n" or "could not start on login" in done.stderr, "root has no key for it, or ssh does not know this host"
    assert user_of("root").stdout == "root\n"


# ---- GPUs


@pytest.mark.gate
def test_exported_devices_mean_the_same_on_all_hosts(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    show = f"{HVDRUN_WORD} {shlex.join(SHOW)} 2>> {shared}/err"
    said = batch(jobs, shared, "-N2 --gpus-per-node=4", f"""
export CUDA_VISIBLE_DEVICES=0,1
{show}
export CUDA_VISIBLE_DEVICES=2,3
{show}
export CUDA_VISIBLE_DEVICES=
{HVDRUN_WORD} -np 2 --ranks-per-host 1 {shlex.join(SHOW)} 2> /dev/null
unset CUDA_VISIBLE_DEVICES
{show}""")
    assert sorted(said[:4]) == ["0 n1 0,1", "1 n1 0,1", "2 n2 0,1", "3 n2 0,1"], said
    assert sorted(said[4:8]) == ["0 n1 2,3", "1 n1 2,3", "2 n2 2,3", "3 n2 2,3"], said
    assert sorted(said[8:10]) == ["0 n1", "1 n2"], said
    assert sorted(said[10:]) == [f"{rank} n{rank // 4 + 1} 0,1,2,3" for rank in range(8)], said
    err = jobs.cluster.output("cat", shared / "err")
    assert "are visible there" not in err and "is cut" not in err, err


def test_a_host_with_fewer_gpus_names_what_it_lacks(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.cluster.run("salloc", "-Q", "-N2", "--gpus=5", "env", "CUDA_VISIBLE_DEVICES=0,1", HVDRUN_WORD, *SHOW)
    assert ranks(done) == ["0 n1 0,1", "1 n1 0,1", "2 n2 0"]
    assert "n2: CUDA_VISIBLE_DEVICES=0,1 is cut to 0: this host was given 0" in done.stderr, done.stderr


@pytest.mark.gate
def test_devices_mean_the_same_on_all_hosts_over_ssh(jobs: Jobs) -> None:  # noqa: F811
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    show = "echo $(hostname) " + " ".join(f"${{{name}-unset}}" for name in names)
    done = jobs.run("-H", "login:1,n2:1", "--label", "none", "sh", "-c", show,
                    environment={"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2", "ROCR_VISIBLE_DEVICES": "3"})
    assert ranks(done) == ["login 1 2 3", "n2 1 2 3"]
    named = jobs.run("-H", "login:1,n2:1", *SHOW, environment={"CUDA_VISIBLE_DEVICES": "GPU-a"})
    assert ranks(named) == ["0 login GPU-a", "1 n2 unset"]
    assert "CUDA_VISIBLE_DEVICES names devices of this host; other hosts use theirs" in named.stderr, named.stderr


# ---- variables of srun


READ_BY_PROGRAMS = ("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURM_GTIDS", "SLURM_STEP_GPUS", "SLURM_DISTRIBUTION",
                    "SLURM_JOB_UID")


@pytest.mark.gate
def test_a_rank_has_the_variables_of_srun(jobs: Jobs) -> None:  # noqa: F811
    show = "echo $SLURM_PROCID " + " ".join(f"${{{name}-unset}}" for name in READ_BY_PROGRAMS)
    done = salloc(jobs, *GPUS, "--", "--label", "none", "sh", "-c", f"{show} $SLURM_STEP_ID $SLURM_STEPID")
    lines = [line.split() for line in ranks(done)]
    assert [line[:7] for line in lines] == [
        [str(rank), "10.80.0.11", "10.80.0.11", "0,1" if rank < 2 else "2,3", "0,1", "block", "1000"] for rank in range(4)], done.stdout
    assert len({word for line in lines for word in line[7:]}) == 1 and re.fullmatch(r"\d{4}", lines[0][7]), done.stdout


def test_a_rank_lacks_only_those_variables_of_srun_that_are_about_srun(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    jobs.cluster.run("salloc", "-Q", *GPUS, "sh", "-c", f"""cd {shared}
srun sh -c 'env > srun.$SLURM_PROCID'
{HVDRUN_WORD} sh -c 'env > hvdrun.$SLURM_PROCID'""")

    def names(file: str) -> set[str]:
        lines = jobs.cluster.output("cat", shared / file).splitlines()
        return {line.split("=")[0] for line in lines if re.match("S(LURM|RUN)", line)}

    for rank in range(4):
        lacks = names(f"srun.{rank}") - names(f"hvdrun.{rank}")
        assert {name for name in lacks if not re.match("SLURM_(CPU_BIND|MPI)", name)} <= {
            "SLURM_SRUN_COMM_PORT", "SLURM_STEP_LAUNCHER_PORT", "SLURM_TASK_PID", "SRUN_DEBUG",
            "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0"}, lacks


@pytest.mark.gate
def test_answers_to_other_launchers_name_no_hosts(jobs: Jobs) -> None:  # noqa: F811
    lines = ["torchrun --nnodes 2 --nproc_per_node 2 t.py", "--nnodes 2 --rdzv_backend c10d --rdzv_endpoint n1:29500 t.py",
             "--num_processes 4 --main_process_ip n1 python3 t.py", "-rf ranks python3 t.py", "--node_rank 0 python3 t.py",
             "-w n1 python3 t.py"]
    script = "; ".join(f"{HVDRUN_WORD} {line}" for line in lines)
    said = jobs.cluster.run("salloc", "-Q", *GPUS, "sh", "-c", script).stderr
    errors = [line for line in said.splitlines() if line.startswith("hvdrun: error: ")]
    assert len(errors) == len(lines) and not [line for line in errors if "-H" in line or "hostfile" in line], said
    assert "type hvdrun --nnodes 2 --ranks-per-host 2 python3 t.py" in errors[0], said


def test_torchrun_once_on_each_host_finds_its_host(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    jobs.cluster.output("tee", shared / "torchrun", input="#!/bin/sh\necho $PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR\n")
    jobs.cluster.output("chmod", "+x", shared / "torchrun")
    done = salloc(jobs, "-N2", "--ntasks-per-node=1", "--", "--ranks-per-host", 1, "--label", "none", shared / "torchrun")
    assert ranks(done) == ["2 0 n1", "2 1 n1"], done.stderr
