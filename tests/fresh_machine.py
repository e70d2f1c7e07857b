#!/usr/bin/python3
"""fresh_machine.py RELEASE: types README's commands on a fresh Debian (bookworm, trixie), and succeeds if all end well.

The machine is a folder in build-roots/ with Debian's minimal system. It has git and certificates, as after a clone, and a clone of
this checkout's last commit. Needs root, debootstrap and Debian's archive. After a failure the folder remains, with the logs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from debian_root import BASES, ROOT, Root, make_root, run
from harness import TOP

CLONE = "root/hvdrun"


def commands() -> list[str]:
    """Returns the lines that README lets a newcomer type: build, first run, check."""
    text = (TOP / "README.md").read_text()
    blocks = re.findall(r"^```console[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    [build] = [block for block in blocks if "$ ./quickstart\n" in block]
    [first_run] = [block for block in blocks if "$ hvdrun -np 2 build/bin/examples/" in block]
    assert "`./check` installs what the tests need" in text, "README says it differently now: change this test"
    return [*re.findall(r"^\$ (.*)$", build + first_run, re.MULTILINE), "./check"]


def make_machine(release: str) -> Root:
    place = BASES / f"fresh-{release}"
    machine = make_root(place, release, "git", "ca-certificates")
    run(["git", "clone", "--quiet", "--no-local", TOP, place / CLONE])
    compiled = Path(run(["ccache", "--get-config", "cache_dir"]).stdout.strip())
    compiled.mkdir(parents=True, exist_ok=True)
    machine.seen = (compiled, "root/.cache/ccache")  # what was compiled by the same compiler is not compiled again
    return machine


def main() -> int:
    [release] = sys.argv[1:]
    machine = make_machine(release)
    for_all = " && ".join([f"cd /{Path(CLONE).parent}", *commands()])
    code = subprocess.run(machine.entering(for_all, ROOT), stdin=subprocess.DEVNULL).returncode
    if code == 0:
        shutil.rmtree(machine.place)
        return 0
    print(f"exit code {code}; the machine is {machine.place}, and the tests' logs are in {machine.place / CLONE}/build/check-logs/")
    return 1


if __name__ == "__main__":
    sys.exit(main())
