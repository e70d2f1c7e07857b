"""The settings of a cluster: its hosts, addresses and users, and the files in its /etc.

This file has only values and pure functions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

LOGIN = "login"
CPUS_PER_HOST = 16
GPUS_PER_HOST = 4
MEMORY_MB_PER_HOST = 16000

# Whatever takes longer than this hangs. HVD_TEST_SLOWNESS is the factor by which this machine is slower than most.
TIME_LIMIT_S = 60.0 * float(os.environ.get("HVD_TEST_SLOWNESS", "1"))

SSH_PORT = 22
SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818

# A major number that the kernel reserves for local use, so that a fake device is never a real GPU.
FAKE_GPU_MAJOR = 240


@dataclass(frozen=True)
class User:
    name: str
    uid: int
    home: str


ROOT = User("root", 0, "/root")
USER = User("user", 1000, "/home/user")
OTHER = User("other", 1001, "/home/other")  # for tests of what one user may do to another
USERS = (ROOT, USER, OTHER)


@dataclass(frozen=True)
class Host:
    """A host. Its number is the last part of its address: 1 for the login host, 11 for n1, 12 for n2 …"""

    name: str
    number: int

    @property
    def is_login(self) -> bool:
        return self.name == LOGIN

    @property
    def address(self) -> str:
        return f"10.80.0.{self.number}"

    @property
    def address6(self) -> str:
        return f"fd80::{self.number}"

    @property
    def mac(self) -> str:  # constant, so that it is the same after a restart
        return f"02:80:00:00:00:{self.number:02x}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Returns the ports of its services."""
        return (SSH_PORT, SLURMCTLD_PORT if self.is_login else SLURMD_PORT)

    @property
    def link(self) -> str:  # the keeper's end of its veth pair
        return f"to-{self.name}"


def hosts_of(count: int) -> list[Host]:
    return [Host(LOGIN, 1)] + [Host(f"n{index}", 10 + index) for index in range(1, count + 1)]


def etc_files(hosts: list[Host], cluster: str) -> dict[str, tuple[str, int]]:
    """Returns path below /etc, content and mode of the files that all hosts share."""
    return {
        "passwd": (passwd(), 0o644),
        "group": (group(), 0o644),
        "shadow": ("".join(f"{user.name}:*:19000:0:99999:7:::\n" for user in (*USERS, SSHD)), 0o600),
        "hosts": (hosts_file(hosts), 0o644),
        "resolv.conf": ("", 0o644),
        "nsswitch.conf": ("passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
                          "protocols: files\nservices: files\n", 0o644),
        "slurm/slurm.conf": (slurm_conf(hosts, cluster), 0o644),
        "slurm/cgroup.conf": ("CgroupPlugin=cgroup/v1\n", 0o644),  # unused, but slurmd ends if it finds no cgroup plugin
        "slurm/gres.conf": (gres_conf(), 0o644),
        "ssh/ssh_known_hosts": ("", 0o644),  # provision() writes it once the keys are made
        "ssh/ssh_config": (SSH_CONFIG, 0o644),
        "ssh/sshd_config": (SSHD_CONFIG, 0o644),
    }


SSHD = User("sshd", 101, "/run/sshd")  # sshd needs this user for privilege separation


def passwd() -> str:
    lines = [f"{user.name}:x:{user.uid}:{user.uid}:{user.name}:{user.home}:/bin/bash" for user in USERS]
    lines += [f"sshd:x:{SSHD.uid}:65534::{SSHD.home}:/usr/sbin/nologin",
              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"]
    return "\n".join(lines) + "\n"


def group() -> str:
    lines = [f"{user.name}:x:{user.uid}:" for user in USERS] + ["tty:x:5:", "nogroup:x:65534:"]
    return "\n".join(lines) + "\n"


def hosts_file(hosts: list[Host]) -> str:
    """Returns /etc/hosts. IPv6 addresses have separate names, so that a plain name has one address."""
    lines = ["127.0.0.1 localhost", "::1 localhost6"]
    lines += [f"{host.address} {host.name}" for host in hosts]
    lines += [f"{host.address6} {host.name}-v6" for host in hosts]
    return "\n".join(lines) + "\n"


def known_hosts(keys: dict[str, str], hosts: list[Host]) -> str:
    """Returns known_hosts with each host's key for all of its names and addresses."""
    return "".join(f"{host.name},{host.name}-v6,{host.address},{host.address6} {keys[host.name]}\n" for host in hosts)


# This key exchange takes by far the least processor time.
SSH_CONFIG = "Host *\n  KexAlgorithms curve25519-sha256\n  SendEnv LANG LC_*\n"

SSHD_CONFIG = f"""\
Port {SSH_PORT}
HostKey /etc/ssh/keys/ssh_host_ed25519_key
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxSessions 200
PrintMotd no
PrintLastLog no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""


def slurm_conf(hosts: list[Host], cluster: str) -> str:
    """Returns slurm.conf for Slurm 22.05.

    Hosts claim more CPUs than this machine has (config_overrides with task/none). There is no accounting daemon. A host
    that returns is used at once (ReturnToService). The main scheduler checks the whole queue every second
    (sched_interval); by default it waits for 60 s if it has missed an event."""
    login = next(host for host in hosts if host.is_login)
    nodes = "\n".join(
        f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS_PER_HOST} Sockets=2 "
        f"CoresPerSocket={CPUS_PER_HOST // 2} ThreadsPerCore=1 RealMemory={MEMORY_MB_PER_HOST} "
        f"Gres=gpu:{GPUS_PER_HOST}" for host in hosts if not host.is_login)
    return f"""\
ClusterName={cluster}
SlurmctldHost={login.name}({login.address})
SlurmUser=root
SlurmctldPort={SLURMCTLD_PORT}
SlurmdPort={SLURMD_PORT}
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmdParameters=config_overrides
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SwitchType=switch/none
LaunchParameters=use_interactive_step
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
JobRequeue=0
CompleteWait=0
KillWait=10
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


def gres_conf() -> str:
    return f"Name=gpu File=/dev/nvidia[0-{GPUS_PER_HOST - 1}]\n"
