"""Debian systems in folders, in which a user runs what is installed. Making one needs root and Debian's archive."""

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

# Enters the system and runs a command as the user with an empty environment. The folder becomes the root of the mounts: what
# enters the mounts of another process, as tests/cluster does, would leave a chroot. $6, $7: a folder that it sees, and where.
ENTER = """\
mount --bind "$1" "$1"
cd "$1"
mkdir -p proc sys dev/pts dev/shm
mount -t proc proc proc
mount --rbind /sys sys
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
[ -e dev/fuse ] || mknod -m 666 dev/fuse c 10 229
if [ -n "$6" ]; then
  mkdir -p "./$7"
  mount --bind "$6" "./$7"
fi
mount --move . /
exec chroot --userspec="$2" . /usr/bin/env -i "HOME=/$3" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "PATH=$4" sh -c "cd; $5"
"""
# What this machine needs to reach the archives of packages, and other machines.
REACH = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "usr/local/share/ca-certificates/*.crt")


def run(words: Sequence[object], may_fail: bool = False, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command on this machine."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=3000, **options)
    assert may_fail or done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


@dataclass
class Root:
    """A system with an ordinary user. When a command ends, its remaining processes are killed."""

    place: Path
    path: str = SYSTEM_PATH  # PATH of its commands
    seen: tuple[Path, str] | None = None  # a folder of this machine that it sees, and its path there

    @property
    def home(self) -> Path:
        return self.place / HOMES[USER]

    def run(self, *words: object, user: str = USER) -> subprocess.CompletedProcess[str]:
        return run(self.entering(" ".join(shlex.quote(str(word)) for word in words), user), may_fail=True)

    def entering(self, line: str, user: str = USER) -> list[str]:
        """Returns the command of this machine that runs a line of shell in the user's home there."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh", str(self.place), user, HOMES[user],
                self.path, line, *map(str, self.seen or ("", ""))]

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
        # In its own mounts: debootstrap may leave /proc mounted, which each copy would copy.
        run(["unshare", "--mount", "debootstrap", "--variant=minbase", release, partial])
        for file in Path("/etc/apt/apt.conf.d").iterdir():
            if "acquire::" in file.read_text().lower():
                shutil.copy(file, partial / "etc/apt/apt.conf.d")
        partial.rename(place)
    return place


def make_root(place: Path, release: str, *packages: str) -> Root:
    """Makes a copy of the minimal system of the release, and installs packages there."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    run(["cp", "-a", "--reflink=auto", "--one-file-system", base(release), place])
    for pattern in REACH:
        for file in Path("/").glob(pattern):
            (place / file.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place / file.relative_to("/"))
    made = Root(place)
    made.home.mkdir()
    os.chown(made.home, 1000, 1000)
    with (place / "etc/passwd").open("a") as users:
        users.write(f"user:x:1000:1000::/{HOMES[USER]}:/bin/sh\n")
    if packages:
        made.install(*packages)
    return made
