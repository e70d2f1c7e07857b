"""A handle on a cluster for tests and scripts: start it, run commands in it, break its hosts and links, end it."""

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
    """A request to a cluster failed; the text says why."""


def folder_of(name: str) -> Path:
    """Returns the cluster's folder. Two checkouts may use the same name for different clusters."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise ClusterFailed(f"{name!r} is no name for a cluster: use at most 31 characters of a-z, 0-9 and -")
    return Path(f"/run/hvd-cluster-{name}-{hashlib.sha256(str(TOP).encode()).hexdigest()[:8]}")


def ask(folder: Path, request: dict[str, str]) -> tuple[dict, list[int]]:
    """Returns the keeper's answer and the descriptors that it sent. Error: ClusterFailed with the keeper's message, or
    because no keeper runs."""
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
    """Keeps other processes from starting or ending this cluster. Makes the folder; yields whether it existed."""
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
            pass  # removed by another process: try again
        finally:
            if fd >= 0:
                os.close(fd)


def stop_warden(folder: Path) -> None:
    """Ends the cluster's processes; its folder may stay."""
    try:
        file = open(warden_path(folder), "r+")
    except FileNotFoundError:
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return  # it has ended
        except BlockingIOError:
            wait_until(lambda: file.seek(0) == 0 and file.read().endswith("\n"), "the warden to write its pid")
            file.seek(0)
            pid = int(file.read())
        with contextlib.suppress(ProcessLookupError):
            end_process(pid)


def end_process(pid: int) -> None:
    """Sends SIGTERM, then SIGKILL if the process does not end in time. Raises ProcessLookupError if there is none."""
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
    """Ends the cluster and removes its folder; returns whether there was one."""
    with locked(folder) as found:
        stop_warden(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return found


class Cluster:
    """A handle on a cluster by its name. Several processes may have one for the same cluster."""

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self.name = name
        self.folder = folder_of(name)

    def up(self, hosts: int = 4, owner: int | None = None, shown: Sequence[Path] = ()) -> None:
        """Starts the cluster and waits until Slurm reports all hosts as idle. With `owner`, a pid, it ends with that process.
        Error: ClusterFailed, with the message of `up`."""
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
        """Returns the names of the compute hosts."""
        return [name for name in self.status()["hosts"] if name != LOGIN]

    def command(self, words: Sequence[object], on: str = LOGIN, user: str = USER.name, folder: object = "",
                environment: dict[str, str] | None = None, tty: bool = False) -> list[str]:
        """Returns the command to start on this machine so that the words run inside."""
        who = next(known for known in USERS if known.name == user)
        return [PYTHON, "-S", "-E", str(HERE / "enter.py"), str(control_path(self.folder)), on, who.name, str(who.uid),
                who.home, str(folder or who.home), "tty" if tty else "-",
                *(f"{name}={value}" for name, value in (environment or {}).items()), "--", *map(str, words)]

    def start(self, *words: object, on: str = LOGIN, user: str = USER.name, folder: object = "",
              environment: dict[str, str] | None = None, tty: bool = False, **options: object) -> subprocess.Popen:
        """Starts the command. Signals to the Popen's process are forwarded to it, and it ends with that process."""
        return subprocess.Popen(self.command(words, on, user, folder, environment, tty), **options)

    def run(self, *words: object, on: str = LOGIN, user: str = USER.name, folder: object = "",
            environment: dict[str, str] | None = None, timeout: float = TIME_LIMIT_S, **options: object,
            ) -> subprocess.CompletedProcess:
        """Runs the command to its end and captures its output as text."""
        streams: dict[str, object] = {"capture_output": True, "text": True, **options}
        if "input" not in streams:
            streams.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(words, on, user, folder, environment), timeout=timeout, **streams)

    def output(self, *words: object, **options: object) -> str:
        """Runs the command and returns its stdout. Error: AssertionError if its code is not 0."""
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{' '.join(map(str, words))}: code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def root_of(self, host: str) -> Path:
        """Returns the host's root folder as a path of this machine; valid until the host is killed."""
        _, [pidfd] = ask(self.folder, {"do": "enter", "host": host})
        try:
            lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
            pid = next(line.split()[1] for line in lines if line.startswith("Pid:"))
        finally:
            os.close(pidfd)
        return Path(f"/proc/{pid}/root")

    def processes(self, host: str) -> list[str]:
        """Returns a line for each process of the host that has not ended: pid on this machine, state, name, arguments.
        Starts no process on the host."""
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
        """Returns Slurm's lists of hosts and jobs, and the end of slurmctld's log."""
        words = "sinfo -N -o '%N %T %E'; squeue -o '%A %j %T %r %N'; tail -n 20 /var/log/slurmctld.log"
        done = self.run("timeout", "10", "sh", "-c", words, user="root")
        return done.stdout + done.stderr

    def cut(self, host: str) -> None:
        """Drops all packets from and to the host from now on. Closes no connection."""
        self._switch("cut", host)

    def join(self, host: str) -> None:
        self._switch("join", host)

    def narrow(self, host: str, size: str) -> None:
        """Loses packets of more than `size` bytes on their way to the host; "off" ends that."""
        self._switch("narrow", host, size)

    def slow(self, host: str, rate: str) -> None:
        """Limits the rate each way, in tc's notation ("10mbit"); "off" ends the limit."""
        self._switch("slow", host, rate)

    def freeze(self, host: str) -> None:
        """Stops all processes of the host; its kernel still answers packets."""
        self._switch("freeze", host)

    def thaw(self, host: str) -> None:
        self._switch("thaw", host)

    def kill(self, host: str) -> None:
        """Simulates power off: kills all processes, sends no packet to peers, and loses /tmp and /run."""
        self._switch("kill", host)

    def clear(self, host: str) -> None:
        """Kills all processes of ordinary users on the host."""
        self._switch("clear", host)

    def kill_at_once(self, host: str, pids: list[str]) -> None:
        """Sends SIGKILL to all these processes. The end of one may have ended a later one before."""
        said = self.run("kill", "-KILL", *pids, on=host, user="root").stderr.splitlines()
        gone = [line for line in said if "No such process" in line]
        assert gone == said and len(gone) < len(pids), said

    def power_on(self, host: str) -> None:
        """Boots the host and waits until its services listen. Slurm may need a moment more (wait_idle)."""
        self._switch("start", host)

    @contextlib.contextmanager
    def without_slurmctld(self) -> Iterator[None]:
        """Stops slurmctld: the kernel accepts connections, but no request is answered. Jobs still run."""
        self.output("pkill", "-STOP", "-x", "slurmctld", user="root")
        try:
            yield
        finally:
            self.output("pkill", "-CONT", "-x", "slurmctld", user="root")

    def heal(self) -> None:
        """Turns all hosts on, connects them at full speed, ends all jobs and users' processes, and waits until hosts are idle."""
        hosts = self.status()["hosts"]
        for host in hosts:
            self._switch("heal", host)
        cancelled: set[str] = set()

        def is_idle() -> bool:
            for host in hosts:
                self.clear(host)  # repeated: a job may have started since, and ignore SIGTERM
            states, jobs = self._queue()
            if new := jobs - cancelled:
                self.run("scancel", "--quiet", *new, user="root")  # some may have ended
                cancelled.update(new)
            return not jobs and states == {name: "idle" for name in hosts if name != LOGIN}

        try:
            wait_until(is_idle, "all hosts to be idle")
        except AssertionError as error:
            raise ClusterFailed(f"{error}\n{self.report()}") from error

    def wait_idle(self) -> None:
        """Waits until Slurm reports all compute hosts as idle and lists no job."""
        wait_until(self._is_idle, "all hosts to be idle")

    def _is_idle(self) -> bool:
        states, jobs = self._queue()
        return not jobs and states == {name: "idle" for name in self.hosts}

    def _queue(self) -> tuple[dict[str, str], set[str]]:
        """Returns Slurm's state of each compute host, and the ids of the jobs that have not ended. There are no hosts if
        slurmctld does not answer."""
        done = self.run("sh", "-c", "sinfo -h -N -o '%N %T' && squeue -h -o 'job %A'", user="root")
        if done.returncode != 0:
            return {}, set()
        lines = [line.split() for line in done.stdout.splitlines()]
        if any(state.endswith("*") for _, state in lines):
            # The host was unreachable. slurmctld asks it again every 100 s, but at once when it rereads its configuration.
            self.run("scontrol", "reconfigure", user="root")
            time.sleep(0.5)
        return {name: state for name, state in lines if name != "job"}, {number for name, number in lines if name == "job"}

    def _switch(self, verb: str, host: str, rate: str = "") -> None:
        ask(self.folder, {"do": verb, "host": host, "rate": rate})


def wait_until(condition: Callable[[], object], what: str, limit_s: float = TIME_LIMIT_S) -> None:
    """Waits until the condition holds. Error: AssertionError that names `what`, after the time limit."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.005
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s:.0f} s in vain: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)  # a check costs processor time that the awaited process needs
