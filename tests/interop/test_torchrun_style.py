"""Programs for torchrun run under hvdrun: rank 0 listens on MASTER_PORT, and the others connect to MASTER_ADDR."""

from __future__ import annotations

import pytest

from harness import BUILD, PYTHON, Sandbox

# As torch's TCPStore: rank 0 sets SO_REUSEADDR, binds to all interfaces and listens. The others connect again until it listens.
STORE = """
import os, socket, sys
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    family = socket.AF_INET6 if {ipv6} else socket.AF_INET
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", address[1]))
    server.listen(128)
    peers = [server.accept()[0] for _ in range(size - 1)]
    seen = sorted(int(peer.makefile().readline()) for peer in peers)
    print("rank 0 met", seen)
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    peer.sendall(f"{{rank}}\\n".encode())
    peer.recv(1)  # until rank 0 has left
"""


@pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "dual stack"])
def test_rank_0_can_listen_on_the_master_port_and_the_others_connect(sandbox: Sandbox, ipv6: bool) -> None:
    done = sandbox.run("-np", 4, "--label", "none", PYTHON, "-c", STORE.format(ipv6=ipv6)).expect(0)
    assert done.out == b"rank 0 met [1, 2, 3]\n"


def test_concurrent_jobs_have_different_master_ports(sandbox: Sandbox) -> None:
    jobs = [sandbox.start("-np", 3, "--label", "none", PYTHON, "-c", STORE.format(ipv6=False)) for _ in range(4)]
    for job in jobs:
        assert job.wait().expect(0).out == b"rank 0 met [1, 2]\n"


def test_the_ports_of_a_job_stay_reserved_while_it_runs(sandbox: Sandbox) -> None:
    """The kernel does not give a reserved port to a program that asks for any free port."""
    script = ("import os, socket\n"
              "for name in ('MASTER_PORT', 'HVD_PORT'):\n"
              "    try:\n"
              "        socket.socket().bind(('', int(os.environ[name])))\n"
              "        print(name, 'free')\n"
              "    except OSError:\n"
              "        print(name, 'held')\n")
    assert sandbox.run("-np", 1, PYTHON, "-c", script).expect(0).out == b"MASTER_PORT held\nHVD_PORT held\n"


TAKE_PORTS = """
import os, socket, sys
taken = []
for port in range(int(os.environ["MASTER_PORT"]) + 1, int(os.environ["MASTER_PORT"]) + 65):
    server = socket.socket()
    try:
        server.bind(("", port))
        server.listen()
    except OSError:
        continue  # another process has it
    server.set_inheritable(True)
    taken.append(server)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("launcher", ["hvdrun", "torchrun"])
def test_a_program_may_take_the_ports_after_the_master_port(sandbox: Sandbox, launcher: str) -> None:
    """Megatron-LM's in-process restart takes the next two. Without PMIx, the ranks of libhvd meet at a port of their own."""
    own = ["env", "-u", "HVD_PORT"] if launcher == "torchrun" else []
    done = sandbox.run("-np", 2, "--pmix", "off", "--label", "none", *own, PYTHON, "-c", TAKE_PORTS,
                       BUILD / "bin/examples/hello").expect(0)
    assert "the ranks add up to 1" in done.out_text, done


def test_master_addr_and_master_port_of_the_user_are_kept(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29611", "sh", "-c",
                       "echo $MASTER_ADDR:$MASTER_PORT").expect(0)
    assert done.out == b"127.0.0.1:29611\n"
