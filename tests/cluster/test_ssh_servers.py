"""Logins to ssh servers that close or delay connections, jump hosts, and unsuitable configurations of ssh."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from test_ssh import CLIENTS, Jobs, finish, jobs, pid_of_hvdrun, ssh_config  # noqa: F401, the fixture

# Closes the first N connections at once, like sshd beyond MaxStartups. Forwards later ones to the host's own server.
RELAY = """
import asyncio, sys
closed = 0
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def on_connection(reader, writer):
    global closed
    if closed < int(sys.argv[1]):
        closed += 1
        return writer.close()
    to_server, from_server = (await asyncio.open_connection("127.0.0.1", 22))[::-1]
    await asyncio.gather(copy(reader, to_server), copy(from_server, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(on_connection, port=2222)
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def server_that_closes(jobs: Jobs, connections: int) -> Iterator[None]:
    """Runs such a relay on port 2222 of n1."""
    server = jobs.cluster.start("/usr/bin/python3", "-c", RELAY, connections, on="n1", stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "listening\n"
        yield
    finally:
        server.kill()
        server.communicate()


@pytest.mark.gate
@CLIENTS
def test_a_login_is_tried_again_after_the_server_closes_the_connection(jobs: Jobs, client: str) -> None:
    with server_that_closes(jobs, 2), ssh_config(jobs, "UserKnownHostsFile ~/.ssh/none\n"):
        done = jobs.run("--ssh-client", client, "--label", "none", "--ssh-accept-new", "-H", "n1:1", "-p", 2222, "hostname")
    assert done.returncode == 0 and done.stdout == "n1\n", done.stderr


# Does not answer the first connection. Forwards later ones to the host's own server.
SILENT_AT_FIRST = RELAY.replace("        return writer.close()\n", "        return print('connected', flush=True)\n")


def test_a_login_continues_after_a_pause_of_hvdrun(jobs: Jobs) -> None:
    """The pause is longer than ssh's ConnectTimeout."""
    server = jobs.cluster.start("/usr/bin/python3", "-c", SILENT_AT_FIRST, 1, on="n1", stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "listening\n"
        with ssh_config(jobs, "UserKnownHostsFile ~/.ssh/none\nConnectTimeout 2\n"):
            job = jobs.start("--ssh-client", "libssh", "--ssh-accept-new", "-H", "n1:1", "-p", 2222, "true")
            assert server.stdout.readline() == "connected\n"
            hvdrun = pid_of_hvdrun(job)
            os.kill(hvdrun, signal.SIGSTOP)
            time.sleep(3)
            os.kill(hvdrun, signal.SIGCONT)
            code, _, err = finish(job)
    finally:
        server.kill()
        server.communicate()
    assert code == 0, err


@contextmanager
def jump_host(jobs: Jobs, options: str) -> Iterator[None]:
    """Runs a second sshd on port 2223 of the login host."""
    folder = "/run/jump"
    jobs.cluster.output("sh", "-c", f"mkdir -p {folder} && cp /etc/ssh/keys/ssh_host_ed25519_key {folder}/key && cat > {folder}/config && "
                        f"/usr/sbin/sshd -f {folder}/config", user="root",
                        input=f"Port 2223\nHostKey {folder}/key\nPidFile {folder}/pid\nUsePAM no\n{options}")
    try:
        yield
    finally:
        jobs.cluster.output("sh", "-c", f"kill $(cat {folder}/pid) && rm -r {folder}", user="root")


@pytest.mark.gate
def test_16_hosts_are_reached_through_a_jump_host_that_limits_logins(jobs: Jobs) -> None:
    """The server always closes logins beyond nine. sshd's default closes them at random."""
    names = [f"w{number}" for number in range(16)]
    config = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost jump\nHostName 127.0.0.1\nPort 2223\n"
    config += "".join(f"Host {name}\nHostName 10.80.0.{11 + number % 4}\nProxyJump jump\n" for number, name in enumerate(names))
    with jump_host(jobs, "MaxStartups 9:100:9\n"), ssh_config(jobs, config):
        done = jobs.run("--pmix", "off", "--label", "none", "-H", ",".join(f"{name}:1" for name in names), "hostname")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(["n1", "n2", "n3", "n4"] * 4)


@pytest.mark.gate
@CLIENTS
def test_ssh_settings_for_interactive_logins_do_not_break_a_job(jobs: Jobs, client: str) -> None:
    """These settings keep ssh from running a command and from forwarding its stdin."""
    settings = "RequestTTY yes\nRemoteCommand tmux attach\nStdinNull yes\nSessionType none\nForkAfterAuthentication yes\n"
    with ssh_config(jobs, f"Host n1\n{settings}"):
        done = jobs.run("--verbose", "--ssh-client", client, "--label", "none", "-H", "n1:1", "hostname")
    assert done.returncode == 0 and done.stdout == "n1\n", done.stderr
