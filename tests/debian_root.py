"""Debian systems in folders (chroots), in which an ordinary user runs what is installed. Making one needs root and Debian's archive."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import TOP

USER = "1000:1000"
ROOT = "0:0"
HOMES = {USER: "home/user", ROOT: "root"}
BASES = TOP / "build-roots"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

# Mounts /proc, /sys and /dev/shm, and runs a command as the user with an empty environment.
ENTER = """\
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mkdir -p "$1/dev/shm"
mount -t tmpfs tmpfs "$1/dev/shm"
exec chroot --userspec="$2" "$1" /usr/bin/env -i "HOME=/$3" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "PATH=$4" sh -c "cd; $5"
"""


def run(words: Sequence[object], may_fail: bool = False, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command on this machine."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=3000, **options)
    assert may_fail or done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


@dataclass
class Root:
    """A system with an ordinary user. When a command ends, its remaining processes are killed."""

    place: Path
    path: str = SYSTEM_PATH  # of its commands

    @property
    def home(self) -> Path:
        return self.place / HOMES[USER]

    def run(self, *words: object, user: str = USER) -> subprocess.CompletedProcess[str]:
        line = " ".join(shlex.quote(str(word)) for word in words)
        return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh", self.place, user, HOMES[user],
                    self.path, line], may_fail=True)

    def lines(self, *words: object, user: str = USER) -> list[str]:
        done = self.run(*words, user=user)
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return sorted(done.stdout.splitlines())

    def install(self, *packages: object) -> None:
        """Installs packages without those that they recommend."""
        self.lines("apt-get", "update", "-q", user=ROOT)  # the base's package lists may be old
        self.lines("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages, user=ROOT)

    def give(self, *files: Path) -> list[str]:
        """Copies files into the system. Returns their paths there."""
        return ["/" + str(Path(shutil.copy(file, self.place / "tmp")).relative_to(self.place)) for file in files]


def base(release: str) -> Path:
    """Returns the minimal system of the release. The first call makes it, and each root begins as a copy of it."""
    place = BASES / release
    if not place.exists():
        partial = BASES / f"{release}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        BASES.mkdir(exist_ok=True)
        run(["debootstrap", "--variant=minbase", release, partial])
        for file in Path("/etc/apt/apt.conf.d").iterdir():
            if "proxy" in file.read_text().lower():
                shutil.copy(file, partial / "etc/apt/apt.conf.d")
        partial.rename(place)
    return place


def make_root(place: Path, release: str, *packages: str) -> Root:
    """Makes a copy of the minimal system of the release, and installs packages there."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    run(["cp", "-a", "--reflink=auto", base(release), place])
    shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
    made = Root(place)
    made.home.mkdir()
    os.chown(made.home, 1000, 1000)
    with (place / "etc/passwd").open("a") as users:
        users.write(f"user:x:1000:1000::/{HOMES[USER]}:/bin/sh\n")
    if packages:
        made.install(*packages)
    return made
