"""What hvdrun says when ranks on some hosts wait for a rank on another one."""

from __future__ import annotations

import re
from pathlib import Path

from harness import program
from test_ssh import Jobs, jobs  # noqa: F401, the fixture


def test_a_stall_is_told_with_rank_and_host(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """Two agents tell of their waiting ranks, and one line comes of it."""
    job = jobs.start("-H", "n1:2,n2:1,n3:1", "--stall-check-warning-time-seconds", 2, program("latecomer"), "--late", 2,
                     "--until", shared / "go")
    said = ""
    while "has waited" not in said:
        line = job.stderr.readline()
        assert line, f"hvdrun ended without a word on the stall: {said}"
        said += line
    jobs.cluster.output("touch", shared / "go")
    said += job.stderr.read()
    assert job.wait() == 0, said
    told = [line for line in said.splitlines() if "has waited" in line]
    assert len(told) == 1 and re.fullmatch(
        r'hvdrun: warning: allreduce "grad\.3" has waited \d+\.\d s for rank 2 on n2 \(pid \d+\); ranks 0-1,3 wait', told[0]), said
