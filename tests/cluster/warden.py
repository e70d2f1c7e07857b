"""The warden: a process outside of the cluster's namespaces that runs as long as the cluster.

It starts the keeper. It ends the cluster when the keeper ends, when the cluster's owner ends, when `up` is killed
before it is done, or on SIGTERM. If the warden itself is killed, the keeper ends too, and only an empty folder is
left, which `up` and `down` remove.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import kernel
from host_init import Layout
from keeper import ClusterError, Keeper, close_all_but
from settings import hosts_of

READY = b"ready\n"
LOG_LINES = 15


@dataclass(frozen=True)
class Plan:
    name: str
    folder: Path  # the cluster's; empty
    host_count: int
    shown: list[Path]  # folders of this machine that the hosts see, read-only
    owner: int | None  # a pidfd: the cluster ends with this process


def control_path(folder: Path) -> Path:
    return folder / "control"


def warden_path(folder: Path) -> Path:
    """Returns the file with the warden's pid, which the warden locks (flock) while it runs."""
    return folder / "warden"


def live(plan: Plan, report: int, release: int) -> NoReturn:
    """Runs the warden. Writes READY to `report` when the cluster is up, or an error message.
    The cluster ends if the other end of `release` closes before it has sent a byte."""
    os.setsid()
    os.umask(0o022)
    kernel.set_process_name("cluster-warden")
    close_all_but(report, release, *([] if plan.owner is None else [plan.owner]))
    stop = catch_signals()
    lock = open(warden_path(plan.folder), "w+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(os.getpid(), file=lock, flush=True)
    redirect_streams(plan.folder / "log")
    said_read, said_write = os.pipe()
    kernel.unshare(kernel.CLONE_NEWPID)
    keeper = os.fork()
    if keeper == 0:
        lock.close()
        live_as_keeper(plan, said_write)
    os.close(said_write)
    try:
        watch(keeper, stop, said_read, report, release, plan.owner)
    finally:
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)  # returns when all processes of its PID namespace have ended
        if is_file_at(lock.fileno(), warden_path(plan.folder)):  # otherwise the folder belongs to a later warden
            shutil.rmtree(plan.folder)
        os._exit(0)


def is_file_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def catch_signals() -> int:
    """Returns a descriptor that becomes readable when this process gets a signal to end."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return read_end


def redirect_streams(log: Path) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    os.close(output)


def watch(keeper: int, stop: int, said: int, report: int, release: int, owner: int | None) -> None:
    """Waits until the cluster must end. Forwards the keeper's report to `report`."""
    poller = select.poll()
    for fd in (stop, os.pidfd_open(keeper), said, release, *([] if owner is None else [owner])):
        poller.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if said in ready:
            words = os.read(said, 65536)
            os.write(report, words)
            if words != READY:
                return
            poller.unregister(said)
        elif release in ready and os.read(release, 1):
            poller.unregister(release)
        else:
            return


def live_as_keeper(plan: Plan, say: int) -> NoReturn:
    try:
        kernel.die_with_parent(signal.SIGKILL)
        kernel.set_process_name("cluster-keeper")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kernel.unshare(kernel.HOST_NAMESPACES)
        socket.sethostname("switch")
        kernel.make_mounts_private()
        kernel.mount("proc", "/proc", "proc")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.bind(str(control_path(plan.folder)))
        listener.listen(64)
        layout = Layout(plan.folder / "inside")
        layout.inside.mkdir(mode=0o755)
        kernel.mount("tmpfs", str(layout.inside), "tmpfs", 0, "mode=755")
        keeper = Keeper(plan.name, hosts_of(plan.host_count), layout, plan.shown)
        try:
            keeper.start()
        except (ClusterError, OSError) as error:
            raise ClusterError(f"{error}\n{tails(plan.folder / 'log', layout.inside)}") from error
        os.write(say, READY)
        keeper.serve(listener)
    except BaseException as error:
        traceback.print_exc()
        os.write(say, f"{type(error).__name__}: {error}"[-60000:].encode())
        os._exit(1)


def tails(own: Path, inside: Path) -> str:
    """Returns the last lines of the keeper's and the services' logs."""
    logs = [own, *sorted(path for path in [*inside.glob("*.log"), *inside.glob("log/*/*.log")])]
    return "\n".join(f"-- {path.relative_to(own.parent)}\n" + "\n".join(lines[-LOG_LINES:])
                     for path in logs if (lines := path.read_text(errors="replace").splitlines()))
