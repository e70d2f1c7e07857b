"""Aliases of ssh, several names of one host, and --network-interface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from test_ssh import Jobs, jobs, ssh_config  # noqa: F401, the fixture

ADDRESS = "echo $HVD_HOSTNAME $MASTER_ADDR $(getent ahosts $MASTER_ADDR > /dev/null || echo unknown)"
ALIASES = "".join(f"Host w{number}\nHostName 10.80.0.1{number}\nHostKeyAlias n{number}\n" for number in (1, 2))


@pytest.mark.gate
def test_master_addr_is_an_address_if_the_host_name_is_an_ssh_alias(jobs: Jobs) -> None:
    with ssh_config(jobs, ALIASES):
        done = jobs.run("--label", "none", "-H", "w1:1,w2:1", "sh", "-c", ADDRESS)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["w1 10.80.0.11", "w2 10.80.0.11"]
    assert jobs.run("--label", "none", "-H", "n1:1,n2:1", "sh", "-c", ADDRESS).stdout.count("n1\n") == 2, "a name was replaced"


@pytest.mark.gate
def test_tf_config_has_addresses_for_ssh_aliases(jobs: Jobs) -> None:
    with ssh_config(jobs, ALIASES):
        done = jobs.run("--label", "none", "--for", "tensorflow", "-H", "n3:1,w2:1", "sh", "-c", "echo $TF_CONFIG")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r'"worker": ?\["n3:\d+", ?"10.80.0.12:\d+"\]', done.stdout)) == 2, done.stdout


@contextmanager
def login_name_unknown_on(jobs: Jobs, host: str) -> Iterator[None]:
    """Keeps `host` from resolving the name of the login host, on which hvdrun runs."""
    jobs.cluster.output("sh", "-c", "grep -v login /etc/hosts > /run/hosts; mount --bind /run/hosts /etc/hosts", on=host, user="root")
    try:
        yield
    finally:
        jobs.cluster.output("umount", "/etc/hosts", on=host, user="root")


@pytest.mark.gate
def test_master_addr_is_an_address_if_a_host_cannot_resolve_the_launchers_name(jobs: Jobs) -> None:
    with login_name_unknown_on(jobs, "n1"):
        done = jobs.run("--label", "none", "-H", "login:1,n1:1", "sh", "-c", ADDRESS)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["login 10.80.0.1", "n1 10.80.0.1"]


@pytest.mark.gate
def test_two_names_of_one_host_share_its_slots(jobs: Jobs) -> None:
    done = jobs.run("--label", "none", "-H", "n1:2,10.80.0.11:1,n2:1", "sh", "-c", "echo $(hostname) $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["n1 0 0/3", "n1 1 1/3", "n1 2 2/3", "n2 3 0/1"]
    assert "n1 and 10.80.0.11 are names of one host: it has 3 slots" in done.stderr, done.stderr


@pytest.mark.gate
def test_an_ssh_alias_of_the_launchers_host_is_the_same_host(jobs: Jobs) -> None:
    """Only ssh can resolve the alias."""
    with ssh_config(jobs, "Host here\nHostName 127.0.0.1\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"):
        done = jobs.run("--label", "none", "-H", "login:1,here:1", "sh", "-c", "echo $LOCAL_RANK/$LOCAL_WORLD_SIZE")
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["0/2", "1/2"], done.stdout + done.stderr


@pytest.mark.gate
def test_network_interface_is_chosen_on_each_host_and_must_exist(jobs: Jobs) -> None:
    show = "echo $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $OMPI_MCA_btl_tcp_if_include $HVD_INTERFACE"
    done = jobs.run("--label", "none", "--network-interface", "^docker,lo", "-H", "n1:1,n2:1", "sh", "-c", show)
    assert done.returncode == 0 and done.stdout.splitlines() == ["^docker,lo eth0 eth0 eth0"] * 2, done.stdout + done.stderr
    jobs.cluster.output("ip", "link", "add", "only0", "type", "veth", "peer", "name", "only1", on="n1", user="root")
    try:
        jobs.cluster.output("sh", "-c", "ip address add 192.0.2.1/24 dev only0; ip link set only0 up; ip link set only1 up", on="n1", user="root")
        done = jobs.run("--network-interface", "only0", "-H", "n1:1,n2:1", "echo", "ran")
    finally:
        jobs.cluster.output("ip", "link", "delete", "only0", on="n1", user="root")
    assert done.returncode == 2 and "ran" not in done.stdout, done.stderr
    assert "n2 has no network interface only0 (--network-interface); it has lo, eth0" in done.stderr, done.stderr
    done = jobs.run("--network-interface", "lo", "-H", "n1:1,n2:1", "echo", "ran")
    assert done.returncode == 2 and "ran" not in done.stdout, done.stderr
    assert "--network-interface lo: lo reaches no other host; n1 has lo, eth0" in done.stderr, done.stderr
