"""The stall warning when ranks on several hosts wait for a rank on another host."""

from __future__ import annotations

import re
from pathlib import Path

from cluster import wait_until
from harness import program
from test_ssh import Jobs, jobs  # noqa: F401, the fixture


def test_a_stall_between_hosts_is_one_warning_with_the_late_rank_and_its_host(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """Two agents report waiting ranks; hvdrun prints one line."""
    job = jobs.start("-H", "n1:2,n2:1,n3:1", "--stall-check-warning-time-seconds", 2, program("latecomer"), "--late", 2,
                     "--until", shared / "go")
    said = ""
    while "has waited" not in said:
        line = job.stderr.readline()
        assert line, f"hvdrun ended without a stall warning: {said}"
        said += line
    jobs.cluster.output("touch", shared / "go")
    said += job.stderr.read()
    assert job.wait() == 0, said
    warnings = [line for line in said.splitlines() if "has waited" in line]
    assert len(warnings) == 1 and re.fullmatch(
        r'hvdrun: warning: allreduce "grad\.3" has waited \d+\.\d s for rank 2 on n2 \(pid \d+\); ranks 0-1,3 wait', warnings[0]), said


def test_a_stopped_agent_silences_neither_the_warning_nor_the_table(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """Its ranks are named as those of which nothing is known."""
    job = jobs.start("-H", "n1:2,n2:1", "--stall-check-warning-time-seconds", 2, program("latecomer"), "--late", 1, "--until", shared / "go")
    said = ""

    def wait_for(text: str) -> None:
        nonlocal said
        while text not in said:
            line = job.stderr.readline()
            assert line, f"hvdrun ended without {text!r}: {said}"
            said += line

    wait_until(lambda: len([line for host in ("n1", "n2") for line in jobs.cluster.processes(host) if " latecomer " in line]) == 3, "all ranks")
    jobs.cluster.output("pkill", "-STOP", "-x", "hvdrun-agent", on="n2", user="root")
    try:
        wait_for("has waited")
        jobs.cluster.output("pkill", "-QUIT", "-x", "hvdrun", on="login", user="root")
        wait_for("not known: its agent does not answer")
    finally:
        jobs.cluster.output("pkill", "-CONT", "-x", "hvdrun-agent", on="n2", user="root")
    jobs.cluster.output("touch", shared / "go")
    said += job.stderr.read()
    assert job.wait() == 0, said
    assert re.search(r'warning: allreduce "grad\.3" has waited \d+\.\d s for rank 1 on n1 \(pid \d+\); rank 0 waits; '
                     r"nothing is known of rank 2 on n2: its agent does not answer\n", said), said


def test_a_job_is_ended_for_quiet_though_an_agent_is_being_started_again(jobs: Jobs) -> None:  # noqa: F811
    """The next agent never greets: the question is not for it."""
    job = jobs.start("--min-np", 1, "--replace", "auto", "--reset-timeout", 300, "--quiet-timeout", "2s", "--host-timeout", 60,
                     "-H", "n1:2,n2:1", "sleep", "7777")
    wait_until(lambda: len([line for host in ("n1", "n2") for line in jobs.cluster.processes(host) if " sleep " in line]) == 3, "all ranks")
    jobs.cluster.output("pkill", "-STOP", "-x", "sshd", on="n2", user="root")
    try:
        jobs.cluster.output("pkill", "-KILL", "-x", "hvdrun-agent", on="n2", user="root")
        said = ""
        while "are sleeping" not in said:  # the verdict before the end
            line = job.stderr.readline()
            assert line, said
            said += line
    finally:
        jobs.cluster.output("pkill", "-CONT", "-x", "sshd", on="n2", user="root")
    said += job.stderr.read()
    assert job.wait() == 124 and "(--quiet-timeout)" in said, said
