"""The hosts of a job from -H, hostfiles and SLURM's variables, mostly shown by --dry-run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import HOSTNAME, HVDRUN, Sandbox

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_NUM_NODES": "4", "SLURM_GPUS_PER_NODE": "a100:2",
       "SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "1(x4)"}


def plan(sandbox: Sandbox, *arguments: object, **more: object) -> dict:
    """Returns the JSON of --dry-run, and adds the ranks of each host as "where"."""
    done = sandbox.run("--dry-run", "--json", *arguments, "true", **more).expect(0)
    found = json.loads(done.out)
    found["where"] = {host["host"]: [rank["rank"] for rank in host["ranks"]] for host in found["hosts"]}
    return found


def hostfile(sandbox: Sandbox, text: str) -> Path:
    path = sandbox.files / "hosts"
    path.write_text(text)
    return path


def test_dry_run_places_ranks_on_other_hosts(sandbox: Sandbox) -> None:
    assert plan(sandbox, "-H", "n[1-2]:2,n3:1")["where"] == {"n1": [0, 1], "n2": [2, 3], "n3": [4]}
    assert plan(sandbox, "-H", "n[1-2]:2,n3:1", "--map-by", "node")["where"] == {"n1": [0, 3], "n2": [1, 4], "n3": [2]}
    assert plan(sandbox, "-H", "n[1-4]:2", "--nnodes", 2, "-np", 2)["where"] == {"n1": [0], "n2": [1]}
    assert plan(sandbox, "-H", "n[1-4]:1", "--exclude", "n[2-3]")["where"] == {"n1": [0], "n4": [1]}


def test_ranks_are_placed_on_the_hosts_of_a_hostfile(sandbox: Sandbox) -> None:
    path = hostfile(sandbox, "# two hosts\nn1 slots=2\n\nn2:1\n")
    found = plan(sandbox, "--hostfile", path)
    assert found["source"] == str(path) and found["where"] == {"n1": [0, 1], "n2": [2]}
    assert all(host["provisional"] for host in found["hosts"])


def test_ranks_run_with_a_hostfile_of_this_host(sandbox: Sandbox) -> None:
    path = hostfile(sandbox, f"localhost slots=1\n{HOSTNAME} slots=1\n")
    done = sandbox.run("--hostfile", path, "sh", "-c", "echo $HVD_HOSTNAME").expect(0)
    assert sorted(done.out_lines) == [f"[{rank}] {HOSTNAME}" for rank in (0, 1)]


def test_a_hostfile_may_be_a_pipe(sandbox: Sandbox) -> None:
    done = sandbox.run("-c", 'printf "n1\\nn1\\n" | "$0" --dry-run --hostfile /dev/stdin true', HVDRUN,
                       tool="/bin/sh").expect(0)
    assert "named 2 times" in done.out_text


def test_dry_run_prints_ten_thousand_equal_hosts_as_one_range(sandbox: Sandbox) -> None:
    path = hostfile(sandbox, "".join(f"n{number} slots=8\n" for number in range(10000)))
    done = sandbox.run("--dry-run", "--hostfile", path, "true").expect(0)
    assert "80000 ranks on 10000 hosts" in done.out_text and "n[0-9999]" in done.out_text
    assert len(done.out_lines) < 10


@pytest.mark.parametrize("text, message", [
    ("n1 slots=4\nn2 slots=many\n", "hosts:2:"), ("n1 slots=0\n", "hosts:1:"), ("", "there is no host in it"),
    ("n1:4\nn1\n", "hosts:2: n1"), ("n[1-1000000]\n", "65536"), ("n1\0\n", "not a hostfile"),
])
def test_the_error_for_a_bad_hostfile_names_file_and_line(sandbox: Sandbox, text: str, message: str) -> None:
    done = sandbox.run("--hostfile", hostfile(sandbox, text), "true").expect(2)
    assert message in done.err_text and done.err.count(b"\n") == 1


@pytest.mark.parametrize("path", [".", "missing", "/dev/null"])
def test_a_hostfile_that_is_missing_or_no_file_is_an_error(sandbox: Sandbox, path: str) -> None:
    assert path in sandbox.run("--hostfile", path, "true").expect(2).err_text


def test_dry_run_lists_hosts_whose_slots_are_unknown(sandbox: Sandbox) -> None:
    found = plan(sandbox, "-H", "n[1-2]")
    assert found["to_ask"] == ["n1", "n2"] and found["hosts"] == [] and found["size"] == 0


def test_hosts_with_the_same_error_share_one_line(sandbox: Sandbox) -> None:
    done = sandbox.run("-H", "n[1-3].invalid", "true").expect(125)
    assert [line for line in done.err_text.splitlines() if "there is no such name" in line] == [
        "hvdrun: error: n[1-3].invalid: there is no such name; check -H or the hostfile (Could not resolve hostname n1.invalid: "
        "Name or service not known)"], done
    assert "could not start on n[1-3].invalid; exit code 125" in done.err_text and not done.survivors


def test_a_missing_ssh_program_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-H", "n1,n2", "--ssh-program", "./no-ssh", "true").expect(125)
    assert "n[1-2]: cannot start ./no-ssh: No such file or directory" in done.err_text, done


def test_a_slurm_job_is_read_from_variables_on_a_login_host(sandbox: Sandbox) -> None:
    found = plan(sandbox, env=JOB)
    assert found["source"] == "SLURM job 7" and found["size"] == 8
    assert found["where"]["n4"] == [6, 7]
    assert any("1 task" in note and "n[1-4]" in note for note in found["notes"])
    done = sandbox.run("true", env={**JOB, "SLURM_JOB_NODELIST": "n[1-4].invalid"}).expect(125)
    assert "could not start on n[1-4].invalid" in done.err_text


def test_hosts_of_the_command_line_are_a_choice_in_a_slurm_job(sandbox: Sandbox) -> None:
    job = {**JOB, "SLURM_JOB_NODELIST": f"{HOSTNAME},n[2-4]", "SLURMD_NODENAME": HOSTNAME, "CUDA_VISIBLE_DEVICES": "0,1"}
    found = plan(sandbox, "-H", "n3,localhost:1", env=job)
    assert found["source"] == "SLURM job 7" and found["where"] == {"n3": [0, 1], HOSTNAME: [2]}
    assert any("-H: left out: n[2,4]" in reason for reason in found["reasons"])
    assert sandbox.run("-H", "localhost:1", "echo", "x", env=job).expect(0).out == b"x\n"
    outside = sandbox.run("-H", "n9:1", "true", env=job).expect(2)
    assert "leave -H out: in a SLURM job hvdrun finds the hosts" in outside.err_text
    by_ssh = {name: value for name, value in job.items() if name != "SLURM_JOB_ID"}
    assert plan(sandbox, "-H", "n9:1", env=by_ssh)["source"] == "-H"


def test_exported_devices_hold_for_all_hosts_of_a_slurm_job(sandbox: Sandbox) -> None:
    job = {**JOB, "SLURM_JOB_NODELIST": f"{HOSTNAME},n[2-4]", "SLURMD_NODENAME": HOSTNAME, "SLURM_GPUS_PER_NODE": "4",
           "SLURM_JOB_GPUS": "0,1,2,3"}
    found = plan(sandbox, env={**job, "CUDA_VISIBLE_DEVICES": "2,3"})
    assert {host: len(ranks) for host, ranks in found["where"].items()} == {HOSTNAME: 2, "n2": 2, "n3": 2, "n4": 2}
    assert not [note for note in found["notes"] if "visible" in note], found["notes"]


@pytest.mark.parametrize("change, message", [
    ({"SLURM_JOB_NUM_NODES": "3"}, "SLURM_JOB_NUM_NODES=3 contradicts"),
    ({"SLURM_JOB_NODELIST": "n[1-"}, "SLURM_JOB_NODELIST"),
    ({"SLURM_JOB_NODELIST": "n[1-1000000]"}, "65536"),
    ({"SLURM_TASKS_PER_NODE": "1(x3"}, "SLURM_TASKS_PER_NODE"),
    ({"SLURM_HET_SIZE": "2"}, "heterogeneous"),
])
def test_contradictory_or_broken_slurm_variables_are_an_error(sandbox: Sandbox, change: dict[str, str], message: str) -> None:
    done = sandbox.run("--dry-run", "true", env={**JOB, **change}).expect(2)
    assert message in done.err_text and "-H" in done.err_text and done.err.count(b"\n") == 1


# Runs hvdrun where the name server never answers. Prints each question that was asked again, for which its timeout has to pass.
SILENT_NAME_SERVER = """
import socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.setblocking(False)
code = subprocess.run(sys.argv[1:]).returncode
asked = []
try:
    while True:
        asked.append(server.recvfrom(4096))
except BlockingIOError:
    pass
print("questions", len(asked) > 0, "again", [question for question in set(asked) if asked.count(question) > 1])
sys.exit(code)
"""

# Replaces ssh: runs the agent on this machine, under the host's name, which only that host knows, as loopback.
SSH_TO_UNKNOWN_NAMES = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
name=$2; shift 2
exec unshare --uts --mount /bin/sh -c "hostname $name && echo 127.0.1.1 $name >hosts-$name && mount --bind hosts-$name /etc/hosts && $*"
"""


def test_a_launch_does_not_wait_for_a_name_server_that_does_not_answer(sandbox: Sandbox) -> None:
    if not sandbox.isolated:
        pytest.skip("only root may give a process another network, host name and /etc/hosts")
    resolver = sandbox.files / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:2\n")
    services = sandbox.files / "nsswitch.conf"
    services.write_text("hosts: files dns\n")
    sandbox.mounts += [f"mount --bind {resolver} /etc/resolv.conf", f"mount --bind {services} /etc/nsswitch.conf"]
    ssh = sandbox.files / "ssh"
    ssh.write_text(SSH_TO_UNKNOWN_NAMES)
    ssh.chmod(0o755)
    done = sandbox.run("--net", "python3", "-c", SILENT_NAME_SERVER, HVDRUN, "--ssh-program", ssh, "-H", "one:1,two:1", "echo", "ran",
                       tool="unshare").expect(0)
    assert sorted(done.out_lines) == ["[0] ran", "[1] ran", "questions True again []"], done
