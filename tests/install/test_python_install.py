"""The installation by `pip install .` is complete, works from its own folder, and pip removes it completely.

pip fetches the build backends scikit-build-core and hatchling from the package index. cmake and ninja are Debian's. The build
folder build-wheel/ remains after the test, so that a later run compiles only changed files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from harness import PYTHON, TOP, Done, Sandbox, cached
from installation import PROGRAM, PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("python install")]

BUILD_FOLDER = TOP / "build-wheel"

SUM_OF_RANKS = """\
import sys
import hvd, hvd.numpy, numpy
hvd.init()
total = hvd.numpy.allreduce(numpy.arange(3.0) + hvd.rank(), op=hvd.Sum)
assert total.tolist() == [1.0, 3.0, 5.0], total
assert hvd.__file__.startswith(sys.prefix), hvd.__file__
print(hvd.rank(), "of", hvd.size())
"""


def run(*words: object, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(word) for word in words], env={**os.environ, **(env or {})}, capture_output=True,
                          text=True, timeout=1800)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a pip whose environment has the build backends."""
    place = tmp_path_factory.mktemp("tools") / "venv"
    run(PYTHON, "-m", "venv", place)
    run(place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "scikit-build-core>=0.11", "hatchling")
    return place / "bin/pip"


@pytest.fixture(scope="module")
def wheel(pip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    # With the compilers and warnings of the build under test, ccache has most object files.
    options = {"build-dir": BUILD_FOLDER, "cmake.define.HVD_WERROR": cached("HVD_WERROR")}
    compilers = {"CC": cached("CMAKE_C_COMPILER"), "CXX": cached("CMAKE_CXX_COMPILER"),
                 "CCACHE_BASEDIR": os.environ.get("CCACHE_BASEDIR", str(TOP)), "CCACHE_NOHASHDIR": "1",
                 "PATH": "/usr/bin:/bin"}
    BUILD_FOLDER.mkdir(exist_ok=True)
    with open(BUILD_FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("nice", "-n", "10", pip, "wheel", "--disable-pip-version-check", "--no-index", "--no-deps",
            "--no-build-isolation", *(f"--config-settings={key}={value}" for key, value in options.items()),
            "--wheel-dir", place, TOP, env=compilers)
    [file] = place.iterdir()
    return file


def new_environment(place: Path) -> Path:
    """Makes a virtual environment that can import Debian's numpy."""
    run(PYTHON, "-m", "venv", "--without-pip", "--system-site-packages", place)
    return place


def install(pip: Path, wheel: Path, environment: Path) -> None:
    run(pip, "--python", environment / "bin/python", "install", "--disable-pip-version-check", "--no-index",
        "--no-deps", "--no-compile", wheel)


@pytest.fixture(scope="module")
def environment(pip: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = new_environment(tmp_path_factory.mktemp("with space") / "venv")
    install(pip, wheel, place)
    return place


def run_inside(sandbox: Sandbox, environment: Path, *words: object) -> Done:
    """Runs a command with only the environment's programs on PATH."""
    return sandbox.run(f"PATH={environment}/bin", *words, tool="/usr/bin/env").expect(0)


def test_the_wheel_is_for_every_python_3_and_has_every_file_of_the_package(wheel: Path) -> None:
    assert re.fullmatch(r"hvd-[0-9.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    sources = {f"hvd/{path.relative_to(TOP / 'python/hvd')}" for path in (TOP / "python/hvd").rglob("*.py")}
    headers = {f"hvd/include/hvd/{path.name}" for path in (TOP / "runtime/include/hvd").iterdir()}
    package = {f"hvd/lib/cmake/hvd/hvd{name}.cmake" for name in ("Config", "ConfigVersion", "Targets", "Targets-release")}
    assert sources | headers | package | {"hvd/py.typed", "hvd/lib/libhvd.so.0", "hvd/lib/libhvd_mpi.so", "hvd/lib/hvdrun-look",
                                          "hvd/lib/pkgconfig/hvd.pc"} == {name for name in names if name.startswith("hvd/")}
    assert [name for name in names if name.endswith(".data/scripts/hvdrun")]


def test_the_metadata_of_the_wheel_names_version_license_and_python(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [file] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    fields = archive.read(file).decode().split("\n\n")[0].splitlines()
    [version] = re.findall(r"project\(hvdrun VERSION ([0-9.]+)", (TOP / "CMakeLists.txt").read_text())
    expected = {"Name: hvd", f"Version: {version}", "License-Expression: Apache-2.0", "Requires-Python: >=3.9"}
    assert expected <= set(fields)
    assert [field for field in fields if field.startswith("Requires-Dist")] == ["Requires-Dist: cloudpickle>=2.0"]


def test_ranks_run_with_hvdrun_and_hvd_of_the_virtual_environment(environment: Path, sandbox: Sandbox) -> None:
    done = run_inside(sandbox, environment, "hvdrun", "-np", 2, "--bind-to", "none", "-H", "localhost:2",
                      "python", "-c", SUM_OF_RANKS)
    assert sorted(done.out_lines) == ["[0] 0 of 2", "[1] 1 of 2"]


def test_python_m_hvd_prints_the_paths_inside_the_virtual_environment(environment: Path, sandbox: Sandbox) -> None:
    found = json.loads(run_inside(sandbox, environment, "python", "-m", "hvd", "--json").out)
    [package] = environment.glob("lib/python3*/site-packages/hvd")
    paths = {"hvd": package, "libhvd": package / "lib/libhvd.so.0", "hvdrun": environment / "bin/hvdrun",
             "mpi_plugin": package / "lib/libhvd_mpi.so"}
    assert {name: found[name]["path"] for name in paths} == {name: str(path) for name, path in paths.items()}


def test_cmake_and_pkg_config_build_programs_with_the_libhvd_of_the_wheel(environment: Path, sandbox: Sandbox, tmp_path: Path) -> None:
    [package] = environment.glob("lib/python3*/site-packages/hvd")
    (tmp_path / "first.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "out", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={package}")
    run("cmake", "--build", tmp_path / "out")
    flags = run("pkg-config", "--cflags", "--libs", "hvd", env={"PKG_CONFIG_PATH": f"{package}/lib/pkgconfig"})
    # Runs in a shell because pkg-config quotes the space in the path for a shell.
    run("sh", "-c", f"c++ -std=c++20 '{tmp_path}/first.cpp' -o '{tmp_path}/second' {flags.strip()} -Wl,-rpath,'{package}/lib'")
    for program in (tmp_path / "out/first", tmp_path / "second"):
        assert run_inside(sandbox, environment, "hvdrun", "-np", 2, program).out_lines == ["[0] sum 3 of 2 ranks"]


def test_hvdrun_finds_its_templates_in_the_virtual_environment(environment: Path, sandbox: Sandbox) -> None:
    listed = run_inside(sandbox, environment, "hvdrun", "templates").out_lines[1:]
    assert len(listed) == 5 and all(f" {environment}/share/hvdrun/templates/" in line for line in listed), listed


def test_option_horovod_makes_programs_import_the_modules_of_the_virtual_environment(environment: Path, sandbox: Sandbox) -> None:
    code = "import horovod, hvd, os; print(*map(os.path.dirname, (horovod.__file__, hvd.__file__)), sep='\\n')"
    found = run_inside(sandbox, environment, "hvdrun", "--horovod", "-np", 1, "python", "-B", "-c", code).out_lines
    [package] = environment.glob("lib/python3*/site-packages/hvd")
    assert found == [f"{environment}/share/hvdrun/horovod/horovod", str(package)]


def test_the_distribution_hvd_horovod_installs_beside_the_wheel(pip: Path, wheel: Path, sandbox: Sandbox,
                                                         tmp_path: Path) -> None:
    run(pip, "wheel", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir",
        tmp_path / "wheels", TOP / "python/hvd-horovod")
    [module] = (tmp_path / "wheels").iterdir()
    place = new_environment(tmp_path / "venv")
    run(pip, "--python", place / "bin/python", "install", "--disable-pip-version-check", "--no-index", "--no-deps",
        "--no-compile", wheel, module)
    done = run_inside(sandbox, place, "python", "-c", "import horovod.common.util, hvd; print(horovod.__version__)")
    assert done.out_text == f"0.28.1+hvd.{module.name.split('-')[1]}\n"
    done = run_inside(sandbox, place, "horovodrun", "-np", 2, "--bind-to", "none", "python", "-c",
                      "import horovod.common.util")
    assert not done.out_text
    assert run_inside(sandbox, place, "python", "-c", "import horovod; print(horovod.run(len, ('ab',), np=2))"
                      ).out_lines == ["[2, 2]"]


def test_pip_uninstall_removes_every_file(pip: Path, wheel: Path, tmp_path: Path) -> None:
    place = new_environment(tmp_path / "venv")
    before = {path for path in place.rglob("*") if not path.is_dir()}
    install(pip, wheel, place)
    assert (place / "bin/hvdrun").exists()
    run(pip, "--python", place / "bin/python", "uninstall", "--disable-pip-version-check", "--yes", "hvd")
    assert {path for path in place.rglob("*") if not path.is_dir()} == before
