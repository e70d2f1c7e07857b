"""The launcher sends hvdrun to hosts that lack it or have another version, over ssh and srun. The launcher is a copy in the
login host's own /tmp, which other hosts do not see. Each host's cache is in its own /tmp."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import wait_until
from harness import BUILD
from test_ssh import CLIENTS, Jobs, finish, jobs  # noqa: F401

PATH = "/tmp/launcher/hvdrun"
CACHE = "/tmp/cache"
VERSION = re.search(rb"hvdrun (\d+\.\d+\.\d+)", subprocess.run([BUILD / "bin/hvdrun", "--version"], capture_output=True).stdout)[1]
KINDS = pytest.mark.parametrize("kind", ["libssh", "openssh", "srun"])


def other_version(program: bytes) -> bytes:
    """Returns the program with another version number."""
    other = VERSION[:-1] + (b"8" if VERSION[-1:] == b"9" else b"9")
    assert program.count(VERSION + b"\0")
    return program.replace(VERSION + b"\0", other + b"\0")


class Launcher:
    """hvdrun on the login host, at a path that other hosts lack."""

    def __init__(self, jobs: Jobs) -> None:  # noqa: F811
        self.jobs = jobs
        self.cluster = jobs.cluster
        self.put("login", (BUILD / "bin/hvdrun").read_bytes())

    def put(self, host: str, program: bytes) -> None:
        """Writes a program to the launcher's path on a host."""
        self.cluster.output("mkdir", "-p", Path(PATH).parent, on=host)
        file = self.cluster.root_of(host) / PATH.lstrip("/")
        file.write_bytes(program)
        file.chmod(0o755)

    def words(self, kind: str, hosts: str, *words: object) -> list[object]:
        """Returns a command that runs one rank on each of the hosts."""
        if kind == "srun":
            return ["salloc", "--quiet", "-w", hosts, PATH, "--ranks-per-host", 1, "--label", "none", *words]
        return [PATH, "--ssh-client", kind, "-H", ",".join(f"{host}:1" for host in hosts.split(",")), "--label", "none", *words]

    def run(self, kind: str, hosts: str, *words: object, cache: str = CACHE, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        return self.cluster.run(*before, *self.words(kind, hosts, *words), environment={"XDG_CACHE_HOME": cache})

    def start(self, kind: str, hosts: str, *words: object, cache: str = CACHE) -> subprocess.Popen:
        return self.cluster.start(*self.words(kind, hosts, *words), environment={"XDG_CACHE_HOME": cache}, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def files(self, host: str, cache: str = CACHE) -> list[Path]:
        """Returns the complete and partial files that were sent to the host."""
        folder = self.cluster.root_of(host) / cache.lstrip("/")
        return sorted(file for file in folder.glob("hvdrun/*/*") if file.name != "used")


@pytest.fixture
def launcher(jobs: Jobs) -> Iterator[Launcher]:  # noqa: F811
    launcher = Launcher(jobs)
    yield launcher
    for host in ("login", *launcher.cluster.hosts):
        launcher.cluster.output("rm", "-rf", Path(PATH).parent, CACHE, on=host, user="root")


def names_of_ranks(done: subprocess.CompletedProcess) -> list[str]:
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split())


def identity(file: Path) -> tuple[int, int]:
    return file.stat().st_ino, file.stat().st_mtime_ns


@pytest.mark.parametrize("kind", [pytest.param("libssh", marks=pytest.mark.gate), "openssh", pytest.param("srun", marks=pytest.mark.gate)])
def test_hvdrun_is_sent_once_to_hosts_that_lack_it(launcher: Launcher, kind: str) -> None:
    assert names_of_ranks(launcher.run(kind, "n1,n2", "hostname")) == ["n1", "n2"]
    got = {host: launcher.files(host) for host in ("n1", "n2")}
    for files in got.values():
        assert [file.name.partition(".")[0] for file in files] == ["agent"], got
        assert files[0].parent.stat().st_mode & 0o7777 == 0o700 and files[0].stat().st_mode & 0o7777 == 0o700
    before = {host: identity(files[0]) for host, files in got.items()}
    assert names_of_ranks(launcher.run(kind, "n1,n2", "hostname")) == ["n1", "n2"]
    assert {host: identity(files[0]) for host, files in got.items()} == before, "hvdrun was sent again"


@KINDS
def test_hvdrun_is_sent_once_to_hosts_that_share_a_home(launcher: Launcher, shared: Path, kind: str) -> None:
    cache = str(shared / "cache")
    assert names_of_ranks(launcher.run(kind, "n1,n2,n3,n4", "hostname", cache=cache)) == ["n1", "n2", "n3", "n4"]
    assert len(launcher.files("login", cache)) == 1


@KINDS
def test_a_host_with_another_version_gets_the_launchers_with_a_note(launcher: Launcher, kind: str) -> None:
    launcher.put("n1", other_version((BUILD / "bin/hvdrun").read_bytes()))
    done = launcher.run(kind, "n1", "hostname")
    assert names_of_ranks(done) == ["n1"]
    version = VERSION.decode()
    assert re.search(rf"hvdrun: note: n1: hvdrun there is version \d+\.\d+\.\d+, the launcher's is {re.escape(version)}; the launcher's was sent "
                     r"there \(install the same version on both\)\n", done.stderr), done.stderr
    done = launcher.run(kind, "n1", "hostname")
    assert names_of_ranks(done) == ["n1"] and "version" not in done.stderr, done.stderr


@KINDS
def test_another_version_at_the_agent_path_is_an_error(launcher: Launcher, kind: str) -> None:
    launcher.put("n1", other_version((BUILD / "bin/hvdrun").read_bytes()))
    done = launcher.run(kind, "n1", "--agent-path", PATH, "hostname")
    assert done.returncode == 125 and not launcher.files("n1"), done.stderr
    assert re.search(r"n1: .*hvdrun here is version \d\S+, the launcher's is \d\S+: install the same on both\n", done.stderr), done.stderr


@KINDS
def test_a_host_with_a_program_for_another_processor_gets_the_launchers(launcher: Launcher, kind: str) -> None:
    program = bytearray((BUILD / "bin/hvdrun").read_bytes())
    program[18] ^= 0xFF  # e_machine of the ELF header
    launcher.put("n1", bytes(program))
    assert names_of_ranks(launcher.run(kind, "n1", "hostname")) == ["n1"]


@KINDS
def test_a_host_with_another_processor_is_an_error_before_ranks_start(launcher: Launcher, kind: str) -> None:
    """setarch makes the launcher see a 32-bit machine."""
    launcher.put("n2", (BUILD / "bin/hvdrun").read_bytes())
    done = launcher.run(kind, "n1,n2", "touch", "/tmp/cache-started", before=("setarch", "i686"))
    assert done.returncode == 125 and not launcher.files("n1"), done.stderr
    assert "n1: hvdrun not found at /tmp/launcher/hvdrun; it has another kind of processor (x86_64) than the launcher (i686); " \
           "install hvdrun" in done.stderr, done.stderr
    assert not (launcher.cluster.root_of("n2") / "tmp/cache-started").exists()


@KINDS
@pytest.mark.parametrize("options, reason", [
    ("size=1m", "No space left on device"), ("noexec", r"its file system does not execute programs \(noexec\)"),
    ("ro", "Read-only file system")])
def test_the_error_names_a_cache_folder_that_cannot_hold_hvdrun(launcher: Launcher, kind: str, options: str, reason: str) -> None:
    launcher.cluster.output("mkdir", "-m", "755", CACHE, on="n1", user="root")
    launcher.cluster.output("mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "none", CACHE, on="n1", user="root")
    try:
        done = launcher.run(kind, "n1,n2", "hostname")
        assert done.returncode == 125, done.stderr
        assert re.search(rf"error: n1: hvdrun not found at {PATH}; hvdrun cannot be sent to {CACHE}/hvdrun/\S+ there: {reason}; "
                         r"set XDG_CACHE_HOME to another folder, or install hvdrun \S+ there\n", done.stderr), done.stderr
        assert not any(file.name.startswith("new") for file in launcher.files("n1"))
        assert names_of_ranks(launcher.run(kind, "n1", "hostname", cache="/tmp/launcher/cache")) == ["n1"]
    finally:
        launcher.cluster.output("umount", CACHE, on="n1", user="root")


@KINDS
def test_a_changed_file_in_the_cache_is_sent_again(launcher: Launcher, kind: str) -> None:
    assert names_of_ranks(launcher.run(kind, "n1", "hostname")) == ["n1"]
    [file] = launcher.files("n1")
    whole = file.read_bytes()
    file.write_bytes(b"#!/bin/sh\ntouch /tmp/cache/changed\n")
    assert names_of_ranks(launcher.run(kind, "n1", "hostname")) == ["n1"]
    assert file.read_bytes() == whole and not (launcher.cluster.root_of("n1") / "tmp/cache/changed").exists()


@KINDS
def test_a_cache_folder_of_another_user_is_an_error(launcher: Launcher, kind: str) -> None:
    assert names_of_ranks(launcher.run(kind, "n1", "hostname")) == ["n1"]
    [file] = launcher.files("n1")
    launcher.cluster.output("chown", "-R", "other", CACHE, on="n1", user="root")
    launcher.cluster.output("chmod", "-R", "755", CACHE, on="n1", user="root")
    before = identity(file)
    done = launcher.run(kind, "n1", "hostname")
    assert done.returncode == 125 and "there: the folder belongs to another user; remove it, or set XDG_CACHE_HOME" in done.stderr, done.stderr
    assert identity(file) == before


@KINDS
def test_parallel_launches_send_one_file_per_host(launcher: Launcher, kind: str) -> None:
    launches = [launcher.start("srun" if kind == "srun" else kind, "n1,n2", "hostname") for _ in range(3)]
    for launch in launches:
        code, out, err = finish(launch)
        assert code == 0 and sorted(out.split()) == ["n1", "n2"], err
    for host in ("n1", "n2"):
        assert [file.name.partition(".")[0] for file in launcher.files(host)] == ["agent"]


@CLIENTS
def test_a_partial_file_is_removed_after_the_launcher_is_killed(launcher: Launcher, client: str) -> None:
    launcher.cluster.slow("n1", "20mbit")
    launch = launcher.start(client, "n1", "hostname")
    wait_until(lambda: any(file.name.startswith("new") for file in launcher.files("n1")), "the transfer to begin")
    launcher.cluster.output("pkill", "-KILL", "-x", "hvdrun")
    assert finish(launch)[0] == -signal.SIGKILL
    wait_until(lambda: not launcher.files("n1"), "the partial file to be removed")
    launcher.cluster.slow("n1", "off")
    assert names_of_ranks(launcher.run(client, "n1", "hostname")) == ["n1"]


@CLIENTS
def test_a_kill_of_the_receiving_shell_is_an_error_and_the_next_launch_works(launcher: Launcher, client: str) -> None:
    launcher.cluster.slow("n1", "20mbit")
    launch = launcher.start(client, "n1", "hostname")
    wait_until(lambda: any(file.name.startswith("new") for file in launcher.files("n1")), "the transfer to begin")
    launcher.cluster.output("pkill", "-KILL", "-f", "^/bin/sh -c .*hvdrun cannot be sent", on="n1", user="root")
    code, _, err = finish(launch)
    assert code == 125 and "n1: hvdrun not found" in err, err
    launcher.cluster.slow("n1", "off")
    assert names_of_ranks(launcher.run(client, "n1", "hostname")) == ["n1"]
    assert sum(file.name.startswith("agent") for file in launcher.files("n1")) == 1


@KINDS
def test_ctrl_c_during_the_transfer_removes_the_partial_file(launcher: Launcher, kind: str) -> None:
    launcher.cluster.slow("n1", "20mbit")
    launch = launcher.start(kind, "n1", "hostname")
    wait_until(lambda: any(file.name.startswith("new") for file in launcher.files("n1")), "the transfer to begin")
    launcher.cluster.output("pkill", "-INT", "-x", "hvdrun")
    code, out, _ = finish(launch)
    assert code == 130 and not out
    if kind == "srun":
        return  # SLURM kills the shell, so the partial file stays for a day; freeing the slow host may take a minute
    wait_until(lambda: not launcher.files("n1"), "the partial file to be removed")
    launcher.cluster.slow("n1", "off")
    assert names_of_ranks(launcher.run(kind, "n1", "hostname")) == ["n1"]
    assert sum(file.name.startswith("agent") for file in launcher.files("n1")) == 1


@KINDS
def test_an_agent_that_was_sent_cleans_up_after_guard_and_agent_are_killed(launcher: Launcher, kind: str) -> None:
    job = launcher.start(kind, "n1,n2", "sleep", "7777")
    launcher.jobs.wait_for_ranks("n1", 1)
    launcher.jobs.wait_for_ranks("n2", 1)
    pids = [launcher.jobs.pid_of("n2", name) for name in ("hvdrun-agent", "hvd-guard")]
    launcher.cluster.kill_at_once("n2", pids)
    code, _, err = finish(job)
    assert code == 125, err
