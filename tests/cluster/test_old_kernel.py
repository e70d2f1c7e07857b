"""hvdrun and its agents on Linux 4.18, which RHEL 8 has: without the system calls that came later, over ssh and srun. And
under an old container runtime's filter of system calls, which refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import program
from test_ssh import HVDRUN, Jobs, jobs  # noqa: F401, the fixture

RANK = "[ $HVD_RANK = 1 ] && exit 3; sleep 7777"
OLD_KERNEL = program("old_kernel")


def test_calls_fail_that_linux_4_18_lacks(jobs: Jobs) -> None:  # noqa: F811
    code = "import ctypes, errno, os; print(ctypes.CDLL(None, use_errno=True).syscall(434, os.getpid(), 0), ctypes.get_errno() == errno.ENOSYS)"
    assert jobs.cluster.output(OLD_KERNEL, "/usr/bin/python3", "-c", code) == "-1 True\n"


@pytest.mark.gate
@pytest.mark.parametrize("client, options", [("libssh", []), ("openssh", []), ("openssh", ["--filter"])])
def test_over_ssh(jobs: Jobs, shared: Path, client: str, options: list[str]) -> None:  # noqa: F811
    agent = shared / "hvdrun"
    jobs.cluster.output("tee", agent, input=f'#!/bin/sh\nexec "{OLD_KERNEL}" {" ".join(options)} "{HVDRUN}" "$@"\n')
    jobs.cluster.output("chmod", "755", agent)
    done = jobs.cluster.run(OLD_KERNEL, *options, HVDRUN, "--ssh-client", client, "--agent-path", agent, "-np", 2, "-H", "n1:1,n2:1",
                            "sh", "-c", RANK)
    assert done.returncode == 3 and "rank 1 on n2 failed: exit code 3" in done.stderr, done.stderr


@pytest.mark.gate
def test_in_slurm(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.cluster.run("salloc", "-Q", "-N2", OLD_KERNEL, HVDRUN, "-np", 2, "--ranks-per-host", 1, "sh", "-c", RANK)
    assert done.returncode == 3 and "rank 1 on n2 failed: exit code 3" in done.stderr, done.stderr
