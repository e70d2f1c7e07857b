"""Runs a program of programs/ with ranks on several hosts. A host is a separate folder for shared memory on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from harness import TIME_LIMIT, python_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"


def run_on_hosts(hosts: str, tmp_path: Path, python: str, program: str, checks: tuple[str, ...]) -> None:
    """Runs a program with one rank for each letter of `hosts`; expects that it prints the names of all checks."""
    for host in hosts:
        (tmp_path / host).mkdir(mode=0o700, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        processes = []
        for rank, host in enumerate(hosts):
            own = {"HVD_RANK": str(rank), "HVD_SIZE": str(len(hosts)), "MASTER_ADDR": "127.0.0.1", "HVD_PORT": str(port),
                   "HVD_JOB_KEY": "5" * 64, "HVD_SHM_DIR": str(tmp_path / host), "HVD_HOSTNAME": host}
            if rank == 0:
                probe.close()
            processes.append(subprocess.Popen([python, PROGRAMS / program], env={**os.environ, **python_environment(), **own},
                                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        ended = [process.communicate(timeout=4 * TIME_LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    expected = "".join(f"check_{name}\n" for name in checks)
    for process, (out, err) in zip(processes, ended):
        assert (process.returncode, out) == (0, expected), err
