"""Terminals for tests: a tmux window with a screen, and a pty without a screen."""

from __future__ import annotations

import re
import shlex
import subprocess
import termios
from pathlib import Path

import pexpect

from harness import HVDRUN, TIME_LIMIT, Sandbox, wait_until


def spawn(sandbox: Sandbox, *words: object, columns: int = 100) -> pexpect.spawn:
    """Starts a command with its own pty as the terminal."""
    plain = sandbox.command(words)
    return pexpect.spawn(plain[0], plain[1:], env=sandbox.environment({"TERM": "xterm"}), cwd=str(sandbox.files),
                         timeout=TIME_LIMIT, dimensions=(30, columns))


class Terminal:
    """A window of tmux in which a shell runs one command, prints its exit code, and waits."""

    def __init__(self, sandbox: Sandbox, columns: int = 100) -> None:
        self._sandbox = sandbox
        self._socket = sandbox.files / "tmux"
        self._environment = {**sandbox.environment(), "TERM": "xterm"}
        self._columns = columns
        self._is_open = False

    def start(self, *arguments: object, redirect: str = "", env: str = "") -> None:
        command = shlex.join(self._sandbox.command([HVDRUN, "--report", self._sandbox.files / "report", *arguments]))
        self.open(f"{env} {command} {redirect}; echo code=$?; read -r _")

    def open(self, line: str) -> None:
        """Opens the window with a line for a shell."""
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(self._columns), "-y", "30", "-c",
                   str(self._sandbox.files), line)
        self._is_open = True

    def _tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-S", str(self._socket), *words], env=self._environment, check=True,
                              capture_output=True, text=True).stdout

    def screen(self, *options: str) -> list[str]:
        """Returns the rows up to the last one with text. With "-S-", includes the rows that have scrolled out."""
        return self._tmux("capture-pane", "-p", *options).rstrip("\n").split("\n")

    def resize(self, columns: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", "30")

    def format(self, text: str) -> str:
        """Returns tmux's value of a format of the window, for example "#{alternate_on}"."""
        return self._tmux("display-message", "-p", text).rstrip("\n")

    def record(self) -> Path:
        """Starts recording the terminal's output. Returns the file with the bytes."""
        file = self._sandbox.files / "recorded"
        self._tmux("pipe-pane", f"cat >{shlex.quote(str(file))}")
        return file

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def wait_for(self, pattern: str | re.Pattern[str]) -> None:
        """Waits until the last row matches the pattern."""
        try:
            wait_until(lambda: re.fullmatch(pattern, self.screen()[-1]), str(pattern))
        except AssertionError:
            raise AssertionError(f"no {pattern} on the last row of\n" + "\n".join(self.screen())) from None

    def wait_for_end(self, code: int) -> None:
        self.wait_for(r"code=\d+")
        assert self.screen()[-1] == f"code={code}", self.screen()

    def close(self) -> None:
        if self._is_open:
            # This ends the shell and its command, too.
            subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], check=False, capture_output=True)
            wait_until(lambda: not self._sandbox.processes(), "all that ran in tmux to end")


def is_raw(child: pexpect.spawn) -> bool:
    """Returns whether the child's terminal is in raw mode, where no key sends a signal."""
    return not termios.tcgetattr(child.child_fd)[3] & termios.ISIG


def wait_raw(child: pexpect.spawn) -> None:
    wait_until(lambda: is_raw(child), "the terminal to be in raw mode")
