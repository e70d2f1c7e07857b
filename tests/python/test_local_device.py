"""hvd.local_device() is the index of the GPU that hvdrun has chosen for a rank. CUDA_VISIBLE_DEVICES lists the GPUs here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harness import PYTHON, TOP, Sandbox, python_environment

SHOW = """
import os
from MODULE import init, local_device, local_rank
init()
print(local_rank(), local_device(), len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))
"""
MIGS = "MIG-11111111-2222-3333-4444-555555555555,MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


def shown(sandbox: Sandbox, *options: str, visible: str, module: str = "hvd") -> list[list[int]]:
    """Runs two ranks; returns of each its local rank, its device and the number of GPUs that it sees."""
    done = sandbox.run("-np", 2, "--label", "none", *options, PYTHON, "-c", SHOW.replace("MODULE", module),
                       env=python_environment({"CUDA_VISIBLE_DEVICES": visible})).expect(0)
    return sorted([int(word) for word in line.split()] for line in done.out_lines)


@pytest.mark.parametrize("options, visible, devices, seen", [
    ((), "3,1", [0, 1], 2),
    (("--gpu-bind", "single"), "3,1", [0, 0], 1),
    ((), MIGS, [0, 0], 1),
    (("--oversubscribe",), "2", [0, 0], 1),
    (("--gpu-bind", "none", "--oversubscribe"), "3,1,0,2", [0, 1], 4),
], ids=["all", "single", "MIG", "oversubscribed", "none"])
def test_local_device_is_the_index_of_the_ranks_gpu(sandbox: Sandbox, options: tuple[str, ...], visible: str, devices: list[int],
                                           seen: int) -> None:
    assert shown(sandbox, *options, visible=visible) == [[rank, device, seen] for rank, device in enumerate(devices)]


@pytest.mark.parametrize("options, module", [((), "hvd.torch"), (("--horovod",), "horovod.torch")], ids=["hvd.torch", "horovod"])
def test_modules_of_frameworks_have_local_device(sandbox: Sandbox, options: tuple[str, ...], module: str) -> None:
    assert shown(sandbox, *options, "--gpu-bind", "single", visible="0,1", module=module) == [[0, 0, 1], [1, 0, 1]]


def exported(path: Path) -> list[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return [element.value for element in getattr(node.value, "elts", []) if isinstance(element, ast.Constant)]
    return []


def test_each_module_with_local_rank_has_local_device() -> None:
    modules = [path for path in (TOP / "python/hvd").rglob("*.py") if "local_rank" in exported(path)]
    assert len(modules) > 3
    assert [path for path in modules if "local_device" not in exported(path)] == []
