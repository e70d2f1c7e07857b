"""hvdrun jobs, follow and cancel on the login host, as an ordinary user."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from cluster import Cluster, wait_until
from harness import BUILD, HVDRUN_WORD, SOAK
from settings import TIME_LIMIT_S

HVDRUN = BUILD / "bin/hvdrun"


class Follow:
    """A running `hvdrun follow`, whose output goes to files."""

    def __init__(self, cluster: Cluster, folder: Path, words: tuple[object, ...], **options: object) -> None:
        self._out, self._err = folder / "follow.out", folder / "follow.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = cluster.start(HVDRUN, "follow", *words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                         **options)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, text: str, stream: str = "err") -> None:
        wait_until(lambda: text in getattr(self, stream) or self.process.poll() is not None, f"{text!r} on std{stream}")
        assert text in getattr(self, stream), f"follow ended without {text!r}: {self.out}{self.err}"

    def end(self) -> int:
        try:
            return self.process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"follow does not end: {self.out}{self.err}") from None
        finally:
            self.process.kill()
            self.process.wait()


class Queue:
    """Commands of the ordinary user on the login host, in a folder of the test's own."""

    def __init__(self, cluster: Cluster, shared: Path, tmp_path: Path) -> None:
        self.cluster, self.shared, self._tmp = cluster, shared, tmp_path
        self._follows: list[Follow] = []

    def submit(self, script: str, *options: object, user: str = "user") -> str:
        """Submits a batch script; returns the job's id."""
        folder = self.shared if user == "user" else f"/home/{user}"
        return self.cluster.output("sbatch", "--parsable", *options, input=f"#!/bin/sh\n{script}\n", folder=folder,
                                   user=user).strip()

    def follow(self, *words: object, **options: object) -> Follow:
        folder = self._tmp / str(len(self._follows))
        folder.mkdir()
        self._follows.append(Follow(self.cluster, folder, words, **options))
        return self._follows[-1]

    def hvdrun(self, *words: object, **options: object) -> subprocess.CompletedProcess:
        return self.cluster.run(HVDRUN, *words, **options)

    def wait_for_state(self, job: str, state: str) -> None:
        wait_until(lambda: self.state(job) == state, f"job {job} to be {state}")

    def state(self, job: str) -> str:
        return self.cluster.output("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def path(self, name: str) -> Path:
        """Returns this machine's path of a file in the test's folder."""
        return self.cluster.root_of("login") / str(self.shared / name).lstrip("/")

    @contextmanager
    def full(self) -> Iterator[None]:
        """Keeps all hosts busy with another job."""
        job = self.submit("exec sleep 7777", "-N4", "--exclusive", "--output=/dev/null", "--job-name=busy")
        self.wait_for_state(job, "RUNNING")
        yield
        self.cluster.output("scancel", job)

    def close(self) -> None:
        for follow in self._follows:
            follow.process.kill()
            follow.process.wait()


@pytest.fixture
def queue(cluster: Cluster, shared: Path, tmp_path: Path) -> Iterator[Queue]:
    place = Queue(cluster, shared, tmp_path)
    yield place
    place.close()


def wait_for_file(name: str) -> str:
    """Returns a shell command that waits until the test makes that file."""
    return f"while [ ! -e {name} ]; do sleep 0.02; done"


@pytest.mark.gate
def test_follow_shows_a_job_from_the_queue_to_its_end(queue: Queue) -> None:
    with queue.full():
        job = queue.submit(f"echo one; echo two >&2; echo '\033[32m[3]\033[0m three'; {wait_for_file('go')}; exit 3", "-t10",
                           "-wn1")
        follow = queue.follow(job)
        follow.wait_for(f"hvdrun: note: job {job} is pending (Resources): waits for hosts to become free\n")
    follow.wait_for(f"hvdrun: note: job {job} runs on n1 since ")
    queue.path("go").touch()
    assert follow.end() == 3
    assert follow.out == "one\ntwo\n\033[32m[3]\033[0m three\n"
    assert ", at most 10:00\n" in follow.err
    assert f"hvdrun: note: job {job} failed with exit code 3 after 0:0" in follow.err.splitlines()[-1]


@pytest.mark.gate
def test_follow_shows_output_as_it_grows(queue: Queue) -> None:
    job = queue.submit(f"echo one; {wait_for_file('go')}; printf two", "--output=a %x-%j.txt", "--job-name=odd name = 'x'")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    queue.path("go").touch()
    assert follow.end() == 0
    assert follow.out == "one\ntwo"
    assert f"hvdrun: note: job {job} succeeded" in follow.err


@pytest.mark.gate
def test_follow_shows_a_separate_stderr_file_on_stderr(queue: Queue) -> None:
    job = queue.submit("echo out; echo err >&2", "--error=err-%j.txt")
    follow = queue.follow(job)
    assert follow.end() == 0
    assert follow.out == "out\n" and "\nerr\n" in follow.err


@pytest.mark.gate
def test_follow_names_a_failure_after_which_the_script_has_gone_on(queue: Queue) -> None:
    follow = queue.follow(queue.submit(f"{HVDRUN} -np 1 sh -c 'exit 3'; echo done"))
    assert follow.end() == 0
    assert "hvdrun: warning: hvdrun has reported an error, and the script has continued: rank 0 on n1 failed: exit code 3 (" in follow.err
    assert follow.err.splitlines()[-1].startswith("hvdrun: note: job") and "succeeded" in follow.err.splitlines()[-1]


@pytest.mark.gate
def test_follow_with_no_output_shows_only_the_state(queue: Queue) -> None:
    follow = queue.follow("--no-output", queue.submit("echo out"))
    assert follow.end() == 0 and follow.out == "" and "succeeded" in follow.err


@pytest.mark.gate
def test_follow_skips_the_output_of_an_earlier_job(queue: Queue) -> None:
    queue.cluster.output("tee", queue.shared / "out.txt", input="of an earlier job\n" * 100)
    with queue.full():
        job = queue.submit("echo new", "--output=out.txt")
        follow = queue.follow(job)
        follow.wait_for("is pending (")
    assert follow.end() == 0 and follow.out == "new\n"


@pytest.mark.gate
@pytest.mark.parametrize("script, code, words", [
    ("kill -9 $$", 137, "was ended by SIGKILL"), ("exit 77", 77, "failed with exit code 77"),
    ("exit 0", 0, "succeeded")])
def test_follow_exits_with_the_code_of_a_job_that_has_ended(queue: Queue, script: str, code: int, words: str) -> None:
    job = queue.submit(script, "-wn1")
    wait_until(lambda: queue.state(job) in ("COMPLETED", "FAILED"), "the job to end")
    follow = queue.follow(job)
    assert follow.end() == code
    assert f"hvdrun: note: job {job} ran on n1 from " in follow.err and f"hvdrun: note: job {job} {words}" in follow.err


@pytest.mark.gate
def test_cancel_ends_a_running_job_and_follow_reports_it(queue: Queue) -> None:
    job = queue.submit("echo one; exec sleep 7777")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    done = queue.hvdrun("cancel", job)
    assert done.returncode == 0 and f"cancelling job {job} (sbatch), which was running" in done.stderr
    assert follow.end() == 143 and f"job {job} was cancelled after" in follow.err


@pytest.mark.gate
def test_follow_reports_a_job_that_was_cancelled_in_the_queue(queue: Queue) -> None:
    with queue.full():
        job = queue.submit("true")
        follow = queue.follow(job)
        follow.wait_for("is pending (")
        assert queue.hvdrun("cancel", job).returncode == 0
        assert follow.end() == 143
    assert follow.err.splitlines()[-1] == f"hvdrun: note: job {job} was cancelled" and "output of" not in follow.err


@pytest.mark.gate
def test_follow_reports_a_job_that_ended_with_a_failed_host(queue: Queue) -> None:
    job = queue.submit("echo one; exec sleep 7777", "-w", "n2")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    try:
        queue.cluster.output("scontrol", "update", "nodename=n2", "state=down", "reason=test", user="root")
        assert follow.end() == 125
    finally:
        queue.cluster.run("scontrol", "update", "nodename=n2", "state=resume", user="root")  # it may have returned by itself
    assert f"job {job} was ended because one of its hosts failed" in follow.err


if SOAK:  # SLURM's shortest limit is a minute, and it checks limits twice per minute

    def test_follow_reports_a_job_that_reached_its_time_limit(queue: Queue) -> None:
        follow = queue.follow(queue.submit("exec sleep 7777", "-t1"))
        assert follow.process.wait(180) == 124
        assert "reached its time limit and was ended after 1:" in follow.err

    def test_follow_continues_with_a_requeued_job(queue: Queue) -> None:
        """SLURM delays a requeued job by two minutes."""
        job = queue.submit("echo start $SLURM_RESTART_COUNT; [ $SLURM_RESTART_COUNT ] || exec sleep 7777", "--requeue")
        follow = queue.follow(job)
        follow.wait_for("start\n", "out")
        queue.cluster.output("scontrol", "requeue", job)
        follow.wait_for("was put back into the queue")
        assert follow.process.wait(300) == 0
        assert follow.out.startswith("start\n") and follow.out.endswith("start 1\n")


def test_follow_shows_later_output_of_a_file_that_was_removed(queue: Queue) -> None:
    job = queue.submit(f"echo one; {wait_for_file('go')}; echo two; exit 5", "--output=out.txt")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    queue.path("out.txt").unlink()
    follow.wait_for(f"{queue.shared}/out.txt was removed")
    queue.path("go").touch()
    assert follow.end() == 5 and follow.out == "one\ntwo\n"


def test_follow_continues_with_the_new_file_after_a_rotation(queue: Queue) -> None:
    job = queue.submit(f"echo one; {wait_for_file('go')}", "--output=out.txt")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    queue.path("out.txt").rename(queue.path("out.1"))
    queue.path("out.txt").write_text("new\n")
    follow.wait_for("new\n", "out")
    queue.path("go").touch()
    assert follow.end() == 0 and f"{queue.shared}/out.txt is another file now" in follow.err


def test_follow_continues_after_the_file_was_truncated(queue: Queue) -> None:
    job = queue.submit(f"echo one, and more; {wait_for_file('go')}", "--output=out.txt")
    follow = queue.follow(job)
    follow.wait_for("more\n", "out")
    queue.path("out.txt").write_text("anew\n")
    follow.wait_for("anew\n", "out")
    queue.path("go").touch()
    assert follow.end() == 0 and f"{queue.shared}/out.txt was cut short" in follow.err


@pytest.mark.gate
def test_follow_notes_that_the_output_is_on_another_host(queue: Queue) -> None:
    job = queue.submit("echo one; exit 4", "-w", "n3", "--output=/tmp/job.txt")
    follow = queue.follow(job)
    assert follow.end() == 4 and follow.out == ""
    assert f"the output of job {job} goes to /tmp/job.txt on n3, which is not visible on this host (login)" \
        in follow.err
    queue.cluster.output("rm", "/tmp/job.txt", on="n3")


def test_follow_notes_an_output_that_is_no_regular_file(queue: Queue) -> None:
    follow = queue.follow(queue.submit("echo one", "--output=/dev/null"))
    assert follow.end() == 0 and "cannot read /dev/null: it is no regular file" in follow.err


@pytest.mark.gate
def test_follow_shows_no_output_for_a_job_of_salloc(queue: Queue) -> None:
    salloc = queue.cluster.start("salloc", "-Q", "-N1", "-wn1", "--no-shell", stdin=subprocess.DEVNULL)
    assert salloc.wait(TIME_LIMIT_S) == 0
    job = queue.cluster.output("squeue", "-h", "--me", "-o", "%A").strip()
    follow = queue.follow(job)
    follow.wait_for(f"job {job} runs on n1")
    queue.cluster.output("scancel", job)
    follow.end()
    assert "output" not in follow.err


def test_follow_shows_output_while_slurmctld_does_not_answer(queue: Queue) -> None:
    conf = queue.cluster.output("cat", "/etc/slurm/slurm.conf")
    queue.path("slurm.conf").write_text(conf + "MessageTimeout=1\n")
    job = queue.submit(f"echo one; {wait_for_file('go1')}; echo two; {wait_for_file('go2')}; exit 6")
    follow = queue.follow(job, environment={"SLURM_CONF": str(queue.shared / "slurm.conf")})
    follow.wait_for("one\n", "out")
    with queue.cluster.without_slurmctld():
        follow.wait_for("hvdrun: note: SLURM does not answer (")
        queue.path("go1").touch()
        follow.wait_for("two\n", "out")
    follow.wait_for("hvdrun: note: SLURM answers again")
    queue.path("go2").touch()
    assert follow.end() == 6


@pytest.mark.gate
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_job_continues_after_a_signal_ends_follow(queue: Queue, number: signal.Signals) -> None:
    job = queue.submit("echo one; exec sleep 7777")
    follow = queue.follow(job)
    follow.wait_for("one\n", "out")
    follow.process.send_signal(number)
    assert follow.end() == 128 + number
    assert follow.err.splitlines()[-1] == \
        f"hvdrun: note: job {job} continues; to come back: hvdrun follow {job}; to end it: hvdrun cancel {job}"
    assert queue.state(job) == "RUNNING"


@pytest.mark.gate
def test_follow_explains_why_a_partition_cannot_run_a_job(queue: Queue) -> None:
    # A limit of the partition: SLURM 24.11 refuses at submission what the hosts could never run.
    queue.cluster.output("scontrol", "create", "PartitionName=small", "Nodes=n[1-4]", "MaxNodes=1", user="root")
    job = queue.submit("true", "-N2", "-p", "small")
    try:
        follow = queue.follow(job)
        follow.wait_for("partition small has 4 nodes with 16 CPUs and 4 GPUs each")
        # The reason at submission, or the one that SLURM's scheduler sets soon after.
        reason = (r"\(PartitionConfig\): asks for more hosts, CPUs, GPUs, memory or time than|"
                  r"\(PartitionNodeLimit\): asks for more hosts, or fewer, than")
        assert re.search(fr"^hvdrun: note: job {job} is pending ({reason}) the partition gives to a job: it never starts as it is; "
                         "partition small has 4 nodes", follow.err, re.MULTILINE), follow.err
    finally:
        queue.cluster.output("scancel", job)
        queue.wait_for_state(job, "CANCELLED")
        queue.cluster.output("scontrol", "delete", "PartitionName=small", user="root")


@pytest.mark.gate
def test_ctrl_c_on_a_terminal_ends_follow_and_not_the_job(queue: Queue) -> None:
    job = queue.submit("printf 'no newline'; exec sleep 7777")
    words = queue.cluster.command([HVDRUN, "follow", job], tty=True)
    terminal = pexpect.spawn(words[0], words[1:], timeout=TIME_LIMIT_S)
    terminal.expect("no newline")
    terminal.sendintr()
    terminal.expect(f"\r\nhvdrun: \\S+ job {job} continues; to come back: hvdrun follow {job};")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130
    assert queue.state(job) == "RUNNING"


def test_a_closed_pipe_ends_follow_and_not_the_job(queue: Queue) -> None:
    job = queue.submit(f"yes | head -1000; {wait_for_file('go')}; yes")
    follow = queue.cluster.start("sh", "-c", f"{HVDRUN_WORD} follow {job} | head -1", stdout=subprocess.PIPE, text=True)
    assert follow.stdout.readline() == "y\n"
    queue.path("go").touch()
    assert follow.wait(TIME_LIMIT_S) == 0
    assert queue.state(job) == "RUNNING"


@pytest.mark.gate
def test_follow_works_with_a_job_array_and_one_of_its_tasks(queue: Queue) -> None:
    job = queue.submit("echo task $SLURM_ARRAY_TASK_ID; [ $SLURM_ARRAY_TASK_ID != 2 ]", "--array=1-3%1")
    task, whole = queue.follow(f"{job}_3"), queue.follow(job)
    assert task.end() == 0 and task.out == "task 3\n", task.err
    assert whole.end() == 1 and whole.out == ""
    assert f"job {job} is an array: for the output of one task, hvdrun follow {job}_N" in whole.err
    assert f"job {job}, an array: 2 tasks succeeded, 1 did not; the first, {job}_2, failed with exit code 1" \
        in whole.err


@pytest.mark.gate
def test_jobs_lists_only_the_callers_jobs(queue: Queue) -> None:
    queue.submit("sleep 7777", user="other")
    running = queue.submit("sleep 7777", "-t5", "-w", "n2", "--comment=hvdrun: ./train --lr 0.1")
    queue.wait_for_state(running, "RUNNING")
    waiting = queue.submit("sleep 7777", "-t5", "-w", "n2", "--job-name=a b|c\x1b[31m\nd")
    wait_until(lambda: queue.cluster.output("squeue", "-h", "-j", waiting, "-o", "%r %S").startswith("Resources 2"),
               "SLURM to give a reason and an expected start")
    done = queue.hvdrun("jobs")
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done
    assert lines[0].split() == ["JOB", "NAME", "STATE", "NODES", "ELAPSED", "LEFT", "START", "RUNS"]
    row = {line.split()[0]: line for line in lines[1:]}
    assert " running " in row[running] and " n2 " in row[running] and row[running].endswith(" ./train --lr 0.1")
    assert " pending (Resources) " in row[waiting] and r"a b|c\x1b[31m\nd" in row[waiting]
    listed = {job["id"]: job for job in json.loads(queue.hvdrun("jobs", "--json").stdout)}
    assert set(listed) == {running, waiting}
    assert listed[running]["hosts"] == "n2" and 0 < listed[running]["left"] <= 300
    assert listed[waiting]["name"] == "a b|c\x1b[31m\nd" and listed[waiting]["reason"] == "Resources"
    assert listed[waiting]["expected_start"] > listed[running]["start"]


def test_jobs_calls_squeue_once_for_ten_thousand_jobs(queue: Queue) -> None:
    job = queue.submit("sleep 7777")
    queue.path("squeue").write_text('#!/bin/sh\necho call >> "$LOG"\nyes "$(/usr/bin/squeue "$@")" | head -10000\n')
    queue.path("squeue").chmod(0o755)
    done = queue.hvdrun("jobs", environment={"PATH": f"{queue.shared}:/usr/bin:/bin", "LOG": str(queue.shared / "log")})
    assert done.stdout.count(f"\n{job} ") == 10000
    assert queue.path("log").read_text() == "call\n"


@pytest.mark.gate
def test_jobs_cuts_lines_to_the_width_of_the_terminal(queue: Queue) -> None:
    queue.submit("sleep 7777", "--comment=hvdrun: " + "x" * 300)
    words = queue.cluster.command([HVDRUN, "jobs"], tty=True)
    terminal = pexpect.spawn(words[0], words[1:], timeout=TIME_LIMIT_S, dimensions=(24, 80), encoding="utf-8")
    terminal.expect(pexpect.EOF)
    lines = terminal.before.split("\r\n")
    assert [len(line) for line in lines if line.endswith("x…")] == [80], lines


@pytest.mark.gate
def test_jobs_notes_an_empty_queue(queue: Queue) -> None:
    done = queue.hvdrun("jobs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "hvdrun: note: you have no jobs in the queue\n")
    assert queue.hvdrun("jobs", "--json").stdout == "[]\n"


@pytest.mark.gate
def test_cancel_refuses_jobs_of_other_users(queue: Queue) -> None:
    others = queue.submit("sleep 7777", user="other")
    ended = queue.submit("true")
    queue.wait_for_state(ended, "COMPLETED")
    one, two = queue.submit("sleep 7777"), queue.submit("sleep 7777", "--array=1-3")
    done = queue.hvdrun("cancel", one, others, "999999", ended, f"{two}_[2-3]")
    assert done.returncode == 2, done
    assert f"hvdrun: error: job {others} is not yours but other's: it is left alone\n" in done.stderr
    assert "hvdrun: error: SLURM knows no job 999999" in done.stderr
    assert f"hvdrun: note: job {ended} had ended already: completed\n" in done.stderr
    queue.wait_for_state(one, "CANCELLED")
    left = queue.cluster.output("squeue", "-h", "-r", "-t", "PD,R", "-o", "%i").split()
    assert sorted(left) == sorted([others, f"{two}_1"])


@pytest.mark.gate
def test_follow_refuses_jobs_of_other_users(queue: Queue) -> None:
    job = queue.submit("sleep 7777", user="other")
    done = queue.hvdrun("follow", job)
    assert (done.returncode, done.stderr) == (2, f"hvdrun: error: job {job} is not yours but other's; hvdrun jobs lists yours\n")
    assert queue.hvdrun("follow", "999999").returncode == 2


@pytest.mark.gate
def test_jobs_follow_and_cancel_without_slurm_are_an_error(queue: Queue) -> None:
    for words in (("jobs",), ("follow", "1"), ("cancel", "1")):
        done = queue.hvdrun(*words, environment={"PATH": "/nowhere"})
        assert done.returncode == 127, f"{words}: {done}"
        assert done.stderr.startswith("hvdrun: error: there is no SLURM on this machine: squeue is not"), f"{words}: {done}"


BAD_ARGUMENTS = [
    (("follow", "train"), '"train" is no job id'),
    (("follow", "1", "2"), "hvdrun follow takes one job"), (("follow", "--no-outptu", "1"), "did you mean --no-output?"),
    (("cancel",), "hvdrun cancel needs the numbers of jobs"), (("cancel", "1", "x"), '"x" is no job id'),
    (("jobs", "1"), "to see one: hvdrun follow 1"), (("jobs", "--jsno"), "did you mean --json?")]


@pytest.mark.gate
def test_follow_without_a_number_takes_the_newest_job(queue: Queue) -> None:
    job = queue.submit(f"echo newest; {wait_for_file('go')}")
    follow = queue.follow()
    follow.wait_for(f"hvdrun: note: job {job} is the newest of yours\n")
    queue.path("go").touch()
    assert follow.end() == 0 and follow.out == "newest\n", follow.err


@pytest.mark.gate
@pytest.mark.parametrize("words", ["", "$SLURM_JOB_ID"])
def test_a_batch_script_cannot_follow_its_own_job(queue: Queue, words: str) -> None:
    job = queue.submit(f"{HVDRUN_WORD} follow {words}; echo code $?", "--output=own")
    queue.wait_for_state(job, "COMPLETED")
    text = queue.cluster.output("cat", queue.shared / "own")
    assert text.endswith(f"this is job {job} itself, which would wait for its own end; follow it from another shell\ncode 2\n"), text


@pytest.mark.gate
def test_ranks_on_a_login_node_are_noted_or_refused(queue: Queue) -> None:
    noted = queue.hvdrun("-np", 1, "true")
    assert noted.returncode == 0 and "runs no jobs of SLURM: a login node?" in noted.stderr, noted
    refused = queue.hvdrun("-np", 1, "--login-node", "refuse", "true")
    assert refused.returncode == 2 and "hvdrun sbatch submits a job" in refused.stderr, refused
    for words, host in ((("--login-node", "allow"), "login"), (("--login-node", "refuse"), "n1")):
        allowed = queue.hvdrun("-np", 1, *words, "true", on=host)
        assert allowed.returncode == 0 and "login" not in allowed.stderr, allowed


@pytest.mark.gate
def test_bad_arguments_of_jobs_follow_and_cancel_are_an_error(queue: Queue) -> None:
    for words, said in BAD_ARGUMENTS:
        done = queue.hvdrun(*words)
        assert done.returncode == 2 and said in done.stderr, f"{words}: {done}"


@pytest.mark.gate
def test_help_of_jobs_follow_and_cancel_prints_their_usage(queue: Queue) -> None:
    for command in ("jobs", "follow", "cancel"):
        done = queue.hvdrun(command, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"usage: hvdrun {command}") and not done.stderr, done


@pytest.mark.gate
def test_commands_on_a_host_without_slurm_conf_are_an_error(cluster: Cluster) -> None:
    """SLURM's commands are installed, but slurm.conf is missing."""
    for words in ("follow 12", "jobs", "cancel 12", "sbatch -np 1 --submit -- true", "salloc -np 1 -- true"):
        done = cluster.run("unshare", "--mount", "sh", "-c", f"mount -t tmpfs none /etc/slurm && exec {HVDRUN_WORD} {words}",
                           user="root")
        assert done.returncode != 0, f"{words}: {done}"
        assert "this machine has SLURM's commands, but belongs to no cluster (no slurm.conf)" in done.stderr, f"{words}: {done}"


@pytest.mark.gate
def test_more_nodes_than_the_partition_has_are_an_error(cluster: Cluster) -> None:
    for command in ("sbatch", "salloc"):
        done = cluster.run(HVDRUN, command, "-np", 99, "--", "true")
        assert done.returncode == 2 and "99 ranks on 25 nodes, and partition all has 4" in done.stderr, done.stderr
