"""Pid 1 of one host: makes its mounts, starts its services and reaps processes for ever.

The host shares this machine's programs and libraries, read-only. It has its own name, network, process
table, /dev, /dev/shm, /tmp, /run and /var. All hosts of the cluster share /home, /root and /etc.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import kernel
from settings import FAKE_GPU_MAJOR, GPUS_PER_HOST, Host

SERVICE_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

# Files of /etc that each host replaces if this machine has them.
ETC_FILES = ("passwd", "group", "shadow", "hosts", "resolv.conf", "nsswitch.conf")
ETC_FOLDERS = ("ssh", "slurm")

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
           "tty": (5, 0), "ptmx": (5, 2)}
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}


@dataclass(frozen=True)
class Layout:
    """The folders that hosts bind into their trees; they lie in a tmpfs that only the cluster mounts."""

    inside: Path

    @property
    def etc(self) -> Path:
        return self.inside / "etc"

    @property
    def munge(self) -> Path:  # holds the socket of the cluster's munged; bound to /run/munge
        return self.inside / "munge"

    def log(self, host: str) -> Path:
        return self.inside / "log" / host

    def keys(self, host: str) -> Path:
        return self.inside / "keys" / host


def live(host: Host, layout: Layout, shown: list[Path], plugged: int) -> NoReturn:
    """Runs the host until this process is killed. `plugged` is a pipe that gets one byte once the network card is there.
    Raises an exception if the host cannot be made."""
    kernel.set_process_name(f"host {host.name}")
    socket.sethostname(host.name)
    make_mounts(host, layout, shown)
    if not os.read(plugged, 1):
        raise RuntimeError("the cluster ended before the host had a network")
    configure_network(host)
    start_services(host)
    reap_for_ever()


def make_mounts(host: Host, layout: Layout, shown: list[Path]) -> None:
    kernel.make_mounts_private()
    # Opened before the next mounts cover the paths.
    shown_fds = {path: os.open(path, os.O_PATH) for path in shown}
    own = {name: os.open(folder, os.O_PATH) for name, folder in
           {"home": layout.inside / "home", "root": layout.inside / "root", "log": layout.log(host.name),
            "keys": layout.keys(host.name), "munge": layout.munge}.items()}
    terminals = os.open("/dev/pts", os.O_PATH)
    kernel.set_read_only("/", True)
    kernel.set_read_only(str(layout.inside), False)
    kernel.set_read_only("/dev/pts", False)  # opening a terminal changes its owner

    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_RDONLY)
    for name in ETC_FILES:
        if Path("/etc", name).exists():
            kernel.bind(str(layout.etc / name), f"/etc/{name}")
    for name in ETC_FOLDERS:
        kernel.bind(str(layout.etc / name), f"/etc/{name}")
    bind_fd(own["keys"], "/etc/ssh/keys")
    if Path("/etc/hvdrun").is_dir():  # this machine's settings for hvdrun
        kernel.mount("tmpfs", "/etc/hvdrun", "tmpfs")
    make_dev(terminals)
    bind_fd(own["home"], "/home")
    bind_fd(own["root"], "/root")
    for folder, mode in (("/tmp", "1777"), ("/var/tmp", "1777"), ("/var/spool", "755"), ("/run", "755")):
        kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode}")
    bind_fd(own["log"], "/var/log")
    for folder in ("/run/sshd", "/run/munge", "/run/lock", "/var/spool/slurmd", "/var/spool/slurmctld"):
        os.mkdir(folder)
    bind_fd(own["munge"], "/run/munge")
    for path, fd in shown_fds.items():
        path.mkdir(parents=True, exist_ok=True)
        bind_fd(fd, str(path))
    for fd in (*shown_fds.values(), *own.values(), terminals):
        os.close(fd)


def bind_fd(fd: int, target: str) -> None:
    kernel.bind(f"/proc/self/fd/{fd}", target)


def make_dev(terminals: int) -> None:
    """Makes the host's own /dev. It shares only this machine's /dev/pts, so that a terminal of this machine has the same
    name inside."""
    kernel.mount("tmpfs", "/dev", "tmpfs", kernel.MS_NOSUID, "mode=755")
    nodes = {**DEVICES, **{f"nvidia{index}": (FAKE_GPU_MAJOR, index) for index in range(GPUS_PER_HOST)}}
    for name, number in nodes.items():
        os.mknod(f"/dev/{name}", 0o020666, os.makedev(*number))
        os.chmod(f"/dev/{name}", 0o666)
    for name, target in LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    bind_fd(terminals, "/dev/pts")
    os.mkdir("/dev/shm")
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")


def configure_network(host: Host) -> None:
    lines = ["link set lo up", f"link set eth0 address {host.mac}", f"addr add {host.address}/24 dev eth0"]
    if Path("/proc/sys/net/ipv6").exists():
        lines.append(f"addr add {host.address6}/64 dev eth0 nodad")
    lines.append("link set eth0 up")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True, env=SERVICE_ENVIRONMENT)


def start_services(host: Host) -> None:
    start_service("/usr/sbin/sshd", "-D", "-E", "/var/log/sshd.log")
    if host.is_login:
        start_service("/usr/sbin/slurmctld", "-D", "-c")
    else:
        start_service("/usr/sbin/slurmd", "-D")


def start_service(program: str, *arguments: str) -> None:
    with open(f"/var/log/{Path(program).name}.out", "ab") as output:
        subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                         env=SERVICE_ENVIRONMENT, cwd="/", start_new_session=True)


def reap_for_ever() -> NoReturn:
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        reap()
        select.select([read_end], [], [])
        os.read(read_end, 4096)


def reap() -> list[int]:
    """Reaps children that have ended, and returns their pids."""
    ended = []
    try:
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            ended.append(pid)
    except ChildProcessError:
        pass
    return ended
