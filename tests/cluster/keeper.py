"""The keeper: pid 1 of the whole cluster. It is the network switch and turns hosts on and off.

All hosts' processes are in PID namespaces below the keeper's, and their veth links end in the keeper's
network namespace. So the kernel removes everything when the keeper ends, however it ends.
It answers one request at a time on a Unix socket. Request and answer are a line of
JSON each: {"do": ..., "host": ...}, and {} or {"error": ...}; "enter" also hands over a pidfd.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import host_processes
import kernel
from host_init import SERVICE_ENVIRONMENT, Layout, live, reap
from provision import provision
from settings import TIME_LIMIT_S, Host

START_LIMIT_S = TIME_LIMIT_S
STOP_LIMIT_S = TIME_LIMIT_S / 3
BRIDGE = "switch"


class ClusterError(Exception):
    """A part of the cluster failed; the text says which and how."""


def run_tool(*words: str) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=SERVICE_ENVIRONMENT)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(words)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def wait_until(condition: Callable[[], bool], what: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {limit_s:.0f} s in vain: {what}")
        time.sleep(0.01)


def close_all_but(*kept: int) -> None:
    """Closes all descriptors except the standard ones and these."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # the descriptor of os.listdir() is closed already


@dataclass
class Machine:
    """The state of a host: its power and its network link."""

    host: Host
    pid: int = 0  # of its pid 1; 0 if it is off
    frozen: set[int] | None = None
    cut: bool = False
    rate: str = ""
    narrow: bool = False

    @property
    def state(self) -> str:
        return "off" if self.pid == 0 else "frozen" if self.frozen is not None else "on"

    def wait_for_services(self) -> None:
        """Waits until all its services listen."""
        name = self.host.name

        def listens() -> bool:
            if Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                raise ClusterError(f"{name} ended while it started")
            return self.listens()

        wait_until(listens, f"sshd and Slurm's daemon to listen on {name}", START_LIMIT_S)

    def listens(self) -> bool:
        return set(self.host.ports) <= listening_ports(self.pid)


def listening_ports(pid: int) -> set[int]:
    """Returns the TCP ports on which a process listens in this process's network namespace."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        found |= {int(words[1].rsplit(":", 1)[1], 16) for words in map(str.split, lines) if words[3] == "0A"}
    return found


class Keeper:
    """The cluster's hosts and services. Used by the one thread of the keeper's process."""

    def __init__(self, name: str, hosts: list[Host], layout: Layout, shown: list[Path]) -> None:
        self._name = name
        self._layout = layout
        self._shown = shown
        self._machines = {host.name: Machine(host) for host in hosts}
        self._munged = 0

    def start(self) -> None:
        """Boots all hosts and waits until Slurm reports them as idle."""
        provision(self._name, [machine.host for machine in self._machines.values()], self._layout)
        run_tool("ip", "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0",
                 "mcast_snooping", "0")
        run_tool("ip", "link", "set", BRIDGE, "up")
        self._start_munged()
        login, *others = self._machines.values()
        self._boot(login)
        login.wait_for_services()  # otherwise slurmd fails to connect and waits before it tries again
        for machine in others:
            self._boot(machine)
        for machine in others:
            machine.wait_for_services()
        wait_until(lambda: self._states(login) == {"idle"}, "Slurm to report all hosts as idle", START_LIMIT_S)

    def _states(self, login: Machine) -> set[str]:
        """Returns Slurm's states of its hosts."""
        inside = ["nsenter", f"--target={login.pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]
        return set(run_tool(*inside, "sinfo", "-h", "-N", "-o", "%T").split())

    def _start_munged(self) -> None:
        folder = self._layout.munge
        with open(self._layout.inside / "munged.out", "ab") as output:
            munged = subprocess.Popen(
                ["/usr/sbin/munged", "--foreground", "--force", f"--socket={folder}/munge.socket.2",
                 f"--key-file={self._layout.inside}/munge.key", f"--pid-file={self._layout.inside}/munged.pid",
                 f"--log-file={self._layout.inside}/munged.log", f"--seed-file={self._layout.inside}/munged.seed"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=SERVICE_ENVIRONMENT)
        wait_until(lambda: (folder / "munge.socket.2").exists() or munged.poll() is not None, "munged to listen",
                   START_LIMIT_S)
        if munged.returncode is not None:
            raise ClusterError(f"munged ended with code {munged.returncode}")
        self._munged = munged.pid

    def _boot(self, machine: Machine) -> None:
        """Starts the host's pid 1 and connects its network link; does not wait for its services."""
        plugged_read, plugged_write = os.pipe()
        pid_read, pid_write = os.pipe()
        if os.fork() == 0:
            # Only children of this process enter the new PID namespace; the first becomes its pid 1.
            try:
                close_all_but(plugged_read, pid_write)
                kernel.unshare(kernel.HOST_NAMESPACES | kernel.CLONE_NEWPID)
                if (pid := os.fork()) == 0:
                    os.close(pid_write)
                    live(machine.host, self._layout, self._shown, plugged_read)
                os.write(pid_write, str(pid).encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        os.close(plugged_read)
        os.close(pid_write)
        text = os.read(pid_read, 20)
        os.close(pid_read)
        try:
            if not text:
                raise ClusterError(f"{machine.host.name} could not be made")
            machine.pid, machine.frozen, machine.cut, machine.rate, machine.narrow = int(text), None, False, "", False
            self._plug(machine)
            os.write(plugged_write, b"1")
        finally:
            os.close(plugged_write)

    def _plug(self, machine: Machine) -> None:
        link = machine.host.link
        run_tool("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(machine.pid))
        run_tool("ip", "link", "set", link, "master", BRIDGE, "up")

    def cut(self, machine: Machine) -> None:
        """Disables the host's port of the switch. The host's card stays up, so packets vanish silently and no connection
        is closed."""
        self._require_power(machine)
        self._set_port(machine, forwarding=False)

    def join(self, machine: Machine) -> None:
        self._require_power(machine)
        self._set_port(machine, forwarding=True)

    def _set_port(self, machine: Machine, forwarding: bool) -> None:
        run_tool("bridge", "link", "set", "dev", machine.host.link, "state", "forwarding" if forwarding else "disabled")
        machine.cut = not forwarding

    def slow(self, machine: Machine, rate: str) -> None:
        """Limits the rate each way, in tc's notation ("10mbit"); "off" ends the limit."""
        self._require_power(machine)
        limit = [] if rate == "off" else ["tbf", "rate", rate, "burst", "16kb", "latency", "200ms"]
        verb = "replace" if limit else "del"
        if limit or machine.rate:
            inside = ["nsenter", f"--net=/proc/{machine.pid}/ns/net"]
            run_tool("tc", "qdisc", verb, "dev", machine.host.link, "root", *limit)
            run_tool(*inside, "tc", "qdisc", verb, "dev", "eth0", "root", *limit)
        machine.rate = rate if limit else ""

    def narrow(self, machine: Machine, size: str) -> None:
        """Loses packets of more than `size` bytes on their way to the host, without a word to their sender; "off" ends that."""
        self._require_power(machine)
        # tbf drops packets that are larger than its burst (tc-tbf(8)).
        limit = [] if size == "off" else ["tbf", "rate", "1gbit", "burst", size, "latency", "200ms"]
        if limit or machine.narrow:
            run_tool("tc", "qdisc", "replace" if limit else "del", "dev", machine.host.link, "root", *limit)
        machine.narrow = bool(limit)

    def freeze(self, machine: Machine) -> None:
        self._require_power(machine)
        if machine.frozen is None:
            machine.frozen = host_processes.freeze(machine.pid)

    def thaw(self, machine: Machine) -> None:
        self._require_power(machine)
        if machine.frozen is not None:
            host_processes.thaw(machine.pid, machine.frozen)
            machine.frozen = None

    def kill(self, machine: Machine) -> None:
        """Turns the host off. Cuts its link first, so that no peer sees a connection end."""
        if machine.pid == 0:
            return
        self._set_port(machine, forwarding=False)
        self._forget_connections_soon(machine)
        os.kill(machine.pid, signal.SIGKILL)
        pid, machine.pid = machine.pid, 0
        wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, f"all processes of {machine.host.name} to end",
                   STOP_LIMIT_S)
        self._unplug(machine)

    def _unplug(self, machine: Machine) -> None:
        """Removes the link of a host that is off. The kernel removes it too, some time after the host's end."""
        link = machine.host.link

        def is_out() -> bool:
            return link not in (name for _, name in socket.if_nameindex())

        if not is_out():
            subprocess.run(["ip", "link", "del", "dev", link], stderr=subprocess.DEVNULL, env=SERVICE_ENVIRONMENT)
        wait_until(is_out, f"the link of {machine.host.name} to be removed", STOP_LIMIT_S)

    def _forget_connections_soon(self, machine: Machine) -> None:
        """Limits TCP's retries: otherwise the kernel keeps the host's network for minutes to close its connections."""
        run_tool("nsenter", f"--net=/proc/{machine.pid}/ns/net", "sh", "-c",
                 "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries")

    def power_on(self, machine: Machine) -> None:
        if machine.pid == 0:
            self._boot(machine)
        machine.wait_for_services()

    def heal(self, machine: Machine) -> None:
        """Restores the first state: on, connected, at full speed, services running, no user's process."""
        if machine.pid != 0:
            self.thaw(machine)
            if machine.cut:
                self.join(machine)
            self.slow(machine, "off")
            self.narrow(machine, "off")
            self.clear(machine)
            if not machine.listens():
                self.kill(machine)
        self.power_on(machine)

    def clear(self, machine: Machine) -> None:
        """Kills all processes of ordinary users."""
        self._require_power(machine)
        host_processes.kill_users(machine.pid)

    def _require_power(self, machine: Machine) -> None:
        if machine.pid == 0:
            raise ClusterError(f"{machine.host.name} is off")

    def status(self) -> dict[str, object]:
        return {"name": self._name,
                "hosts": {name: {"state": machine.state, "cut": machine.cut, "rate": machine.rate}
                          for name, machine in self._machines.items()}}

    def serve(self, listener: socket.socket) -> NoReturn:
        """Answers requests and reaps children for ever."""
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([listener, read_end], [], [])
            if read_end in ready:
                os.read(read_end, 4096)
                self._note_ends(reap())
            if listener in ready:
                connection, _ = listener.accept()
                with connection:
                    self._answer(connection)

    def _note_ends(self, ended: list[int]) -> None:
        for machine in self._machines.values():
            if machine.pid in ended:  # a program on the host ended pid 1; kill() sets pid to 0 before
                machine.pid = 0
                self._unplug(machine)
        if self._munged in ended:
            raise ClusterError("munged ended")

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        fds: list[int] = []
        try:
            request = json.loads(connection.makefile().readline() or "{}")
            answer = self._do(request, fds)
        except (ClusterError, OSError, ValueError) as error:
            answer = {"error": str(error)}
        try:
            socket.send_fds(connection, [f"{json.dumps(answer)}\n".encode()], fds)
        except OSError:
            pass  # the client has gone
        for fd in fds:
            os.close(fd)

    def _do(self, request: dict[str, str], fds: list[int]) -> dict[str, object]:
        verb = request.get("do", "")
        if verb == "status":
            return self.status()
        machine = self._machines.get(request.get("host", ""))
        if machine is None:
            raise ClusterError(f"no host {request.get('host')!r}; there are {', '.join(self._machines)}")
        if verb == "enter":
            if machine.state != "on":
                raise ClusterError(f"{machine.host.name} is {machine.state}")
            fds.append(os.pidfd_open(machine.pid))
        elif verb == "slow":
            self.slow(machine, request.get("rate", "off"))
        elif verb == "narrow":
            self.narrow(machine, request.get("rate", "off"))
        elif verb in self.SWITCHES:
            self.SWITCHES[verb](self, machine)
        else:
            raise ClusterError(f"no such switch: {verb!r}")
        return {}

    SWITCHES: dict[str, Callable[[Keeper, Machine], None]] = {
        "cut": cut, "join": join, "freeze": freeze, "thaw": thaw, "kill": kill, "start": power_on, "clear": clear,
        "heal": heal}
