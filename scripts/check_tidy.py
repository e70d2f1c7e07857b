"""clang-tidy over the sources of the release build, each file again only when it or a header of
ours that it includes has changed."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from check_run import Log, Result, StepFailed, Tally

TOP = Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
STAMPS = TOP / ".cache/tidy"
FOLDERS = ("common", "launcher", "slurm", "runtime", "examples", "bench")


@dataclass(frozen=True)
class Unit:
    source: Path
    stamp: Path  # exists when this very content was clean


def run(log: Log) -> Result:
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
    code = log.run(["clang-tidy", "--quiet", "-p", BUILD,
                    "--extra-arg=-Wno-unknown-warning-option", unit.source],
                   may_fail=True, output=output)
    if code != 0:
        log.say(f"{relative}:\n{output.read_text(errors='replace')}")
        return False
    STAMPS.mkdir(parents=True, exist_ok=True)
    unit.stamp.touch()
    return True


def find_units() -> list[Unit]:
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    headers = headers_by_object()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = (TOP / ".clang-tidy").read_bytes()
    units: dict[Path, Unit] = {}
    for entry in commands:
        source = Path(entry["file"])
        if not any(source.is_relative_to(TOP / folder) for folder in FOLDERS):
            continue
        digest = hashlib.sha256(version + settings + entry["command"].encode())
        for path in sorted({source, *headers.get(object_of(entry["command"]), [])}):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        units.setdefault(source, Unit(source, STAMPS / digest.hexdigest()))
    return list(units.values())


def object_of(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def headers_by_object() -> dict[str, list[Path]]:
    """From ninja's own record of the last build: the files of ours that each object was made from."""
    text = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, check=True, text=True).stdout
    found: dict[str, list[Path]] = {}
    current: list[Path] = []
    for line in text.splitlines():
        if line.startswith("    "):
            path = (BUILD / line.strip()).resolve()
            if path.is_relative_to(TOP) and not path.is_relative_to(BUILD) and path.exists():
                current.append(path)
        elif ": #deps" in line:
            current = found.setdefault(line.split(":", 1)[0], [])
    return found
