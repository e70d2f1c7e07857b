"""`python -m hvd` prints the versions and paths of all parts, also if some are missing or broken."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from harness import BUILD, HVDRUN, PYTHON, TOP, Done, Sandbox, python_environment

PARTS = ["hvd", "libhvd", "hvdrun", "PMIx", "libssh", "ssh", "OpenSSL", "MPI plugin", "CUDA driver", "CUDA runtime", "NCCL", "GPU kernels", "Python", "numpy", "torch",
         "tensorflow", "keras", "horovod"]


def ask(sandbox: Sandbox, *arguments: str, **environment: str) -> Done:
    return sandbox.run("-m", "hvd", *arguments, tool=PYTHON, env=python_environment(environment)).expect(0)


def ask_json(sandbox: Sandbox, **environment: str) -> dict:
    return json.loads(ask(sandbox, "--json", **environment).out)


def test_each_part_has_one_aligned_line(sandbox: Sandbox) -> None:
    lines = [line for line in ask(sandbox).out_lines if not line.startswith(" ")]
    assert [line[:14].rstrip() for line in lines] == [*PARTS, "in a job"]
    assert all(line[13] == " " and line[14] != " " for line in lines)
    assert lines[-1] == "in a job      no: hvdrun -np N starts one"


def test_package_library_and_launcher_have_versions_and_paths(sandbox: Sandbox) -> None:
    found = ask_json(sandbox)
    [version] = re.findall(r"project\(hvdrun VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())
    assert {name: found[name]["version"] for name in ("hvd", "libhvd", "hvdrun")} == {
        "hvd": version, "libhvd": version, "hvdrun": version}
    assert found["hvd"]["path"] == str(TOP / "python/hvd")
    assert found["libhvd"]["path"] == os.path.realpath(BUILD / "lib/libhvd.so.0")
    assert Path(found["hvdrun"]["path"]).samefile(HVDRUN)
    assert found["mpi_plugin"]["path"] == os.path.realpath(BUILD / "lib/libhvd_mpi.so")


def test_hvdrun_in_path_is_preferred(sandbox: Sandbox) -> None:
    other = sandbox.files / "hvdrun"
    other.write_text("#!/bin/sh\necho hvdrun 9.9\n")
    other.chmod(0o755)
    found = ask_json(sandbox, PATH=f"{sandbox.files}:/usr/bin:/bin")["hvdrun"]
    assert (found["version"], found["path"], found["note"]) == ("9.9", str(other), None)


def test_an_hvdrun_that_cannot_start_is_noted(sandbox: Sandbox) -> None:
    other = sandbox.files / "hvdrun"
    other.write_text("#!/no/such/interpreter\n")
    other.chmod(0o755)
    found = ask_json(sandbox, PATH=f"{sandbox.files}:/usr/bin:/bin")["hvdrun"]
    assert found["path"] == str(other) and "No such file" in found["note"]


def test_modules_are_found_without_being_imported(sandbox: Sandbox) -> None:
    for name in ("torch", "tensorflow"):
        package = sandbox.files / "modules" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    information = sandbox.files / "modules/tensorflow_cpu-2.99.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: 2.99\n")
    found = ask_json(sandbox, PYTHONPATH=f"{sandbox.files}/modules:{TOP}/python")
    assert found["torch"]["path"] == str(sandbox.files / "modules/torch")
    assert (found["tensorflow"]["version"], found["tensorflow"]["path"]) == (
        "2.99", str(sandbox.files / "modules/tensorflow"))


def test_missing_libraries_are_not_found(sandbox: Sandbox) -> None:
    nowhere = str(sandbox.files / "nowhere.so")
    found = ask_json(sandbox, HVD_CUDA_LIBRARY=nowhere, HVD_CUDA_DRIVER=nowhere, HVD_NCCL_LIBRARY=nowhere,
                     HVD_MPI_LIBRARY=nowhere)
    assert not [name for name in ("cuda_driver", "cuda_runtime", "nccl", "mpi_plugin") if found[name]["found"]]


def test_gpu_kernels_are_listed_or_the_reason_why_they_are_missing(sandbox: Sandbox) -> None:
    kernels = ask_json(sandbox)["gpu_kernels"]
    known = r"for compute capability [0-9., ]+ and later" if kernels["found"] else r".*nvcc.*"
    assert re.fullmatch(known, kernels["note"])
    mark = "X" if kernels["found"] else " "
    assert f"    [{mark}] CUDA kernels of libhvd's own: {kernels['note']}" in sandbox.run("--check-build").expect(0).out_lines


def test_missing_parts_come_with_a_command_to_install_them(sandbox: Sandbox) -> None:
    """Uses a virtual environment without packages, and a copy of libhvd without hvdrun beside it."""
    made = sandbox.run("-m", "venv", "--without-pip", "environment", tool=PYTHON)
    made.expect(0)
    python = sandbox.files / "environment/bin/python"
    shutil.copy(BUILD / "lib/libhvd.so.0", sandbox.files)
    environment = python_environment({"HVD_LIBRARY": str(sandbox.files / "libhvd.so.0"), "PATH": "/usr/bin:/bin"})
    done = sandbox.run("-m", "hvd", tool=python, env=environment).expect(0)
    lines = done.out_lines
    for name, command in {"hvdrun": "./quickstart", "numpy": f"{python} -m pip install numpy",
                          "torch": f"{python} -m pip install torch", "horovod": "hvdrun --horovod …"}.items():
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{name} "))
        assert "not found" in lines[at] and lines[at + 1].strip() == f"type: {command}", lines


def test_an_hvdrun_beside_libhvd_but_not_in_path_comes_with_advice(sandbox: Sandbox) -> None:
    found = ask_json(sandbox, PATH="/usr/bin:/bin")["hvdrun"]
    assert (found["note"], found["fix"]) == ("not on PATH", f"export PATH={BUILD}/bin:$PATH")


def test_rank_and_host_in_a_job_are_printed(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "-H", "localhost:2", "--bind-to", "none", PYTHON, "-m", "hvd",
                       env=python_environment()).expect(0)
    places = sorted(line for line in done.out_lines if "in a job" in line)
    assert [re.sub(r" on \S+,", " on HOST,", line) for line in places] == [
        f"[{rank}] in a job      rank {rank} of 2 on HOST, started by hvdrun" for rank in range(2)]


def test_the_rank_under_other_launchers_is_recognized(sandbox: Sandbox) -> None:
    job = ask_json(sandbox, RANK="3", WORLD_SIZE="8")["job"]
    assert (job["rank"], job["size"], job["launcher"]) == (3, 8, "torchrun or alike")
    assert ask_json(sandbox, RANK="three", WORLD_SIZE="8")["job"] is None


@pytest.mark.parametrize("module", ["horovod", "hvd"])
def test_the_note_about_a_missing_module_has_a_working_command(sandbox: Sandbox, module: str) -> None:
    variables = {"HVD_LIBRARY": str(BUILD / "lib/libhvd.so.0"), "PATH": f"{BUILD}/bin:/usr/bin:/bin",
                 "PYTHONDONTWRITEBYTECODE": "1"}
    (sandbox.files / "my train.py").write_text(f"import {module}\nprint({module}.__version__)\n")
    done = sandbox.run("-np", 2, PYTHON, "my train.py", env=variables).expect(1)
    line = done.err_text.splitlines()[-1]
    assert f"{module} is " in line and line.startswith("hvdrun: note: the "), line
    again = sandbox.run("-c", re.sub(r".*?: (?=hvdrun --|PYTHONPATH=)", "", line), tool="/bin/sh", env=variables)
    assert len(again.expect(0).out_lines) == 2
