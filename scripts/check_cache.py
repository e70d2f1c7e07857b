"""What ./check remembers: the result of each step that passed, by the files, packages and kernel that it depends on.

The memory is in the checkout, so that a fresh clone starts with none.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

from check_run import Failure, Result, Tally
from check_steps import Step
from check_tests import TOP

CACHE = TOP / ".cache/check"


class Cache:
    """Looks results up and keeps them. Without git there is nothing to know a checkout by, and each step runs."""

    def __init__(self, how: str, read: bool, write: bool) -> None:
        self._how = how  # the options of this check that change what a step does
        self._write = write
        self._read = read
        self._files = files_of_checkout()
        self._machine = machine()

    def earlier(self, step: Step) -> Result | None:
        """The step's result on exactly these inputs, if it passed on them."""
        try:
            stamp = json.loads(self._path(step).read_text()) if self._read else {}
            if not self._files or stamp["inputs"] != self._digest(step, self._files):
                return None
            return Result(Tally(**stamp["tally"]), flaky=[Failure(**each) for each in stamp["flaky"]])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, step: Step, result: Result) -> None:
        """Files may have been edited while the step ran: then its result says nothing, and is not kept."""
        if not self._write or not self._files or self._digest(step, self._files) != self._digest(step, files_of_checkout()):
            return
        self._path(step).parent.mkdir(parents=True, exist_ok=True)
        self._path(step).write_text(json.dumps({"inputs": self._digest(step, self._files), "tally": asdict(result.tally),
                                                "flaky": [asdict(each) for each in result.flaky]}))

    def _path(self, step: Step) -> Path:
        return CACHE / f"{step.name}.json"

    def _digest(self, step: Step, files: dict[str, str]) -> str:
        digest = hashlib.sha256(f"{self._how}\0{self._machine}".encode())
        for name, content in files.items():
            if not name.startswith(step.ignores):
                digest.update(f"{name}\0{content}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()


def machine() -> str:
    packages = subprocess.run(["dpkg-query", "--show"], capture_output=True)
    return hashlib.sha256(packages.stdout + platform.release().encode()).hexdigest()


def files_of_checkout() -> dict[str, str]:
    """The content's hash of each file that git does not ignore; nothing without git."""
    listing = subprocess.run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True)
    files: dict[str, str] = {}
    for name in sorted(set(listing.stdout.split(b"\0")) - {b""}):
        if (path := TOP / os.fsdecode(name)).is_file():
            files[os.fsdecode(name)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return files
