"""Makes hosts for a bench: network namespaces of this machine. A pair of virtual Ethernet devices connects two hosts. A
bridge in its own namespace connects more. Needs root.

The kernel of the machine may lack netem. The link therefore has a limited rate, but no delay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    name: str
    namespace: str
    address: str
    memory: Path  # in /dev/shm, with a folder for each host
    view: Path    # the mount point of `memory` on the hosts, because each has its own /dev/shm

    def inside(self, command: str) -> list[str]:
        """Returns a command that runs a shell command with the host's network, name and shared memory."""
        return ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "--mount", "/bin/sh", "-c",
                f"hostname {self.name} && mount --bind {self.memory} {self.view} && {self.own_memory()} && {command}"]

    def own_memory(self) -> str:
        return f"mount --bind {self.view / self.name} /dev/shm"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def remove_namespace(name: str) -> None:
    pids = subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for pid in map(int, pids.stdout.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def join(hosts: list[Host], switch: str) -> None:
    """Gives each host a device veth0. `switch` is the name for the bridge's namespace, which more than two hosts need."""
    if len(hosts) == 2:
        ip("link", "add", "veth0", "netns", hosts[0].namespace, "type", "veth",
           "peer", "name", "veth0", "netns", hosts[1].namespace)
        return
    ip("netns", "add", switch)
    ip("-n", switch, "link", "add", "switch", "up", "type", "bridge", "stp_state", "0", "forward_delay", "0")
    for number, host in enumerate(hosts):
        ip("link", "add", "veth0", "netns", host.namespace, "type", "veth", "peer", "name", f"port{number}", "netns", switch)
        ip("-n", switch, "link", "set", f"port{number}", "master", "switch", "up")


@contextlib.contextmanager
def several_hosts(count: int = 2, rate: str | None = None) -> Iterator[list[Host]]:
    """Makes the hosts, and removes them and their processes at the end.

    rate: the limit for each direction of the link, in tc's notation. None: no limit."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # raises KeyboardInterrupt, as Ctrl-C does, so that the hosts are removed
    mark = f"hvdb{os.getpid()}"
    subnet = os.getpid() % 250
    with (tempfile.TemporaryDirectory(prefix="hvd-bench-", dir="/dev/shm") as memory,
          tempfile.TemporaryDirectory(prefix="hvd-bench-") as view):
        hosts = [Host(f"{mark}{end}", f"{mark}{end}", f"10.213.{subnet}.{number}", Path(memory), Path(view))
                 for number, end in enumerate("abcdefgh"[:count], start=1)]
        switch = f"{mark}switch"
        try:
            for host in hosts:
                (host.memory / host.name).mkdir(mode=0o1777)
                ip("netns", "add", host.namespace)
            join(hosts, switch)
            for host in hosts:
                ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "veth0")
                for device in ("lo", "veth0"):
                    ip("-n", host.namespace, "link", "set", device, "up")
                if rate:
                    subprocess.run(["tc", "-n", host.namespace, "qdisc", "add", "dev", "veth0", "root", "tbf", "rate",
                                    rate, "burst", "256kb", "latency", "50ms"], check=True)
            yield hosts
        finally:
            for host in hosts:
                remove_namespace(host.namespace)
            if count > 2:
                remove_namespace(switch)


def rank_variables(hosts: list[Host], host: Host, rank: int, size: int, port: int) -> dict[str, object]:
    """Returns the variables with which a rank on this host finds the others without hvdrun."""
    return {"HVD_RANK": rank, "HVD_SIZE": size, "MASTER_ADDR": hosts[0].address, "HVD_PORT": port,
            "HVD_JOB_KEY": "5" * 64, "HVD_SHM_DIR": "/dev/shm", "HVD_HOSTNAME": host.name}
