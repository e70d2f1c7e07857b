"""PMIx between four hosts with different numbers of ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import BUILD, SOAK, program
from test_ssh import Jobs, jobs  # noqa: F401, the fixture

UNEVEN = ("-H", "n1:4,n2:3,n3:1,n4:1")


GATE = [pytest.param(scenario, marks=pytest.mark.gate) for scenario in ("collected", "direct", "groups")]


@pytest.mark.parametrize("scenario", [*GATE, "unfenced", "in_a_row", "in_flight", "late", "never_put"])
def test_ranks_get_the_values_of_ranks_on_other_hosts(jobs: Jobs, scenario: str) -> None:  # noqa: F811
    done = jobs.run(*UNEVEN, program("pmix_exchange"), scenario)
    assert done.returncode == 0, done.stderr


@pytest.mark.gate
def test_ranks_of_all_hosts_publish_connect_and_make_groups(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.run(*UNEVEN, program("pmix_services"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[0] the groups' numbers differ"]


@pytest.mark.gate
def test_values_of_a_rank_can_be_read_after_its_end(jobs: Jobs) -> None:  # noqa: F811
    """The rank may be the only one of its host."""
    done = jobs.run(*UNEVEN, program("pmix_exchange"), "legacy")
    assert done.returncode == 0, done.stderr


@pytest.mark.gate
def test_libhvd_connects_ranks_over_pmix(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.run(*UNEVEN, BUILD / "bin/examples/hello")
    assert done.returncode == 0, done.stderr
    assert "the ranks add up to 36" in done.stdout


def test_the_warning_names_the_only_rank_of_a_host_that_has_opened_pmix(jobs: Jobs) -> None:  # noqa: F811
    """A rank that starts an MPI program alone waits for the others, which start none."""
    client = program("pmix_client")
    done = jobs.run("--stall-check-warning-time-seconds", 1, "-H", "n1:1,n2:1", "sh", "-c",
                    f"[ $HVD_RANK = 0 ] || sleep 3; {client}; echo over")
    assert done.returncode == 0, done.stderr
    assert re.search(r"warning: n1: rank 0 \(pid \d+ \(pmix_client\)\) has started MPI, PMIx or libhvd at least 1 s ago and may wait there "
                     r"for ranks on other hosts\. If pmix_client is to run as one process: `env ", done.stderr), done.stderr
    assert "n2: rank 1" not in done.stderr


@pytest.mark.parametrize("lacking", [pytest.param(["n2"], marks=pytest.mark.gate), ["n1"], ["n1", "n2"]])
def test_if_a_host_lacks_pmix_no_host_uses_it(jobs: Jobs, lacking: list[str]) -> None:  # noqa: F811
    """A host to which hvdrun was copied may lack PMIx. A wheel brings its own libpmix."""
    library = Path("/usr/lib/x86_64-linux-gnu/libpmix.so.2").resolve()
    for host in lacking:
        jobs.cluster.output("mount", "--bind", "/dev/null", library, on=host, user="root")
    try:
        done = jobs.run("-H", "n1:2,n2:1", "timeout", 60, BUILD / "bin/examples/hello")
    finally:
        for host in lacking:
            jobs.cluster.output("umount", library, on=host, user="root")
    assert done.returncode == 0 and "the ranks add up to 3" in done.stdout, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "PMIx" in line]
    assert len(warnings) == 1, done.stderr
    assert re.match(rf"hvdrun: warning: continuing without PMIx on all hosts: {','.join(lacking)}: PMIx is not here \(.*\); "
                    "install libpmix2", warnings[0]), done.stderr


def test_the_job_ends_at_once_if_a_host_cannot_start_its_pmix_server(jobs: Jobs) -> None:  # noqa: F811
    """If that host ran its ranks without PMIx, they would use another bootstrap than the others, and all would wait."""
    jobs.cluster.output("ip", "link", "set", "lo", "down", on="n2", user="root")
    try:
        done = jobs.run("-H", "n1:2,n2:1", "timeout", 60, BUILD / "bin/examples/hello")
    finally:
        jobs.cluster.output("ip", "link", "set", "lo", "up", on="n2", user="root")
    assert done.returncode == 125 and "rank 0 of 3" not in done.stdout, done
    assert re.search(r"n2: PMIx cannot start its server: .*; `--pmix off` runs the job without", done.stderr), done.stderr


@pytest.mark.gate
def test_pmix_abort_on_another_host_ends_the_job_with_its_code(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.run("--grace", "0.3", *UNEVEN, program("mpi_allreduce"), "--abort", 7)
    assert done.returncode == 7 and re.search(r"rank 7 on n3", done.stderr), done.stderr


def test_a_kill_of_a_rank_during_a_fence_ends_the_job(jobs: Jobs) -> None:  # noqa: F811
    done = jobs.run("--grace", "0.3", *UNEVEN, program("pmix_exchange"), "death")
    assert done.returncode == 137 and re.search(r"rank 0 on n1", done.stderr), done.stderr


def test_many_pmix_jobs_in_a_row_succeed(jobs: Jobs) -> None:  # noqa: F811
    for _ in range(100 if SOAK else 5):
        done = jobs.run(*UNEVEN, program("pmix_exchange"), "collected")
        assert done.returncode == 0, done.stderr


def test_large_messages_over_open_mpi_give_the_same_results_as_over_tcp(jobs: Jobs) -> None:  # noqa: F811
    over_tcp, over_mpi = (jobs.run("--label", "none", "-x", f"HVD_TRANSPORT={transport}", "-x", "HVD_VERBOSE=1", *UNEVEN,
                                   program("transport_user"), "--again", "--set") for transport in ("tcp", "mpi"))
    assert over_mpi.returncode == 0 and "over Open MPI v" in over_mpi.stderr, over_mpi.stderr
    assert over_tcp.returncode == 0 and "over TCP" in over_tcp.stderr, over_tcp.stderr
    assert sorted(over_mpi.stdout.splitlines()) == sorted(over_tcp.stdout.splitlines())
