"""The simulated cluster itself: its hosts, users, Slurm and ssh."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from cluster import TOP, Cluster, wait_until
from harness import BUILD

HOSTS = ["n1", "n2", "n3", "n4"]


@pytest.mark.gate
def test_slurm_reports_four_idle_hosts(cluster: Cluster) -> None:
    lines = cluster.output("sinfo", "-h", "-N", "-o", "%N %T %c %G").splitlines()
    assert lines == [f"{name} idle 16 gpu:4" for name in HOSTS]


@pytest.mark.gate
def test_a_step_runs_on_all_hosts(cluster: Cluster) -> None:
    assert sorted(cluster.output("srun", "-N4", "hostname").split()) == HOSTS


@pytest.mark.parametrize("user", ["user", "root"])
def test_ssh_logs_in_without_a_prompt(cluster: Cluster, user: str) -> None:
    said = cluster.output("ssh", "-o", "BatchMode=yes", "n3", "hostname; id -un", user=user)
    assert said.split() == ["n3", user]


@pytest.mark.gate
def test_ssh_works_between_hosts_and_over_ipv6(cluster: Cluster) -> None:
    assert cluster.output("ssh", "n2", "ssh n4-v6 hostname").strip() == "n4"


def test_a_step_gets_the_requested_gpus(cluster: Cluster) -> None:
    said = cluster.output("srun", "-N2", "--gres=gpu:3", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; ls /dev/nvidia*")
    assert Counter(said.split()) == {"0,1,2": 2, **{f"/dev/nvidia{index}": 2 for index in range(4)}}


def test_an_allocation_can_have_different_numbers_of_tasks_per_host(cluster: Cluster) -> None:
    script = "echo $SLURM_TASKS_PER_NODE; srun hostname"
    tasks, *names = cluster.output("salloc", "-Q", "-n7", "--gpus-per-task=1", "sh", "-c", script).split()
    assert tasks == "4,3"
    assert Counter(names) == {"n1": 4, "n2": 3}


def test_ranks_of_a_pmix_step_communicate_between_hosts(cluster: Cluster) -> None:
    client = BUILD / "bin/tests/mpi_allreduce"
    said = cluster.output("srun", "-N2", "-n4", "--mpi=pmix", client)
    assert said.count("of 4") == 4, said


def test_libhvd_warns_tasks_of_srun_without_pmix_that_each_is_alone(cluster: Cluster) -> None:
    program = f"{BUILD}/bin/examples/hello 2>&1"
    words = "2 processes were started together (SLURM_STEP_NUM_TASKS)"
    assert cluster.output("srun", "-N2", "-n2", "sh", "-c", program).count(words) == 1
    assert "started together" not in cluster.output("srun", "-n1", "sh", "-c", program)
    # A batch script runs so, in an allocation of several tasks.
    assert "started together" not in cluster.output("salloc", "-Q", "-n2", "sh", "-c", program)


def test_hosts_have_their_own_memory_and_temporary_files(cluster: Cluster) -> None:
    for folder in ("/tmp", "/dev/shm", "/var/tmp"):
        cluster.output("touch", f"{folder}/mine", on="n1")
        # The folder may also have the path of the checkout or the build.
        found = set(cluster.output("ls", folder, on="n1").split())
        assert "mine" in found and found <= {"mine", *TOP.parts, *BUILD.parts}
        assert "mine" not in cluster.output("ls", folder, on="n2").split()
        assert not Path(folder, "mine").exists()
        cluster.output("rm", f"{folder}/mine", on="n1")


def test_hosts_share_homes(cluster: Cluster, shared: Path) -> None:
    cluster.output("sh", "-c", "echo hello > note", on="n1", folder=shared)
    assert cluster.output("cat", shared / "note", on="n4") == "hello\n"
    assert cluster.run("ls", shared, user="other").returncode != 0


def test_hosts_see_the_checkout_read_only(cluster: Cluster) -> None:
    assert cluster.output("cat", TOP / "README.md", on="n1") == (TOP / "README.md").read_text()
    for path in (TOP / "README.md", Path("/usr/bin/new-file")):
        assert "Read-only" in cluster.run("touch", path, user="root", on="n1").stderr


def test_hosts_see_only_their_own_processes(cluster: Cluster) -> None:
    names = cluster.output("ps", "-e", "-o", "comm=", on="n2").split()
    assert "slurmd" in names and "sshd" in names
    assert "slurmctld" not in names and "munged" not in names


def test_a_command_gets_only_the_given_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "1")
    lines = cluster.output("env", environment={"WANTED": "a=b c"}).splitlines()
    assert sorted(line.split("=")[0] for line in lines) == ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER", "WANTED"]
    assert "WANTED=a=b c" in lines and "HOME=/home/user" in lines


def test_a_command_has_the_callers_streams_and_returns_its_exit_code(cluster: Cluster) -> None:
    done = cluster.run("sh", "-c", "cat; echo no >&2; exit 7", input="yes", on="n1")
    assert (done.returncode, done.stdout, done.stderr) == (7, "yes", "no\n")
    assert cluster.run("sh", "-c", "kill -USR1 $$").returncode == -signal.SIGUSR1
    assert cluster.run("no-such-program").returncode == 127
    assert cluster.run("true", on="n9").returncode == 125


def test_a_signal_to_enter_is_forwarded_to_the_command(cluster: Cluster) -> None:
    process = cluster.start("sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done",
                            stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(60) == 9


def test_a_command_ends_when_its_caller_is_killed(cluster: Cluster) -> None:
    process = cluster.start("sh", "-c", "echo ready; exec sleep 4242", on="n1", stdout=subprocess.PIPE)
    with process:
        assert process.stdout and process.stdout.readline()
        process.kill()
    wait_until(lambda: cluster.run("pgrep", "-f", "sleep 4242", on="n1").returncode == 1, "the end of sleep")


def test_a_command_can_have_a_terminal(cluster: Cluster) -> None:
    pid, master = pty.fork()
    if pid == 0:
        words = cluster.command(["sh", "-c", "tty; stty size; read word; echo $word; exit 3"], on="n1", tty=True)
        os.execv(words[0], words)
    said = b""
    while said.count(b"\n") < 2:
        said += os.read(master, 4096)
    os.write(master, b"typed\n")
    try:
        while more := os.read(master, 4096):
            said += more
    except OSError:
        pass  # the command has closed the terminal
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert said.startswith(b"/dev/pts/") and b"typed\r\n" in said


def test_a_batch_job_runs(cluster: Cluster, shared: Path) -> None:
    script = "#!/bin/sh\n#SBATCH -N2 --wait\nsrun hostname\n"
    cluster.output("sbatch", "--output", shared / "out", input=script, folder=shared)
    assert sorted(cluster.output("cat", shared / "out").split()) == ["n1", "n2"]
