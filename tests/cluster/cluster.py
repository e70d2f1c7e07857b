"""A cluster as its user sees it: bring it up, run commands in it, pull its plugs, take it down."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from host_processes import processes_of
from settings import LOGIN, TIME_LIMIT_S, USER, USERS
from warden import control_path, warden_path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PYTHON = "/usr/bin/python3"
DEFAULT_NAME = "main"

DOWN_LIMIT_S = TIME_LIMIT_S / 2


class ClusterFailed(Exception):
    """A cluster could not do what was asked; the text says why."""


def folder_of(name: str) -> Path:
    """Each checkout has its own clusters, whatever their names."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise ClusterFailed(f"{name!r} is no name for a cluster: a-z, 0-9 and - make one, at most 31 of them")
    return Path(f"/run/hvd-cluster-{name}-{hashlib.sha256(str(TOP).encode()).hexdigest()[:8]}")


def ask(folder: Path, request: dict[str, str]) -> tuple[dict, list[int]]:
    """The keeper's answer, and the descriptors that came with it. Error: what the keeper said, or that
    there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(control_path(folder)))
            connection.sendall(f"{json.dumps(request)}\n".encode())
            text, fds, _, _ = socket.recv_fds(connection, 65536, 4)
        except OSError as error:
            raise ClusterFailed(f"the cluster is not up ({error.strerror}); tests/cluster/up starts it") from error
    answer = json.loads(text or b'{"error": "the cluster ended"}')
    if "error" in answer:
        raise ClusterFailed(answer["error"])
    return answer, fds


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Nobody else brings this cluster up or down meanwhile. Gives whether the folder was there; makes it."""
    while True:
        try:
            folder.mkdir(mode=0o700)
            found = False
        except FileExistsError:
            found = True
        fd = -1
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if folder.exists() and os.fstat(fd).st_ino == folder.stat().st_ino:
                yield found
                return
        except FileNotFoundError:
            pass  # taken away since; again
        finally:
            if fd >= 0:
                os.close(fd)


def stop_warden(folder: Path) -> None:
    """Returns when nothing of the cluster is left but, perhaps, its folder."""
    try:
        file = open(warden_path(folder), "r+")
    except FileNotFoundError:
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return  # it has ended
        except BlockingIOError:
            wait_until(lambda: file.seek(0) == 0 and file.read().endswith("\n"), "the warden has written its pid")
            file.seek(0)
            pid = int(file.read())
        with contextlib.suppress(ProcessLookupError):
            end_process(pid)


def end_process(pid: int) -> None:
    """TERM, then KILL when that does not help in time. Raises ProcessLookupError: there is none."""
    pidfd = os.pidfd_open(pid)
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(pidfd, number)
            if select.select([pidfd], [], [], DOWN_LIMIT_S)[0]:
                return
        raise ClusterFailed(f"process {pid} does not end")
    finally:
        os.close(pidfd)


def take_down(folder: Path) -> bool:
    """Returns whether there was anything."""
    with locked(folder) as found:
        stop_warden(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return found


class Cluster:
    """A handle on a cluster by its name. Any number of processes may have one."""

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self.name = name
        self.folder = folder_of(name)

    def up(self, hosts: int = 4, owner: int | None = None, shown: Sequence[Path] = ()) -> None:
        """Returns when Slurm calls all hosts idle. With an owner the cluster ends when that process does.
        Error: ClusterFailed, with what `up` said."""
        words = [PYTHON, HERE / "up", "--name", self.name, "--hosts", str(hosts)]
        words += ["--owner", str(owner)] if owner else []
        for path in shown:
            words += ["--show", path]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterFailed(f"tests/cluster/up ended with code {done.returncode}: {done.stderr.strip()}")

    def down(self) -> bool:
        return take_down(self.folder)

    def is_up(self) -> bool:
        try:
            self.status()
            return True
        except ClusterFailed:
            return False

    def status(self) -> dict:
        return ask(self.folder, {"do": "status"})[0]

    @property
    def hosts(self) -> list[str]:
        """The compute hosts."""
        return [name for name in self.status()["hosts"] if name != LOGIN]

    def command(self, words: Sequence[object], on: str = LOGIN, user: str = USER.name, folder: object = "",
                environment: dict[str, str] | None = None, tty: bool = False) -> list[str]:
        """What to start on this machine so that the words run inside."""
        who = next(known for known in USERS if known.name == user)
        return [PYTHON, "-S", "-E", str(HERE / "enter.py"), str(control_path(self.folder)), on, who.name, str(who.uid),
                who.home, str(folder or who.home), "tty" if tty else "-",
                *(f"{name}={value}" for name, value in (environment or {}).items()), "--", *map(str, words)]

    def start(self, *words: object, on: str = LOGIN, user: str = USER.name, folder: object = "",
              environment: dict[str, str] | None = None, tty: bool = False, **options: object) -> subprocess.Popen:
        """A Popen of the command: signals reach it, and it ends with the Popen's process."""
        return subprocess.Popen(self.command(words, on, user, folder, environment, tty), **options)

    def run(self, *words: object, on: str = LOGIN, user: str = USER.name, folder: object = "",
            environment: dict[str, str] | None = None, timeout: float = TIME_LIMIT_S, **options: object,
            ) -> subprocess.CompletedProcess:
        """Runs the command to its end; streams are text, and caught."""
        streams: dict[str, object] = {"capture_output": True, "text": True, **options}
        if "input" not in streams:
            streams.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(words, on, user, folder, environment), timeout=timeout, **streams)

    def output(self, *words: object, **options: object) -> str:
        """What the command printed. Error: AssertionError when its code is not 0."""
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def root_of(self, host: str) -> Path:
        """The host's files as this machine sees them, until the host is killed."""
        _, [pidfd] = ask(self.folder, {"do": "enter", "host": host})
        try:
            lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
            pid = next(line.split()[1] for line in lines if line.startswith("Pid:"))
        finally:
            os.close(pidfd)
        return Path(f"/proc/{pid}/root")

    def processes(self, host: str) -> list[str]:
        """A line for each process of the host that has not ended: pid, state, name, arguments. Nothing is
        started there for that; the pids are those of this machine."""
        lines = []
        for pid in processes_of(int(self.root_of(host).parent.name)):
            try:
                name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue  # it has ended meanwhile
            if (state := rest.split()[0]) not in "ZX":
                lines.append(f"{pid} {state} {name} {words}")
        return lines

    def report(self) -> str:
        """What Slurm says of its hosts and jobs, and the end of slurmctld's log."""
        words = "sinfo -N -o '%N %T %E'; squeue -o '%A %j %T %r %N'; tail -n 20 /var/log/slurmctld.log"
        done = self.run("timeout", "10", "sh", "-c", words, user="root")
        return done.stdout + done.stderr

    def cut(self, host: str) -> None:
        """No packet in or out from now on, and no connection is closed."""
        self._switch("cut", host)

    def join(self, host: str) -> None:
        self._switch("join", host)

    def slow(self, host: str, rate: str) -> None:
        """At most this rate each way, as tc writes it ("10mbit"); "off" ends it."""
        self._switch("slow", host, rate)

    def freeze(self, host: str) -> None:
        """All processes of the host stand still; its kernel goes on answering."""
        self._switch("freeze", host)

    def thaw(self, host: str) -> None:
        self._switch("thaw", host)

    def kill(self, host: str) -> None:
        """Power off: all processes are gone, its peers are told nothing, its /tmp and /run are lost."""
        self._switch("kill", host)

    def clear(self, host: str) -> None:
        """Kills all processes of ordinary users there."""
        self._switch("clear", host)

    def kill_at_once(self, host: str, pids: list[str]) -> None:
        """KILL to all of them. A later one may have gone by then because of an earlier one."""
        said = self.run("kill", "-KILL", *pids, on=host, user="root").stderr.splitlines()
        gone = [line for line in said if "No such process" in line]
        assert gone == said and len(gone) < len(pids), said

    def power_on(self, host: str) -> None:
        """Returns when its services listen; Slurm may need a moment more (wait_idle)."""
        self._switch("start", host)

    @contextlib.contextmanager
    def without_slurmctld(self) -> Iterator[None]:
        """slurmctld stands still: it takes connections, and answers nobody. Jobs run on."""
        self.output("pkill", "-STOP", "-x", "slurmctld", user="root")
        try:
            yield
        finally:
            self.output("pkill", "-CONT", "-x", "slurmctld", user="root")

    def heal(self) -> None:
        """All hosts on, connected, at full speed, without jobs and users' processes, and idle."""
        hosts = self.status()["hosts"]
        for host in hosts:
            self._switch("heal", host)
        cancelled: set[str] = set()

        def is_idle() -> bool:
            for host in hosts:
                self.clear(host)  # again: a job may have started since, and ignore TERM
            states, jobs = self._queue()
            if new := jobs - cancelled:
                self.run("scancel", "--quiet", *new, user="root")  # some may be gone already
                cancelled.update(new)
            return not jobs and states == {name: "idle" for name in hosts if name != LOGIN}

        try:
            wait_until(is_idle, "all hosts are idle")
        except AssertionError as error:
            raise ClusterFailed(f"{error}\n{self.report()}") from error

    def wait_idle(self) -> None:
        """Returns when Slurm calls all compute hosts idle and no job is left."""
        wait_until(self._is_idle, "all hosts are idle")

    def _is_idle(self) -> bool:
        states, jobs = self._queue()
        return not jobs and states == {name: "idle" for name in self.hosts}

    def _queue(self) -> tuple[dict[str, str], set[str]]:
        """What Slurm calls each compute host, and the numbers of the jobs that have not ended. No hosts: slurmctld
        does not answer."""
        done = self.run("sh", "-c", "sinfo -h -N -o '%N %T' && squeue -h -o 'job %A'", user="root")
        if done.returncode != 0:
            return {}, set()
        lines = [line.split() for line in done.stdout.splitlines()]
        if any(state.endswith("*") for _, state in lines):
            # A host that was away: slurmctld asks it again each 100 s, and at once when it reads its configuration.
            self.run("scontrol", "reconfigure", user="root")
            time.sleep(0.5)
        return {name: state for name, state in lines if name != "job"}, {number for name, number in lines if name == "job"}

    def _switch(self, verb: str, host: str, rate: str = "") -> None:
        ask(self.folder, {"do": verb, "host": host, "rate": rate})


def wait_until(condition: Callable[[], object], what: str, limit_s: float = TIME_LIMIT_S) -> None:
    """Returns as soon as the condition holds. Error: AssertionError, naming `what`, when it never does."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.005
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)  # each look costs processor time, which the awaited needs
