"""clang-tidy over the sources of the product. A file is looked at again when it, its options or any header of ours has
changed. Its options are those of a release build that compiles each source by itself, so a source that lacks
an include is found here."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from check_run import Log, Result, StepFailed, Tally

TOP = Path(__file__).resolve().parent.parent
COMMANDS = TOP / "build-tidy"  # is configured, not built
STAMPS = TOP / ".cache/tidy"
FOLDERS = ("common", "launcher", "slurm", "runtime", "examples", "bench")


@dataclass(frozen=True)
class Unit:
    source: Path
    stamp: Path  # exists when this content was clean


def run(log: Log) -> Result:
    log.run(["cmake", "--preset", "release", "-B", COMMANDS, "-DHVD_UNITY=OFF", "-DHVD_BUILD_TESTS=OFF"])
    units = [unit for unit in find_units() if not unit.stamp.exists()]
    log.say(f"{len(units)} files to look at")
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        clean = list(pool.map(lambda unit: check(log, unit), units))
    if not all(clean):
        raise StepFailed(f"{clean.count(False)} files have findings")
    return Result(Tally(passed=1))


def check(log: Log, unit: Unit) -> bool:
    relative = unit.source.relative_to(TOP)
    output = log.folder / (str(relative).replace("/", "-") + ".txt")
    code = log.run(["clang-tidy", "--quiet", "-p", COMMANDS,
                    "--extra-arg=-Wno-unknown-warning-option", unit.source],
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
        source = Path(entry["file"])
        if any(source.is_relative_to(TOP / folder) for folder in FOLDERS):
            digest = common.copy()
            digest.update(entry["command"].encode() + source.read_bytes())
            units.setdefault(source, Unit(source, STAMPS / digest.hexdigest()))
    return list(units.values())
