"""The switches do what they say."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from cluster import HERE, PYTHON, Cluster, wait_until
from settings import TIME_LIMIT_S

# What is sent to it comes back.
LISTENER = """
import socket
server = socket.create_server(("", 4000))
print("ready", flush=True)
connection, _ = server.accept()
while data := connection.recv(65536):
    connection.sendall(data)
"""

# Connects to a host's listener and says what becomes of the connection. Each line says how long to wait for an echo.
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
    """A TCP connection from the login host to another."""

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
        """What came back: echo, silence, closed or reset."""
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


def test_a_cut_host_hears_and_says_nothing_until_it_is_joined(cluster: Cluster) -> None:
    with Conversation(cluster, "n2") as conversation:
        cluster.cut("n2")
        assert conversation.say() == "silence"
        assert "state UP" in cluster.output("ip", "link", "show", "eth0", on="n2"), "the card keeps its link"
        cluster.join("n2")
        wait_until(lambda: conversation.say() == "echo", "the old connection goes on")


def test_a_killed_host_says_no_goodbye_and_comes_back_empty(cluster: Cluster) -> None:
    cluster.output("touch", "/tmp/mine", "/dev/shm/mine", on="n3")
    with Conversation(cluster, "n3") as conversation:
        cluster.kill("n3")
        assert cluster.status()["hosts"]["n3"]["state"] == "off"
        assert conversation.say() == "silence"
        assert "n3 is off" in cluster.run("true", on="n3").stderr
        cluster.power_on("n3")
        wait_until(lambda: conversation.say() in ("reset", "closed"), "the new host knows nothing of the connection")
    # Nothing but the way to the checkout, should that lie there.
    found = set(cluster.output("ls", "/tmp", "/dev/shm", on="n3").split())
    assert found <= {"/dev/shm:", "/tmp:", *HERE.parts}
    cluster.wait_idle()
    assert cluster.output("srun", "-w", "n3", "hostname") == "n3\n"


def test_a_frozen_host_stands_still_and_goes_on(cluster: Cluster) -> None:
    count = "import time\nn = 0\nwhile True:\n  n += 1\n  open('/dev/shm/n', 'w').write(str(n))\n  time.sleep(0.001)\n"
    with Conversation(cluster, "n1") as conversation, \
            cluster.start(PYTHON, "-c", count, on="n1") as counter:
        number = host_file(cluster, "n1", "/dev/shm/n")
        wait_until(lambda: number.exists(), "the counter counts")
        cluster.freeze("n1")
        before = number.read_text()
        assert conversation.say() == "silence"
        assert number.read_text() == before
        cluster.thaw("n1")
        wait_until(lambda: number.read_text() != before, "the counter goes on")
        wait_until(lambda: conversation.say() == "echo", "the connection goes on")
        counter.kill()


def host_file(cluster: Cluster, host: str, path: str) -> Path:
    """A file of a host, seen from outside, where nothing is frozen."""
    return cluster.root_of(host) / path.lstrip("/")


def test_nobody_on_a_frozen_host_can_tell(cluster: Cluster) -> None:
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


def test_what_was_stopped_before_stays_stopped(cluster: Cluster) -> None:
    with cluster.start("sh", "-c", "kill -STOP $$; echo on", on="n1", stdout=subprocess.PIPE) as process:
        stopped = ("sh", "-c", "ps -eo stat=,args= | grep '^T.*echo on'")
        wait_until(lambda: cluster.run(*stopped, on="n1").returncode == 0, "it has stopped itself")
        cluster.freeze("n1")
        cluster.thaw("n1")
        assert cluster.run(*stopped, on="n1").returncode == 0
        process.kill()


def test_a_slow_link_is_slow_both_ways(cluster: Cluster) -> None:
    def seconds(source: str, target: str) -> float:
        begin = time.monotonic()
        cluster.output("sh", "-c", f"head -c 200000 /dev/zero | ssh {target} 'cat >/dev/null'", on=source)
        return time.monotonic() - begin

    cluster.slow("n4", "1mbit")
    # 200,000 bytes are 1.6 Mbit, and the bucket holds 0.13: a lower bound, never an upper one.
    assert seconds("login", "n4") > 1
    assert seconds("n4", "login") > 1
    cluster.slow("n4", "off")
    assert "tbf" not in cluster.output("tc", "qdisc", on="n4", user="root")


def test_switches_are_commands_too(cluster: Cluster) -> None:
    assert switch(cluster, "n2", "cut").returncode == 0
    assert '"cut": true' in switch(cluster, "n2", "status").stdout
    assert switch(cluster, "n2", "join").returncode == 0
    assert '"cut": false' in switch(cluster, "n2", "status").stdout
    assert "no host 'n9'" in switch(cluster, "n9", "cut").stderr
    assert switch(cluster, "n2", "slow").returncode == 2


def test_healing_undoes_everything(cluster: Cluster) -> None:
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
