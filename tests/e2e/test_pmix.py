"""The PMIx server of each job, used by PMIx clients, libhvd and MPI."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time

import pytest

from harness import BUILD, HVDRUN, PYTHON, Sandbox, alive, blocks_in, program, python_environment, wait_until

CLIENT = program("pmix_client")


@pytest.mark.core
@pytest.mark.parametrize("size", [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_client_gets_its_rank_and_reads_the_values_of_other_ranks(sandbox: Sandbox, size: int) -> None:
    done = sandbox.run("-np", size, "--label", "none", CLIENT).expect(0)
    expected = [f"rank {rank} of {size}: sum {size * (size - 1) // 2}" for rank in range(size)]
    assert sorted(done.out_lines) == expected


@pytest.mark.slow
@pytest.mark.measures
def test_64_clients_exchange_values(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 64, CLIENT).expect(0)
    assert len(re.findall(r"of 64: sum 2016\b", done.out_text)) == 64


@pytest.mark.core
def test_pmix_abort_ends_the_job_with_its_code(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 4, "--grace", "0.3", CLIENT, "--abort", 2).expect(7)
    assert re.search(r"rank 2\b", done.err_text) and "the test asked for an abort" in done.err_text
    assert done.report["first_failure"] == 2


def test_a_client_that_exits_with_0_without_finalize_fails_the_job(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", CLIENT, "--no-finalize", 1)
    assert done.code != 0 and not done.survivors, done
    assert "rank 1" in done.err_text and "without finalize" in done.err_text


def test_with_pmix_off_clients_fail_and_other_programs_run(sandbox: Sandbox) -> None:
    assert sandbox.run("-np", 2, "--pmix", "off", "sh", "-c", "echo ${PMIX_RANK-unset}").expect(0).out.count(b"unset") == 2
    done = sandbox.run("-np", 1, "--pmix", "off", CLIENT)
    assert done.code == 98 and "PMIx_Init" in done.err_text


@pytest.mark.core
def test_clients_of_parallel_jobs_do_not_see_each_other(sandbox: Sandbox) -> None:
    jobs = [sandbox.start("-np", 3, "--label", "none", CLIENT) for _ in range(4)]
    for job in jobs:
        assert sorted(job.wait().expect(0).out_lines) == [f"rank {rank} of 3: sum 3" for rank in range(3)]


@pytest.mark.core
def test_ranks_publish_connect_and_make_groups(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--label", "none", program("pmix_services")).expect(0)
    assert done.out_lines == ["the groups' numbers differ"]


def test_a_file_that_a_rank_registers_for_clean_up_is_removed(sandbox: Sandbox) -> None:
    file = sandbox.files / "scratch"
    file.touch()
    sandbox.run("-np", 2, program("pmix_services"), "--cleanup", file).expect(0)
    assert not file.exists()


def test_a_text_that_a_rank_logs_is_shown(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, program("pmix_services"), "--log", "no route\n").expect(0)
    assert re.search(r"^hvdrun: warning: \S+: rank 0 logs: no route$", done.err_text, re.M)


def test_a_refused_spawn_is_said_once_with_the_program(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, program("pmix_services"), "--spawn").expect(0)
    warnings = [line for line in done.err_text.splitlines() if "MPI_Comm_spawn" in line]
    assert len(warnings) == 1 and re.search(r"warning: .*: rank [01] called MPI_Comm_spawn or PMIx_Spawn to start /bin/true: refused", warnings[0])


def waits(pid: int) -> bool:
    """Returns whether the main thread waits for another thread in 50 consecutive checks.

    It then waits for a fence: the server answers other requests at once."""
    for _ in range(50):
        if not blocks_in(pid, "futex"):
            return False
        time.sleep(0.001)
    return True


def version_of_libpmix() -> int:
    library = ctypes.CDLL("libpmix.so.2")
    library.PMIx_Get_version.restype = ctypes.c_char_p
    return int(library.PMIx_Get_version().split()[1].split(b".")[0])  # "OpenPMIx 4.2.2 (PMIx Standard: …"


@pytest.mark.skipif(version_of_libpmix() >= 5, reason="libhvd does not use libpmix 5")
def test_a_ranks_second_program_works_after_the_first_has_ended(sandbox: Sandbox) -> None:
    """libpmix's server treats the end of rank 1's first program as the end of rank 1 and would end the fence of hvd_init."""
    go, pids = sandbox.files / "go", sandbox.files / "pids"
    job = sandbox.start("-np", 2, "--label", "none", "sh", "-c",
                        f'"{CLIENT}" --quiet $([ $HVD_RANK = 0 ] || echo --until {go}); [ $HVD_RANK = 1 ] || echo $$ > {pids}; '
                        f'exec "{program("../examples/hello")}"')
    wait_until(lambda: any(waits(int(pid)) for pid, in sandbox.lines_of("pids")), "rank 0's second program in hvd_init")
    go.touch()
    assert "the ranks add up to 1" in job.wait().expect(0).out_lines


def test_a_rank_that_starts_again_after_an_end_without_finalize_is_named(sandbox: Sandbox) -> None:
    """libpmix's server takes the end of each rank's first program for the rank's, and the fence of the second never ends."""
    job = sandbox.start("-np", 2, "sh", "-c", f'"{CLIENT}" --quiet --no-finalize $HVD_RANK; exec "{CLIENT}"')
    wait_until(lambda: b"left without finalize" in job.err, "the warning")
    job.signal(signal.SIGINT)
    done = job.wait()
    assert re.search(r"warning: \S+ rank [01] starts MPI, PMIx or libhvd again, and may wait for ever", done.err_text), done


def test_a_second_client_of_a_rank_is_refused_and_the_first_continues(sandbox: Sandbox) -> None:
    """Otherwise the second would wait for rank 1, and the server would take its call of a fence for the first one's."""
    go, done = sandbox.files / "go", sandbox.files / "done"
    job = sandbox.start("-np", 2, "--label", "none", "sh", "-c",
                        f'if [ $HVD_RANK = 1 ]; then exec {CLIENT} --until {done}; fi; {CLIENT} --until {done} & first=$!; '
                        f'until [ -e {go} ]; do sleep 0.01; done; {CLIENT} 2> /dev/null || echo "the second failed"; touch {done}; wait $first')
    wait_until(lambda: job.out.count(b"sum") == 2 or job.process.poll() is not None, "both ranks to use PMIx")
    go.touch()
    result = job.wait().expect(0)
    assert sorted(result.out_lines) == ["rank 0 of 2: sum 1", "rank 1 of 2: sum 1", "the second failed"]
    assert re.search(r"rank 0 has started a program of MPI or PMIx, pid \d+ \(pmix_client\), beside its own; it is refused", result.err_text)


@pytest.mark.parametrize("who", ["rank 0", "every rank"])
def test_fences_end_after_second_clients_were_refused(sandbox: Sandbox, who: str) -> None:
    """With rank 0 alone, rank 1 is in the fence when the second program is refused."""
    command = f'[ $HVD_RANK = {1 if who == "rank 0" else -1} ] || {CLIENT} --quiet 2> /dev/null || echo refused'
    job = sandbox.run("-np", 2, "--label", "none", CLIENT, "--quiet", "--then", command)
    assert job.expect(0).out_lines == ["refused"] * (1 if who == "rank 0" else 2)


def test_the_only_rank_of_a_job_may_start_a_second_client(sandbox: Sandbox) -> None:
    job = sandbox.run("-np", 1, "--label", "none", "sh", "-c",
                      f"{CLIENT} --until {sandbox.files}/done & first=$!; {CLIENT}; touch {sandbox.files}/done; wait $first")
    assert job.expect(0).out_lines == ["rank 0 of 1: sum 0"] * 2


def test_the_warning_names_the_only_rank_that_has_opened_pmix(sandbox: Sandbox) -> None:
    """A rank that starts an MPI program alone waits for the others, which start none."""
    done = sandbox.files / "done"
    job = sandbox.start("-np", 3, "sh", "-c", f"[ $HVD_RANK = 1 ] || until [ -e {done} ]; do sleep 0.01; done; {CLIENT} || exit",
                        env={"HVD_STALL_CHECK_TIME_SECONDS": "1"})
    job.wait_for(b"which have not", "err")
    done.touch()
    found = re.search(r"warning: .*: rank 1 \(pid \d+ \(pmix_client\)\) has started MPI, PMIx or libhvd at least 1 s ago and may wait there "
                      r"for ranks 0,2, which have not. If pmix_client is to run as one process: `(.*) \S*pmix_client …`", job.wait().expect(0).err_text)
    assert found
    alone = sandbox.run("-np", 2, "sh", "-c", f"{found[1]} {CLIENT}; echo tried")  # the command that the warning suggests
    assert alone.expect(0).out_text.count("tried") == 2


def test_clients_end_after_the_launcher_is_killed(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 3, program("spawner"), "--setsid", 1, "--pids", sandbox.files / "pids", "--",
                            "sh", "-c", f"'{CLIENT}'; echo ready $$ >> {sandbox.files}/pids; sleep 1000")
    wait_until(lambda: len(sandbox.lines_of("pids")) == 6, "all ranks to use PMIx")
    running.signal(9)
    wait_until(lambda: not any(alive(int(pid)) for _, pid in sandbox.lines_of("pids")), "the end of all ranks and children")
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


def test_libhvd_connects_the_ranks_with_and_without_pmix(sandbox: Sandbox) -> None:
    """Without PMIx libhvd uses the bootstrap from environment variables, as under torchrun."""
    for options in ([], ["--pmix", "off"]):
        done = sandbox.run("-np", 2, *options, BUILD / "bin/examples/digits", "--epochs", 1).expect(0)
        assert "test accuracy" in done.out_text


FORKING = """
import os, sys
import hvd

hvd.init()
rank = hvd.rank()
hvd.shutdown()
child = os.fork()
if child == 0:
    sys.exit(0)  # runs libhvd's exit handler
print(rank, os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("pmix", ["auto", "off"])
def test_a_child_forked_after_shutdown_ends(sandbox: Sandbox, pmix: str) -> None:
    """The child lacks libpmix's thread, so PMIx_Finalize would wait there for ever."""
    done = sandbox.run("-np", 2, "--pmix", pmix, "--label", "none", PYTHON, "-c", FORKING, env=python_environment()).expect(0)
    assert sorted(done.out_lines) == ["0 0", "1 0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide /etc/passwd")
def test_a_user_without_passwd_entry_and_home_can_use_pmix(sandbox: Sandbox) -> None:
    """libpmix crashes without a home folder, both in the server and in clients."""
    (sandbox.files / "nsswitch.conf").write_text("passwd: files\n")
    hide = f"mount --bind /dev/null /etc/passwd && mount --bind {sandbox.files}/nsswitch.conf /etc/nsswitch.conf && unset HOME"
    job = sandbox.run("--mount", "sh", "-c", f'{hide} && exec "$@"', "sh", HVDRUN, "-np", 2, CLIENT, tool="unshare")
    job.expect(0)
    assert sorted(job.out_lines) == ["[0] rank 0 of 2: sum 1", "[1] rank 1 of 2: sum 1"]


def test_i_mpi_pmi_library_names_libpmix_for_intel_mpi(sandbox: Sandbox) -> None:
    show = ("sh", "-c", "echo $I_MPI_PMI_LIBRARY")
    assert "libpmix" in sandbox.run("-np", 1, "--label", "none", *show).expect(0).out_text
    users = sandbox.run("-np", 1, "--label", "none", *show, env={"I_MPI_PMI_LIBRARY": "mine"}).expect(0)
    assert users.out_lines == ["mine"]
    assert sandbox.run("-np", 1, "--label", "none", "--pmix", "off", *show).expect(0).out_lines == [""]
