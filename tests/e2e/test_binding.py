"""Binding of ranks to cores and devices, and what hvdrun prints about it."""

from __future__ import annotations

import json
import os
import re

import pytest

from harness import BUILD, Sandbox, program

CPUS = sorted(os.sched_getaffinity(0))
several_cores = pytest.mark.skipif(len(CPUS) < 2, reason="needs two cores")


def parse_list(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def cpus_of_ranks(sandbox: Sandbox, ranks: int, *options: object, **more: object) -> list[set[int]]:
    sandbox.run("-np", ranks, *options, program("env_dump"), sandbox.files, **more).expect(0)
    return [parse_list((sandbox.files / f"{rank}.cpus").read_text()) for rank in range(ranks)]


@several_cores
def test_ranks_bound_to_cores_share_no_core(sandbox: Sandbox) -> None:
    first, second = cpus_of_ranks(sandbox, 2, "--bind-to", "core")
    assert first and second and not first & second


def test_unbound_ranks_have_the_affinity_of_the_caller(sandbox: Sandbox) -> None:
    assert cpus_of_ranks(sandbox, 2, "--bind-to", "none") == [set(CPUS)] * 2


def test_a_single_rank_has_the_affinity_of_the_caller(sandbox: Sandbox) -> None:
    assert cpus_of_ranks(sandbox, 1) == [set(CPUS)]


def test_more_ranks_than_cores_are_not_bound(sandbox: Sandbox) -> None:
    ranks = len(CPUS) + 2
    assert cpus_of_ranks(sandbox, ranks) == [set(CPUS)] * ranks, "default binding restricted ranks that outnumber the cores"


@several_cores
def test_a_rank_gets_no_core_outside_the_callers_affinity(sandbox: Sandbox) -> None:
    from harness import HVDRUN
    sandbox.run("-c", CPUS[1], HVDRUN, "-np", 1, program("env_dump"), sandbox.files, tool="/usr/bin/taskset").expect(0)
    assert parse_list((sandbox.files / "0.cpus").read_text()) == {CPUS[1]}


@several_cores
def test_cpus_per_rank_sets_the_number_of_cores_of_a_rank(sandbox: Sandbox) -> None:
    assert [len(cpus) for cpus in cpus_of_ranks(sandbox, 2, "--bind-to", "core", "--cpus-per-rank", 1)] == [1, 1]


def test_report_bindings_lists_every_rank(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--report-bindings", "true").expect(0)
    assert all(any(f"rank {rank}" in line for line in done.err_text.splitlines()) for rank in range(2)), done


def test_dry_run_prints_a_table_and_starts_nothing(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--dry-run", "touch", sandbox.files / "started").expect(0)
    assert not (sandbox.files / "started").exists()
    assert len([line for line in done.out_lines if re.match(r"\s*\d+\s\s", line)]) == 3, done


def test_dry_run_with_json_lists_all_ranks(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, "--dry-run", "--json", "true").expect(0)
    plan = json.loads(done.out)
    assert plan["size"] == 3
    assert [rank["rank"] for host in plan["hosts"] for rank in host["ranks"]] == [0, 1, 2]


# ---- devices without a driver: CUDA_VISIBLE_DEVICES lists them

def devices_of(sandbox: Sandbox, ranks: int, *options: object, visible: str) -> list[tuple[str | None, str | None]]:
    sandbox.run("-np", ranks, *options, program("env_dump"), sandbox.files,
                env={"CUDA_VISIBLE_DEVICES": visible}).expect(0)
    found = []
    for rank in range(ranks):
        text = (sandbox.files / f"{rank}.env").read_text()
        given = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
        found.append((given.get("HVD_LOCAL_DEVICE"), given.get("CUDA_VISIBLE_DEVICES")))
    return found


UUIDS = ["GPU-11111111-2222-3333-4444-555555555555", "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"]


@pytest.mark.parametrize("visible", ["0,1", "3,1", ",".join(UUIDS)])
def test_each_rank_sees_all_devices_and_has_its_own(sandbox: Sandbox, visible: str) -> None:
    assert devices_of(sandbox, 2, visible=visible) == [("0", visible), ("1", visible)]


@pytest.mark.parametrize("visible", ["3,1", ",".join(UUIDS)])
def test_with_gpu_bind_single_a_rank_sees_only_its_device(sandbox: Sandbox, visible: str) -> None:
    first, second = visible.split(",")
    assert devices_of(sandbox, 2, "--gpu-bind", "single", visible=visible) == [("0", first), ("0", second)]


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_ranks_have_no_device_if_none_is_visible(sandbox: Sandbox, visible: str) -> None:
    assert devices_of(sandbox, 1, visible=visible) == [(None, visible)]


def test_without_np_one_rank_starts_per_visible_device(sandbox: Sandbox) -> None:
    done = sandbox.run("sh", "-c", "echo $HVD_SIZE", env={"CUDA_VISIBLE_DEVICES": "0,1,2"}).expect(0)
    assert [line.split()[-1] for line in done.out_lines] == ["3"] * 3


def test_more_ranks_than_devices_need_oversubscribe(sandbox: Sandbox) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0,1"}
    done = sandbox.run("-np", 3, "touch", sandbox.files / "started", env=environment).expect(2)
    assert "--oversubscribe" in done.err_text and not (sandbox.files / "started").exists()
    assert [device for device, _ in devices_of(sandbox, 4, "--oversubscribe", visible="0,1")] == ["0", "1", "0", "1"]


def test_the_only_rank_of_a_host_sees_all_devices(sandbox: Sandbox) -> None:
    done = sandbox.run("--ranks-per-host", 1, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $HVD_SIZE",
                       env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}).expect(0)
    assert done.out == b"0,1,2,3 1\n"


# ---- devices with a driver: a double of NVML lists them

TWO_GPUS = ("GPU-0a,0000:17:00.0,NVIDIA H200,150754820096;"
            "GPU-0b,0000:65:00.0,NVIDIA H200,150754820096")


def with_driver(**more: str) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(BUILD / "lib/doubles"), "HVD_FAKE_NVML": TWO_GPUS, **more}


def test_without_np_one_rank_starts_per_device_of_the_driver(sandbox: Sandbox) -> None:
    done = sandbox.run("--label", "none", "sh", "-c", "echo $HVD_LOCAL_DEVICE/$HVD_SIZE", env=with_driver()).expect(0)
    assert sorted(done.out_lines) == ["0/2", "1/2"]


def test_report_bindings_prints_name_and_pci_address_of_devices(sandbox: Sandbox) -> None:
    done = sandbox.run("--report-bindings", "true", env=with_driver()).expect(0)
    assert "NVIDIA H200" in done.err_text and "0000:65:00.0" in done.err_text


def test_the_error_of_a_failed_rank_names_its_device(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", "sh", "-c", "[ $HVD_RANK = 0 ] || exit 3; sleep 1000",
                       env=with_driver()).expect(3)
    assert "0000:65:00.0" in done.err_text


def test_cuda_visible_devices_overrides_the_driver(sandbox: Sandbox) -> None:
    done = sandbox.run("sh", "-c", "echo $HVD_SIZE", env=with_driver(CUDA_VISIBLE_DEVICES="1")).expect(0)
    assert done.out == b"1\n"
