"""The stall warning when ranks on several hosts wait for a rank on another host."""

from __future__ import annotations

import re
from pathlib import Path

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
