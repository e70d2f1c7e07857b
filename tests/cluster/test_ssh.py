"""hvdrun over ssh from the login host, as an ordinary user."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import Cluster, wait_until
from harness import BUILD, HVDRUN_WORD, SOAK, all_pids, parent_of, read_bytes
from settings import TIME_LIMIT_S

HVDRUN = BUILD / "bin/hvdrun"
HOSTS = ("login", "n1", "n2", "n3", "n4")
CLIENTS = pytest.mark.parametrize("client", ["libssh", "openssh"])
# Lines of Cluster.processes for hvdrun, its guard and agent, ssh, srun and the tests' ranks. Names are compared, not
# arguments: these may have the path of the checkout, which may contain any of these words.
OURS = re.compile(r"\d+ \S+ (?:(?:hvdrun\S*|hvd-\S+|ssh|srun|elastic_trainer) |.*\bsleep 7777)")
NEEDS_IPV6 = pytest.mark.skipif(not Path("/proc/sys/net/ipv6").exists(), reason="this machine's kernel has no IPv6")
JOB_FILES = re.compile(r"/tmp/hvd-[0-9a-f]{16,}|/dev/shm/")  # the checkout may lie in /tmp, too

# sshd's process of a login, which got another name in OpenSSH 9.8: its command line, and what ps says of it.
SESSION = "^sshd(-session)?: user"
SESSION_PROCESSES = ("sshd sshd: user", "sshd-session sshd-session: user")


class Jobs:
    """Starts hvdrun in the cluster, and finds what its jobs have left on the hosts."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # Folders of jobs of earlier tests that SLURM has ended by SIGKILL.
        self.earlier = {host: set(self.files(host)) for host in HOSTS}

    def run(self, *words: object, **options: object) -> subprocess.CompletedProcess:
        return self.cluster.run(HVDRUN, *words, **options)

    def start(self, *words: object, **options: object) -> subprocess.Popen:
        return self.cluster.start(HVDRUN, *words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, **options)

    def processes(self, host: str) -> list[str]:
        return [line for line in self.cluster.processes(host) if OURS.match(line)]

    def files(self, host: str) -> list[str]:
        root = self.cluster.root_of(host)
        paths = [f"/{folder}/{name}" for folder in ("tmp", "dev/shm") for name in os.listdir(root / folder)]
        return [path for path in paths if JOB_FILES.match(path)]

    def left(self, hosts: tuple[str, ...] = HOSTS) -> dict[str, list[str]]:
        found = {host: self.processes(host) + [file for file in self.files(host) if file not in self.earlier[host]]
                 for host in hosts}
        return {host: lines for host, lines in found.items() if lines}

    def wait_for_ranks(self, host: str, count: int) -> None:
        wait_until(lambda: sum("sleep 7777" in line for line in self.processes(host)) == count,
                   f"{count} ranks to start on {host}")

    def pid_of(self, host: str, name: str) -> str:
        return self.cluster.output("pgrep", "-x", name, on=host, user="root").strip()


@pytest.fixture
def jobs(cluster: Cluster) -> Iterator[Jobs]:
    jobs = Jobs(cluster)
    yield jobs
    try:
        wait_until(lambda: not jobs.left(), "the cleanup after the test", TIME_LIMIT_S / 12)
    except AssertionError as error:
        raise AssertionError(f"{error}: {jobs.left()}") from None


def pid_of_hvdrun(job: subprocess.Popen) -> int:
    """Returns this machine's pid of the job's hvdrun. On the login host, hvdrun of an earlier test may still be ending."""
    return next(pid for pid in all_pids() if parent_of(pid) == job.pid)


def finish(job: subprocess.Popen) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=TIME_LIMIT_S)
    return job.returncode, out, err


@pytest.mark.gate
def test_ranks_on_several_hosts_get_their_ranks_and_hosts(jobs: Jobs) -> None:
    """The hosts have 4, 3, 1 and 1 ranks."""
    report = 'echo $HVD_RANK $(hostname) $HVD_HOSTNAME $HVD_LOCAL_RANK/$HVD_LOCAL_SIZE $HVD_NODE_RANK/$HVD_NODE_COUNT ' \
             '$HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE $MASTER_ADDR $(pwd)'
    done = jobs.run("--label", "none", "--pmix", "off", "-H", "n1:4,n2:3,n3:1,n4:1", "sh", "-c", report, folder="/tmp")
    assert done.returncode == 0, done.stderr
    ranks = sorted(line.split() for line in done.stdout.splitlines())
    assert [" ".join(words) for words in ranks] == [
        "0 n1 n1 0/4 0/4 0/4 n1 /tmp", "1 n1 n1 1/4 0/4 0/2 n1 /tmp", "2 n1 n1 2/4 0/4 0/2 n1 /tmp",
        "3 n1 n1 3/4 0/4 0/1 n1 /tmp", "4 n2 n2 0/3 1/4 1/4 n1 /tmp", "5 n2 n2 1/3 1/4 1/2 n1 /tmp",
        "6 n2 n2 2/3 1/4 1/2 n1 /tmp", "7 n3 n3 0/1 2/4 2/4 n1 /tmp", "8 n4 n4 0/1 3/4 3/4 n1 /tmp"]


def test_without_slots_one_rank_starts_per_core_of_each_host(jobs: Jobs) -> None:
    """One of the hosts is the launcher's own."""
    done = jobs.run("--verbose", "-H", "n1,login", "sh", "-c", "hostname")
    assert done.returncode == 0, done.stderr
    cores = len(os.sched_getaffinity(0))
    assert f"{2 * cores} ranks on 2 hosts" in done.stderr, done.stderr
    assert re.search(r"n1 +\d+ +libssh +10\.80\.0\.1:\d+ > 10\.80\.0\.11:22\n", done.stderr), done.stderr
    assert re.search(r"login +\d+ +fork\n", done.stderr), done.stderr
    assert sorted(done.stdout.split()[1::2]) == sorted(["n1"] * cores + ["login"] * cores)


@pytest.mark.gate
def test_ranks_on_other_hosts_get_only_variables_that_are_not_of_a_host(jobs: Jobs) -> None:
    done = jobs.run("-np", 1, "-H", "n2", "-x", "GIVEN=a b\n'c'", "env",
                    environment={"CUDA_VISIBLE_DEVICES": "7", "XDG_RUNTIME_DIR": "/run/here", "TMPDIR": "/tmp/of-a-prolog", "KEPT": "x y"})
    assert done.returncode == 0, done.stderr
    assert "GIVEN=a b\n'c'\n" in done.stdout and "KEPT=x y\n" in done.stdout
    assert "CUDA_VISIBLE_DEVICES=7\n" in done.stdout, "a choice of devices means the same on all hosts"
    assert not any(text in done.stdout for text in ("/run/here", "/tmp/of-a-prolog")), done.stdout
    assert "SSH_CONNECTION=10.80.0.1 " in done.stdout, "the variables of the host's own login are missing"


@pytest.mark.gate
def test_ranks_on_other_hosts_get_the_launchers_resource_limits(jobs: Jobs) -> None:
    """A user may lower each limit, but not raise one above the host's."""
    show = "echo $HVD_RANK $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Ss) $(ulimit -Sc)"
    done = jobs.cluster.run("sh", "-c", f"ulimit -Sn 300; ulimit -Hn 400; ulimit -Ss 4096; ulimit -Sc 0; "
                                        f"{HVDRUN_WORD} --label none -H login:1,n1:1 sh -c '{show}'")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 300 400 4096 0", "1 300 400 4096 0"]


def test_hvdrun_raises_its_own_limit_of_open_files_for_many_hosts(jobs: Jobs) -> None:
    """Ranks keep the user's limit, also after a restart."""
    fail_once = "echo $HVD_RANK $(ulimit -Sn); [ $HVD_RESTART_COUNT = 1 ]"
    done = jobs.cluster.run("sh", "-c", f"ulimit -Sn 20; {HVDRUN_WORD} --label none --max-restarts 1 "
                                        f"-H login:1,n[1-4]:1 sh -c '{fail_once}'")
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {f"{rank} 20" for rank in range(5)}, done.stdout


@CLIENTS
def test_a_limit_of_open_files_too_low_for_the_hosts_is_an_error(jobs: Jobs, client: str) -> None:
    """The limit that the error asks for suffices, because hvdrun then logs in to fewer hosts at a time."""
    def run(limit: int) -> subprocess.CompletedProcess:
        return jobs.cluster.run("sh", "-c", f"ulimit -n {limit}; {HVDRUN_WORD} --ssh-client {client} -H n[1-4]:1 true")

    done = run(24)
    assert done.returncode == 2, done.stderr
    wanted = re.search(r"4 agents of other hosts on login take (\d+) open files, and the limit is 24: raise ulimit -n", done.stderr)
    assert wanted, done.stderr
    done = run(int(wanted[1]))
    assert done.returncode == 0, done.stderr


def test_a_restart_works_after_hvdruns_file_was_replaced(jobs: Jobs, shared: Path) -> None:
    """An upgrade during a long job replaces the file. Hosts start hvdrun by its path."""
    copy = shared / "hvdrun"
    jobs.cluster.output("cp", HVDRUN, copy)
    rank = f"if [ $HVD_RESTART_COUNT = 0 ]; then touch {shared}/up; while ! test -e {shared}/new; do sleep 0.1; done; exit 3; fi"
    job = jobs.cluster.start(copy, "-H", "n1:1", "--max-restarts", 1, "sh", "-c", rank, text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: "up" in jobs.cluster.output("ls", shared).split(), "the rank to start")
    jobs.cluster.output("sh", "-c", f"cp {copy} {copy}.new && mv {copy}.new {copy} && touch {shared}/new")
    code, _, err = finish(job)
    assert code == 0, err


@pytest.mark.gate
@CLIENTS
def test_ranks_on_other_hosts_get_the_launchers_umask_and_nice_value(jobs: Jobs, client: str) -> None:
    job = f"umask 0027; exec nice -n 7 {HVDRUN_WORD} --ssh-client {client} --label none -H login:1,n1:1 sh -c 'echo $(umask) $(nice)'"
    done = jobs.cluster.run("sh", "-c", job)
    expected = f"0027 {min(os.nice(0) + 7, 19)}"
    assert done.returncode == 0 and done.stdout.splitlines() == [expected, expected], done.stdout + done.stderr


@contextmanager
def forced(jobs: Jobs, command: str) -> Iterator[None]:
    """Makes every host run this command instead of the one that ssh requests."""
    jobs.cluster.output("sed", "-i.kept", f's|^ssh-|command="{command}" ssh-|', ".ssh/authorized_keys")
    try:
        yield
    finally:
        jobs.cluster.output("mv", ".ssh/authorized_keys.kept", ".ssh/authorized_keys")


@pytest.mark.gate
@CLIENTS
def test_output_of_a_login_shell_is_skipped(jobs: Jobs, client: str) -> None:
    jobs.cluster.output("tee", ".bashrc", input="echo hello from bashrc\necho and on stderr >&2\nprintf 'no newline'\n")
    try:
        done = jobs.run("--ssh-client", client, "--label", "none", "-H", "n[1-2]:1", "hostname")
        assert done.returncode == 0 and sorted(done.stdout.split()) == ["n1", "n2"], done.stderr
    finally:
        jobs.cluster.output("rm", ".bashrc")


@CLIENTS
def test_the_error_shows_what_a_host_prints_instead_of_hvdrun(jobs: Jobs, client: str) -> None:
    with forced(jobs, "echo Welcome; /usr/sbin/nologin"):
        done = jobs.run("--ssh-client", client, "-H", "n[1-2]:1", "true")
    assert done.returncode == 125, done.stderr
    assert 'hvdrun: error: n[1-2]: hvdrun ended there with exit code 1 and no message; what came instead of hvdrun there: ' \
           '"This account is currently not available."\n' in done.stderr, done.stderr
    with forced(jobs, "exec yes"):
        done = jobs.run("--ssh-client", client, "-H", "n1:1", "true")
    assert done.returncode == 125 and "the login prints more than 1 MB before hvdrun can start; " in done.stderr, done.stderr


def test_the_start_timeout_shows_the_prompt_of_a_login_that_waits(jobs: Jobs) -> None:
    with forced(jobs, "echo Press return; exec cat > /dev/null"):
        done = jobs.run("-H", "n1:1", "--start-timeout", 10, "true")
    assert done.returncode == 124 and 'what came instead of hvdrun there: "Press return"' in done.stderr, done.stderr


@pytest.mark.gate
def test_stdin_stdout_and_output_files_work_with_other_hosts(jobs: Jobs, shared: Path) -> None:
    done = jobs.run("-np", 2, "-H", "n1:1,n2:1", "--map-by", "node", "--label", "rank@host", "--output-filename",
                    shared / "logs", "--stdin", "1", "sh", "-c", "cat; hostname", input="typed\n")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0@n1] n1", "[1@n2] n2", "[1@n2] typed"]
    assert jobs.cluster.output("cat", shared / "logs/rank.0001/stdout") == "typed\nn2\n"


@pytest.mark.gate
@CLIENTS
def test_a_line_of_any_length_arrives_while_its_rank_waits(jobs: Jobs, shared: Path, client: str) -> None:
    """libssh reads 4 KiB at a time, and may hold a packet that poll(2) no longer sees. The next sign of life is minutes away."""
    program = "import os, sys, time\nfor size in 3000, 4500, 7000, 20000:\n    print('x' * size, flush=True)\n" \
              f"    while not os.path.exists(f'{shared}/{{size}}'): time.sleep(0.01)\n"
    job = jobs.start("-np", 1, "-H", "n1:1", "--label", "none", "--ssh-client", client, "--host-timeout", 1000, "/usr/bin/python3", "-c", program)
    for size in 3000, 4500, 7000, 20000:
        assert select.select([job.stdout], [], [], TIME_LIMIT_S)[0], f"the line of {size} bytes does not arrive"
        assert job.stdout.readline() == "x" * size + "\n"
        jobs.cluster.output("touch", shared / str(size))
    assert finish(job)[0] == 0


@pytest.mark.gate
def test_unread_stdin_of_a_file_is_left_to_a_shell_loop_also_with_other_hosts(jobs: Jobs, shared: Path) -> None:
    """Input from a pipe cannot be returned to the pipe, so hvdrun prints a note."""
    loop = f"while read -r line; do echo got $line; {HVDRUN_WORD} -np 1 -H n1:1 --label none head -c 4; done"
    script = f"printf 'one\\ntwo\\nsix\\n' > lines; {loop} < lines; printf 'one\\ntwo\\nsix\\n' | {{ {loop}; }}"
    done = jobs.cluster.run("bash", "-c", script, folder=shared)
    assert done.stdout.splitlines() == ["got one", "two", "got six", "got one", "two"], done.stdout + done.stderr
    assert done.stderr.count("4 bytes of input were read that no rank took; --stdin none leaves the input to others") == 1, done.stderr


@pytest.mark.gate
def test_the_first_failure_is_reported_with_its_host(jobs: Jobs) -> None:
    done = jobs.run("-np", 4, "-H", "n[1-4]:1", "sh", "-c", "[ $HVD_RANK = 2 ] && echo why >&2 && exit 3; sleep 7777")
    assert done.returncode == 3
    assert "rank 2 on n3 failed: exit code 3" in done.stderr and "| why" in done.stderr, done.stderr


@pytest.mark.gate
def test_signals_to_hvdrun_reach_ranks_on_other_hosts(jobs: Jobs, shared: Path) -> None:
    job = jobs.start("-np", 2, "-H", "n1:1,n2:1", "--grace", 20, "--report", shared / "report", "sh", "-c",
                     f"trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; touch {shared}/$HVD_RANK; while :; do sleep 0.1; done")
    wait_until(lambda: len(jobs.cluster.output("ls", shared).split()) == 2, "both ranks to start")
    job.send_signal(signal.SIGUSR1)
    lines = sorted(job.stdout.readline() for _ in range(2))
    assert lines == ["[0] usr1\n", "[1] usr1\n"]
    job.send_signal(signal.SIGTERM)
    code, out, err = finish(job)
    assert code == 128 + signal.SIGTERM and sorted(out.splitlines()) == ["[0] term", "[1] term"], err
    report = json.loads(jobs.cluster.output("cat", shared / "report"))
    assert [rank["host"] for rank in report["ranks"]] == ["n1", "n2"]


@pytest.mark.gate
def test_ctrl_c_sends_sigint_then_sigterm_to_ranks_on_other_hosts(jobs: Jobs, shared: Path) -> None:
    job = jobs.start("-np", 2, "-H", "n1:1,n2:1", "--grace", 1000, "sh", "-c",
                     f"trap 'echo int' INT; trap 'echo term; exit 0' TERM; touch {shared}/$HVD_RANK; while :; do sleep 0.1; done")
    wait_until(lambda: len(jobs.cluster.output("ls", shared).split()) == 2, "both ranks to start")
    job.send_signal(signal.SIGINT)
    assert sorted(job.stdout.readline() for _ in range(2)) == ["[0] int\n", "[1] int\n"]
    job.send_signal(signal.SIGINT)
    code, out, err = finish(job)
    assert code == 128 + signal.SIGINT and sorted(out.splitlines()) == ["[0] term", "[1] term"], err


@pytest.mark.gate
@pytest.mark.parametrize("program, sum_of_ranks", [("mpi_allreduce", 45), ("pmix_client", 36)])
def test_mpi_and_pmix_programs_communicate_over_ssh(jobs: Jobs, program: str, sum_of_ranks: int) -> None:
    """Uses fence and modex between agents, and Open MPI over TCP. The hosts have different numbers of ranks."""
    done = jobs.run("-np", 9, "-H", "n1:4,n2:3,n3:1,n4:1", BUILD / "bin/tests" / program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] rank {rank} of 9: sum {sum_of_ranks}" for rank in range(9)]


@pytest.mark.parametrize("pmix", ["on", "off"])
def test_a_training_on_several_hosts_gives_the_same_losses(jobs: Jobs, pmix: str) -> None:
    training = (BUILD / "bin/examples/digits", "--epochs", 3)
    alone = jobs.run("-np", 1, *training)
    spread = jobs.run("-np", 9, "--pmix", pmix, "--label", "none", "-H", "n1:4,n2:3,n3:1,n4:1", *training)
    assert alone.returncode == spread.returncode == 0, alone.stderr + spread.stderr
    losses = re.findall(r"epoch . loss .*", alone.stdout)
    assert len(losses) == 3 and re.findall(r"epoch . loss .*", spread.stdout) == losses


@pytest.mark.gate
def test_the_first_failure_is_the_killed_rank_of_another_host(jobs: Jobs, shared: Path) -> None:
    """libhvd makes the other ranks fail before hvdrun's SIGTERM reaches them."""
    job = jobs.start("-np", 4, "-H", "n1:2,n2:2", "--grace", 5, BUILD / "bin/examples/digits", "--epochs", 100000)
    out = iter(job.stdout.readline, "")
    next(line for line in out if "epoch 2 " in line)
    jobs.cluster.output("pkill", "-9", "-o", "-x", "digits", on="n2", user="root")
    code, _, err = finish(job)
    assert code == 128 + signal.SIGKILL and re.search(r"rank [23] on n2 failed: killed by SIGKILL", err), err


def start_sleepers(jobs: Jobs, *options: object) -> subprocess.Popen:
    """Starts a job with two ranks on each of n1 and n2."""
    job = jobs.start("-np", 4, "-H", "n1:2,n2:2", "--grace", 1, *options, "sleep", 7777)
    for host in ("n1", "n2"):
        jobs.wait_for_ranks(host, 2)
    return job


@pytest.mark.gate
@pytest.mark.parametrize("victim, client, line", [("hvdrun-agent", "libssh", "n2: the agent was killed by SIGKILL"),
                                                  ("hvd-guard", "openssh", "the guard of the agent on n2 was killed")])
def test_a_kill_of_agent_or_guard_ends_the_job_with_125(jobs: Jobs, victim: str, client: str, line: str) -> None:
    job = start_sleepers(jobs, "--ssh-client", client)
    jobs.cluster.output("kill", "-9", jobs.pid_of("n2", victim), on="n2", user="root")
    code, _, err = finish(job)
    assert code == 125 and "on n2 was " in err and line in err, err


def test_an_unkillable_agent_on_another_host_is_a_warning(jobs: Jobs) -> None:
    """The agent is in a frozen cgroup (version 1). Its ranks still end."""
    group = Path(f"/sys/fs/cgroup/freezer/hvdtest-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs the right to make a freezer cgroup")
    try:
        job = start_sleepers(jobs)
        [agent] = [line.split()[0] for line in jobs.cluster.processes("n2") if line.split()[2] == "hvdrun-agent"]
        there = jobs.pid_of("n2", "hvdrun-agent")
        (group / "cgroup.procs").write_text(agent)
        (group / "freezer.state").write_text("FROZEN")
        os.kill(pid_of_hvdrun(job), signal.SIGTERM)
        code, _, err = finish(job)
        assert code == 143 and f"warning: n2 has not confirmed the end of pid {there} (hvdrun-agent)\n" in err, err
        assert "sleep" not in "".join(jobs.cluster.processes("n2"))
    finally:
        (group / "freezer.state").write_text("THAWED")
        wait_until(lambda: not jobs.left() and not (group / "cgroup.procs").read_text(), "the end of the agent on n2")
        group.rmdir()


def test_a_kill_of_sshd_ends_the_job_with_125(jobs: Jobs) -> None:
    job = start_sleepers(jobs)
    jobs.cluster.output("pkill", "-9", "-f", SESSION, on="n2", user="root")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost" in err, err
    wait_until(lambda: not jobs.left(), "the agent on n2 to end by itself")


def test_hvdrun_cleans_up_a_host_whose_agent_and_guard_were_killed(jobs: Jobs) -> None:
    """No process is left there for the cleanup, so hvdrun logs in again."""
    job = start_sleepers(jobs)
    jobs.cluster.kill_at_once("n2", [jobs.pid_of("n2", name) for name in ("hvdrun-agent", "hvd-guard")])
    code, _, err = finish(job)
    assert code == 125 and " on n2 was " in err, err  # the agent may have reported the end of its guard


@pytest.mark.gate
def test_a_kill_of_a_rank_on_another_host_ends_the_job(jobs: Jobs) -> None:
    job = start_sleepers(jobs)
    jobs.cluster.output("pkill", "-9", "-o", "sleep", on="n2", user="root")
    code, _, err = finish(job)
    assert code == 128 + signal.SIGKILL and re.search(r"rank [23] on n2 failed: killed by SIGKILL", err), err


@pytest.mark.gate
def test_nothing_is_left_on_any_host_after_the_launcher_is_killed(jobs: Jobs) -> None:
    job = start_sleepers(jobs)
    job.kill()
    finish(job)
    wait_until(lambda: not jobs.left(), "the cleanup on all hosts")


# An agent waits for a silent hvdrun for 15 times --host-timeout.
@CLIENTS
def test_a_host_without_network_ends_the_job_with_125(jobs: Jobs, client: str) -> None:
    """Both the launcher and the agent on that host notice that no packets arrive."""
    job = start_sleepers(jobs, "--host-timeout", 2, "--ssh-client", client)
    jobs.cluster.cut("n2")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost: the host has not answered for 2 s (--host-timeout)" in err, err
    assert "its host does" not in err, err
    assert "warning: ranks may still run on n2, for up to 31 s: " in err, err
    wait_until(lambda: not jobs.left(("login", "n1")), "the cleanup on the other hosts", TIME_LIMIT_S / 12)
    if client == "libssh":  # the agent waits as long with either client
        wait_until(lambda: not jobs.processes("n2"), "the agent on n2 to give up", 30 + TIME_LIMIT_S)
    else:
        jobs.cluster.join("n2")
        wait_until(lambda: not jobs.left(), "the end of the agent on n2, whose ssh has ended")


def test_a_host_that_loses_power_ends_the_job_with_125(jobs: Jobs) -> None:
    job = start_sleepers(jobs)
    jobs.cluster.kill("n2")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost: the host has not answered for 5 s" in err, err
    wait_until(lambda: not jobs.left(("login", "n1")), "the cleanup on the other hosts", TIME_LIMIT_S / 12)
    jobs.cluster.power_on("n2")


@pytest.mark.gate
def test_the_error_names_the_host_without_the_program(jobs: Jobs) -> None:
    for host in ("login", "n1"):
        jobs.cluster.output("sh", "-c", "mkdir -p /tmp/here && cp /bin/true /tmp/here/train", on=host)
    done = jobs.run("-np", 2, "-H", "n1:1,n2:1", "/tmp/here/train")
    for host in ("login", "n1"):
        jobs.cluster.output("rm", "-r", "/tmp/here", on=host)
    assert done.returncode == 127 and "n2: cannot run /tmp/here/train: No such file or directory" in done.stderr, done.stderr


def test_a_lost_host_is_reported_although_ranks_fail_first(jobs: Jobs, shared: Path) -> None:
    """libhvd gives up a silent host before hvdrun does, and its ranks fail."""
    words = f"exec {HVDRUN_WORD} -np 2 -H n1:2,n2:2 --map-by node --max-restarts 1 --grace 1 {shlex.quote(str(BUILD))}/bin/examples/digits " \
            f"--epochs 1000000 2> {shared}/err | sed -u -n '/epoch 3 /w {shared}/trains'"
    job = jobs.cluster.start("sh", "-c", words, stdin=subprocess.DEVNULL)
    wait_until(lambda: jobs.cluster.run("cat", shared / "trains").stdout, "the ranks to train")
    jobs.cluster.cut("n2")
    wait_until(lambda: "restart 1 of 1" in jobs.cluster.output("cat", shared / "err"), "a restart")
    err = jobs.cluster.output("cat", shared / "err")
    assert re.search(r"host n[12] \(ranks? [0-9, -]+\) does not answer: it is down or cut off", err), err
    jobs.cluster.output("pkill", "-INT", "-x", "hvdrun", user="root")
    job.wait(TIME_LIMIT_S)
    jobs.cluster.join("n2")
    wait_until(lambda: not jobs.left(), "the agent on n2 to give up", 75 + TIME_LIMIT_S)
    assert "the agent on n2 was lost: the host has not answered for 5 s" in err, err


def test_a_frozen_machine_ends_the_job_with_125(jobs: Jobs) -> None:
    """Neither the processes nor the kernel of a frozen virtual machine answer."""
    job = start_sleepers(jobs)
    jobs.cluster.cut("n2")
    jobs.cluster.freeze("n2")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost: the host has not answered for 5 s" in err, err
    jobs.cluster.thaw("n2")
    jobs.cluster.join("n2")
    wait_until(lambda: not jobs.left(), "the cleanup after the thaw", 75 + TIME_LIMIT_S)


# (stopped process, whether hvdrun reports it). hvdrun does not notice a stop of a guard, a rank or itself.
PAUSES = [("hvdrun-agent", True), ("hvdrun", False)]
if SOAK:
    PAUSES += [("hvd-guard", False), ("rank", False)]
PAUSES_OF_SSH = [*((victim, "libssh", is_noticed) for victim, is_noticed in PAUSES), ("sshd", "openssh", True)]
if SOAK:
    PAUSES_OF_SSH += [("hvdrun-agent", "openssh", True), ("sshd", "libssh", True), ("ssh", "openssh", True)]
PAUSE_S = 30.0 if SOAK else 12.0
HOST_TIMEOUT_S = 10


def wait_for_go(shared: Path) -> str:
    """Returns the script of a rank that ends when the file "go" exists."""
    return f"echo $$ > {shared}/pid.$HVD_RANK; while [ ! -e {shared}/go ]; do sleep 0.1; done; echo complete"


def pause(jobs: Jobs, shared: Path, job: subprocess.Popen, victim: str, is_noticed: bool) -> tuple[int, str, str]:
    """Stops the victim for a while in a job of two such ranks, the second on n2. Returns the job's code, stdout and stderr."""
    wait_until(lambda: jobs.cluster.output("ls", shared).count("pid.") == 2, "both ranks to start")
    host = "login" if victim == "ssh" else "n2"
    if victim == "rank":
        pid = jobs.cluster.output("cat", shared / "pid.1").strip()
    elif victim == "sshd":
        pid = jobs.cluster.output("pgrep", "-f", SESSION + "@", on=host, user="root").strip()
    elif victim == "ssh":
        pid = jobs.cluster.output("pgrep", "-f", "^ssh .* n2 ", user="root").strip()
    elif victim != "hvdrun":
        pid = jobs.pid_of(host, victim)

    def send(number: signal.Signals) -> None:
        if victim == "hvdrun":
            os.kill(pid_of_hvdrun(job), number)
        else:
            jobs.cluster.output("kill", f"-{number.value}", pid, on=host, user="root")

    send(signal.SIGSTOP)
    said = ""
    if is_noticed:
        while NOTICED not in said:
            line = job.stderr.readline()
            assert line, f"hvdrun ended without a report of the pause: {said}"
            said += line
    else:
        time.sleep(PAUSE_S)  # hvdrun prints nothing that could be awaited
    send(signal.SIGCONT)
    if is_noticed:
        while "n2: the agent answers again" not in said:
            line = job.stderr.readline()
            assert line, f"hvdrun ended without a report of the pause's end: {said}"
            said += line
    jobs.cluster.output("touch", shared / "go")
    code, out, err = finish(job)
    return code, out, said + err


NOTICED = f"n2: the agent has not answered for {HOST_TIMEOUT_S} s, but its host does; waiting for it"


@pytest.mark.parametrize("victim, client, is_noticed", PAUSES_OF_SSH)
def test_a_job_survives_a_pause_longer_than_host_timeout(jobs: Jobs, shared: Path, victim: str, client: str, is_noticed: bool) -> None:
    """hvdrun and ssh are stopped on the login host, the other processes on n2."""
    job = jobs.start("-np", 2, "-H", "n1:1,n2:1", "--ssh-client", client, "--host-timeout", HOST_TIMEOUT_S, "sh", "-c", wait_for_go(shared))
    code, out, err = pause(jobs, shared, job, victim, is_noticed)
    assert code == 0 and out.count("complete") == 2, (code, out, err)
    assert (NOTICED in err) == is_noticed, err
    assert ("n2: the agent answers again" in err) == is_noticed, err


def test_an_agent_that_starts_ranks_slowly_is_not_reported_as_silent(jobs: Jobs, shared: Path) -> None:
    """Entering the working directory takes longer than --host-timeout, as if the host had to mount it first."""
    agent, log = shared / "agent", shared / "stalls"
    jobs.cluster.output("tee", agent, input=f"#!/bin/sh\nexec {shlex.quote(str(BUILD))}/bin/tests/fault_injector "
                                            f'--fault agent:chdir:-:1:3000 --log {log} -- {HVDRUN_WORD} "$@"\n')
    jobs.cluster.output("chmod", "755", agent)
    done = jobs.run("--host-timeout", 1, "--agent-path", agent, "-H", "n2:1", "echo", "ran")
    assert done.returncode == 0 and done.stdout == "ran\n" and "has not answered" not in done.stderr, done.stderr
    assert "system call" in jobs.cluster.output("cat", log), "the stall has not happened"


@pytest.mark.gate
@pytest.mark.parametrize("client, words", [("libssh", "its ranks are still being started"), ("openssh", "no answer: still connecting or logging in")])
def test_large_packets_that_get_lost_are_named_as_the_cause(jobs: Jobs, client: str, words: str) -> None:
    """OpenSSH's own first message is large, too."""
    jobs.cluster.narrow("n2", "1250")
    try:
        done = jobs.run("-np", 1, "-H", "n2:1", "--ssh-client", client, "--start-timeout", 5, "true")
    finally:
        jobs.cluster.narrow("n2", "off")
    assert done.returncode == 124 and (
        f"hvdrun: error: n2: {words}; what was sent to it does not arrive: the host has gone, or large packets are lost on the way (MTU): "
        "compare `ping n2` and `ping -M do -s 1472 n2`\n") in done.stderr, done.stderr


@pytest.mark.gate
def test_a_job_that_lost_a_host_is_restarted_on_the_others(jobs: Jobs, shared: Path) -> None:
    job = jobs.start("-np", 2, "-H", "n1:2,n2:2", "--map-by", "node", "--max-restarts", 1, "sh", "-c",
                     f"hostname > {shared}/$HVD_RESTART_COUNT.$HVD_RANK; [ $HVD_RESTART_COUNT = 1 ] || exec sleep 7777")
    folder = jobs.cluster.root_of("login") / str(shared).lstrip("/")
    wait_until(lambda: all(read_bytes(folder / name) for name in ("0.0", "0.1")), "both ranks to record their hosts")
    jobs.cluster.kill("n2")
    code, _, err = finish(job)
    assert code == 0, err
    assert jobs.cluster.output("sh", "-c", f"cd {shared} && cat 0.0 0.1 1.0 1.1").split() == ["n1", "n2", "n1", "n1"]
    jobs.cluster.power_on("n2")


def restarts_on_the_same_hosts(jobs: Jobs, shared: Path, hosts: tuple[str, ...], client: str,
                               cut: Callable[[str], None]) -> str:
    """Runs a job with a rank on each host, and `cut` to end each host's connection; checks that it restarts on the same hosts.

    hvdrun is stopped meanwhile, so that it notices all ends at once. Returns its stderr."""
    job = jobs.start("-H", ",".join(f"{host}:1" for host in hosts), "--ssh-client", client, "--max-restarts", 1, "--grace", 1,
                     "sh", "-c", f"hostname > {shared}/$HVD_RESTART_COUNT.$HVD_RANK; [ $HVD_RESTART_COUNT = 1 ] || exec sleep 7777")
    for host in hosts:
        jobs.wait_for_ranks(host, 1)
    hvdrun = pid_of_hvdrun(job)
    os.kill(hvdrun, signal.SIGSTOP)
    for host in hosts:
        cut(host)
    os.kill(hvdrun, signal.SIGCONT)
    code, _, err = finish(job)
    assert code == 0 and "restart 1 of 1" in err, err
    assert jobs.cluster.output("sh", "-c", f"cd {shared} && cat 1.*").split() == list(hosts)
    return err


@pytest.mark.gate
@CLIENTS
@pytest.mark.parametrize("hosts", [("n2",), ("n1", "n2")], ids=["one host", "two hosts"])
def test_a_job_restarts_on_the_same_hosts_after_connections_are_lost(jobs: Jobs, shared: Path, hosts: tuple[str, ...], client: str) -> None:
    """A restart of a network switch, for example, ends all connections at once."""
    err = restarts_on_the_same_hosts(jobs, shared, hosts, client, lambda host: jobs.cluster.output(
        "pkill", "-9", "-f", SESSION, on=host, user="root"))
    program = "libssh" if client == "libssh" else "ssh"
    assert re.search(rf"the agent on n[12] was lost: {program}: .*; restart 1 of 1", err), err


def test_a_job_restarts_on_a_host_whose_guard_and_agent_were_killed(jobs: Jobs, shared: Path) -> None:
    restarts_on_the_same_hosts(jobs, shared, ("n2",), "libssh", lambda host: jobs.cluster.kill_at_once(
        host, [jobs.pid_of(host, name) for name in ("hvdrun-agent", "hvd-guard")]))


def test_a_kill_of_ssh_is_reported_as_the_cause(jobs: Jobs, shared: Path) -> None:
    err = restarts_on_the_same_hosts(jobs, shared, ("n2",), "openssh", lambda host: jobs.cluster.output(
        "pkill", "-9", "-x", "ssh", user="root"))
    assert "the agent on n2 was lost: ssh was killed by SIGKILL; restart 1 of 1" in err, err


@pytest.mark.gate
@CLIENTS
def test_a_restart_uses_hosts_that_were_still_logging_in(jobs: Jobs, shared: Path, client: str) -> None:
    """n2's login waits for a file, which the test makes once n1 has failed."""
    jobs.cluster.output("tee", ".bashrc", input=f"[ $(hostname) = n2 ] && until [ -e {shared}/go ]; do sleep 0.1; done\n")
    try:
        job = jobs.start("-np", 2, "-H", "n1:2,n2:2", "--map-by", "node", "--ssh-client", client, "--max-restarts", 1,
                         "sh", "-c", f"hostname > {shared}/rank.$HVD_RANK")
        wait_until(lambda: "hvdrun-agent" in "".join(jobs.processes("n1")), "the agent on n1 to start")
        jobs.cluster.output("pkill", "-9", "-x", "hvd-guard", on="n1", user="root")
        said = ""
        while "restart 1 of 1" not in said:
            line = job.stderr.readline()
            assert line, f"hvdrun ended without a restart: {said}"
            said += line
        jobs.cluster.output("touch", shared / "go")
        code, _, err = finish(job)
    finally:
        jobs.cluster.output("rm", ".bashrc")
    assert code == 0, said + err
    assert "n2" in jobs.cluster.output("sh", "-c", f"cat {shared}/rank.*").split()


@pytest.mark.gate
@CLIENTS
def test_a_host_is_tried_again_after_its_login_fails_in_a_restart(jobs: Jobs, shared: Path, client: str) -> None:
    """n2's second login kills its own sshd. Its rank fits on no other host."""
    jobs.cluster.output("tee", ".bashrc", input=f"[ $(hostname) = n2 ] && rm {shared}/drop 2> /dev/null && kill -9 $PPID\n")
    try:
        done = jobs.run("-H", "n1:1,n2:1", "--ssh-client", client, "--max-restarts", 3, "sh", "-c",
                        f"[ $HVD_RESTART_COUNT != 0 ] || [ $HVD_RANK != 0 ] || {{ touch {shared}/drop; exit 3; }}")
    finally:
        jobs.cluster.output("rm", ".bashrc")
    assert done.returncode == 0, done.stderr
    assert "the ranks do not fit on the other hosts: trying n2 once more" in done.stderr, done.stderr
    assert "restart 2 of 3" in done.stderr and "restart 3 of 3" not in done.stderr, done.stderr


@pytest.mark.gate
@CLIENTS
def test_hosts_with_the_same_login_error_share_one_line(jobs: Jobs, client: str) -> None:
    by = ("--ssh-client", client)
    done = jobs.run("-H", "n1:1,nosuch1:1,nosuch2:1,n2:1:1", "true")
    assert done.returncode == 2, "an invalid list of hosts was accepted"
    done = jobs.run(*by, "-H", "n1:1,nosuch1:1,nosuch2:1,n2:1", "true")
    assert done.returncode == 125 and "hvdrun: error: nosuch[1-2]: there is no such name" in done.stderr, done.stderr
    done = jobs.run(*by, "-H", "n[1-3]:1", "--ssh-port", 9, "true")
    assert done.returncode == 125 and "hvdrun: error: n[1-3]: no ssh server answers there" in done.stderr, done.stderr
    done = jobs.run(*by, "-H", "n[1-2]:1", "--agent-path", "/opt/none/hvdrun", "true")
    assert "hvdrun: error: n[1-2]: hvdrun not found at /opt/none/hvdrun" in done.stderr, done.stderr


def test_a_silent_ssh_server_is_given_up_after_connect_timeout(jobs: Jobs) -> None:
    silent = "import signal, socket; server = socket.create_server(('', 2222)); print('listening', flush=True); signal.pause()"
    server = jobs.cluster.start("/usr/bin/python3", "-c", silent, on="n1", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "listening\n"
        with ssh_config(jobs, "ConnectTimeout 1\n"):
            done = jobs.run("--start-timeout", 600, "-H", "n1:1", "--ssh-port", 2222, "true")
        assert done.returncode == 125 and "n1: it does not answer" in done.stderr, done.stderr
    finally:
        server.kill()
        server.communicate()


@pytest.mark.gate
@CLIENTS
def test_a_refused_login_is_an_error(jobs: Jobs, client: str) -> None:
    done = jobs.run("--ssh-client", client, "-H", "root@n1:1", "true")
    assert done.returncode == 125 and "n1: the login was refused" in done.stderr, done.stderr


@contextmanager
def ssh_config(jobs: Jobs, text: str) -> Iterator[None]:
    """Gives the user this ssh configuration until the end of the block."""
    jobs.cluster.output("sh", "-c", "mkdir -p .ssh && cat > .ssh/config && touch .ssh/none", input=text)
    try:
        yield
    finally:
        jobs.cluster.output("rm", "-f", ".ssh/config", ".ssh/none", ".ssh/known")


@pytest.mark.gate
@CLIENTS
def test_an_unknown_host_key_needs_ssh_accept_new(jobs: Jobs, client: str) -> None:
    """A changed key is an error even with --ssh-accept-new."""
    words = ("--ssh-client", client, "-H", "n1:1", "true")
    with ssh_config(jobs, "UserKnownHostsFile ~/.ssh/none\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking ask\n"):
        done = jobs.run(*words)
        assert done.returncode == 125 and "--ssh-accept-new" in done.stderr, done.stderr
        assert jobs.run("--ssh-accept-new", *words).returncode == 0
        assert jobs.run(*words).returncode == 0, "the accepted key was not stored"
        jobs.cluster.output("sh", "-c", "ssh-keygen -q -t ed25519 -N '' -f .ssh/known && "
                                        "echo n1 $(cut -d' ' -f1-2 .ssh/known.pub) > .ssh/none; rm .ssh/known*")
        done = jobs.run("--ssh-accept-new", *words)
        assert done.returncode == 125 and "has changed" in done.stderr, "a changed key was accepted\n" + done.stderr


def test_hosts_whose_configuration_libssh_lacks_are_reached_by_ssh(jobs: Jobs) -> None:
    with ssh_config(jobs, "Host n2\nProxyJump n1\n"):
        done = jobs.run("--verbose", "-H", "n1:1,n2:1", "true")
        assert done.returncode == 0 and re.search(r"n1 +\d+ +libssh .*\n.* n2 +\d+ +ssh ", done.stderr), done.stderr
        done = jobs.run("--ssh-client", "libssh", "-H", "n1:1,n2:1", "true")
        assert done.returncode == 125 and "n2: libssh: the system's ssh is needed for ProxyJump" in done.stderr, done.stderr


@pytest.mark.gate
@NEEDS_IPV6
@CLIENTS
def test_hosts_can_be_given_by_ipv6_address(jobs: Jobs, client: str) -> None:
    done = jobs.run("--ssh-client", client, "--label", "none", "-H", "[fd80::11]:1,n2-v6:1", "hostname")
    assert done.returncode == 0 and sorted(done.stdout.split()) == ["n1", "n2"], done.stderr


def test_a_revoked_host_key_is_refused(jobs: Jobs) -> None:
    with ssh_config(jobs, "UserKnownHostsFile ~/.ssh/none\n"):
        jobs.cluster.output("sh", "-c", "sed -n 's/^n1[^ ]* /@revoked * /p' /etc/ssh/ssh_known_hosts > .ssh/none")
        assert jobs.cluster.run("ssh", "n1", "true").returncode != 0, "ssh itself accepts the revoked key"
        for client in ("auto", "openssh"):
            done = jobs.run("--ssh-client", client, "-H", "n1:1", "true")
            assert done.returncode == 125 and "its key has been revoked" in done.stderr, f"{client}: {done.stderr}"
        done = jobs.run("--ssh-client", "libssh", "-H", "n1:1", "true")
        assert done.returncode == 125 and "the system's ssh is needed for @revoked in " in done.stderr, done.stderr
        assert jobs.run("-H", "n2:1", "true").returncode == 0, "a revoked key of another host is refused"


def test_all_known_hosts_files_are_checked(jobs: Jobs) -> None:
    """A key that differs from the one in the second file is a changed key, not a new one."""
    with ssh_config(jobs, "UserKnownHostsFile ~/.ssh/none ~/.ssh/known\nGlobalKnownHostsFile /dev/null\n"):
        jobs.cluster.output("sh", "-c", "grep '^n1' /etc/ssh/ssh_known_hosts > .ssh/known")
        done = jobs.run("--verbose", "-H", "n1:1", "true")
        assert done.returncode == 0 and re.search(r"n1 +\d+ +ssh ", done.stderr), done.stderr
        jobs.cluster.output("sh", "-c", "sed -n 's/^n2[^ ]* /n1 /p' /etc/ssh/ssh_known_hosts > .ssh/known")
        done = jobs.run("--ssh-accept-new", "-H", "n1:1", "true")
        assert done.returncode == 125 and "has changed" in done.stderr, done.stderr
        done = jobs.run("--ssh-client", "libssh", "-H", "n1:1", "true")
        assert done.returncode == 125 and "a further file of known hosts" in done.stderr, done.stderr


def test_a_host_with_a_full_dev_shm_is_an_error(jobs: Jobs) -> None:
    jobs.cluster.output("mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "none", "/dev/shm", on="n2", user="root")
    try:
        done = jobs.run("-H", "n1:1,n2:1", "true")
        assert done.returncode == 125 and "n2: cannot make the job's folder /dev/shm/hvd-" in done.stderr, done.stderr
        assert "No space left on device" in done.stderr, done.stderr
    finally:
        jobs.cluster.output("umount", "/dev/shm", on="n2", user="root")


@CLIENTS
def test_a_host_without_the_users_home_refuses_the_login(jobs: Jobs, client: str) -> None:
    """The home has the authorized keys."""
    jobs.cluster.output("mount", "-t", "tmpfs", "none", "/home", on="n2", user="root")
    try:
        done = jobs.run("--ssh-client", client, "-H", "n1:1,n2:1", "true")
        assert done.returncode == 125 and "n2: the login was refused" in done.stderr, done.stderr
    finally:
        jobs.cluster.output("umount", "/home", on="n2", user="root")


@pytest.mark.gate
def test_a_working_directory_missing_on_the_hosts_is_an_error(jobs: Jobs) -> None:
    """The caller's working directory exists on the login host only."""
    jobs.cluster.output("mkdir", "/tmp/only-here")
    done = jobs.run("-H", "n1:1,n2:1", "true", folder="/tmp/only-here")
    jobs.cluster.output("rmdir", "/tmp/only-here")
    assert done.returncode == 2 and "cannot enter the working directory /tmp/only-here on n" in done.stderr, done.stderr


def test_the_start_timeout_reports_the_state_of_each_host(jobs: Jobs) -> None:
    jobs.cluster.freeze("n2")
    done = jobs.run("-H", "n1:1,n2:1", "--start-timeout", 10, "true")
    assert done.returncode == 124, done.stderr
    assert "hvdrun: error: n2: no answer: still logging in" in done.stderr and "hvdrun: error: n1: ready" in done.stderr, done.stderr
    jobs.cluster.thaw("n2")
    wait_until(lambda: not jobs.left(), "the cleanup after the thaw")


def test_ctrl_c_during_the_start_ends_all_agents(jobs: Jobs) -> None:
    jobs.cluster.freeze("n2")
    job = jobs.start("-H", "n1:1,n2:1", "true")
    wait_until(lambda: jobs.processes("n1"), "the agent on n1 to start")
    job.send_signal(signal.SIGINT)
    code, _, err = finish(job)
    assert code == 130 and "interrupted: stopping the start" in err, err
    jobs.cluster.thaw("n2")
    wait_until(lambda: not jobs.left(), "the cleanup after the thaw")


@pytest.mark.gate
def test_nothing_is_left_after_launches_in_a_row(jobs: Jobs) -> None:
    for _ in range(500 if SOAK else 5):
        done = jobs.run("-np", 8, "--pmix", "off", "-H", "n[1-4]:2", "true")
        assert done.returncode == 0, done.stderr
    assert not jobs.left()
