"""clang-tidy over the sources of the product, with the options of a release build. What is looked at is a unit of sources
that are compiled together, because most of the time is for the headers. `singly` looks at each source by itself, which
also finds sources that lack an include. A unit is looked at again when it, its options or any header of ours has changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from check_run import Log, Result, StepFailed, Tally

TOP = Path(__file__).resolve().parent.parent
COMMANDS = TOP / "build-tidy"  # is configured, not built
UNITS = "unity"  # the folders of units: cmake/HvdSettings.cmake, hvd_compile_together
STAMPS = TOP / ".cache/tidy"
FOLDERS = ("common", "base", "slurm", "launcher", "runtime", "examples", "bench")


@dataclass(frozen=True)
class Unit:
    file: Path
    stamp: Path  # exists when this content was clean


def run(log: Log, singly: bool) -> Result:
    log.run(["cmake", "--preset", "release", "-B", COMMANDS, f"-DHVD_UNITY={'OFF' if singly else 'ON'}", "-DHVD_BUILD_TESTS=OFF"])
    units = [unit for unit in find_units() if not unit.stamp.exists()]
    log.say(f"{len(units)} units to look at")
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        clean = list(pool.map(lambda unit: check(log, unit), units))
    if not all(clean):
        raise StepFailed(f"{clean.count(False)} units have findings")
    return Result(Tally(passed=1))


def check(log: Log, unit: Unit) -> bool:
    relative = unit.file.relative_to(TOP)
    output = log.folder / (str(relative).replace("/", "-") + ".txt")
    code = log.run(["clang-tidy", "--quiet", "-p", COMMANDS,
                    "--checks=-bugprone-suspicious-include", "--extra-arg=-Wno-unknown-warning-option", unit.file],
                   may_fail=True, output=output)
    if code != 0:
        log.say(f"{relative}:\n{output.read_text(errors='replace')}")
        return False
    STAMPS.mkdir(parents=True, exist_ok=True)
    unit.stamp.touch()
    return True


def find_units() -> list[Unit]:
    commands = json.loads((COMMANDS / "compile_commands.json").read_text())
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    common = hashlib.sha256(version + (TOP / ".clang-tidy").read_bytes())
    for header in sorted(path for folder in FOLDERS for path in (TOP / folder).rglob("*.h*")):
        common.update(header.read_bytes())
    units: dict[Path, Unit] = {}
    for entry in commands:
        file = Path(entry["file"])
        top = COMMANDS if file.parent.name == UNITS else TOP
        if any(file.is_relative_to(top / folder) for folder in FOLDERS):
            digest = common.copy()
            digest.update(entry["command"].encode())
            for source in sources_of(file):
                digest.update(source.read_bytes())
            units.setdefault(file, Unit(file, STAMPS / digest.hexdigest()))
    return list(units.values())


def sources_of(file: Path) -> list[Path]:
    """The sources that a unit includes; otherwise the file itself."""
    if file.parent.name != UNITS:
        return [file]
    folder = TOP / file.parent.parent.relative_to(COMMANDS)
    return [folder / name for name in re.findall(r'#include "(.+)"', file.read_text())]
