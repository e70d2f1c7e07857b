"""The cluster's switches: cut, slow, freeze, kill, power on and heal."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from cluster import HERE, PYTHON, Cluster, wait_until
from settings import TIME_LIMIT_S

# An echo server.
LISTENER = """
import socket
server = socket.create_server(("", 4000))
print("ready", flush=True)
connection, _ = server.accept()
while data := connection.recv(65536):
    connection.sendall(data)
"""

# Connects to a host's echo server. For each line of stdin, a time limit, it sends data and prints the outcome.
TALKER = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 4000))
for line in sys.stdin:
    connection.settimeout(float(line))
    try:
        connection.sendall(line.encode())
        print("echo" if connection.recv(100) else "closed", flush=True)
    except TimeoutError:
        print("silence", flush=True)
    except ConnectionError:
        print("reset", flush=True)
"""


class Conversation:
    """A TCP connection from the login host to an echo server on another host."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        self._ends: list[subprocess.Popen] = []
        self._listener = self._start(cluster, LISTENER, on=host)
        assert self._listener.stdout.readline() == "ready\n"
        self._talker = self._start(cluster, TALKER, host)
        assert self.say(TIME_LIMIT_S) == "echo"

    def _start(self, cluster: Cluster, program: str, *arguments: str, on: str = "login") -> subprocess.Popen:
        process = cluster.start(PYTHON, "-c", program, *arguments, on=on, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        self._ends.append(process)
        return process

    def say(self, limit_s: float = 1.0) -> str:
        """Sends data; returns the outcome: echo, silence, closed or reset."""
        self._talker.stdin.write(f"{limit_s}\n")
        self._talker.stdin.flush()
        return self._talker.stdout.readline().strip()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._ends:
            process.kill()
            process.communicate()


def switch(cluster: Cluster, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([PYTHON, HERE / "host", "--name", cluster.name, *words], capture_output=True, text=True)


def test_cut_drops_packets_until_join_and_keeps_connections(cluster: Cluster) -> None:
    with Conversation(cluster, "n2") as conversation:
        cluster.cut("n2")
        assert conversation.say() == "silence"
        assert "state UP" in cluster.output("ip", "link", "show", "eth0", on="n2"), "the network card has lost its link"
        cluster.join("n2")
        wait_until(lambda: conversation.say() == "echo", "the old connection to work again")


def test_kill_closes_no_connection_and_power_on_boots_an_empty_host(cluster: Cluster) -> None:
    cluster.output("touch", "/tmp/mine", "/dev/shm/mine", on="n3")
    with Conversation(cluster, "n3") as conversation:
        cluster.kill("n3")
        assert cluster.status()["hosts"]["n3"]["state"] == "off"
        assert conversation.say() == "silence"
        assert "n3 is off" in cluster.run("true", on="n3").stderr
        cluster.power_on("n3")
        wait_until(lambda: conversation.say() in ("reset", "closed"), "the new host to reset the unknown connection")
    # These folders may have the path of the checkout.
    found = set(cluster.output("ls", "/tmp", "/dev/shm", on="n3").split())
    assert found <= {"/dev/shm:", "/tmp:", *HERE.parts}
    cluster.wait_idle()
    assert cluster.output("srun", "-w", "n3", "hostname") == "n3\n"


def test_freeze_stops_all_processes_of_a_host_and_thaw_continues_them(cluster: Cluster) -> None:
    count = "import time\nn = 0\nwhile True:\n  n += 1\n  open('/dev/shm/n', 'w').write(str(n))\n  time.sleep(0.001)\n"
    with Conversation(cluster, "n1") as conversation, \
            cluster.start(PYTHON, "-c", count, on="n1") as counter:
        number = host_file(cluster, "n1", "/dev/shm/n")
        wait_until(lambda: number.exists(), "the counter to start")
        cluster.freeze("n1")
        before = number.read_text()
        assert conversation.say() == "silence"
        assert number.read_text() == before
        cluster.thaw("n1")
        wait_until(lambda: number.read_text() != before, "the counter to continue")
        wait_until(lambda: conversation.say() == "echo", "the connection to work again")
        counter.kill()


def host_file(cluster: Cluster, host: str, path: str) -> Path:
    """Returns this machine's path of a file of a host, which works while the host is frozen."""
    return cluster.root_of(host) / path.lstrip("/")


def test_a_parent_on_a_frozen_host_does_not_see_its_child_stop(cluster: Cluster) -> None:
    parent = ("import os, time\npid = os.fork()\n"
              "if pid == 0:\n  os.close(1)\n  time.sleep(3600)\n"
              "print('ready', flush=True)\n"
              "while True:\n  print(os.waitpid(pid, os.WUNTRACED), flush=True)\n")
    with cluster.start(PYTHON, "-c", parent, on="n1", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        for _ in range(5):
            cluster.freeze("n1")
            cluster.thaw("n1")
        process.kill()
        assert process.communicate()[0] == ""


def test_thaw_does_not_continue_processes_that_were_stopped_before(cluster: Cluster) -> None:
    with cluster.start("sh", "-c", "kill -STOP $$; echo on", on="n1", stdout=subprocess.PIPE) as process:
        stopped = ("sh", "-c", "ps -eo stat=,args= | grep '^T.*echo on'")
        wait_until(lambda: cluster.run(*stopped, on="n1").returncode == 0, "the process to stop itself")
        cluster.freeze("n1")
        cluster.thaw("n1")
        assert cluster.run(*stopped, on="n1").returncode == 0
        process.kill()


def test_slow_limits_the_rate_both_ways(cluster: Cluster) -> None:
    def seconds(source: str, target: str) -> float:
        begin = time.monotonic()
        cluster.output("sh", "-c", f"head -c 200000 /dev/zero | ssh {target} 'cat >/dev/null'", on=source)
        return time.monotonic() - begin

    cluster.slow("n4", "1mbit")
    # 200,000 bytes are 1.6 Mbit, and the token bucket holds 0.13 Mbit. Only the lower bound is asserted.
    assert seconds("login", "n4") > 1
    assert seconds("n4", "login") > 1
    cluster.slow("n4", "off")
    assert "tbf" not in cluster.output("tc", "qdisc", on="n4", user="root")


def test_the_host_command_operates_the_switches(cluster: Cluster) -> None:
    assert switch(cluster, "n2", "cut").returncode == 0
    assert '"cut": true' in switch(cluster, "n2", "status").stdout
    assert switch(cluster, "n2", "join").returncode == 0
    assert '"cut": false' in switch(cluster, "n2", "status").stdout
    assert "no host 'n9'" in switch(cluster, "n9", "cut").stderr
    assert switch(cluster, "n2", "slow").returncode == 2


def test_heal_undoes_all_switches_jobs_and_kills(cluster: Cluster) -> None:
    cluster.output("sbatch", "-N4", "--output=/dev/null", input="#!/bin/sh\ntrap '' TERM\nsleep 1000\n")
    cluster.freeze("n1")
    cluster.cut("n1")
    cluster.slow("n2", "1mbit")
    cluster.kill("n3")
    cluster.output("pkill", "slurmd", on="n4", user="root")
    cluster.output("sh", "-c", "setsid sleep 4243 >/dev/null 2>&1 &", on="n2")
    cluster.heal()
    assert all(host == {"state": "on", "cut": False, "rate": ""} for host in cluster.status()["hosts"].values())
    assert cluster.run("pgrep", "-f", "sleep 4243", on="n2").returncode == 1
    assert len(cluster.output("srun", "-N4", "hostname").split()) == 4
