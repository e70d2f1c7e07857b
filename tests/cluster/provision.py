"""Fills the folders that the hosts see: /etc, keys, homes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from host_init import SERVICE_ENVIRONMENT, Layout
from settings import ROOT, USERS, Host, User, etc_files, known_hosts


def provision(cluster: str, hosts: list[Host], layout: Layout) -> None:
    layout.munge.mkdir()
    key = layout.inside / "munge.key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(128))
    write_etc(cluster, hosts, layout)
    public_keys = {host.name: make_host_key(host, layout) for host in hosts}
    (layout.etc / "ssh/ssh_known_hosts").write_text(known_hosts(public_keys, hosts))
    (layout.inside / "home").mkdir()
    for user in USERS:
        make_home(user, layout)


def write_etc(cluster: str, hosts: list[Host], layout: Layout) -> None:
    (layout.etc / "ssh/keys").mkdir(parents=True)  # mount point of each host's own keys
    (layout.etc / "slurm").mkdir()
    for name, (text, mode) in etc_files(hosts, cluster).items():
        (layout.etc / name).write_text(text)
        (layout.etc / name).chmod(mode)


def make_host_key(host: Host, layout: Layout) -> str:
    """Makes a host's folders and its SSH key; returns the public key."""
    layout.log(host.name).mkdir(parents=True)
    layout.keys(host.name).mkdir(parents=True, mode=0o700)
    return make_key(layout.keys(host.name) / "ssh_host_ed25519_key", host.name)


def make_home(user: User, layout: Layout) -> None:
    """Makes a home that all hosts share, with a key that all hosts accept. /root has mode 0711, because the checkout may lie
    in it."""
    home = layout.inside / user.home.lstrip("/")
    home.mkdir(mode=0o711 if user == ROOT else 0o700)
    (home / ".ssh").mkdir(mode=0o700)
    public_key = make_key(home / ".ssh/id_ed25519", user.name)
    (home / ".ssh/authorized_keys").write_text(f"{public_key}\n")
    for path in (home, *home.rglob("*")):
        os.chown(path, user.uid, user.uid)


def make_key(path: Path, comment: str) -> str:
    """Makes an SSH key; returns the public key in the format of known_hosts and authorized_keys."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path],
                   stdin=subprocess.DEVNULL, check=True, env=SERVICE_ENVIRONMENT)
    return Path(f"{path}.pub").read_text().strip()
