"""hvdrun's options for collectives, and its messages about ranks that wait in them."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import time
from collections.abc import Sequence

import pytest

from harness import BUILD, HOSTNAME, Done, Sandbox, environment_of, program, read_bytes, wait_until


def variables(sandbox: Sandbox, *options: object, env: dict[str, str] | None = None) -> dict[str, str]:
    """Returns the variables of a rank's environment that configure libhvd's collectives."""
    sandbox.run("-np", 1, *options, program("env_dump"), sandbox.files, env=env).expect(0)
    text = (sandbox.files / "0.env").read_bytes()
    found = dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if entry)
    wanted = ("FUSION", "CACHE", "STALL", "CYCLE", "AUTOTUNE")
    return {name: value for name, value in found.items()
            if name.startswith(("HVD_", "HOROVOD_")) and any(word in name for word in wanted)}


def test_options_for_collectives_set_the_ranks_environment(sandbox: Sandbox) -> None:
    found = variables(sandbox, "--fusion-threshold-mb", "0.5", "--cache-capacity", 77, "--no-stall-check",
                      "--stall-check-warning-time-seconds", 30, "--stall-check-shutdown-time-seconds", "2m")
    assert found == {"HVD_FUSION_THRESHOLD": "524288", "HVD_CACHE_CAPACITY": "77", "HVD_STALL_CHECK_DISABLE": "1",
                     "HVD_STALL_CHECK_TIME_SECONDS": "30", "HVD_STALL_SHUTDOWN_TIME_SECONDS": "120"}


def test_without_options_ranks_get_the_callers_variables(sandbox: Sandbox) -> None:
    given = {"HOROVOD_CACHE_CAPACITY": "9", "HVD_FUSION_THRESHOLD": "4096"}
    assert variables(sandbox, env=given) == given


def test_x_overrides_the_option_of_the_same_setting(sandbox: Sandbox) -> None:
    found = variables(sandbox, "--cache-capacity", 77, "-x", "HVD_CACHE_CAPACITY=5", env={"HVD_CACHE_CAPACITY": "1"})
    assert found == {"HVD_CACHE_CAPACITY": "5"}


def test_cycle_time_ms_is_a_warning_without_effect(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--cycle-time-ms", "3.5", "true").expect(0)
    assert "--cycle-time-ms has no effect: there is no cycle" in done.err_text


def test_the_log_of_autotune_has_horovods_columns(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--autotune", "--autotune-log-file", "tuned.csv", program("autotune_user"),
                       sandbox.files / "tuned.csv", cwd=sandbox.files).expect(0)
    assert "sums are right" in done.out_text
    with (sandbox.files / "tuned.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 8
    assert list(rows[0]) == ["hierarchical_allreduce", "hierarchical_allgather", "torus_allreduce", "cache_enabled",
                             "cycle_time_ms", "tensor_fusion_threshold", "score", "largest_fused_bytes"]
    assert [row["tensor_fusion_threshold"] for row in rows[:3]] == ["0.0625", "0", "0.0625"]
    assert [row["largest_fused_bytes"] for row in rows[:3]] == ["4096", "0", "16384"]
    assert all(float(row["score"]) > 0 for row in rows)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_process_set_works_during_and_after_autotuning(sandbox: Sandbox, size: int) -> None:
    """Collectives of the set are not in the log and do not delay the end of the search."""
    log = sandbox.files / "tuned.csv"
    done = sandbox.run("-np", size, "-H", f"localhost:{size}", "--autotune", "--autotune-log-file", log,
                       program("autotune_user"), log, "set").expect(0)
    assert "sums are right" in done.out_text
    with log.open() as file:
        tried = [(row["tensor_fusion_threshold"], row["largest_fused_bytes"]) for row in csv.DictReader(file)]
    assert f"lines: {1 + len(tried)}\n" in done.out_text, "the log has grown after the search"
    assert tried[-1] in tried[:-1], tried


def test_autotune_is_off_by_default_and_with_no_autotune(sandbox: Sandbox) -> None:
    found = variables(sandbox)
    assert not [name for name in found if "AUTOTUNE" in name]
    found = variables(sandbox, "--no-autotune", env={"HVD_AUTOTUNE": "1"})
    assert found["HVD_AUTOTUNE"] == "0"


def test_an_unwritable_autotune_log_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--autotune", "--autotune-log-file", "none/tuned.csv", program("autotune_user"), "x",
                       cwd=sandbox.files)
    assert done.code == 1 and "cannot write the log of --autotune, " in done.err_text
    assert "none/tuned.csv: No such file or directory" in done.err_text


@pytest.mark.parametrize("hosts", [1, 2])
def test_collectives_work_with_pages_of_64_kib(sandbox: Sandbox, hosts: int) -> None:
    """POWER and some aarch64 kernels have such pages; offsets of mappings are multiples of the page size."""
    rank = """
if [ "$1" = 2 ]; then export HVD_SHM_DIR="$2/$HVD_RANK"; mkdir -p "$HVD_SHM_DIR"; fi
LD_PRELOAD="$3" exec "$4"
"""
    report = sandbox.files / "report.json"
    preloaded = sandbox.files / "large_pages.so"  # the checkout's path may have a space, LD_PRELOAD may not
    preloaded.symlink_to(program("large_pages.so"))
    done = sandbox.run("-np", 2, "--report", report, "sh", "-c", rank, "rank", hosts, sandbox.files,
                       preloaded, program("large_pages_user"),
                       env={"ASAN_OPTIONS": "verify_asan_link_order=0"}).expect(0)
    for number in range(2):
        assert f"[{number}] pages of 65536, sums 2 4 6" in done.out_text
    assert "without a status page" not in done.err_text
    assert "will copy buffers" not in done.err_text
    assert [entry["counters"]["steps"] for entry in json.loads(read_bytes(report))["ranks"]] == [7, 7]


class Stalled:
    """A job whose ranks call an allreduce, but one of them only after go()."""

    def __init__(self, sandbox: Sandbox, size: int, late: int, *options: object, words: Sequence[object] = (),
                 env: dict[str, str] | None = None) -> None:
        self.sandbox = sandbox
        self._go = sandbox.files / "go"
        self.running = sandbox.start("-np", size, *options, program("latecomer"), "--late", late, "--until", self._go,
                                     *words, env=env)

    def wait_for_line(self, text: str) -> None:
        self.running.wait_for(text.encode(), "err")

    def go(self) -> Done:
        self._go.touch()
        return self.running.wait()


def lines_with(done: Done, text: str) -> list[str]:
    return [line for line in done.err_text.splitlines() if text in line]


def waits(sandbox: Sandbox, rank: int) -> bool:
    """Returns whether the rank's status page, read through the rank's mounts, shows the collective in progress."""
    pid = sandbox.ranks().get(rank, 0)
    path, _, offset = environment_of(pid).get("HVD_STATUS", "@0").rpartition("@")
    page = read_bytes(f"/proc/{pid}/root{path}")[int(offset):int(offset) + 4096]
    return b"allreduce grad.3" in page


SOON = ("--stall-check-warning-time-seconds", "0.2")


@pytest.mark.core
def test_a_stall_is_reported_once_with_the_ranks_that_wait_and_the_late_one(sandbox: Sandbox) -> None:
    # Three ranks must reach the collective before the warning, also on a busy machine.
    job = Stalled(sandbox, 4, 2, "--stall-check-warning-time-seconds", "2")
    job.wait_for_line("has waited")
    late = sandbox.ranks()[2]
    done = job.go().expect(0)
    warnings = lines_with(done, "has waited")
    wanted = rf'hvdrun: warning: allreduce "grad\.3" has waited \d+\.\d s for rank 2 on {re.escape(HOSTNAME)} \(pid {late}\); ' \
             r"ranks 0-1,3 wait"
    assert len(warnings) == 1 and re.fullmatch(wanted, warnings[0]), warnings


class StalledGpu:
    """A job whose GPUs sum a tensor, but the last one only after go()."""

    def __init__(self, sandbox: Sandbox, size: int, *options: object) -> None:
        doubles = BUILD / "lib/doubles"
        libraries = {"HVD_CUDA_LIBRARY": doubles / "libcudart.so.13", "HVD_NCCL_LIBRARY": doubles / "libnccl.so.2",
                     "HVD_CUDA_DRIVER": doubles / "libcuda.so.1"}
        self._go = sandbox.files / "go"
        self.running = sandbox.start("-np", size, "-H", f"localhost:{size}", *options, program("gpu_waiter"), self._go,
                                     env={name: str(path) for name, path in libraries.items()})

    def go(self) -> Done:
        self._go.touch()
        return self.running.wait()


def test_a_stall_on_the_gpu_names_the_rank_whose_gpu_is_late(sandbox: Sandbox) -> None:
    job = StalledGpu(sandbox, 3, *SOON)
    job.running.wait_for(b"has waited", "err")
    late = sandbox.ranks()[2]
    done = job.go().expect(0)
    assert done.out_text.count("the sum is 3") == 3
    warnings = lines_with(done, "has waited")
    waited = rf'hvdrun: warning: allreduce "grad" has waited \d+\.\d s for rank 2 on {re.escape(HOSTNAME)} \(pid {late}\); ' \
             r"(ranks 0-1 wait|rank [01] waits)"
    assert len(warnings) == 1 and re.fullmatch(waited, warnings[0]), warnings


def test_a_stall_on_the_gpu_ends_the_job_after_the_shutdown_time(sandbox: Sandbox) -> None:
    """Calls of the other ranks have returned, but their results are lost."""
    job = StalledGpu(sandbox, 3, "--stall-check-warning-time-seconds", "1", "--stall-check-shutdown-time-seconds", "1")
    done = job.running.wait().expect(1)
    assert "results of earlier calls on the GPU are lost" in done.err_text, done


def test_ctrl_c_reports_the_rank_whose_gpu_is_late(sandbox: Sandbox) -> None:
    job = StalledGpu(sandbox, 2, "--stall-check-warning-time-seconds", "1.1")  # the final report leaves out waits under 1 s
    job.running.wait_for(b"has waited", "err")
    late = sandbox.ranks()[1]
    job.running.signal(signal.SIGINT)
    done = job.running.wait().expect(130)
    waited = rf'rank 0 had waited \d+\.\d s in allreduce "grad" for rank 1 on {re.escape(HOSTNAME)} \(pid {late}\)'
    assert re.search(waited, done.err_text), done


def test_a_stall_that_the_jobs_end_cuts_off_is_not_reported_as_continued(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 3, 0, *SOON, words=["--killed"])
    job.wait_for_line("has waited")
    done = job.go().expect(137)
    assert not lines_with(done, "continues")


def test_the_end_of_a_stall_is_reported(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 3, 0, *SOON, words=["--then", sandbox.files / "end"])
    job.wait_for_line("has waited")
    (sandbox.files / "go").touch()
    job.wait_for_line("continues after")
    (sandbox.files / "end").touch()
    done = job.running.wait().expect(0)
    notes = lines_with(done, "continues")
    assert len(notes) == 1 and re.fullmatch(r'hvdrun: note: allreduce "grad\.3" continues after \d+\.\d s', notes[0]), notes


@pytest.mark.parametrize("silence", [["--no-stall-check"], ["--stall-check-warning-time-seconds", "0"],
                                     ["-x", "HOROVOD_STALL_CHECK_DISABLE=1"]])
def test_a_disabled_stall_check_reports_nothing(sandbox: Sandbox, silence: list[str]) -> None:
    """HOROVOD_STALL_CHECK_TIME_SECONDS would make an enabled check report at once."""
    job = Stalled(sandbox, 2, 0, *silence, env={"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.05"})
    wait_until(lambda: waits(sandbox, 1), "rank 1 to wait in the allreduce")
    time.sleep(0.3)  # gives a wrong warning time to appear
    assert not lines_with(job.go().expect(0), "has waited")


def test_the_stall_check_time_may_come_from_the_ranks_environment(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 2, 1, "-x", "HVD_STALL_CHECK_TIME_SECONDS=0.1")
    job.wait_for_line('allreduce "grad.3" has waited')
    job.go().expect(0)


def test_a_stall_report_escapes_newlines_in_tensor_names(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 2, 1, *SOON, words=["--name", "two\nlines"])
    job.wait_for_line(r'allreduce "two\nlines" has waited')
    job.go().expect(0)


def test_collectives_work_without_room_in_dev_shm(sandbox: Sandbox) -> None:
    """Containers with a small --shm-size have room for hvdrun's status pages only."""
    if not sandbox.isolated:
        pytest.skip("only root can mount")
    sandbox.mounts.append("mount -t tmpfs -o size=64k tmpfs /dev/shm")
    done = sandbox.run("-np", 3, program("latecomer")).expect(0)
    assert not lines_with(done, "shared memory"), done
