"""The page on environment variables lists all that the sources read or set, and no other HVD_ variable."""

from __future__ import annotations

import re

from harness import TOP

PAGE = TOP / "docs/reference/environment.md"
FOLDERS = ("common", "base", "launcher", "runtime", "slurm", "python")
ENDINGS = (".c", ".cpp", ".h", ".hpp", ".py")
OURS = re.compile(r'"((?:HVD|HVDRUN)_[A-Z_]+)"')
READ = re.compile(r'(?:getenv\(|environ\.get\(|environ\[|find_variable\(\w+, |is_set\(\w+, )"([A-Z][A-Z0-9_]+)"')
# Variables that need no documentation: hvdrun checks whether hwloc's is set; the others show who started an agent.
OF_OTHERS = ("HWLOC_FSROOT", "HWLOC_PLUGINS_PATH", "SLURMD_NODENAME", "SSH_CONNECTION")


def names_in_sources(pattern: re.Pattern[str]) -> set[str]:
    files = (path for folder in FOLDERS for path in (TOP / folder).rglob("*.*") if path.suffix in ENDINGS)
    names = {name for path in files for name in pattern.findall(path.read_text())}
    return {name for name in names if not name.endswith("_")}


def names_in_page() -> set[str]:
    return set(re.findall(r"`([A-Z][A-Za-z0-9_]*\*?)(?:=\w+)?`", PAGE.read_text()))


def is_named(name: str, named: set[str]) -> bool:
    return name in named or any(known.endswith("*") and name.startswith(known[:-1]) for known in named)


def test_the_page_lists_every_variable_that_the_sources_read() -> None:
    wanted = names_in_sources(OURS) | names_in_sources(READ)
    named = names_in_page()
    assert len(wanted) > 50
    assert not sorted(name for name in wanted if name not in OF_OTHERS and not is_named(name, named))


def test_the_page_lists_no_unknown_hvd_variable() -> None:
    assert not {name for name in names_in_page() if name.startswith("HVD")} - names_in_sources(OURS)
