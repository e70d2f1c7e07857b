"""HVD_TRANSPORT=mpi: libhvd sends large allreduces between hosts over Open MPI. The hosts are simulated: each rank has its own
folder of shared memory. libhvd therefore takes the ranks for ranks on different hosts."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from harness import BUILD, SOAK, Done, Running, Sandbox, program, wait_until

USER = program("transport_user")
USER_OF_MPI = program("transport_user_mpi")
OTHER_PLUGIN = program("libother_mpi_plugin.so")
MPIRUN = "/usr/bin/mpirun.openmpi"
MPI = {"HVD_TRANSPORT": "mpi"}
# Settings for Open MPI: WITHIN uses shared memory, BETWEEN uses sockets as between machines.
WITHIN = {"OMPI_MCA_btl": "self,vader"}
BETWEEN = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "lo"}


def is_open_mpi_5() -> bool:
    return "(Open MPI) 5" in subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True).stdout


def with_each_carrier(*numbers: int, in_gate: set[tuple[int, str]]) -> list[object]:
    """Returns parameters: each number with each setting of Open MPI. Those outside `in_gate` are marked slow."""
    return [pytest.param(number, carrier, id=f"{number}-{name}",
                         marks=() if (number, name) in in_gate else pytest.mark.slow)
            for number in numbers for name, carrier in (("memory", WITHIN), ("sockets", BETWEEN))]


def start(sandbox: Sandbox, size: int, *options: object, user: str = USER, env: dict[str, str] | None = None) -> Running:
    return sandbox.start("-np", size, "--label", "none", "--grace", 30, user, "--two-hosts", *options, env=env)


def run(sandbox: Sandbox, size: int, *options: object, **more: object) -> Done:
    return start(sandbox, size, *options, **more).wait()


def results(done: Done) -> list[str]:
    lines = sorted(done.expect(0).out_lines)
    assert lines
    return lines


@pytest.mark.parametrize("size, carrier", with_each_carrier(
    2, 3, 4, 5, in_gate={(2, "memory"), (3, "sockets"), (5, "memory")}))
def test_allreduce_over_mpi_gives_the_same_bits_as_over_tcp(sandbox: Sandbox, size: int, carrier: dict[str, str]) -> None:
    over_tcp = results(run(sandbox, size, "--set"))
    assert results(run(sandbox, size, "--set", env={**MPI, **carrier})) == over_tcp


@pytest.mark.parametrize("form", [*(pytest.param(form, marks=pytest.mark.slow) for form in ("float16", "bfloat16")), "int8"])
@pytest.mark.parametrize("way", [{**MPI, **WITHIN}, pytest.param({**MPI, **BETWEEN}, marks=pytest.mark.slow),
                                 {"HVD_DATA_TLS": "1"}], ids=["memory", "sockets", "tls"])
def test_compressed_allreduce_over_mpi_or_tls_gives_the_same_bits_as_over_tcp(sandbox: Sandbox, form: str, way: dict[str, str]) -> None:
    tcp = {"MASTER_ADDR": "127.0.0.1"}
    plain = results(run(sandbox, 3, env=tcp))
    compressed = results(run(sandbox, 3, "--compression", form, env=tcp))
    assert not set(plain) & set(compressed)
    done = run(sandbox, 3, "--compression", form, env={**tcp, **way, "HVD_VERBOSE": "1"})
    assert results(done) == compressed
    assert ("with TLS" if "HVD_DATA_TLS" in way else "over Open MPI v") in done.err_text


def test_hvd_verbose_names_the_transport_between_hosts(sandbox: Sandbox) -> None:
    assert "over Open MPI v" in run(sandbox, 2, env={**MPI, "HVD_VERBOSE": "1"}).expect(0).err_text
    assert "over TCP" in run(sandbox, 2, env={"HVD_VERBOSE": "1"}).expect(0).err_text


def test_the_mpi_transport_works_under_mpirun(sandbox: Sandbox) -> None:
    over_tcp = results(run(sandbox, 3))
    done = sandbox.run("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", 3, USER, "--two-hosts",
                       tool=MPIRUN, env={**MPI, "HVD_SHM_DIR": str(sandbox.files)})
    if is_open_mpi_5():
        assert done.code != 0 and "Open MPI 5 cannot start after libhvd has opened PMIx. Start the program with hvdrun" in done.err_text
    else:
        assert results(done) == over_tcp


def streams_pair(sandbox: Sandbox, carrier: dict[str, str], *options: str) -> Done:
    plugin = {"HVD_MPI_LIBRARY": str(BUILD / "lib/libhvd_mpi.so")}  # the plugin is in libhvd's folder, not in the program's
    return sandbox.run("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", 2, program("mpi_streams_pair"),
                       *options, tool=MPIRUN, env={**plugin, **carrier})


@pytest.mark.parametrize("carrier", [WITHIN, BETWEEN], ids=["memory", "sockets"])
def test_data_larger_than_one_mpi_message_is_sent_in_several(sandbox: Sandbox, carrier: dict[str, str]) -> None:
    streams_pair(sandbox, carrier).expect(0)


def test_a_message_longer_than_the_receive_buffer_is_an_error(sandbox: Sandbox) -> None:
    done = streams_pair(sandbox, WITHIN, "--too-long").expect(3)
    assert "MPI has lost rank 1: it has sent 262145 bytes in one message" in done.err_text, done


def test_init_over_mpi_works_again_after_shutdown(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "--again", env=MPI).expect(0)
    assert done.out.count(b"first rank") == done.out.count(b"second rank") == 8


@pytest.mark.parametrize("how", [[], ["--mpi", "threads"]], ids=["libhvd starts MPI", "the program starts MPI"])
def test_libhvd_and_a_program_that_calls_mpi_share_one_mpi(sandbox: Sandbox, how: list[str]) -> None:
    over_tcp = results(run(sandbox, 2))
    lines = results(run(sandbox, 2, *how, user=USER_OF_MPI, env=MPI))
    assert [line for line in lines if line != "MPI has 2 ranks"] == over_tcp
    assert lines.count("MPI has 2 ranks") == (2 if how else 0)


def test_ompi_mpi_thread_level_makes_mpi_init_usable_by_libhvd(sandbox: Sandbox) -> None:
    run(sandbox, 2, "--mpi", "plain", user=USER_OF_MPI, env={**MPI, "OMPI_MPI_THREAD_LEVEL": "3"}).expect(0)


def expect_on_all(done: Done, text: str) -> None:
    """Expects that the job fails, and that each rank that printed an error printed the text. hvdrun stops late ranks before they print."""
    assert done.code == 1, done
    assert text in done.err_text, done
    others = [line for line in done.err_text.splitlines() if line.startswith("hvd_init") and text not in line]
    assert not others, done


@pytest.mark.parametrize("options, text", [
    (["--transport-of-1", "tcp"], "HVD_TRANSPORT is mpi on rank 0 on "),
    (["--transport-of-1", "ucx"], 'HVD_TRANSPORT="ucx" is not a transport: it is tcp (the default) or mpi'),
], ids=["another", "nonsense"])
def test_a_different_transport_on_one_rank_is_an_error_on_all_ranks(sandbox: Sandbox, options: list[str], text: str) -> None:
    expect_on_all(run(sandbox, 3, *options, env=MPI), text)


def test_an_unknown_transport_is_an_error_in_a_job_on_one_host(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, USER, env={"HVD_TRANSPORT": "ucx"})
    assert done.code == 1 and 'HVD_TRANSPORT="ucx" is not a transport' in done.err_text, done


def test_a_job_on_one_host_does_not_load_the_mpi_plugin(sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, USER, env={**MPI, "HVD_MPI_LIBRARY": "/nowhere/libhvd_mpi.so"}).expect(0)


@pytest.mark.parametrize("plugin, text", [
    ("/nowhere/libhvd_mpi.so", "/nowhere/libhvd_mpi.so cannot be opened ("),
    ("libm.so.6", "libm.so.6 is not libhvd's plugin for MPI"),
    (OTHER_PLUGIN, "is of another version of libhvd ("),
], ids=["missing", "another library", "another version"])
def test_a_missing_or_wrong_mpi_plugin_is_an_error_on_all_ranks(sandbox: Sandbox, plugin: str, text: str) -> None:
    expect_on_all(run(sandbox, 2, env={**MPI, "HVD_MPI_LIBRARY": plugin}), text)


def test_hvd_mpi_library_names_a_plugin_in_another_folder(sandbox: Sandbox) -> None:
    elsewhere = sandbox.files / "another name.so"
    shutil.copy(BUILD / "lib/libhvd_mpi.so", elsewhere)
    run(sandbox, 2, env={**MPI, "HVD_MPI_LIBRARY": str(elsewhere)}).expect(0)


def test_mpi_without_thread_multiple_is_an_error_on_all_ranks(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "--mpi", "plain", user=USER_OF_MPI, env=MPI)
    expect_on_all(done, "MPI was started without MPI_THREAD_MULTIPLE")


def test_the_mpi_transport_without_pmix_is_an_error_on_all_ranks(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--pmix", "off", USER, "--two-hosts", env=MPI)
    expect_on_all(done, "MPI would not find the other ranks")


def test_mpi_with_other_rank_numbers_than_libhvd_is_an_error_on_all_ranks(sandbox: Sandbox) -> None:
    """Without OMPI_MCA_schizo, which hvdrun sets, Open MPI 4 takes each rank for a separate job. Two such jobs that start at the
    same time can fail to create their common session folder. The test therefore gives each its own folder. Open MPI 5 gets
    other numbers."""
    if is_open_mpi_5():
        done = sandbox.run("-np", 2, "sh", "-c", 'PMIX_RANK=$((1 - HVD_RANK)) exec "$0" --two-hosts', USER, env=MPI)
        expect_on_all(done, "to MPI this process is rank 1 of 2, to libhvd rank 0 of 2")
        return
    start = 'export OMPI_MCA_orte_tmpdir_base="$PWD/rank.$HVD_RANK"; mkdir "$OMPI_MCA_orte_tmpdir_base"; exec "$0" --two-hosts'
    done = sandbox.run("-np", 2, "env", "-u", "OMPI_MCA_schizo", "sh", "-c", start, USER, env=MPI)
    expect_on_all(done, "to MPI this process is rank 0 of 1, to libhvd rank 0 of 2")


def test_init_over_mpi_after_mpi_finalize_is_an_error_on_all_ranks(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "--mpi", "threads", "--again", "--finalize-between", user=USER_OF_MPI, env=MPI)
    assert done.out.count(b"first rank") == 8
    expect_on_all(done, "MPI has been finalized in this process and cannot start again")


# Ranks 0 and 1 send the data between the hosts.
@pytest.mark.parametrize("victim, carrier", with_each_carrier(1, 2, in_gate={(1, "memory"), (2, "sockets")}))
def test_sigkill_to_a_rank_during_allreduce_over_mpi_is_an_error_that_names_the_rank(sandbox: Sandbox, victim: int,
                                                               carrier: dict[str, str]) -> None:
    for _ in range(20 if SOAK else 1):
        job = start(sandbox, 4, "--until-death", env={**MPI, **carrier})
        wait_until(lambda: job.out.count(b"ready\n") == 4 or job.process.poll() is not None, "all ranks are ready")
        pid = sandbox.ranks()[victim]
        os.kill(pid, 9)
        done = job.wait()
        assert done.code == 137 and not done.survivors and done.report["first_failure"] == victim, done
        if carrier == BETWEEN and is_open_mpi_5():
            continue  # its TCP ends the ranks that were connected
        for rank in {0, 1, 2, 3} - {victim}:
            assert f"rank {rank}: allreduce: rank {victim} (pid {pid} on " in done.out_text, done
