"""Runs hvdrun for tests: a sandbox for each test, and functions to wait for, inspect and end processes.

A Sandbox belongs to one test. It has its own TMPDIR and, as root, its own /dev/shm (a private mount).
All processes that it starts have its cookie in their environment. Tests can therefore run in parallel,
and each finds its own remaining processes and files.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("HVD_BUILD", TOP / "build")).resolve()
HVDRUN = BUILD / "bin/hvdrun"
HVDRUN_WORD = shlex.quote(str(HVDRUN))  # for a shell command
PYTHON = "/usr/bin/python3"
SOAK = os.environ.get("HVD_SOAK") == "1"
HOSTNAME = socket.gethostname()


def cached(name: str) -> str:
    """Returns a variable of the build's CMakeCache.txt; "" if it is not there."""
    cache = BUILD / "CMakeCache.txt"
    found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return found[1] if found else ""


SANITIZED = cached("HVD_SANITIZE") != ""

# A shell ignores these signals for background commands (nohup, &), and all processes of the tests would inherit that.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

SLOWNESS = float(os.environ.get("HVD_TEST_SLOWNESS", 1))  # multiplies time limits on a slow machine

# Ends a run that takes longer, and fails the test with the run's output.
TIME_LIMIT = (120 if SANITIZED else 60) * SLOWNESS
if SOAK or os.environ.get("HVD_TEST_ALL") == "1":
    TIME_LIMIT *= 3  # slow tests run, too


@contextlib.contextmanager
def copy_for_others(program: Path) -> Iterator[Path]:
    """Copies a program to where any user may run it: the checkout may be closed to them."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o755)
        yield Path(shutil.copy(program, folder))
    finally:
        shutil.rmtree(folder)


def program(name: str) -> str:
    """Returns the path of a program of tests/programs."""
    return str(BUILD / "bin/tests" / name)


def copy_checkout(place: Path) -> None:
    """Copies the files of this checkout, also untracked ones, without the files that git ignores."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True,
                            text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (TOP / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, place / name)


# Debian 13's own PyTorch was built without libuv, and asks for it.
TORCH_OF_DEBIAN = {"USE_LIBUV": "0"}


def python_environment(changes: dict[str, str] | None = None) -> dict[str, str]:
    """Returns variables for programs that import hvd from the checkout and use libhvd of the build under test."""
    return {"PYTHONPATH": str(TOP / "python"), "HVD_LIBRARY": str(BUILD / "lib/libhvd.so.0"),
            "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "-1", **TORCH_OF_DEBIAN, **(changes or {})}


def wait_until(condition: Callable[[], object], what: str, limit: float = TIME_LIMIT) -> None:
    """Returns as soon as the condition is true. Fails with `what` in the message if that takes longer than the limit."""
    deadline = time.monotonic() + limit
    pause = 0.001
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit:.0f} s in vain: {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def read_bytes(path: str | Path) -> bytes:
    """Returns a file's content; b"" if the file does not exist or its process has ended."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def environment_of(pid: int) -> dict[str, str]:
    words = read_bytes(f"/proc/{pid}/environ").split(b"\0")
    return dict(os.fsdecode(word).split("=", 1) for word in words if b"=" in word)


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def process_state(pid: int) -> str:
    """Returns the state letter of /proc/PID/stat; "" if there is no such process."""
    stat = read_bytes(f"/proc/{pid}/stat")
    return stat[stat.rindex(b")") + 2 :][:1].decode() if stat else ""


# From <asm/unistd_64.h> of x86-64, and <asm-generic/unistd.h>.
SYSTEM_CALLS = {"x86_64": {"read": 0, "futex": 202}, "aarch64": {"read": 63, "futex": 98}}


def blocks_in(pid: int, call: str) -> bool:
    """Returns whether the main thread of the process waits in this system call."""
    number = read_bytes(f"/proc/{pid}/syscall").split(b" ")[0].decode()
    return number == str(SYSTEM_CALLS[os.uname().machine][call])


def parent_of(pid: int) -> int:
    stat = read_bytes(f"/proc/{pid}/stat")
    return int(stat[stat.rindex(b")") + 2 :].split()[1]) if stat else 0


def alive(pid: int) -> bool:
    """Returns whether the process exists and is not a zombie."""
    return process_state(pid) not in ("", "Z", "X")


def describe(pid: int) -> str:
    command = read_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
    return f"{pid} {process_state(pid)} {command[:200]}"


@dataclass(frozen=True)
class Done:
    """A run of hvdrun that has ended."""

    code: int
    out: bytes
    err: bytes
    report: dict | None
    survivors: list[str]  # processes of the job that still ran when hvdrun had returned

    @property
    def out_text(self) -> str:
        return self.out.decode()

    @property
    def err_text(self) -> str:
        return self.err.decode(errors="replace")

    @property
    def out_lines(self) -> list[str]:
        return self.out.decode().splitlines()

    def __str__(self) -> str:  # what pytest shows when an assertion on it fails
        return f"code {self.code}\n--- stdout\n{self.out[-4000:].decode(errors='replace')}\n" \
               f"--- stderr\n{self.err[-8000:].decode(errors='replace')}"

    def expect(self, code: int) -> Done:
        assert self.code == code, f"expected code {code}, got {self}"
        assert not self.survivors, f"still there when hvdrun had returned: {self.survivors}\n{self}"
        return self


class Running:
    """A run of hvdrun that has not ended yet. Its stdout and stderr go to files."""

    def __init__(self, sandbox: Sandbox, number: int, process: subprocess.Popen, out: Path, err: Path,
                 report: Path) -> None:
        self._sandbox = sandbox
        self._number = number
        self.process = process
        self.pid = process.pid
        self.out_path, self.err_path, self._report = out, err, report

    @property
    def out(self) -> bytes:
        return read_bytes(self.out_path)

    @property
    def err(self) -> bytes:
        return read_bytes(self.err_path)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def descendants(self) -> list[int]:
        parents = {pid: parent_of(pid) for pid in all_pids()}
        found, border = [], [self.pid]
        while border:
            border = [pid for pid, parent in parents.items() if parent in border]
            found += border
        return found

    def helper(self, name: str) -> int:
        """Waits for a process of this name under hvdrun (the agent or the guard), and returns its pid."""
        wait_until(lambda: self._named(name), f"a process called {name} under hvdrun")
        return self._named(name)[0]

    def _named(self, name: str) -> list[int]:
        return [pid for pid in self.descendants() if read_bytes(f"/proc/{pid}/comm").strip() == name.encode()]

    def wait_for(self, text: bytes, stream: str = "out") -> None:
        path = self.out_path if stream == "out" else self.err_path
        wait_until(lambda: text in read_bytes(path) or self.process.poll() is not None, f"{text!r} on std{stream}")
        assert text in read_bytes(path), f"hvdrun ended without {text!r} on std{stream}: {self.wait()}"

    def wait(self, limit: float = TIME_LIMIT) -> Done:
        try:
            code = self.process.wait(limit)
            survivors = self._sandbox.processes(self._number)
        except subprocess.TimeoutExpired:
            self._sandbox.kill_all()
            raise AssertionError(f"hvdrun did not end in {limit:.0f} s\n--- stdout\n"
                                 f"{self.out[-4000:].decode(errors='replace')}\n--- stderr\n"
                                 f"{self.err[-8000:].decode(errors='replace')}") from None
        return Done(code, self.out, self.err, load_report(self._report), [describe(pid) for pid in survivors])


def hanging_ssh(folder: Path) -> Path:
    """Writes a program that replaces ssh and never starts an agent. Returns its path."""
    ssh = folder / "hanging-ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 1000\n")
    ssh.chmod(0o755)
    return ssh


def load_report(path: Path) -> dict | None:
    return json.loads(path.read_text()) if path.exists() else None


NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nprotocols: files\nservices: files\n"


def plain_names(folder: Path) -> list[str]:
    """Returns shell commands that mount files of the folder over those of /etc, so that host names are looked up without DNS.
    The mounts also hide this machine's settings of hvdrun, SLURM and ssh."""
    # Programs of SLURM still ask a DNS server. None runs at this address, so that they fail at once.
    texts = {"/etc/nsswitch.conf": NSSWITCH, "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"}
    hosts = read_bytes("/etc/hosts").decode()
    if HOSTNAME not in hosts.split():
        texts["/etc/hosts"] = f"{hosts.rstrip()}\n127.0.1.1 {HOSTNAME}\n"
    commands = []
    for path in filter(os.path.exists, texts):
        file = folder / Path(path).name
        file.write_text(texts[path])
        file.chmod(0o644)
        commands.append(f"mount --bind {shlex.quote(str(file))} {path}")
    for path in ("/etc/hvdrun", "/etc/slurm", f"{pwd.getpwuid(os.geteuid()).pw_dir}/.ssh"):
        if os.path.isdir(path) and os.listdir(path):
            commands.append(f"mount -t tmpfs tmpfs {shlex.quote(path)}")
    return commands


class Sandbox:
    """A test's own folders and processes. The test's fixture calls close(), which fails if processes or files are left."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"  # files of the test
        self.tmp = folder / "tmp"      # TMPDIR of its processes
        self.files.mkdir(parents=True)
        self.tmp.mkdir()
        # Begins with HVD_CHECK of the ./check that has started the test. ./check finds files of killed tests by it.
        self.cookie = os.environ.get("HVD_CHECK", "") + uuid.uuid4().hex
        # Mounted over /dev/shm for the test's processes. It is in the real /dev/shm, so that it is on tmpfs, too.
        self.shm = Path(f"/dev/shm/hvdtest-{self.cookie}")
        self.isolated = os.geteuid() == 0
        if self.isolated:
            self.shm.mkdir(mode=0o1777)
            self.shm.chmod(0o1777)
        # Further shell commands that run before hvdrun in its mount namespace.
        self.mounts = plain_names(folder) if self.isolated else []
        self._runs = 0

    def environment(self, changes: dict[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items()
                if name.endswith("SAN_OPTIONS") or name == "HVD_CHECK"}
        return {**kept, "PATH": "/usr/bin:/bin", "HOME": str(self.files), "LC_ALL": "C.UTF-8",
                "TMPDIR": str(self.tmp), "HVD_TEST_COOKIE": f"{self.cookie}.{self._runs}.",
                # Current versions of PyTorch leave it in TMPDIR.
                "TORCHINDUCTOR_CACHE_DIR": str(self.files.parent / "inductor"), **(changes or {})}

    def command(self, words: Sequence[object]) -> list[str]:
        """Returns a command that runs the words with this sandbox's mounts. Each program calls exec, so that the pid stays the same."""
        plain = [str(word) for word in words]
        if not self.isolated:
            return plain
        setup = " && ".join([f"mount --bind {self.shm} /dev/shm", *self.mounts])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{setup} && exec "$@"', "sh", *plain]

    def start(self, *arguments: object, env: dict[str, str] | None = None, tool: object = HVDRUN,
              cwd: Path | None = None, stdin: object = subprocess.DEVNULL, **options: object) -> Running:
        self._runs += 1
        base = self.files / f"run{self._runs}"
        out, err, report = base.with_suffix(".out"), base.with_suffix(".err"), base.with_suffix(".report")
        words = [tool, "--report", report, *arguments] if tool == HVDRUN else [tool, *arguments]
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            streams = {"stdout": out_file, "stderr": err_file, **options}
            process = subprocess.Popen(self.command(words), env=self.environment(env), cwd=cwd or self.files,
                                       stdin=stdin, **streams)
        return Running(self, self._runs, process, out, err, report)

    def run(self, *arguments: object, stdin: bytes | None = None, **options: object) -> Done:
        if stdin is None:
            return self.start(*arguments, **options).wait()
        source = self.files / f"stdin{self._runs}"
        source.write_bytes(stdin)
        with open(source, "rb") as file:
            return self.start(*arguments, stdin=file, **options).wait()

    def processes(self, run: int | None = None) -> list[int]:
        """Returns the running processes of this test, or of one of its runs, including hvdrun itself."""
        mark = f"HVD_TEST_COOKIE={self.cookie}.{'' if run is None else f'{run}.'}".encode()
        return [pid for pid in all_pids() if mark in read_bytes(f"/proc/{pid}/environ") and alive(pid)]

    def ranks(self) -> dict[int, int]:
        """Returns the pids of the running ranks: the processes that hvdrun itself started, without their children."""
        found: dict[int, int] = {}
        for pid in self.processes():
            environment = environment_of(pid)
            if "HVD_RANK" in environment and "HVD_RANK" not in environment_of(parent_of(pid)):
                found[int(environment.get("HVD_MEMBER", environment["HVD_RANK"]))] = pid
        return found

    def lines_of(self, name: str) -> list[list[str]]:
        """Returns the words of each complete line of a file to which ranks append."""
        text = read_bytes(self.files / name).decode()
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]

    def kill_all(self) -> None:
        deadline = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)

    def leftovers(self) -> list[str]:
        """Folders of Python's tempfile are those of ranks that were killed: torch makes one when it is imported."""
        files = [str(path) for path in self.tmp.iterdir() if not re.fullmatch(r"tmp[a-z0-9_]{8}", path.name)]
        if self.isolated:
            files += [str(path).replace(str(self.shm), "/dev/shm") for path in self.shm.iterdir()]
        return [describe(pid) for pid in self.processes()] + files

    def close(self) -> None:
        left = self.leftovers()
        self.kill_all()
        shutil.rmtree(self.shm, ignore_errors=True)
        assert not left, "left by this test: " + "; ".join(left)
