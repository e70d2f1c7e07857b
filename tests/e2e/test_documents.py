"""Runs the commands that README and docs show, and compares their output with the page.

A ```console block has commands after "$ ", and below them their output. Numbers and names of hosts may differ; "…" is any
text. A ```console sketch is not run: it needs a cluster, a GPU, a key press or a long time. A ```python block must parse,
unless it is a sketch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import pytest

from harness import BUILD, HVDRUN, TIME_LIMIT, TOP, Sandbox

PAGES = [TOP / "README.md", TOP / "examples/README.md",
         *(path for path in sorted((TOP / "docs").rglob("*.md")) if "decisions" not in path.parts)]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Replaces the reader's program: takes any options and ends at once.
TRAIN = """import os
print("loss 0.5")
"""


@dataclass
class Command:
    where: str
    text: str
    shown: list[str] = field(default_factory=list)


def blocks(path: Path) -> Iterator[tuple[int, list[str], str]]:
    """Yields each block's first line, the words after its fence, and its text."""
    text = path.read_text()
    for block in BLOCK.finditer(text):
        yield text.count("\n", 0, block.start()) + 2, block[1].split(), block[2]


def commands(path: Path) -> Iterator[Command]:
    for first, words, text in blocks(path):
        if words != ["console"]:
            continue
        command: Command | None = None
        for number, line in enumerate(text.splitlines(), first):
            if command and command.text.endswith("\\"):
                command.text = command.text[:-1] + line
            elif line.startswith("$ "):
                if command:
                    yield command
                command = Command(f"{path.relative_to(TOP)}:{number}", line[2:])
            elif command:
                command.shown.append(line)
            else:
                pytest.fail(f"{path}:{number}: a console block begins with a command after '$ '")
        if command:
            yield command


def pattern(shown: str) -> str:
    """Returns a regular expression for the lines that may be printed where the page shows this one."""
    parts = re.split(r"(…|\bn\d+\b|\d+(?:\.\d+)?)", shown.strip())
    kinds = [".*" if part == "…" else r"\S+" if part.startswith("n") else r"\d+(?:\.\d+)?" for part in parts[1::2]]
    texts = [re.escape(part) for part in parts[::2]]
    return "".join(text + kind for text, kind in zip(texts, [*kinds, ""], strict=True))


@pytest.mark.parametrize("command", [pytest.param(command, id=command.where) for page in PAGES for command in commands(page)])
def test_a_command_prints_the_output_that_its_page_shows(sandbox: Sandbox, command: Command) -> None:
    (sandbox.files / "build").symlink_to(BUILD)
    (sandbox.files / "examples").symlink_to(TOP / "examples")
    (sandbox.files / "train.py").write_text(TRAIN)
    program = sandbox.files / "train"
    program.write_text(f"#!/usr/bin/python3\n{TRAIN}")
    program.chmod(0o755)
    done = sandbox.run("-c", f"exec 2>&1; {command.text}", tool="/bin/bash", env={"PATH": f"{BUILD}/bin:/usr/bin:/bin"})
    lines = [line.rstrip() for line in done.out.decode(errors="replace").splitlines()]
    for shown in filter(str.strip, command.shown):
        assert any(re.fullmatch(pattern(shown), line.strip()) for line in lines), f"{command.where}: not printed: {shown}\n{done}"


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(TOP))) for page in PAGES])
def test_every_block_of_a_page_has_a_known_language(page: Path) -> None:
    for first, words, text in blocks(page):
        assert words, f"{page}:{first}: a block without a language"
        assert words[1:] in ([], ["sketch"]), f"{page}:{first}: {words}"
        if words[0] not in ("console", "text"):
            assert not re.search(r"^\$ ", text, re.MULTILINE), f"{page}:{first}: commands belong into a console block"
        if words == ["python"]:
            ast.parse(text, f"{page}:{first}")


def test_the_site_has_each_page() -> None:
    shown = (TOP / "docs/site.yml").read_text().partition("\nnav:\n")[2]
    pages = [path.relative_to(TOP / "docs") for path in (TOP / "docs").rglob("*.md")]
    assert not [str(page) for page in pages if str(page) not in shown]


def test_help_prints_each_page_for_users(sandbox: Sandbox) -> None:
    listed = sandbox.run("help", "topics", tool=str(HVDRUN)).expect(0).out_text
    topics = [line.split()[0] for line in listed.partition("TOPIC ")[2].partition("\n\n")[0].splitlines()[1:]]
    assert {"errors", "exit-codes", "environment", "config", "jax", "slurm", "elastic", "frameworks"} <= set(topics), listed
    for topic in topics:
        done = sandbox.run("help", topic, tool=str(HVDRUN)).expect(0)
        title = done.out_lines[0]
        assert title in listed and len(done.out_lines) > 10, done
        # Only code, and words such as an address, are longer than a line.
        assert not [line for line in done.out_lines if len(line) > 80 and " " in line.strip() and not line.startswith("    ")], topic


def test_help_names_the_nearest_topic(sandbox: Sandbox) -> None:
    assert 'no topic "erors"; did you mean errors?' in sandbox.run("help", "erors", tool=str(HVDRUN)).expect(2).err_text


def test_help_on_a_terminal_uses_the_pager(sandbox: Sandbox) -> None:
    words = sandbox.command([HVDRUN, "help", "errors"])
    child = pexpect.spawn(words[0], words[1:], cwd=str(sandbox.files), timeout=TIME_LIMIT, dimensions=(24, 60),
                          env=sandbox.environment({"PAGER": "sed s/^/paged:/", "TERM": "xterm"}))
    shown = child.read().decode().replace("\r\n", "\n")
    child.close()
    assert shown.startswith("paged:What a message means\n") and child.exitstatus == 0, shown
