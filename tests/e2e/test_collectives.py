"""What hvdrun sets and says of its ranks' collectives."""

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
    """What a rank finds of the variables of libhvd's collectives."""
    sandbox.run("-np", 1, *options, program("env_dump"), sandbox.files, env=env).expect(0)
    text = (sandbox.files / "0.env").read_bytes()
    found = dict(os.fsdecode(entry).split("=", 1) for entry in text.split(b"\0") if entry)
    wanted = ("FUSION", "CACHE", "STALL", "CYCLE", "AUTOTUNE")
    return {name: value for name, value in found.items()
            if name.startswith(("HVD_", "HOROVOD_")) and any(word in name for word in wanted)}


def test_options_of_collectives_reach_the_ranks(sandbox: Sandbox) -> None:
    found = variables(sandbox, "--fusion-threshold-mb", "0.5", "--cache-capacity", 77, "--no-stall-check",
                      "--stall-check-warning-time-seconds", 30, "--stall-check-shutdown-time-seconds", "2m")
    assert found == {"HVD_FUSION_THRESHOLD": "524288", "HVD_CACHE_CAPACITY": "77", "HVD_STALL_CHECK_DISABLE": "1",
                     "HVD_STALL_CHECK_TIME_SECONDS": "30", "HVD_STALL_SHUTDOWN_TIME_SECONDS": "120"}


def test_without_options_the_environment_reaches_the_ranks(sandbox: Sandbox) -> None:
    given = {"HOROVOD_CACHE_CAPACITY": "9", "HVD_FUSION_THRESHOLD": "4096"}
    assert variables(sandbox, env=given) == given


def test_what_x_says_counts_over_the_option(sandbox: Sandbox) -> None:
    found = variables(sandbox, "--cache-capacity", 77, "-x", "HVD_CACHE_CAPACITY=5", env={"HVD_CACHE_CAPACITY": "1"})
    assert found == {"HVD_CACHE_CAPACITY": "5"}


def test_there_is_no_cycle(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--cycle-time-ms", "3.5", "true").expect(0)
    assert "--cycle-time-ms has no effect: there is no cycle" in done.err_text


def test_autotune_writes_horovods_columns(sandbox: Sandbox) -> None:
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
def test_a_process_set_works_during_and_after_a_search_of_autotune(sandbox: Sandbox, size: int) -> None:
    """What the set does is not in the log, and does not keep the search from its end."""
    log = sandbox.files / "tuned.csv"
    done = sandbox.run("-np", size, "-H", f"localhost:{size}", "--autotune", "--autotune-log-file", log,
                       program("autotune_user"), log, "set").expect(0)
    assert "sums are right" in done.out_text
    with log.open() as file:
        tried = [(row["tensor_fusion_threshold"], row["largest_fused_bytes"]) for row in csv.DictReader(file)]
    assert f"lines: {1 + len(tried)}\n" in done.out_text, "there are lines from after the search"
    assert tried[-1] in tried[:-1], tried


def test_autotune_is_off_unless_asked_for(sandbox: Sandbox) -> None:
    found = variables(sandbox)
    assert not [name for name in found if "AUTOTUNE" in name]
    found = variables(sandbox, "--no-autotune", env={"HVD_AUTOTUNE": "1"})
    assert found["HVD_AUTOTUNE"] == "0"


def test_a_log_of_autotune_that_cannot_be_written_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "--autotune", "--autotune-log-file", "none/tuned.csv", program("autotune_user"), "x",
                       cwd=sandbox.files)
    assert done.code == 1 and "cannot write the log of --autotune, " in done.err_text
    assert "none/tuned.csv: No such file or directory" in done.err_text


@pytest.mark.parametrize("hosts", [1, 2])
def test_pages_may_have_64_kib(sandbox: Sandbox, hosts: int) -> None:
    """On POWER and some of aarch64: offsets of mappings are multiples of that."""
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
    """A job whose ranks call an allreduce, but one only when it is told."""

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
    """Whether the rank's status page, as the rank itself reaches it, has a collective in progress."""
    pid = sandbox.ranks().get(rank, 0)
    path, _, offset = environment_of(pid).get("HVD_STATUS", "@0").rpartition("@")
    page = read_bytes(f"/proc/{pid}/root{path}")[int(offset):int(offset) + 4096]
    return b"allreduce grad.3" in page


SOON = ("--stall-check-warning-time-seconds", "0.2")


@pytest.mark.core
def test_a_stall_is_told_once_with_who_waits_for_whom(sandbox: Sandbox) -> None:
    # Long enough for three ranks to meet on a busy machine.
    job = Stalled(sandbox, 4, 2, "--stall-check-warning-time-seconds", "2")
    job.wait_for_line("has waited")
    late = sandbox.ranks()[2]
    done = job.go().expect(0)
    told = lines_with(done, "has waited")
    wanted = rf'hvdrun: warning: allreduce "grad\.3" has waited \d+\.\d s for rank 2 on {re.escape(HOSTNAME)} \(pid {late}\); ' \
             r"ranks 0-1,3 wait"
    assert len(told) == 1 and re.fullmatch(wanted, told[0]), told


class StalledGpu:
    """A job whose GPUs sum a tensor, but the last one only when it is told."""

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


def test_a_rank_whose_gpu_does_not_come_is_named(sandbox: Sandbox) -> None:
    job = StalledGpu(sandbox, 3, *SOON)
    job.running.wait_for(b"has waited", "err")
    late = sandbox.ranks()[2]
    done = job.go().expect(0)
    assert done.out_text.count("the sum is 3") == 3
    told = lines_with(done, "has waited")
    waited = rf'hvdrun: warning: allreduce "grad" has waited \d+\.\d s for rank 2 on {re.escape(HOSTNAME)} \(pid {late}\); ' \
             r"(ranks 0-1 wait|rank [01] waits)"
    assert len(told) == 1 and re.fullmatch(waited, told[0]), told


def test_a_gpu_that_waits_for_too_long_ends_the_job(sandbox: Sandbox) -> None:
    """The other ranks have no results, although their calls have returned."""
    job = StalledGpu(sandbox, 3, "--stall-check-warning-time-seconds", "1", "--stall-check-shutdown-time-seconds", "1")
    done = job.running.wait().expect(1)
    assert "results of earlier calls on the GPU are lost" in done.err_text, done


def test_ctrl_c_names_the_rank_whose_gpu_has_not_come(sandbox: Sandbox) -> None:
    job = StalledGpu(sandbox, 2, "--stall-check-warning-time-seconds", "1.1")  # a wait of less than 1 s is not told at the end
    job.running.wait_for(b"has waited", "err")
    late = sandbox.ranks()[1]
    job.running.signal(signal.SIGINT)
    done = job.running.wait().expect(130)
    waited = rf'rank 0 had waited \d+\.\d s in allreduce "grad" for rank 1 on {re.escape(HOSTNAME)} \(pid {late}\)'
    assert re.search(waited, done.err_text), done


def test_a_stall_that_ends_with_the_job_does_not_go_on(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 3, 0, *SOON, words=["--killed"])
    job.wait_for_line("has waited")
    done = job.go().expect(137)
    assert not lines_with(done, "continues")


def test_a_stall_that_ends_goes_on(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 3, 0, *SOON, words=["--then", sandbox.files / "end"])
    job.wait_for_line("has waited")
    (sandbox.files / "go").touch()
    job.wait_for_line("continues after")
    (sandbox.files / "end").touch()
    done = job.running.wait().expect(0)
    told = lines_with(done, "continues")
    assert len(told) == 1 and re.fullmatch(r'hvdrun: note: allreduce "grad\.3" continues after \d+\.\d s', told[0]), told


@pytest.mark.parametrize("silence", [["--no-stall-check"], ["--stall-check-warning-time-seconds", "0"],
                                     ["-x", "HOROVOD_STALL_CHECK_DISABLE=1"]])
def test_without_the_stall_check_nothing_is_told(sandbox: Sandbox, silence: list[str]) -> None:
    """With the time from the environment, so that it would be told at once."""
    job = Stalled(sandbox, 2, 0, *silence, env={"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.05"})
    wait_until(lambda: waits(sandbox, 1), "a rank that waits")
    time.sleep(0.3)  # what does not come cannot be awaited
    assert not lines_with(job.go().expect(0), "has waited")


def test_the_time_may_come_from_the_ranks_environment(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 2, 1, "-x", "HVD_STALL_CHECK_TIME_SECONDS=0.1")
    job.wait_for_line('allreduce "grad.3" has waited')
    job.go().expect(0)


def test_stalls_show_names_in_one_line(sandbox: Sandbox) -> None:
    job = Stalled(sandbox, 2, 1, *SOON, words=["--name", "two\nlines"])
    job.wait_for_line(r'allreduce "two\nlines" has waited')
    job.go().expect(0)


def test_ranks_meet_where_dev_shm_is_too_small(sandbox: Sandbox) -> None:
    """As in a container with --shm-size: there is room for hvdrun's own pages, and for little more."""
    if not sandbox.isolated:
        pytest.skip("only root can mount")
    sandbox.mounts.append("mount -t tmpfs -o size=64k tmpfs /dev/shm")
    done = sandbox.run("-np", 3, program("latecomer")).expect(0)
    assert not lines_with(done, "shared memory"), done
