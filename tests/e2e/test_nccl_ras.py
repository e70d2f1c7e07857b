"""What NCCL's RAS has counted: the rank that has not come to a collective is named although all wait for their GPUs.

GPUs, NCCL and RAS are doubles (ras_double.py).
"""
from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from asking import ask_until, end
from harness import PYTHON, Running, Sandbox, python_environment, wait_until
from test_elastic import on_two_hosts
from test_why import GPU, doubles, write

HERE = Path(__file__).parent
TRAIN = GPU.replace("import ctypes, os, time", "import ctypes, os, time; from ras_double import called").replace(
    "    nccl.ncclAllReduce(", '    called("AllReduce"); nccl.ncclAllReduce(')
ENDLESS = "ENDLESS(); cuda.cudaStreamSynchronize(None)"
NOT_COME = "rank 1 has not come to AllReduce 6 of the NCCL communicator of 3 ranks, "
NOTHING = "a GPU computes, or a rank has not come to a collective of the others"


@pytest.fixture
def address() -> Iterator[str]:
    """An address for RAS. The port is held; several sockets may listen at it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("localhost", 0))
        yield f"localhost:{holder.getsockname()[1]}"


def start(sandbox: Sandbox, address: str, does: str, body: str, *options: object) -> Running:
    environment = {**python_environment({"PYTHONPATH": str(HERE)}), **doubles(), "NCCL_RAS_ADDR": address,
                   "RAS_DOUBLE": does, "RAS_FOLDER": str(sandbox.files)}
    forwarded = [word for name in environment for word in ("-x", name)]
    job = sandbox.start("-np", 3, "--grace", "200ms", *forwarded, *options, PYTHON, write(sandbox, TRAIN, body), env=environment)
    wait_until(lambda: job.out.count(b"ready") == 3 or job.process.poll() is not None, "the ranks to begin")
    return job


@dataclass
class Row:
    does: str
    body: str
    words: tuple[str, ...]
    kind: str = "slow"
    blamed: tuple[int, ...] = (1,)


ROWS = {
    "all wait for their GPUs": Row("json", ENDLESS, (
        NOT_COME + "which 2 ranks have called; it is in train.py:15 other(), waiting for the GPU (cudaStreamSynchronize)",
        "the GPU computes, or is in a collective that another GPU has not reached")),
    "RAS knows no JSON": Row("text", ENDLESS, (NOT_COME + "which 2 ranks have called; it is in train.py:15 other()",)),
    "the rank sleeps": Row("json", "time.sleep(1000)", (NOT_COME + "for which 2 ranks wait; it is in train.py:15 other(), sleeping",), "hangs"),
    "the rank is in another collective": Row("json", 'called("Broadcast"); ' + ENDLESS, (
        "ranks 0,2 wait in AllReduce 6 of the NCCL communicator of 3 ranks", "rank 1 waits in Broadcast 1 of the NCCL communicator of 3 ranks",
        "they wait for each other"), "hangs", (0, 1, 2)),
    "a rank calls again and again": Row("json", "while True: called('Broadcast'); time.sleep(0.2)", (
        "2 ranks wait for their GPUs, in train.py:13 meet(); rank 1 is in train.py:15 other(), sleeping",), "hangs"),
    "all have called the same": Row("json", "called('AllReduce'); " + ENDLESS, (NOTHING,)),
}


@pytest.mark.parametrize("name", [name if name == "all wait for their GPUs" else pytest.param(name, marks=pytest.mark.slow) for name in ROWS])
def test_the_rank_that_has_not_come_is_named(name: str, sandbox: Sandbox, address: str) -> None:
    row = ROWS[name]
    job = start(sandbox, address, row.does, row.body)
    ask_until(job, row.words)
    hang = end(job)
    assert hang["blamed"] == list(row.blamed), hang
    assert hang["kind"] == row.kind, hang
    assert ("NCCL" in hang["text"]) == any("NCCL" in word for word in row.words), hang


@pytest.mark.slow
def test_a_rank_on_another_host_is_named(sandbox: Sandbox, address: str) -> None:
    """The agent of rank 0 asks, and RAS knows the process on the other host."""
    job = start(sandbox, address, "json", ENDLESS, *on_two_hosts(sandbox)[:-1], "localhost:1,other:2")
    ask_until(job, ("rank 1 on other has not come to AllReduce 6",))
    assert end(job)["blamed"] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("does", ["silent", "garbage", "closes", "endless", "none", "another job"])
def test_without_an_answer_of_the_job_the_verdict_is_what_it_was(does: str, sandbox: Sandbox, address: str) -> None:
    job = start(sandbox, address, "none" if does == "another job" else does, ENDLESS)
    other = None
    if does == "another job":
        code = "import ras_double, time; print(flush=True); time.sleep(1000)"
        other = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, env={
            **os.environ, "PYTHONPATH": str(HERE), "NCCL_RAS_ADDR": address, "RAS_DOUBLE": "json",
            "RAS_FOLDER": str(sandbox.files), "WORLD_SIZE": "2", "RANK": "0"})
        assert other.stdout is not None
        other.stdout.readline()
    try:
        assert "AllReduce" not in ask_until(job, (NOTHING,))
        assert "AllReduce" not in end(job)["text"]
    finally:
        if other is not None:
            other.kill()
            other.communicate()
