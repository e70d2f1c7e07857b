"""Completion of hvdrun's command line in zsh and fish, which ./check --all installs. tests/unit/cli tests bash."""

from __future__ import annotations

import shlex

import pexpect
import pytest

from harness import BUILD, TIME_LIMIT, TOP, Sandbox

pytestmark = pytest.mark.slow
COMPLETIONS = TOP / "completions"

# A typed line, and its last word after TAB.
UNIQUE = [
    ("hvdrun sbat", "sbatch"),
    ("hvdrun --dry", "--dry-run"),
    ("hvdrun -np 2 --oversub", "--oversubscribe"),
    ("hvdrun --bind-to nu", "numa"),
    ("hvdrun -np 2 --pmix au", "auto"),
    ("hvdrun sbatch --parti", "--partition"),
    ("hvdrun sbatch --oversub", "--oversubscribe"),
    ("hvdrun scale --repe", "--repeat"),
    ("hvdrun jobs --al", "--all"),
    ("hvdrun help sbat", "sbatch"),
    ("hvdrun -np 2 --hostfile only-fi", "only-file"),
    ("hvdrun -np 2 cat only-fi", "only-file"),
    ("hvdrun -np 2 only-prog", "only-program"),
    ("horovodrun --oversub", "--oversubscribe"),
]
# Lines that TAB does not change.
NOTHING = ["hvdrun --parti", "hvdrun -np 2 cat --oversub", "hvdrun jobs --oversub"]


@pytest.fixture
def place(sandbox: Sandbox) -> Sandbox:
    (sandbox.files / "only-file").write_text("")
    program = sandbox.files / "bin/only-program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return sandbox


def environment(place: Sandbox) -> dict[str, str]:
    return place.environment({"PATH": f"{BUILD}/bin:{place.files}/bin:/usr/bin:/bin", "TERM": "dumb"})


class Zsh:
    """An interactive zsh in which Ctrl-X prints the typed line."""

    def __init__(self, place: Sandbox) -> None:
        self.child = pexpect.spawn("/usr/bin/zsh", ["-f", "-i"], env=environment(place), cwd=str(place.files), timeout=TIME_LIMIT,
                                   dimensions=(24, 200), encoding="utf-8")
        for line in ("PROMPT= RPROMPT=; unsetopt beep prompt_cr prompt_sp; setopt no_list_ambiguous",
                     f"fpath=({shlex.quote(str(COMPLETIONS))} $fpath); autoload -U compinit; compinit -D -u",
                     'show() { print -r -- "<$BUFFER>"; zle kill-buffer }; zle -N show; bindkey "^X" show', "echo rea''dy"):
            self.child.sendline(line)
        self.child.expect_exact("ready\r\n")

    def complete(self, line: str) -> str:
        self.child.send(line + "\t\x18")
        self.child.expect(r"<([^<>]*)>")
        return str(self.child.match[1]).rstrip()


def test_zsh_completes_a_unique_prefix(place: Sandbox) -> None:
    zsh = Zsh(place)
    for line, last in UNIQUE:
        assert zsh.complete(line).split()[-1].rstrip("=") == last, line
    for line in NOTHING:
        assert zsh.complete(line) == line


def fish(place: Sandbox, line: str) -> list[str]:
    """Returns fish's candidates for the last word."""
    script = f"source {shlex.quote(str(COMPLETIONS / 'hvdrun.fish'))}; complete -C {shlex.quote(line)}"
    done = place.run("-N", "-c", script, tool="/usr/bin/fish", env=environment(place)).expect(0)
    assert not done.err, done
    return [candidate.split("\t")[0] for candidate in done.out_lines]


def test_fish_completes_a_unique_prefix(place: Sandbox) -> None:
    for line, last in UNIQUE:
        assert fish(place, line) == [last], line
    for line in NOTHING:
        assert fish(place, line) == [], line


def test_fish_lists_all_candidates_of_an_ambiguous_prefix(place: Sandbox) -> None:
    assert {"core", "numa", "socket", "none", "auto"} == set(fish(place, "hvdrun --bind-to "))
    assert {"--num-proc", "--nnodes"} <= set(fish(place, "hvdrun --n"))
