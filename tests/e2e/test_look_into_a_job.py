"""Looking into a running job from another terminal: hvdrun jobs --here, logs and top.

Jobs of other tests run at the same time as the same user. Each job is therefore named by the pid of its hvdrun.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pexpect
import pytest

from harness import HVDRUN, PYTHON, Running, Sandbox, alive, process_state, python_environment, wait_until
from terminal import is_raw, spawn, wait_raw

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
# Prints a line, and another one when the file "go" is there.
PRINTS = 'echo "rank $HVD_RANK begins"; while ! test -e go; do sleep 0.02; done; echo "rank $HVD_RANK ends"'
# Rank 1 computes and holds 64 MiB more. Rank 0 sleeps between its steps.
STEPS = """\
import hvd, time
hvd.init()
step = 0
held = bytearray(64 << 20) if hvd.rank() == 1 else b""
while True:
    step += 1
    hvd.progress(step=step, samples=8)
    end = time.monotonic() + 0.02
    while hvd.rank() == 1 and time.monotonic() < end: pass
    time.sleep(max(0, end - time.monotonic()))
"""


def of_no_job(sandbox: Sandbox) -> dict[str, str]:
    """Returns variables of a command that may outlive the sandbox's job."""
    return sandbox.environment({"HVD_TEST_COOKIE": f"{sandbox.cookie}.look."})


def look(sandbox: Sandbox, *words: object, code: int = 0) -> str:
    """Runs a command of hvdrun that ends with this code. Returns all that it has printed."""
    done = subprocess.run([HVDRUN, *map(str, words)], capture_output=True, text=True, timeout=60, env=sandbox.environment(),
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, done
    return done.stdout + done.stderr


def listed(sandbox: Sandbox, job: Running) -> str:
    """Returns the job's row of hvdrun jobs; "" if it is not there."""
    return next((row for row in look(sandbox, "jobs", "--here").splitlines() if row.split()[:1] == [str(job.pid)]), "")


def start(sandbox: Sandbox, *words: object, env: dict[str, str] | None = None) -> Running:
    """Starts a job, and waits until it can be looked into."""
    job = sandbox.start("--grace", "200ms", *words, env=env)
    wait_until(lambda: " running " in listed(sandbox, job), "the job's row")
    return job


def start_two_ranks(sandbox: Sandbox, *words: object) -> Running:
    job = start(sandbox, "-np", 2, *words, "sh", "-c", PRINTS)
    wait_until(lambda: job.out.count(b"begins") == 2, "the first lines")
    return job


def end(job: Running) -> None:
    job.signal(signal.SIGTERM)
    job.wait()


def test_a_job_is_listed_and_its_lines_are_shown_until_its_end(sandbox: Sandbox) -> None:
    job = start_two_ranks(sandbox)
    row = re.split(r"  +", listed(sandbox, job))
    assert row[:4] == [str(job.pid), "running", "2", "1"] and row[6] == f"hvdrun top {job.pid}", row
    assert row[7].startswith("sh -c ") and "begins" in row[7], row
    [about] = [each for each in json.loads(look(sandbox, "jobs", "--here", "--json")) if each["pid"] == job.pid]
    assert about["command"] == ["sh", "-c", PRINTS] and about["trouble"] is None, about
    cancelled = look(sandbox, "cancel", job.pid, code=2)
    assert f"{job.pid} is no job of SLURM but an hvdrun that runs on this machine; to end it and its ranks: kill -INT {job.pid}\n" in cancelled
    assert sorted(look(sandbox, "logs", job.pid).splitlines()) == ["[0] rank 0 begins", "[1] rank 1 begins"]
    assert look(sandbox, "logs", "--rank", "1", job.pid) == "[1] rank 1 begins\n"
    assert look(sandbox, "logs", "-n", "0", job.pid) == ""
    assert "there is no rank 7: the job has 2 ranks" in look(sandbox, "logs", "--rank", "7", job.pid, code=2)
    shown = sandbox.files / "shown"
    with open(shown, "wb") as file:
        follower = subprocess.Popen([HVDRUN, "logs", "-f", "--rank", "1", str(job.pid)], stdout=file, stderr=file, env=of_no_job(sandbox))
    wait_until(lambda: b"begins" in shown.read_bytes(), "the line that was there")
    (sandbox.files / "go").touch()
    job.wait().expect(0)
    assert follower.wait(60) == 0
    assert shown.read_text().splitlines() == ["[1] rank 1 begins", "[1] rank 1 ends", "hvdrun: note: the job has ended"]
    assert f"no job {job.pid} of yours runs on this machine" in look(sandbox, "logs", job.pid, code=2)


def test_of_two_jobs_one_must_be_named_and_one_that_is_stopped_or_killed_is_named(sandbox: Sandbox) -> None:
    jobs = [start(sandbox, "-np", 1, "sleep", 1000 + number) for number in range(2)]
    for word in ("top", "logs", "why"):
        said = look(sandbox, word, code=2)
        assert f"of yours run here; name one, such as hvdrun {word} " in said, said
        assert all(f"\n  {job.pid} " in said and f"sleep {1000 + number}" in said for number, job in enumerate(jobs)), said
    assert "999999999 of yours runs on this machine" in look(sandbox, "top", 999999999, code=2)
    assert "train.py is no job" in look(sandbox, "top", "train.py", code=2)
    stopped, killed = jobs
    stopped.signal(signal.SIGSTOP)
    wait_until(lambda: process_state(stopped.pid) == "T", "the stop")
    assert f"hvdrun {stopped.pid} is stopped and does not answer; kill -CONT {stopped.pid}" in look(sandbox, "top", stopped.pid, code=125)
    stopped.signal(signal.SIGCONT)
    end(stopped)
    sockets = [path for folder in (Path("/tmp"), Path("/run/user"), sandbox.tmp) for path in folder.glob(f"*/{killed.pid}-*")]
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert listed(sandbox, killed) == ""
    assert sockets and not any(path.exists() for path in sockets), sockets
    wait_until(lambda: not sandbox.processes(), "the killed job's ranks to end")


@pytest.mark.slow
def test_a_job_can_be_looked_into_as_soon_as_its_hvdrun_has_been_started(sandbox: Sandbox) -> None:
    job = sandbox.start("-np", 2, "sh", "-c", PRINTS)
    wait_until(lambda: Path(f"/proc/{job.pid}/comm").read_text() == "hvdrun\n", "hvdrun's first instruction")
    assert json.loads(look(sandbox, "top", "--once", "--json", job.pid))["ranks"]
    (sandbox.files / "go").touch()
    job.wait().expect(0)


def test_an_hvdrun_that_is_stopped_while_a_command_shows_it_is_named(sandbox: Sandbox) -> None:
    job = start_two_ranks(sandbox)
    shown = sandbox.files / "shown"
    with open(shown, "wb") as file:
        follower = subprocess.Popen([HVDRUN, "logs", "-f", str(job.pid)], stdout=file, stderr=file, env=of_no_job(sandbox))
    child = top(sandbox, job)
    wait_until(lambda: b"begins" in shown.read_bytes(), "the lines")
    job.signal(signal.SIGSTOP)
    says = f"hvdrun {job.pid} is stopped and does not answer; kill -CONT {job.pid} continues it"
    assert follower.wait(60) == 125
    assert says in shown.read_text()
    assert says in listed(sandbox, job)
    child.expect_exact(says)
    job.signal(signal.SIGCONT)
    child.expect_exact("q quit")
    child.send("q")
    assert_left(child, 0)
    end(job)


def test_top_says_once_what_each_rank_does(sandbox: Sandbox) -> None:
    job = start(sandbox, "-np", 2, PYTHON, "-c", STEPS, env=python_environment())
    found: dict = {}

    def have_steps() -> bool:
        found.update(json.loads(look(sandbox, "top", "--once", "--json", job.pid)))
        cpu = [rank["cpu_percent"] or 0 for rank in found["ranks"]]
        return all(rank["step"] > 0 for rank in found["ranks"]) and cpu[1] > 2 * cpu[0]

    wait_until(have_steps, "steps of which rank 1 computes the most")
    assert found["job"]["pid"] == job.pid and found["job"]["ranks"] == 2, found
    idle, busy = found["ranks"]
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    assert sandbox.ranks() == {0: idle["pid"], 1: busy["pid"]}
    assert busy["memory_bytes"] > idle["memory_bytes"] + (48 << 20), found
    assert busy["cpu_seconds"] > 0, found
    assert all(rank["samples"] == 8 * rank["step"] for rank in found["ranks"]), found
    rows = [line.split() for line in look(sandbox, "top", "--once", job.pid).splitlines()]
    title = rows.index(["RANK", "HOST", "PID", "STEP", "SAMPLES/S", "COLL%", "WAIT%", "CPU%", "MEMORY", "STATE"])
    assert [(row[0], row[2]) for row in rows[title + 1:]] == [("0", str(idle["pid"])), ("1", str(busy["pid"]))], rows
    assert all(int(row[3]) >= rank["step"] for row, rank in zip(rows[title + 1:], found["ranks"])), rows
    assert "--sort takes rank" in look(sandbox, "top", "--sort", "colour", job.pid, code=2)
    end(job)


@pytest.mark.parametrize("slurm", ["is missing", "has no cluster", "fails"])
def test_where_there_is_no_slurm_json_has_the_jobs_of_this_machine(sandbox: Sandbox, slurm: str) -> None:
    job = start_two_ranks(sandbox)
    answers = {"has no cluster": 'echo "fatal: Could not establish a configuration source" >&2; exit 1', "fails": "echo refused >&2; exit 1"}
    folder = sandbox.files / "programs"
    folder.mkdir()
    if slurm in answers:
        (folder / "squeue").write_text(f"#!/bin/sh\n{answers[slurm]}\n")
        (folder / "squeue").chmod(0o755)
    done = subprocess.run([HVDRUN, "jobs", "--json"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**sandbox.environment(), "PATH": str(folder)})
    if slurm == "fails":
        assert done.returncode == 125, done
        assert "squeue: refused; hvdrun jobs --here lists those that run on this machine" in done.stderr, done
    else:
        assert done.returncode == 0, done
        assert [each["phase"] for each in json.loads(done.stdout) if each["pid"] == job.pid] == ["running"], done
    end(job)


# ---- --metrics

# The grammar of Prometheus' text format 0.0.4: a comment, or a sample with its labels and its value.
COMMENT = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
UNITS = ("_seconds", "_bytes", "_ratio", "_celsius", "_watts")


def parse_metrics(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Returns the samples of each name. Fails if the text is not in the format, or a name breaks Prometheus' rules."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    types: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if comment := COMMENT.fullmatch(line):
            word, name, rest = comment.groups()
            assert word != "TYPE" or (name not in types and name not in found), line
            if word == "TYPE":
                types[name] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        name, labels, value = sample.groups()
        assert types[name] in ("counter", "gauge") and (types[name] == "counter") == name.endswith("_total"), line
        assert name.startswith("hvdrun_") and name == list(types)[-1], line
        assert not re.search("milli|percent|_mb|_kib", name), line
        assert types[name] == "gauge" or not name.endswith(UNITS), line
        found.setdefault(name, []).append((dict(LABEL.findall(labels)), float(value)))
    for name, samples in found.items():
        assert len({tuple(sorted(labels.items())) for labels, _ in samples}) == len(samples), name
    return found


def test_metrics_are_at_a_port_of_this_machine(sandbox: Sandbox) -> None:
    job = start(sandbox, "-np", 2, "--metrics", ":0", PYTHON, "-c", STEPS, env=python_environment())
    job.wait_for(b"/metrics\n", stream="err")
    [url] = re.findall(r"^hvdrun: note: metrics: (http://127\.0\.0\.1:\d+/metrics)$", job.err.decode(), re.MULTILINE)
    found: dict[str, list[tuple[dict[str, str], float]]] = {}

    def have_steps() -> bool:
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            found.clear()
            found.update(parse_metrics(answer.read().decode()))
        return len(found.get("hvdrun_rank_steps_total", [])) == 2

    wait_until(have_steps, "the steps of two ranks")
    assert [labels["rank"] for labels, _ in found["hvdrun_rank_up"]] == ["0", "1"]
    memory = [value for _, value in found["hvdrun_rank_resident_memory_bytes"]]
    assert memory[1] > memory[0] + (48 << 20), found
    samples = {labels["rank"]: value for labels, value in found["hvdrun_rank_samples_total"]}
    assert samples["0"] >= 8 and samples["0"] % 8 == 0, samples
    [(info, one)] = found["hvdrun_job_info"]
    assert one == 1 and info["phase"] == "running" and found["hvdrun_job_ranks"] == [({"job_id": info["job_id"]}, 2)], found
    wanted = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(wanted, timeout=60) as answer:
        assert answer.read().endswith(b"\n# EOF\n")
    port = re.search(r":(\d+)/", url)
    other = sandbox.start("--metrics", f":{port[1]}", "-np", 1, "sh", "-c", 'while ! test -e go; do sleep 0.02; done')
    other.wait_for(b"cannot listen at 127.0.0.1", stream="err")
    (sandbox.files / "go").touch()
    assert other.wait().code == 0, "the job runs without its metrics"
    end(job)


def test_metrics_are_in_a_file_until_the_job_ends(sandbox: Sandbox) -> None:
    file = sandbox.files / "train.prom"
    job = start(sandbox, "-np", 2, "--metrics", file.name, "sh", "-c", PRINTS)
    wait_until(file.exists, "the file")
    wait_until(lambda: [labels["rank"] for labels, _ in parse_metrics(file.read_text()).get("hvdrun_rank_cpu_seconds_total", [])]
               == ["0", "1"], "both ranks in the file")
    assert file.stat().st_mode & 0o444 == 0o444, "the collector is another user"
    (sandbox.files / "go").touch()
    assert job.wait().code == 0
    assert not list(sandbox.files.glob("*prom*"))


def test_a_pipe_for_metrics_is_not_removed(sandbox: Sandbox) -> None:
    """As root, the same would remove /dev/null."""
    pipe = sandbox.files / "pipe"
    os.mkfifo(pipe)
    job = start(sandbox, "-np", 1, "--metrics", pipe.name, "sh", "-c", PRINTS)
    parse_metrics(pipe.read_text())
    (sandbox.files / "go").touch()
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)):  # a next write has a reader
        assert job.wait().code == 0
    assert pipe.is_fifo()


def test_a_file_for_metrics_that_cannot_be_written_is_a_warning(sandbox: Sandbox) -> None:
    job = start_two_ranks(sandbox, "--metrics", "/no/such/folder/train.prom")
    job.wait_for(b"hvdrun: warning: cannot write /no/such/folder/train.prom (--metrics): ", stream="err")
    (sandbox.files / "go").touch()
    assert job.wait().code == 0
    refused = sandbox.run("--metrics", "0.0.0.0:9400", "true").expect(2).err_text
    assert '--metrics must be a file or :PORT, not "0.0.0.0:9400"; hvdrun listens at 127.0.0.1 only' in refused, refused


# ---- on a terminal

def test_top_says_which_rank_is_a_spare(sandbox: Sandbox) -> None:
    job = start(sandbox, "--min-np", 1, "-np", 1, "-H", "localhost:2", "--spares", 1, "sleep", 1000)
    wait_until(lambda: "not in the job yet" in look(sandbox, "top", "--once", job.pid), "the spare's row")
    rows = [row for row in look(sandbox, "top", "--once", job.pid).splitlines() if re.match(r"[01] ", row)]
    assert len(rows) == 2 and "not in the job" not in rows[0] and rows[1].endswith("sleeping, not in the job yet"), rows
    end(job)


def test_spares_and_lost_ranks_are_no_ranks_of_the_job(sandbox: Sandbox) -> None:
    job = start(sandbox, "--min-np", 1, "-np", 2, "-H", "localhost:3", "--spares", 1, "--metrics", "train.prom", "sleep", 1000)
    wait_until(lambda: "2 ranks and 1 spare on 1 host: " in look(sandbox, "top", "--once", job.pid), "the spare")
    assert " 2, 1 spare " in look(sandbox, "jobs", "--here")
    os.kill(sandbox.ranks()[1], signal.SIGKILL)
    wait_until(lambda: "1 rank and 1 spare on 1 host, 1 lost: " in look(sandbox, "top", "--once", job.pid), "the loss")
    now = json.loads(look(sandbox, "top", "--once", "--json", job.pid))
    assert [rank["role"] for rank in now["ranks"]] == ["member", "lost", "spare"], now
    assert [now["job"][count] for count in ("ranks", "spares", "lost", "ranks_in_all")] == [1, 1, 1, 3], now
    end(job)


def drawn(child: pexpect.spawn) -> None:
    """Waits for the whole screen."""
    child.expect_exact(ENTER)
    child.expect_exact("q quit")
    wait_raw(child)


def assert_left(child: pexpect.spawn, code: int) -> str:
    """The alternate screen is left last of all, and the terminal has its modes again. Returns what came after."""
    child.expect_exact(LEAVE)
    child.expect(pexpect.EOF)
    rest = child.before.decode()
    assert "\x1b[" not in rest, rest
    assert not is_raw(child)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (code, None), rest
    return rest


def top(sandbox: Sandbox, job: Running) -> pexpect.spawn:
    child = spawn(sandbox, HVDRUN, "top", job.pid)
    drawn(child)
    return child


def test_top_leaves_the_terminal_as_it_was(sandbox: Sandbox) -> None:
    job = start_two_ranks(sandbox)
    children = [top(sandbox, job) for _ in range(5)]
    children[0].sendcontrol("z")  # no shell could continue it
    drawn(children[0])
    children[0].send("q")
    children[1].sendcontrol("c")
    children[2].kill(signal.SIGINT)
    children[3].kill(signal.SIGTERM)
    for child, code in zip(children, (0, 130, 130, 143)):
        assert_left(child, code)
    (sandbox.files / "go").touch()
    assert job.wait().code == 0
    rest = assert_left(children[4], 0)
    assert f"hvdrun {job.pid}: " in rest and rest.endswith("the job has ended\r\n"), rest


def test_top_shows_lines_and_the_verdict_and_resumes_after_ctrl_z(sandbox: Sandbox) -> None:
    job = start_two_ranks(sandbox)
    shell = spawn(sandbox, "bash", "--norc", "--noprofile", "-i")
    shell.sendline(f"PS1='$ '; {HVDRUN} top {job.pid}")
    drawn(shell)
    shell.send("j")
    shell.send("l")
    shell.expect_exact("last lines of rank 1")
    shell.expect_exact("rank 1 begins")
    shell.send("x")
    shell.expect_exact("q quit")
    shell.send("s")
    shell.expect_exact("(sorted by waiting)")
    shell.send("f")
    shell.expect_exact("0-1")
    shell.send("w")
    shell.expect_exact(LEAVE)
    shell.expect_exact("type a key to go back")
    shell.send("x")
    drawn(shell)
    shell.sendcontrol("z")
    shell.expect_exact(LEAVE)
    shell.expect("Stopped")
    shell.sendline("echo in the $((1))st")
    shell.expect_exact("in the 1st")
    shell.sendline("fg")
    drawn(shell)
    shell.setwinsize(12, 60)
    shell.expect_exact("q quit")
    shell.send("q")
    shell.expect_exact(LEAVE)
    shell.sendline("echo code=$?")
    shell.expect_exact("code=0")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()
    end(job)
