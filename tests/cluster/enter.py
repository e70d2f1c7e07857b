"""Runs a command inside a host, as a user, with a clean environment.

The process that calls run_inside() stays outside and stands for the command: signals that it gets go
to the command, it ends as the command ends, and the command is killed when it is killed.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import sys
import termios
import tty
from dataclasses import dataclass, field
from typing import NoReturn

import kernel
from settings import User

PATHS = {True: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", False: "/usr/local/bin:/usr/bin:/bin"}
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGTSTP, signal.SIGCONT)


@dataclass(frozen=True)
class Command:
    words: list[str]
    user: User
    folder: str = ""  # its working directory; the user's home when empty
    environment: dict[str, str] = field(default_factory=dict)  # besides what a login sets
    terminal: bool = False  # it gets a terminal of its own


def run_inside(pidfd: int, command: Command) -> NoReturn:
    kernel.join(pidfd, kernel.HOST_NAMESPACES | kernel.CLONE_NEWPID)
    os.close(pidfd)
    master, slave = os.openpty() if command.terminal else (-1, -1)
    child = os.fork()
    if child == 0:
        become(command, slave)
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: os.kill(child, received))
    if command.terminal:
        os.close(slave)
        carry_terminal(master)
    _, status = os.waitpid(child, 0)
    end_as(status)


def become(command: Command, terminal: int) -> NoReturn:
    """A session of its own: the caller's has no number inside."""
    try:
        os.setsid()
        if terminal >= 0:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(terminal, fd)
            os.close(terminal)
        user = command.user
        os.initgroups(user.name, user.uid)
        os.setgid(user.uid)
        os.setuid(user.uid)
        kernel.die_with_parent(signal.SIGKILL)
        os.chdir(command.folder or user.home)
        os.umask(0o022)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them
        environment = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": "/bin/bash",
                       "PATH": PATHS[user.uid == 0], "LANG": "C.UTF-8", **command.environment}
        if terminal >= 0:
            environment.setdefault("TERM", os.environ.get("TERM", "xterm"))
        os.execvpe(command.words[0], command.words, environment)
    except OSError as error:
        print(f"run: {command.words[0]}: {error}", file=sys.stderr, flush=True)
        os._exit(127)


def carry_terminal(master: int) -> None:
    """Copies both ways until the command's side is closed."""
    outer = os.isatty(0)
    saved = termios.tcgetattr(0) if outer else []

    def copy_size(*_: object) -> None:
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))

    if outer:
        copy_size()
        signal.signal(signal.SIGWINCH, copy_size)
        tty.setraw(0)
    try:
        sources = [0, master]
        while master in sources:
            for fd in select.select(sources, [], [])[0]:
                data = read_some(fd)
                if fd == 0:
                    os.write(master, data or b"\x04")  # end of file, as typed
                    if not data:
                        sources.remove(0)
                elif data:
                    write_all(1, data)
                else:
                    sources.remove(master)
    finally:
        if outer:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)


def read_some(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # a terminal without a user
        return b""


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data):]


def end_as(status: int) -> NoReturn:
    """With the command's code, or by the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))
