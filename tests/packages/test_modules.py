"""The module files, the easyconfig and the image definition (packaging/) work in Debian 12 systems that have the tools for them.

Lmod and Environment Modules load the module files, and EasyBuild builds the easyconfig. Debian has no package of Apptainer. The
test therefore runs the commands of its definition in a Debian system.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from debian_root import ROOT, Root, make_root, run
from harness import BUILD, TOP
from installation import RANKS, TWO_RANKS

pytestmark = pytest.mark.xdist_group("packages")

WORK = TOP / "build-modules"
PACKAGING = TOP / "packaging"
INSTALLED, BY_PIP, MISSING = "0.1.0", "0.0.9", "9.9.9"  # versions, which are the folders' names
VARIABLES = ("PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Tool:
    package: str
    init: str  # the script that a shell sources
    file: str  # our module file
    suffix: str  # of a module's file


LMOD = Tool("lmod", "/usr/share/lmod/lmod/init/bash", "hvdrun.lua", ".lua")
MODULES = Tool("environment-modules", "/usr/share/modules/init/bash", "hvdrun.tcl", "")


@dataclass
class System:
    """A Debian system with a module tool and two installed versions of hvdrun."""

    root: Root
    tool: Tool

    def run(self, text: str, folder: str = "/opt/modules") -> subprocess.CompletedProcess[str]:
        """Runs a script in a user's shell that can load the modules of the folder."""
        return self.root.run("bash", "-c", f". {self.tool.init}\nmodule use {folder}\n{text}")

    def script(self, text: str, folder: str = "/opt/modules") -> list[str]:
        """Returns the lines that the script prints. Fails if one of its commands fails."""
        done = self.run(f"set -e\n{text}", folder)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout.splitlines()


def make_system(tool: Tool, wheel: Path) -> System:
    root = make_root(WORK / tool.package, "bookworm", "python3-pip", tool.package)
    run(["cmake", "--install", BUILD, "--prefix", root.place / "opt/hvdrun" / INSTALLED])
    root.lines("python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", f"/opt/hvdrun/{BY_PIP}", *root.give(wheel), user=ROOT)
    folder = root.place / "opt/modules/hvdrun"
    folder.mkdir(parents=True)
    for version in (INSTALLED, BY_PIP, MISSING):
        shutil.copy(PACKAGING / "modules" / tool.file, folder / f"{version}{tool.suffix}")
    return System(root, tool)


@pytest.fixture(scope="module")
def lmod(wheel: Path) -> System:
    return make_system(LMOD, wheel)


@pytest.fixture(scope="module", params=[LMOD, MODULES], ids=lambda tool: tool.package)
def system(request: pytest.FixtureRequest, wheel: Path) -> Iterator[System]:
    yield request.getfixturevalue("lmod") if request.param is LMOD else make_system(request.param, wheel)


@pytest.mark.parametrize("version", [INSTALLED, BY_PIP])
def test_a_loaded_module_sets_the_paths_of_hvdrun_and_libhvd(system: System, version: str) -> None:
    prefix = f"/opt/hvdrun/{version}"
    found = system.script(f"module load hvdrun/{version}\ncommand -v hvdrun\nhvdrun -np 2 --label none python3 -c \"{RANKS}\" | sort")
    assert found == [f"{prefix}/bin/hvdrun", *TWO_RANKS]
    system.script(f"module load hvdrun/{version}\nls $LD_LIBRARY_PATH/libhvd.so.0 $PKG_CONFIG_PATH/hvd.pc")
    system.script(f"module load hvdrun/{version}\nls $CMAKE_PREFIX_PATH/lib*/cmake/hvd/hvdConfig.cmake")


def test_module_switch_replaces_the_version(system: System) -> None:
    shown = system.script(f"module load hvdrun/{INSTALLED}\nmodule switch hvdrun hvdrun/{BY_PIP}\ncommand -v hvdrun\necho $PYTHONPATH")
    assert shown == [f"/opt/hvdrun/{BY_PIP}/bin/hvdrun", f"/opt/hvdrun/{BY_PIP}"]


def test_module_unload_restores_the_environment(system: System) -> None:
    show = "".join(f'echo "{name}=${{{name}-unset}}"\n' for name in VARIABLES)
    shown = system.script(f"{show}module load hvdrun/{INSTALLED}\nmodule unload hvdrun\n{show}")
    assert shown[: len(VARIABLES)] == shown[len(VARIABLES):] and shown[0].startswith("PATH=/usr")


def test_loading_a_version_that_is_not_installed_is_an_error(system: System) -> None:
    done = system.run(f"module load hvdrun/{MISSING}\necho $PATH $PYTHONPATH")
    words = " ".join(done.stderr.split())  # Lmod breaks lines
    assert f"hvdrun {MISSING} is not in /opt/hvdrun/{MISSING}: install it there, or change `base` in" in words
    assert done.stdout and "hvdrun" not in done.stdout


def test_easybuild_installs_the_wheel(lmod: System, wheel: Path) -> None:
    """The easyconfig has the checks that EasyBuild runs after the installation."""
    environment = Path(os.environ["HVD_TEST_EASYBUILD"]).parent.parent
    [python] = environment.glob("lib/python3*/site-packages")
    shutil.copytree(python, lmod.root.place / "opt/easybuild", dirs_exist_ok=True)
    shutil.copytree(environment / "easybuild", lmod.root.place / "opt/easybuild/easybuild", dirs_exist_ok=True)
    shutil.copy(environment / "bin/eb", lmod.root.place / "usr/bin")
    [config] = (PACKAGING / "easybuild").glob("*.eb")
    [file, _] = lmod.root.give(config, wheel)
    modules = "~/eb/modules/all"
    eb = "PYTHONPATH=/opt/easybuild eb --prefix ~/eb --modules-tool Lmod --module-syntax Lua"
    lmod.script(f"{eb} --check-style {file}", modules)
    shown = lmod.script(f"{eb} --sourcepath /tmp {file} 2>&1", modules)
    assert [line for line in shown if "COMPLETED: Installation ended successfully" in line], "\n".join(shown)
    found = lmod.script(f"module load hvdrun/{config.stem.partition('-')[2]}\ncommand -v hvdrun\n"
                        f"hvdrun -np 2 --label none python3 -c \"{RANKS}\" | sort\n"
                        "ls ${CMAKE_PREFIX_PATH%%:*}/lib/cmake/hvd/hvdConfig.cmake $PKG_CONFIG_PATH/hvd.pc >/dev/null", modules)
    assert "/eb/software/hvdrun/" in found[0] and found[1:] == TWO_RANKS, found


def sections(definition: Path) -> dict[str, str]:
    """Returns the sections of an Apptainer definition by name."""
    parts = re.split(r"^%(\w+)\n", definition.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def test_the_commands_of_the_apptainer_definition_install_and_run_hvdrun(wheel: Path) -> None:
    """The system has the same Debian release as the image."""
    part = sections(PACKAGING / "apptainer/hvdrun.def")
    root = make_root(WORK / "image", "bookworm")
    assert part["files"].split() == ["hvd-*.whl", "/opt/"]
    shutil.copy(wheel, root.place / "opt")
    root.lines("sh", "-ec", part["post"], user=ROOT)
    shown = root.lines("sh", "-ec", part["environment"] + part["test"])
    assert {"[0] 0 of 2", "[1] 1 of 2"} <= set(shown) and not list((root.place / "opt").glob("*.whl")), shown
