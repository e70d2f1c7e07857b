"""Runs a command inside a host, as a user, with a clean environment.

  enter.py CONTROL HOST USER UID HOME FOLDER TERMINAL [NAME=VALUE ...] -- WORD...

CONTROL is the keeper's socket. FOLDER is the command's working directory. TERMINAL is "tty" if it gets a
terminal of its own. This process stays outside. It forwards its signals to the command, ends with the command's code or
signal, and the command is killed if it is killed. Code 125: the host cannot be entered. Code 127: the command cannot be run.

Tests start it hundreds of times, so it runs without site-packages and imports little.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

CANNOT_ENTER = 125
CANNOT_RUN = 127

PATHS = {True: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", False: "/usr/local/bin:/usr/bin:/bin"}
FORWARDED = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGTSTP, signal.SIGCONT}


class Command:
    """The arguments of enter.py."""

    def __init__(self, arguments: list[str]) -> None:
        border = arguments.index("--")
        self.control, self.host, self.user, uid, self.home, self.folder, terminal = arguments[:7]
        self.uid = int(uid)
        self.terminal = terminal == "tty"
        self.words = arguments[border + 1:]
        self.environment = {
            "HOME": self.home, "USER": self.user, "LOGNAME": self.user, "SHELL": "/bin/bash",
            "PATH": PATHS[self.uid == 0], "LANG": "C.UTF-8",
            **({"TERM": os.environ.get("TERM", "xterm")} if self.terminal else {}),
            **dict(word.split("=", 1) for word in arguments[7:border])}


def main() -> NoReturn:
    command = Command(sys.argv[1:])
    enter(command)
    master, slave = os.openpty() if command.terminal else (-1, -1)
    forwarded = {number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded | {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        become(command, slave)
    if command.terminal:
        for number in forwarded:
            signal.signal(number, lambda received, _: os.kill(child, received))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(slave)
        carry_terminal(master)
        _, status = os.waitpid(child, 0)
    else:
        status = forward(child, forwarded)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    end_as(status)


def forward(child: int, signals: set[signal.Signals]) -> int:
    """Forwards signals until the child ends, and returns its status.

    A handler would not do: Python runs it only after waitpid(2) if its signal comes just before that call. Nor would a
    thread: a process that has entered a PID namespace cannot start one.
    """
    while True:
        number = signal.sigwait(signals | {signal.SIGCHLD})
        if number in signals:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            return status


def enter(command: Command) -> None:
    """Enters the host's namespaces; only children of this process enter its PID namespace."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(command.control)
        except OSError:
            give_up(CANNOT_ENTER, "the cluster is not up; tests/cluster/up starts it")
        connection.sendall(f'{{"do": "enter", "host": "{command.host}"}}\n'.encode())
        text, pidfds, _, _ = socket.recv_fds(connection, 65536, 1)
    if not pidfds:
        give_up(CANNOT_ENTER, text.decode().strip() or "the cluster ended")
    kernel.join(pidfds[0], kernel.HOST_NAMESPACES | kernel.CLONE_NEWPID)
    os.close(pidfds[0])


def give_up(code: int, words: str) -> NoReturn:
    print(f"run: {words}", file=sys.stderr, flush=True)
    os._exit(code)


def become(command: Command, terminal: int) -> NoReturn:
    """Starts the command in a session of its own: the caller's session has no id in the host's PID namespace."""
    try:
        os.setsid()
        if terminal >= 0:
            take_terminal(terminal)
        os.initgroups(command.user, command.uid)
        os.setgid(command.uid)
        os.setuid(command.uid)
        kernel.die_with_parent(signal.SIGKILL)
        os.chdir(command.folder)
        os.umask(0o022)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them
        os.execvpe(command.words[0], command.words, command.environment)
    except OSError as error:
        give_up(CANNOT_RUN, f"{command.words[0]}: {error}")


def take_terminal(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(terminal, fd)
    os.close(terminal)


def carry_terminal(master: int) -> None:
    """Copies bytes both ways until the command's side is closed."""
    import fcntl
    import select
    import termios
    import tty

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
                    os.write(master, data or b"\x04")  # Ctrl-D: end of file
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
    except OSError:  # the terminal has no other user
        return b""


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data):]


def end_as(status: int) -> NoReturn:
    """Ends this process with the command's code or by the same signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kernel.forbid_core_dump()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
