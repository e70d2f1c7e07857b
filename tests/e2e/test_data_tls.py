"""HVD_DATA_TLS=1 encrypts what libhvd sends between hosts. Ranks whose shared memory lies in different folders
are on different hosts to libhvd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import Sandbox, program

MARKER = "weights-of-a-secret-model"
SAYS_MARKER = program("say_marker")

# Starts SIZE ranks in a network namespace and captures its packets to FILE. Arguments: FILE SIZE COMMAND…
WATCH = """
import os, select, socket, subprocess, sys, threading
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.setsockopt(socket.SOL_SOCKET, 33, 128 << 20)  # SO_RCVBUFFORCE
wire.bind(("lo", 0))
wire.setblocking(False)
over = threading.Event()
def watch():
    with open(sys.argv[1], "wb") as file:
        while True:
            ready, _, _ = select.select([wire], [], [], 0.05)
            if ready:
                file.write(wire.recv(1 << 17))
            elif over.is_set():
                return
watcher = threading.Thread(target=watch)
watcher.start()
size = int(sys.argv[2])
ranks = [subprocess.Popen(sys.argv[3:], env={**os.environ, "HVD_RANK": str(rank), "HVD_SIZE": str(size)})
         for rank in range(size)]
codes = [rank.wait() for rank in ranks]
over.set()
watcher.join()
sys.exit(max(codes))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network namespace and capture its packets")
@pytest.mark.parametrize("tls", ["0", "1"], ids=["in the clear", "encrypted"])
def test_packets_show_the_data_of_ranks_only_without_tls(tmp_path: Path, sandbox: Sandbox, tls: str) -> None:
    seen = tmp_path / "seen"
    environment = {"HVD_DATA_TLS": tls, "HVD_JOB_KEY": "5" * 64, "HVD_JOB_ID": "wire", "MASTER_ADDR": "127.0.0.1",
                   "HVD_PORT": "29555", "HVD_SHM_DIR": str(tmp_path)}
    done = subprocess.run(["unshare", "--net", "/usr/bin/python3", "-c", WATCH, seen, "3", SAYS_MARKER, MARKER],
                          env=sandbox.environment(environment), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("came") == 3, done
    wire = seen.read_bytes()
    assert wire.count(b"hvdhail") >= 2, "the capture lacks the ranks' handshakes, so it missed their traffic"
    # Sent by the rendezvous, the bridge and the streams of a large allreduce.
    for marker in ("named-host-1", f"small:{MARKER}", f"large:{MARKER}"):
        assert (marker.encode() in wire) == (tls == "0"), marker


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_a_job_with_hvd_data_tls_connects_with_tls(sandbox: Sandbox, pmix: str) -> None:
    done = sandbox.run("-np", 3, "--pmix", pmix, "-x", "MASTER_ADDR=127.0.0.1", "-x", "HVD_DATA_TLS=1", "-x",
                       "HVD_VERBOSE=1", SAYS_MARKER, MARKER).expect(0)
    assert done.out.count(b"came") == 3, done
    assert "over TCP with TLS" in done.err_text, done


@pytest.mark.parametrize("others", ["0", "1"])
@pytest.mark.parametrize("pmix", ["on", "off"])
def test_ranks_with_different_hvd_data_tls_fail_with_an_error(sandbox: Sandbox, pmix: str, others: str) -> None:
    done = sandbox.run("-np", 3, "--pmix", pmix, "--grace", 20, "-x", "MASTER_ADDR=127.0.0.1", "-x",
                       f"HVD_DATA_TLS={others}", SAYS_MARKER, MARKER, "--differ", 1).expect(1)
    errors = [line for line in done.err_text.splitlines()
              if "HVD_DATA_TLS is 1 on rank" in line and "give all ranks the same" in line and line.startswith("[")]
    assert errors and "came" not in done.out_text, done


def test_hvd_data_tls_with_the_mpi_transport_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "-x", "HVD_DATA_TLS=1", "-x", "HVD_TRANSPORT=mpi", SAYS_MARKER, MARKER).expect(1)
    assert "HVD_DATA_TLS=1 and HVD_TRANSPORT=mpi: what goes over MPI cannot be encrypted" in done.err_text, done
