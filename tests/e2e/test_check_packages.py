"""What ./quickstart and ./check know of Debian's packages, and what tests/fresh_machine.py types on a fresh Debian."""

from __future__ import annotations

import subprocess
from pathlib import Path

import fresh_machine
from harness import TOP

# Debian 13's libdw1t64 provides the package libdw1 of earlier releases.
STATUS = """\
Package: libdw1t64
Status: install ok installed
Version: 0.192-4
Provides: libelf-other, libdw1 (= 0.192-4)

Package: git
Status: install ok installed
Version: 1

Package: removed
Status: deinstall ok config-files
Version: 1
Provides: only-removed
"""


def test_a_package_is_not_missing_if_an_installed_one_provides_it(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    script = '. "$top/scripts/lib.sh"; missing_of git libdw1 libdw absent removed only-removed'
    done = subprocess.run(["bash", "-euc", script], env={"top": str(TOP), "HOME": str(tmp_path), "DPKG_ADMINDIR": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.stdout.split() == ["libdw", "absent", "removed", "only-removed"], done


def test_a_fresh_machine_is_given_the_commands_of_the_readme() -> None:
    typed = fresh_machine.commands()
    assert typed[:2] == ["cd hvdrun", "./quickstart"] and typed[-1] == "./check"
    assert any(line.startswith("hvdrun -np 2 ") for line in typed)
