"""Jobs on hosts whose own name resolves to 127.0.1.1 (Debian's default), with docker0, or without IPv4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from cluster import Cluster
from framework_cases import BY_NAME, Case, parameters
from harness import BUILD
from settings import TIME_LIMIT_S, hosts_of
from test_ssh import NEEDS_IPV6, Jobs, jobs  # noqa: F401, the fixture

HELLO = BUILD / "bin/examples/hello"
ALLREDUCE = BUILD / "bin/tests/mpi_allreduce"
HOSTS = {host.name: host for host in hosts_of(2)}  # the login host, n1 and n2


@contextmanager
def hosts_file(cluster: Cluster, host: str, text: str) -> Iterator[None]:
    cluster.output("sh", "-c", "cat > /run/hosts && mount --bind /run/hosts /etc/hosts", on=host, user="root", input=text)
    try:
        yield
    finally:
        cluster.output("umount", "/etc/hosts", on=host, user="root")


@pytest.fixture
def own_name_is_loopback(jobs: Jobs) -> Iterator[Jobs]:  # noqa: F811
    with ExitStack() as stack:
        for own in HOSTS:
            lines = ["127.0.0.1 localhost", f"127.0.1.1 {own}.example.org {own}",
                     *(f"{host.address} {name}" for name, host in HOSTS.items() if name != own)]
            stack.enter_context(hosts_file(jobs.cluster, own, "\n".join(lines) + "\n"))
        yield jobs


@contextmanager
def without_ipv4(cluster: Cluster, host: str) -> Iterator[None]:
    cluster.output("ip", "-4", "address", "flush", "dev", "eth0", on=host, user="root")
    try:
        yield
    finally:
        cluster.output("ip", "address", "add", f"{HOSTS[host].address}/24", "dev", "eth0", on=host, user="root")


@pytest.fixture
def ipv6_only(jobs: Jobs) -> Iterator[Jobs]:  # noqa: F811
    names = "\n".join(["::1 localhost", *(f"{host.address6} {name}" for name, host in HOSTS.items())]) + "\n"
    with ExitStack() as stack:
        for own in HOSTS:
            stack.enter_context(hosts_file(jobs.cluster, own, names))
            stack.enter_context(without_ipv4(jobs.cluster, own))
        yield jobs


def expect_hello(jobs: Jobs, *options: object) -> None:  # noqa: F811
    done = jobs.run("--label", "none", *options, HELLO)
    assert done.returncode == 0 and "the ranks add up to 1" in done.stdout, f"{done.stdout}\n{done.stderr}"


def expect_program(jobs: Jobs, case: Case, *options: object) -> None:  # noqa: F811
    done = jobs.run(*options, *case.words(), environment=case.variables("/tmp"), timeout=3 * TIME_LIMIT_S)
    assert done.returncode == 0, done.stderr
    case.expect_both_ranks(done.stdout, f"{done.stdout}\n{done.stderr}")


PLACES = pytest.mark.parametrize("hosts", ["n1:1,n2:1", "login:1,n1:1"])


def programs(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", parameters([BY_NAME[name] for name in names]))


@PLACES
@pytest.mark.parametrize("pmix", ["auto", "off"])
def test_libhvd_connects_hosts_whose_own_name_is_loopback(own_name_is_loopback: Jobs, hosts: str, pmix: str) -> None:
    expect_hello(own_name_is_loopback, "-H", hosts, "--pmix", pmix)


@PLACES
def test_mpi_connects_hosts_whose_own_name_is_loopback(own_name_is_loopback: Jobs, hosts: str) -> None:
    done = own_name_is_loopback.run("--label", "none", "-H", hosts, ALLREDUCE)
    assert done.returncode == 0 and done.stdout.count("of 2: sum 3") == 2, f"{done.stdout}\n{done.stderr}"


# JAX is left out: on CPUs it uses gloo too, but it has no variable for the interface.
@PLACES
@programs("torch_ddp", "tensorflow_workers")
def test_frameworks_connect_hosts_whose_own_name_is_loopback(own_name_is_loopback: Jobs, case: Case, hosts: str) -> None:
    """By default gloo gives other ranks the address of its host's own name."""
    expect_program(own_name_is_loopback, case, "-H", hosts)


@pytest.mark.gate
def test_gloo_socket_ifname_of_the_user_is_kept(own_name_is_loopback: Jobs) -> None:
    show = ("--label", "none", "-H", "n1:1,n2:1", "sh", "-c", "echo ${GLOO_SOCKET_IFNAME-unset}")
    assert own_name_is_loopback.run(*show).stdout == "eth0\neth0\n"
    assert own_name_is_loopback.run("-x", "GLOO_SOCKET_IFNAME=lo", *show).stdout == "lo\nlo\n"
    assert own_name_is_loopback.run("-np", 1, *show).stdout == "unset\n", "GLOO_SOCKET_IFNAME is set on a single host"


@pytest.fixture
def with_docker0(jobs: Jobs) -> Iterator[Jobs]:  # noqa: F811
    """n1 and n2 have docker0 with the same address; it connects them to no other host."""
    with ExitStack() as stack:
        for host in ("n1", "n2"):
            for words in ("link add docker0 type veth peer name docker0p", "link set docker0p up", "address add 172.17.0.1/16 dev docker0",
                          "link set docker0 up"):
                jobs.cluster.output("ip", *words.split(), on=host, user="root")
            stack.callback(jobs.cluster.output, "ip", "link", "delete", "docker0", on=host, user="root")
        yield jobs


@pytest.mark.gate
def test_mpi_excludes_interfaces_with_the_same_address_on_each_host(with_docker0: Jobs) -> None:
    """By default Open MPI's ranks would connect to their own host."""
    done = with_docker0.run("--label", "none", "-H", "n1:1,n2:1", ALLREDUCE)
    assert done.returncode == 0 and done.stdout.count("of 2: sum 3") == 2, f"{done.stdout}\n{done.stderr}"
    show = ("--label", "none", "-H", "n1:1,n2:1", "sh", "-c", "echo ${OMPI_MCA_btl_tcp_if_exclude-unset}")
    assert with_docker0.run(*show).stdout == "127.0.0.1/8,sppp,docker0\n" * 2
    assert with_docker0.run("-x", "OMPI_MCA_btl_tcp_if_include=eth0", *show).stdout == "unset\n" * 2


@NEEDS_IPV6
@pytest.mark.parametrize("hosts", ["n1:1,n2:1", "login:1,n1:1", "[fd80::11]:1,[fd80::12]:1"])
@pytest.mark.parametrize("pmix", ["auto", "off"])
def test_libhvd_connects_hosts_without_ipv4(ipv6_only: Jobs, hosts: str, pmix: str) -> None:
    expect_hello(ipv6_only, "-H", hosts, "--pmix", pmix)


@NEEDS_IPV6
@pytest.mark.parametrize("hosts", ["n1:1,n2:1", "login:1,n1:1", "[fd80::11]:1,[fd80::12]:1"])
@programs("torch_ddp", "jax_gather", "tensorflow_workers")
def test_frameworks_connect_hosts_without_ipv4(ipv6_only: Jobs, case: Case, hosts: str) -> None:
    expect_program(ipv6_only, case, "-H", hosts)
