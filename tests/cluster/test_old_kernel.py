"""hvdrun and its agents over ssh and srun without the system calls that Linux 4.18 (RHEL 8) lacks, and under the seccomp
filter of an old container runtime, which refuses these calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import program
from test_ssh import HVDRUN, Jobs, jobs  # noqa: F401, the fixture

RANK = "[ $HVD_RANK = 1 ] && exit 3; sleep 7777"
OLD_KERNEL = program("old_kernel")


def test_the_simulated_old_kernel_lacks_pidfd_open(jobs: Jobs) -> None:  # noqa: F811
    code = "import ctypes, errno, os; print(ctypes.CDLL(None, use_errno=True).syscall(434, os.getpid(), 0), ctypes.get_errno() == errno.ENOSYS)"
    assert jobs.cluster.output(OLD_KERNEL, "/usr/bin/python3", "-c", code) == "-1 True\n"


@pytest.mark.gate
@pytest.mark.parametrize("client, options", [("libssh", []), ("openssh", []), ("openssh", ["--filter"])])
def test_a_job_over_ssh_runs_on_an_old_kernel(jobs: Jobs, shared: Path, client: str, options: list[str]) -> None:  # noqa: F811
    agent = shared / "hvdrun"
    jobs.cluster.output("tee", agent, input=f'#!/bin/sh\nexec "{OLD_KERNEL}" {" ".join(options)} "{HVDRUN}" "$@"\n')
    jobs.cluster.output("chmod", "755", agent)
    done = jobs.cluster.run(OLD_KERNEL, *options, HVDRUN, "--ssh-client", client, "--agent-path", agent, "-np", 2, "-H", "n1:1,n2:1",
                            "sh", "-c", RANK)
    assert done.returncode == 3 and "rank 1 on n2 failed: exit code 3" in done.stderr, done.stderr


@pytest.mark.gate
def test_a_job_in_slurm_runs_on_an_old_kernel(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.cluster.run("salloc", "-Q", "-N2", OLD_KERNEL, HVDRUN, "-np", 2, "--ranks-per-host", 1, "sh", "-c", RANK)
    assert done.returncode == 3 and "rank 1 on n2 failed: exit code 3" in done.stderr, done.stderr
