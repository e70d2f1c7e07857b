"""The report at the end of a job: as text on stderr, and with --report as JSON."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pexpect
import pytest

from harness import (BUILD, HVDRUN, PYTHON, TIME_LIMIT, Done, Running, Sandbox, program, python_environment, read_bytes,
                     wait_until)


def crashed(sandbox: Sandbox, *options: object, ranks: int = 4) -> object:
    """Runs a job in which rank 2 fails by the given options of tests/programs/crash while the others wait."""
    running = sandbox.start("-np", ranks, "--grace", "0.3", program("crash"), "--rank", 2, "--ready",
                            sandbox.files / "ready", "--when", sandbox.files / "go", *options)
    wait_until(lambda: len(sandbox.lines_of("ready")) == ranks, "all ranks")
    (sandbox.files / "go").touch()
    return running.wait()


@pytest.mark.core
def test_the_report_of_a_failure_has_rank_pid_code_and_last_lines(sandbox: Sandbox) -> None:
    done = crashed(sandbox, "--exit", "3", "--say", "cannot open the data").expect(3)
    pid = dict(sandbox.lines_of("ready"))["2"]
    text = done.err_text
    assert re.search(r"rank 2\b.*\b3\b", text), text
    assert pid in text
    assert re.search(r"0-1,3\b.*stopped by hvdrun", text), "the other ranks do not share one line"
    report = text[text.index("rank 2", text.index("cannot open the data") + 1) :]
    assert "cannot open the data" in report, "the report lacks the rank's last line on stderr"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_the_report_names_the_signal_that_killed_a_rank(sandbox: Sandbox, number: signal.Signals) -> None:
    done = crashed(sandbox, "--signal", int(number)).expect(128 + number)
    assert re.search(rf"rank 2\b.*{number.name}", done.err_text), done


def test_the_report_repeats_the_last_20_lines_of_stderr(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, "sh", "-c", "for i in $(seq 100); do echo line $i >&2; done; exit 3").expect(3)
    assert done.err.count(b"line 81\n") == 2 and done.err.count(b"line 100\n") == 2
    assert done.err.count(b"line 80\n") == 1
    assert done.report["ranks"][0]["last_stderr"] == [f"line {number}" for number in range(81, 101)]


def test_the_report_of_a_successful_job_is_one_line(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "true").expect(0)
    assert re.fullmatch(r"hvdrun: note: 2 ranks succeeded in .*\n", done.err_text)


def test_the_json_report_of_a_job_with_libhvd_has_its_counters(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, BUILD / "bin/examples/digits", "--epochs", 12).expect(0)
    host, = done.report["hosts"]
    assert host["ranks"] == [0, 1] and host["cpu_cores"] > 0 and host["gpus"] == []
    assert host["collective_seconds"] >= host["waiting_seconds"]
    for rank in done.report["ranks"]:
        counters = rank["counters"]
        assert counters["epochs_over"] == 12
        assert [epoch["epoch"] for epoch in counters["epochs"]] == list(range(2, 12)), "not the last ten epochs"
        assert all(epoch["seconds"] > 0 for epoch in counters["epochs"])
        assert counters["steps"] == 12 * 23 and counters["metrics"].keys() == {"loss", "accuracy"}
    samples = [sum(rank["counters"]["epochs"][i]["samples"] for rank in done.report["ranks"]) for i in range(10)]
    assert samples == [1438] * 10, "not each sample was read once per epoch"
    assert done.report["stragglers"] is None


def test_the_report_names_a_straggler(sandbox: Sandbox) -> None:
    go = sandbox.files / "go"
    running = sandbox.start("-np", 3, program("latecomer"), "--late", 1, "--until", go)
    stack = waiting_table(sandbox, running)
    wait_until(lambda: max(stack()) >= 1.5, "ranks to wait longer than a second")
    go.touch()
    done = running.wait().expect(0)
    assert re.search(r"rank 1 on \S+ is slow: others have waited \S+ s in collectives", done.err_text), done
    assert done.report["stragglers"]["ranks"] == [1]


def waiting_table(sandbox: Sandbox, running: Running) -> Callable[[], list[float]]:
    """Returns a function that asks hvdrun for its table of states, and returns the waiting times in it so far."""
    def ask() -> list[float]:
        running.signal(signal.SIGQUIT)
        return [0.0] + [float(text) for text in re.findall(r"grad\.3\D*([0-9.]+) s", running.err.decode())]
    wait_until(lambda: len(sandbox.ranks()) == 3, "the ranks")
    return ask


GPU = "GPU-00000000-0000-0000-0000-000000000001,0000:17:00.0,NVIDIA H200,150754820096,busy 75 31000000000"
HOT_GPU = "GPU-00000000-0000-0000-0000-000000000002,0000:65:00.0,NVIDIA H200,150754820096,busy 85 40000000000"
UUID, HOT_UUID = GPU.split(",")[0], HOT_GPU.split(",")[0]


class WatchedJob:
    """A job with a double of NVML, whose ranks write their GPU memory into a file for it and then wait."""

    def __init__(self, sandbox: Sandbox, ranks: int, script: str, *options: object, **environment: object) -> None:
        self._asked, self._go, self._pids = (sandbox.files / name for name in ("asked", "go", "pids"))
        doubles = {"LD_LIBRARY_PATH": BUILD / "lib/doubles", "HVD_FAKE_NVML_LOG": self._asked, "HVD_FAKE_NVML_PIDS": self._pids}
        variables = {name: str(value) for name, value in {**doubles, **environment}.items()}
        script = f"has() {{ echo $* >> {self._pids}; }}; {script}; until [ -e {self._go} ]; do sleep 0.01; done"
        self.running = sandbox.start("-np", ranks, *options, "sh", "-c", script, env=variables)

    def wait_for_samples(self, count: int, processes: int = 0) -> None:
        """Waits until all processes are in NVML's list and it was then asked `count` times."""
        def is_running() -> bool:
            return self.running.process.poll() is None
        wait_until(lambda: read_bytes(self._pids).count(b"\n") >= processes or not is_running(), "the processes in NVML's list")
        before = read_bytes(self._asked).count(b"\n") if processes else 0
        wait_until(lambda: read_bytes(self._asked).count(b"\n") >= before + count or not is_running(), "samples of NVML")

    def asking_thread(self) -> int:
        return int(read_bytes(self._asked).split()[1])

    def end(self) -> Done:
        self._go.touch()
        return self.running.wait()


def test_the_report_has_the_use_of_gpus(sandbox: Sandbox) -> None:
    """The rank runs until NVML is asked for the second time: the agent has then stored the first answer."""
    job = WatchedJob(sandbox, 1, "true", HVD_FAKE_NVML=GPU)
    job.wait_for_samples(2)
    done = job.end().expect(0)
    assert re.search(r"hvdrun:   on \S+: 1 GPU 75 % busy, peak memory of one 31\.0 GB\n", done.err_text), done
    gpu, = done.report["hosts"][0]["gpus"]
    assert gpu.pop("samples") >= 1
    assert gpu == {"uuid": UUID, "device": "GPU 0 (NVIDIA H200, 0000:17:00.0)", "busy_percent": 75,
                   "peak_memory_bytes": 31_000_000_000, "peak_celsius": None, "mean_watts": None, "peak_watts": None,
                   "throttling": None}
    assert done.report["ranks"][0]["peak_gpu_memory_bytes"] is None


def test_the_report_has_throttled_gpus_and_the_gpu_memory_of_each_rank(sandbox: Sandbox) -> None:
    """Rank 0 has a child on its GPU. Ranks 1 and 3 share the other GPU; rank 3 has its own PID namespace, like a container.
    Another program uses both GPUs."""
    gpus = f"{GPU} heat 65 power 600000 clocks 4;{HOT_GPU} heat 91 power 400000 clocks 44"
    # /proc/self/stat gives the shell's pid in the PID namespace of the test.
    own = f"read pid rest < /proc/self/stat; echo \\$pid %s >> {sandbox.files / 'pids'}; " \
          f"until [ -e {sandbox.files / 'go'} ]; do sleep 0.01; done"
    container = "unshare --pid --fork" if sandbox.isolated else ""
    script = f"""case $HVD_RANK in
        0) has $$ 7000000000 {UUID}; sh -c "{own % f'5000000000 {UUID}'}" & ;;
        1) has $$ 9000000000 {HOT_UUID} ;;
        2) has $$ -1 {UUID}; has 1 30000000000 ;;
        3) {container} sh -c "{own % f'8000000000 {HOT_UUID}'}" ;;
        esac"""
    job = WatchedJob(sandbox, 4, script, "--oversubscribe", HVD_FAKE_NVML=gpus)
    job.wait_for_samples(4, processes=6)
    done = job.end().expect(0)
    memory = [rank["peak_gpu_memory_bytes"] for rank in done.report["ranks"]]
    assert memory == [12_000_000_000, 9_000_000_000, None, 8_000_000_000]
    cool, hot = done.report["hosts"][0]["gpus"]
    assert (cool["peak_celsius"], cool["mean_watts"], cool["throttling"]) == (65, 600, [{"reason": "power cap", "percent": 100}])
    assert hot["device"] == "GPU 1 (NVIDIA H200, 0000:65:00.0)" and hot["peak_watts"] == 400
    assert hot["throttling"] == [{"reason": "power cap", "percent": 100}, {"reason": "HW thermal slowdown", "percent": 100}]
    assert done.report["attempts"][0]["peak_gpu_memory_bytes"] == 12_000_000_000
    lines = done.err_text
    assert re.search(r"hvdrun:   on \S+: 2 GPUs 80 % busy, peak memory of one 40\.0 GB \(12\.0 GB of a rank\), up to 91 °C, 500 W each, "
                     r"throttled: power cap 100 %, HW thermal slowdown 50 %\n", lines), done
    assert re.search(r"hvdrun: warning: GPU 1 \(NVIDIA H200, 0000:65:00\.0\) on \S+ was throttled: HW thermal slowdown in 100 % of "
                     r"the samples, up to 91 °C\n", lines), done


def test_the_report_has_the_gpu_memory_of_a_spare(sandbox: Sandbox) -> None:
    """It is started later than the rank, in another slot."""
    script = f"has $$ $((7 + HVD_MEMBER))000000000 $([ $HVD_MEMBER = 0 ] && echo {UUID} || echo {HOT_UUID})"
    job = WatchedJob(sandbox, 1, script, "--min-np", 1, "-H", "localhost:2", "--spares", 1, HVD_FAKE_NVML=f"{GPU};{HOT_GPU}")
    job.wait_for_samples(4, processes=2)
    done = job.end().expect(0)
    assert [rank["peak_gpu_memory_bytes"] for rank in done.report["ranks"]] == [7_000_000_000, 8_000_000_000], done
    assert len(done.report["hosts"][0]["gpus"]) == 2, done


def test_gpus_of_each_attempt_are_reported(sandbox: Sandbox) -> None:
    """A GPU that was throttled in the first attempt is reported when the second begins. The final report is the last attempt's."""
    first = sandbox.files / "first"
    job = WatchedJob(sandbox, 1, f"if [ $HVD_RESTART_COUNT = 0 ]; then has $$ 5000000000; until [ -e {first} ]; do sleep 0.01; done; "
                     f"exit 3; fi; has $$ 4000000000", "--max-restarts", 1, HVD_FAKE_NVML=f"{HOT_GPU} heat 91 clocks 40")
    job.wait_for_samples(2, processes=1)
    first.touch()
    job.wait_for_samples(2, processes=2)
    done = job.end().expect(0)
    assert [attempt["peak_gpu_memory_bytes"] for attempt in done.report["attempts"]] == [5_000_000_000, 4_000_000_000]
    assert done.report["ranks"][0]["peak_gpu_memory_bytes"] == 4_000_000_000
    assert done.err_text.count("was throttled: HW thermal slowdown in 100 % of the samples") == 2, done


@pytest.mark.parametrize("question", [1, 2])
def test_a_gpu_that_does_not_answer_does_not_delay_the_jobs_end(sandbox: Sandbox, question: int) -> None:
    """The agent ends without the answer. The report has the earlier answers."""
    job = WatchedJob(sandbox, 1, "true", HVD_FAKE_NVML=GPU, HVD_FAKE_NVML_HANG=question)
    job.wait_for_samples(question)
    done = job.end().expect(0)
    assert [gpu["samples"] for gpu in done.report["hosts"][0]["gpus"]] == [1] * (question - 1)
    assert ("75 % busy" in done.err_text) == (question > 1), done


class HeldThread:
    """Stops a thread by ptrace at its exit, so that it cannot end before release(): like a thread that hangs in the kernel."""

    SEIZE, DETACH, TRACE_EXIT = 0x4206, 17, 0x40

    def __init__(self, thread: int) -> None:
        self._thread = thread
        if self._ptrace(self.SEIZE, self.TRACE_EXIT) != 0:
            pytest.skip("ptrace is not allowed here")

    def _ptrace(self, request: int, data: int) -> int:
        call = ctypes.CDLL(None).ptrace
        call.restype = ctypes.c_long
        return call(ctypes.c_long(request), ctypes.c_long(self._thread), None, ctypes.c_void_p(data))

    def release(self) -> None:
        """Waits until the thread has reached its exit, and lets it end."""
        wait_until(lambda: os.waitpid(self._thread, os.WNOHANG | 0x40000000)[0] != 0, "the end of the thread")  # __WALL
        assert self._ptrace(self.DETACH, 0) == 0


@pytest.mark.parametrize("code", [0, 3])
def test_a_gpu_that_hangs_in_the_kernel_does_not_delay_the_jobs_end(sandbox: Sandbox, code: int) -> None:
    """The agent's process then cannot end, so its guard ends without it."""
    job = WatchedJob(sandbox, 1, f"trap 'exit {code}' EXIT", HVD_FAKE_NVML=GPU, HVD_FAKE_NVML_HANG=1)
    job.wait_for_samples(1)
    held = HeldThread(job.asking_thread())
    try:
        done = job.end()
    finally:
        held.release()
    assert done.expect(code).report["ranks"][0]["exit_code"] == code


@pytest.mark.core
def test_the_json_report_of_a_failure_describes_each_rank(sandbox: Sandbox) -> None:
    report = crashed(sandbox, "--exit", "3", "--say", "words").expect(3).report
    assert report["exit_code"] == 3 and report["first_failure"] == 2
    pids = {int(rank): int(pid) for rank, pid in sandbox.lines_of("ready")}
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2, 3]
    for rank in report["ranks"]:
        assert rank["pid"] == pids[rank["rank"]] and rank["host"]
    blamed, other = report["ranks"][2], report["ranks"][0]
    assert blamed["exit_code"] == 3 and blamed["ended"] == "exit" and blamed["last_stderr"] == ["words"]
    assert other["signal"] == "SIGTERM" and other["ended"] == "stopped by hvdrun"


def test_the_json_report_of_a_successful_job_describes_each_rank(sandbox: Sandbox) -> None:
    report = sandbox.run("-np", 2, "true").expect(0).report
    assert report["exit_code"] == 0 and report["first_failure"] is None
    for rank in report["ranks"]:
        assert rank["exit_code"] == 0 and rank["ended"] == "exit"
        assert 0 < rank["seconds"] <= report["wall_seconds"]


@pytest.mark.slow
@pytest.mark.measures
def test_the_json_report_has_cpu_time_and_memory_of_each_rank(sandbox: Sandbox) -> None:
    script = f'if [ "$HVD_RANK" = 0 ]; then exec "{program("memory_hog")}" --megabytes 200; else exec "{program("busy")}" --seconds 0.5; fi'
    hog, busy = sandbox.run("-np", 2, "sh", "-c", script).expect(0).report["ranks"]
    assert 200 << 20 <= hog["peak_memory_bytes"] < 260 << 20
    assert busy["peak_memory_bytes"] < 50 << 20
    assert 0.4 <= busy["user_seconds"] + busy["system_seconds"]
    assert busy["seconds"] >= 0.4


def test_an_unwritable_report_is_an_error_before_ranks_start(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--report", "/nonexistent/report.json", "touch", sandbox.files / "started")
    assert done.code == 2 and "/nonexistent/report.json" in done.err_text
    assert not (sandbox.files / "started").exists()


def test_the_report_has_the_status_page_of_a_killed_rank(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", program("status_writer")).expect(137)
    assert "the loss is not a number" in done.err_text and "allreduce layer7.weight" in done.err_text
    blamed = done.report["ranks"][0]
    assert blamed["last_error"] == "the loss is not a number"
    assert blamed["in_collective"] == "allreduce layer7.weight"


@pytest.mark.parametrize("code", [0, 3])
def test_a_rank_that_truncates_the_status_file_does_not_fail_the_job(sandbox: Sandbox, code: int) -> None:
    script = (f'if [ "$HVD_RANK" = 1 ]; then : > "${{HVD_STATUS%@*}}"; echo truncated; fi; '
              f'until [ -e "{sandbox.files}/go" ]; do sleep 0.01; done; [ "$HVD_RANK" = 0 ] || exit {code}')
    running = sandbox.start("-np", 2, "--grace", "0.3", "sh", "-c", script)
    running.wait_for(b"truncated")
    running.signal(signal.SIGQUIT)  # the agent reads all pages for the table of ranks
    running.wait_for(b"state\n", "err")
    (sandbox.files / "go").touch()
    done = running.wait().expect(code)
    assert done.report["ranks"][1]["exit_code"] == code and done.report["ranks"][1]["ended"] == "exit", done


def test_control_characters_of_a_status_page_are_escaped_in_the_report(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--grace", "0.3", program("status_writer"), "--hostile").expect(3)
    ours = [line for line in done.err.split(b"\n") if line.startswith(b"hvdrun:")]
    assert not [line for line in ours if re.search(rb"[\0-\x08\x0b-\x1f\x7f]|\xc2\x9b", line)], ours
    assert any(b"it was in red \\x1b[31m bell \\x07 line" in line for line in ours), "the error is not printed in escaped form"
    assert not any(line.startswith(b"hvdrun: note: 2 ranks") for line in ours), "the rank has faked a line of hvdrun"
    hostile = [rank for rank in done.report["ranks"] if rank["counters"]]
    assert hostile, "no rank has counters"
    for rank in hostile:
        counters = rank["counters"]
        assert counters["waiting_seconds"] <= counters["collective_seconds"] <= rank["seconds"] + 1e-9, rank
        assert all(epoch["seconds"] <= rank["seconds"] for epoch in counters["epochs"]), rank


FAILS = 'if [ "$HVD_RANK" = 1 ]; then echo "why it failed" >&2; exit 3; fi; sleep 1000'


def on_terminal(sandbox: Sandbox, *arguments: object, term: str = "dumb") -> str:
    words = sandbox.command([HVDRUN, *arguments])
    child = pexpect.spawn(words[0], words[1:], env=sandbox.environment({"TERM": term}), cwd=str(sandbox.files),
                          timeout=TIME_LIMIT, dimensions=(24, 200))
    shown = child.read().decode().replace("\r\n", "\n")
    child.close()
    return shown


def test_the_cause_is_the_last_line_on_a_terminal_and_shown_stderr_is_not_repeated(sandbox: Sandbox) -> None:
    shown = on_terminal(sandbox, "-np", 2, "sh", "-c", FAILS)
    assert shown.count("why it failed") == 1, shown
    assert re.fullmatch(r"hvdrun: error: rank 1 on \S+ failed: exit code 3 \(.*\); its last lines on stderr are above",
                        shown.splitlines()[-1]), shown


def test_stderr_that_has_scrolled_off_the_terminal_is_repeated(sandbox: Sandbox) -> None:
    """Rank 0 prints more than a screen after hvdrun has received the failed rank's stderr."""
    script = ('if [ "$HVD_RANK" = 1 ]; then echo "why it failed" >&2; until [ -e printed ]; do sleep 0.01; done; exit 3; fi;'
              "until grep -rqs why logs; do sleep 0.01; done; seq 1000; touch printed; sleep 1000")
    shown = on_terminal(sandbox, "-np", 2, "--output-filename", "logs", "sh", "-c", script)
    assert shown.count("why it failed") == 2 and shown.endswith("hvdrun:   | why it failed\n"), shown


def test_stderr_of_a_hidden_rank_is_in_the_report(sandbox: Sandbox) -> None:
    shown = on_terminal(sandbox, "-np", 2, "--only-rank", 0, "sh", "-c", FAILS)
    assert shown.endswith("hvdrun:   | why it failed\n"), shown


def test_the_report_in_a_file_ends_with_the_cause(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "sh", "-c", FAILS).expect(3)
    assert re.search(r"hvdrun: note: job stopped after \S+ s; exit code 3\nhvdrun: error: rank 1 on \S+ failed: .*\n"
                     r"hvdrun:   its last lines on stderr:\nhvdrun:   \| why it failed\n\Z", done.err_text), done


FOLLOWS = """
import os, sys, time
sys.stderr.write("\\r 10%|#  | 1/10")
if os.environ["HVD_RANK"] == "1":
    raise ValueError("bad batch")
while not os.path.exists("logs/rank.0001/stderr") or "bad batch" not in open("logs/rank.0001/stderr").read():
    time.sleep(0.01)
raise ConnectionResetError(104, "Connection reset by peer")
"""


def test_a_log_has_the_traceback_once_and_the_ranks_that_fail_for_it_in_one_line(sandbox: Sandbox) -> None:
    """Rank 1 fails, and the others then lose their connections to it. The program's ranks do not join each other."""
    (sandbox.files / "follows.py").write_text(FOLLOWS)
    words = sandbox.command([HVDRUN, "-np", 3, "--output-filename", "logs", sys.executable, "follows.py"])
    with open(sandbox.files / "log", "wb") as log:
        ended = subprocess.run(words, env=sandbox.environment(), cwd=sandbox.files, stdout=log, stderr=log, timeout=TIME_LIMIT)
    shown = (sandbox.files / "log").read_text()
    assert ended.returncode == 1, shown
    assert shown.count("Traceback") == shown.count("ValueError: bad batch") == 1, shown
    assert re.search(r"hvdrun: error: rank 1 on \S+ failed: exit code 1 .*; its last lines on stderr are above\n\Z", shown), shown
    followed = re.search(r"hvdrun: note: (ranks? \S+) then failed for a lost connection: ConnectionResetError: ", shown)
    stopped = re.search(r"hvdrun: note: (ranks? \S+): stopped by hvdrun", shown)
    assert followed or stopped, shown
    if followed and "0" in followed.group(1):
        assert "ConnectionResetError" in (sandbox.files / "logs/rank.0000/stderr").read_text(), "the file lacks the traceback"


def test_the_report_begins_at_the_traceback(sandbox: Sandbox) -> None:
    (sandbox.files / "fails.py").write_text('import sys, warnings\nwarnings.warn("old")\nsys.stderr.write("\\r 10%|#  | 1/10")\n1/0\n')
    done = sandbox.run("-np", 1, sys.executable, "fails.py").expect(1)
    assert "its last lines on stderr:\nhvdrun:   | Traceback (most recent call last):\n" in done.err_text, done


@pytest.mark.parametrize("words, severity", [(("--nope",), "error"), (("-np", 1, "true"), "note"),
                                             (("--max-restarts", 1, "-np", 1, "false"), "warning")])
def test_each_line_of_hvdrun_has_a_severity(sandbox: Sandbox, words: tuple[object, ...], severity: str) -> None:
    done = sandbox.run(*words)
    assert f"hvdrun: {severity}: " in done.err_text, done
    assert all(re.match("hvdrun: (error: |warning: |note: | )", line) for line in done.err_text.splitlines()), done


def test_the_severity_is_coloured_on_a_terminal(sandbox: Sandbox) -> None:
    assert "hvdrun: \x1b[1;31merror:\x1b[0m rank 1 on " in on_terminal(sandbox, "-np", 2, "sh", "-c", FAILS, term="xterm")
    assert "hvdrun: \x1b[1;31merror:\x1b[0m unknown option" in on_terminal(sandbox, "--nope", term="xterm")
    assert "\x1b" not in on_terminal(sandbox, "--color", "never", "-np", 2, "sh", "-c", FAILS, term="xterm")


@pytest.mark.parametrize("variables, is_colored", [({"FORCE_COLOR": "1"}, True), ({"CLICOLOR_FORCE": "1"}, True), ({"FORCE_COLOR": "0"}, False),
                                                   ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({}, False)])
def test_environment_variables_force_colours(sandbox: Sandbox, variables: dict[str, str], is_colored: bool) -> None:
    done = sandbox.run("-np", 2, "echo", "hello", env=variables).expect(0)
    assert ("\x1b[1;36mnote:" in done.err_text) == is_colored and ("\x1b[" in done.out_text) == is_colored, done


def test_ctrl_c_in_a_hang_reports_which_rank_waited_for_which(sandbox: Sandbox) -> None:
    job = sandbox.start("-np", 2, "--stall-check-warning-time-seconds", "1.1", program("latecomer"), "--late", 1,
                        "--until", sandbox.files / "never", "--name", "grad")
    job.wait_for(b'allreduce "grad" has waited', "err")
    job.signal(signal.SIGINT)
    done = job.wait().expect(130)
    late = done.report["ranks"][1]["pid"]
    assert re.search(rf'^hvdrun: note: rank 0 had waited \d+\.\d s in allreduce "grad" for rank 1 on \S+ \(pid {late}\)$',
                     done.err_text, re.MULTILINE), done
    share = re.search(r"^hvdrun:   on \S+: .*, (\d+) % waiting for the slowest rank$", done.err_text, re.MULTILINE)
    assert share and int(share[1]) > 0, done
    assert re.search(r"rank 1 on \S+ was stuck: it never reached allreduce grad, in which others waited", done.err_text), done
    assert "is slow" not in done.err_text, done
    wait, = done.report["waits"]
    assert (wait["collective"], wait["waiting"], wait["missing"]) == ("allreduce grad", [0], [1]) and wait["seconds"] > 1
    counters = done.report["ranks"][0]["counters"]
    assert counters["collective_seconds"] > 1 and counters["waiting_seconds"] > 1
    assert done.report["ranks"][1]["counters"]["waiting_seconds"] == 0
    assert done.report["stragglers"]["ranks"] == [1] and done.report["stragglers"]["missed"] == "allreduce grad"


def test_ctrl_c_reports_what_ranks_without_libhvd_did(sandbox: Sandbox) -> None:
    """If a rank is a shell that waits for its only child, the report describes the child."""
    job = sandbox.start("-np", 2, "sh", "-c", "if [ $HVD_RANK = 0 ]; then sleep 1000; exit 3; fi; while :; do :; done")
    wait_until(lambda: len(sandbox.ranks()) == 2, "the ranks")
    ranks = sandbox.ranks()
    wait_until(lambda: all(seconds_since_start(pid) > 2.1 for pid in ranks.values()), "both ranks to run for two seconds")
    job.signal(signal.SIGINT)
    done = job.wait().expect(130)
    sleeps, computes = (rank["at_stop"] for rank in done.report["ranks"])
    assert (sleeps["program"], sleeps["system_call"]) == ("sleep", "clock_nanosleep") and sleeps["pid"] != ranks[0]
    assert (computes["program"], computes["pid"]) == ("sh", ranks[1]) and computes["cpu_seconds"] > 0
    line = rf"^hvdrun: note: rank 0 on \S+ had run \d+\.\d+ s \(CPU \S+ s\), in the system call clock_nanosleep: sleep, pid {sleeps['pid']}$"
    assert re.search(line, done.err_text, re.MULTILINE), done
    assert re.search(rf"^hvdrun: note: rank 1 on .*: sh, pid {ranks[1]}$", done.err_text, re.MULTILINE), done
    assert "type hvdrun why in another terminal" in done.err_text, done


def seconds_since_start(pid: int) -> float:
    ticks = int(read_bytes(f"/proc/{pid}/stat").rpartition(b") ")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_reports_a_rank_that_has_not_called_hvd_init(sandbox: Sandbox) -> None:
    job = sandbox.start("-np", 2, "sh", "-c", f'[ $HVD_RANK = 1 ] && exec sleep 1000; exec "{program("latecomer")}"')

    def has_waited() -> bool:
        job.signal(signal.SIGQUIT)  # prints the table of ranks
        return re.search(rb", in hvd_init for (1\.[1-9]|[2-9]|\d\d)", job.err) is not None

    wait_until(sandbox.ranks, "the ranks")
    wait_until(has_waited, "more than a second in hvd_init")
    job.signal(signal.SIGINT)
    done = job.wait().expect(130)
    assert re.search(r"^hvdrun: note: rank 0 had waited \d+\.\d s in hvd_init for rank 1 on ", done.err_text, re.MULTILINE), done


@pytest.mark.slow  # hvdrun prints the note after five seconds
@pytest.mark.parametrize("running", [1, 2])
def test_the_note_about_ranks_that_still_run_uses_singular_and_plural(sandbox: Sandbox, running: int) -> None:
    ready = sandbox.files / "go"
    job = sandbox.start("-np", 3, "sh", "-c", f"[ $HVD_RANK -ge {running} ] || until [ -e {ready} ]; do sleep 0.1; done")
    job.wait_for(b"still run", "err")
    ready.touch()
    words = "rank 0 still runs; the others have succeeded" if running == 1 else \
        "ranks 0-1 still run; the others have succeeded"
    assert f"hvdrun: note: {words}\n" in job.wait().expect(0).err_text


@pytest.mark.slow  # hvdrun prints the note after five seconds
def test_a_rank_that_uses_all_gpus_gets_the_advice_ranks_per_host_1(sandbox: Sandbox) -> None:
    """With TensorFlow's MirroredStrategy, for example, each rank computes on every GPU."""
    pids = sandbox.files / "pids"
    gpus = ";".join(f"GPU-{number},0000:1{number}:00.0,NVIDIA H200,150754820096" for number in range(2))
    environment = {"LD_LIBRARY_PATH": str(BUILD / "lib/doubles"), "HVD_FAKE_NVML": gpus, "HVD_FAKE_NVML_PIDS": str(pids)}
    done = sandbox.run("-np", 2, "sh", "-c", f"echo $$ >> {pids}; exec sleep 5.2", env=environment).expect(0)
    assert "these may have been 2 separate runs of the program; a rank used all GPUs of its host by itself, so start it with " \
        "--ranks-per-host 1\n" in done.err_text, done


# Runs until the file GO exists. Arguments: PLACE GO [connected|briefly].
# connected: the ranks connect before that, at a port that rank 0 writes to the file PLACE.
# briefly: the ranks connect after that, at MASTER_PORT, too briefly for hvdrun to see it, like PyTorch's store of rank 0.
# All ranks run long enough for hvdrun to look for connections.
RANKS = """\
import os, socket, sys, time
begun = time.monotonic()
place, go = sys.argv[1:3]
if "connected" in sys.argv:
    if os.environ["HVD_RANK"] == "0":
        server = socket.create_server(("127.0.0.1", 0))
        print(server.getsockname()[1], file=open(place + ".new", "w"), flush=True)
        os.rename(place + ".new", place)
        peer, _ = server.accept()
    else:
        while not os.path.exists(place):
            time.sleep(0.01)
        peer = socket.create_connection(("127.0.0.1", int(open(place).read())))
print("up", flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
if "briefly" in sys.argv:
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["HVD_RANK"] == "0":
        server = socket.create_server(address)
        server.accept()
    else:
        while True:
            try:
                socket.create_connection(address)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
while time.monotonic() < begun + 0.3:
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_ranks_without_connections_get_a_warning_about_separate_runs(sandbox: Sandbox) -> None:
    """A training program that was not written for several ranks does all of its work in each rank."""
    # Leaves a closed connection in the kernel's table: it must not look like one between ranks at this MASTER_PORT.
    with socket.create_server(("127.0.0.1", 0)) as server:
        used_port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", used_port))
        accepted, _ = server.accept()
        client.close()
        accepted.close()
    time.sleep(0.5)  # the times of connections' ends are known to 0.2 s
    begun, go = time.monotonic(), sandbox.files / "go"
    words = (PYTHON, "-c", RANKS, sandbox.files / "port", go)
    strangers = sandbox.start("-np", 2, *words)
    at_used_port = sandbox.start("-np", 2, "-x", f"MASTER_PORT={used_port}", *words)
    connected = sandbox.start("-np", 2, *words, "connected")
    briefly = sandbox.start("-np", 2, *words, "briefly")
    alone = sandbox.start("-np", 1, *words)
    for job, ranks in ((strangers, 2), (at_used_port, 2), (connected, 2), (briefly, 2), (alone, 1)):
        wait_until(lambda job=job, ranks=ranks: job.out.count(b"up") == ranks or job.process.poll() is not None, "the ranks")
    # hvdrun warns about jobs of at least five seconds. It looks for connections whenever the run time has grown by a quarter.
    time.sleep(max(5.2, time.monotonic() - begun))
    go.touch()
    for name, job in {"strangers": strangers, "at_used_port": at_used_port}.items():
        said = job.wait().expect(0)
        assert re.search(r"^hvdrun: warning: no rank was seen to join another one .*: these may have been 2 separate runs of the program; "
                         r"see FRAMEWORKS in hvdrun\(1\)$", said.err_text, re.MULTILINE), (name, said)
    for name, job in {"connected": connected, "briefly": briefly, "alone": alone}.items():
        assert "separate runs" not in job.wait().expect(0).err_text, name


def test_ranks_without_connections_get_a_warning_while_they_run(sandbox: Sandbox) -> None:
    done = sandbox.files / "done"
    job = sandbox.start("-np", 2, "sh", "-c", f"until [ -e {done} ]; do sleep 0.01; done", env={"HVD_JOIN_TIME_SECONDS": "0.5"})
    job.wait_for(b"so far these may be 2 separate runs of the program; see FRAMEWORKS in hvdrun(1)\n", "err")
    done.touch()
    assert job.wait().expect(0).err.count(b"so far these may be") == 1


JOINS_LATE = """\
import os, sys, time
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
import hvd
hvd.init()
while not os.path.exists(sys.argv[2]): time.sleep(0.01)
"""


def test_the_warning_is_taken_back_when_ranks_join(sandbox: Sandbox) -> None:
    go, done = sandbox.files / "go", sandbox.files / "done"
    job = sandbox.start("-np", 2, PYTHON, "-c", JOINS_LATE, go, done, env=python_environment({"HVD_JOIN_TIME_SECONDS": "0.5"}))
    job.wait_for(b"no rank was seen to join another one yet (", "err")
    go.touch()
    job.wait_for(b"hvdrun: note: the ranks have joined each other since: they are one job\n", "err")
    done.touch()
    said = job.wait().expect(0)
    assert said.err.count(b"have joined each other since") == 1 and said.report["may_be_separate_runs"] is False, said


def test_separate_ranks_of_mpich_get_the_advice_to_use_mpiexec(sandbox: Sandbox) -> None:
    """MPICH finds no other ranks under hvdrun, so each process is rank 0 of 1."""
    done, library = sandbox.files / "done", sandbox.files / "libmpich.so.12"
    shutil.copy("/lib/x86_64-linux-gnu/libm.so.6", library)
    job = sandbox.start("-np", 2, PYTHON, "-c", "import ctypes, os, sys, time\nctypes.CDLL(sys.argv[1])\n"
                        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)", library, done, env={"HVD_JOIN_TIME_SECONDS": "0.5"})
    job.wait_for(b"so far these may be 2 separate runs", "err")
    done.touch()
    said = job.wait().expect(0).err_text
    for words in "so far these may be", "these may have been":
        assert f"{words} 2 separate runs of the program; a rank uses MPICH, which finds no other ranks under hvdrun: type MPICH's " \
            "`mpiexec -n` (Debian's mpiexec.mpich) instead of `hvdrun -np`\n" in said


@pytest.mark.parametrize("word, apart", [("separately", True), ("briefly", False)])
def test_the_json_report_says_whether_ranks_may_be_separate_runs(sandbox: Sandbox, word: str, apart: bool) -> None:
    (sandbox.files / "go").touch()
    done = sandbox.run("-np", 2, PYTHON, "-c", RANKS, sandbox.files / "port", sandbox.files / "go", word).expect(0)
    assert done.report["may_be_separate_runs"] is apart


def test_the_json_report_of_a_very_short_job_does_not_say_separate_runs(sandbox: Sandbox) -> None:
    """hvdrun does not look for connections in such jobs: that takes longer than their start."""
    runs: list[Done] = []

    def was_short() -> bool:  # a busy machine may take longer
        runs.append(sandbox.run("-np", 2, "/bin/true").expect(0))
        return runs[-1].report["wall_seconds"] < 0.25

    wait_until(was_short, "a job of less than 0.25 s")
    assert runs[-1].report["may_be_separate_runs"] is False


# The ranks connect at a port that rank 0 writes to the file PLACE. Rank 0 ends when the job is old enough for hvdrun to look
# for connections. Rank 1 keeps its end open until the file GO exists. Arguments: PLACE GO.
LEFT = """\
import os, socket, sys, time
begun = time.monotonic()
place, go = sys.argv[1:]
if os.environ["HVD_RANK"] == "0":
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], file=open(place + ".new", "w"), flush=True)
    os.rename(place + ".new", place)
    peer, _ = server.accept()
    while time.monotonic() < begun + 0.3:
        time.sleep(0.01)
else:
    while not os.path.exists(place):
        time.sleep(0.01)
    peer = socket.create_connection(("127.0.0.1", int(open(place).read())))
    while not os.path.exists(go):
        time.sleep(0.01)
"""


def test_hvdrun_looks_for_connections_when_the_first_rank_ends(sandbox: Sandbox) -> None:
    """The first look by time comes only after a second."""
    go = sandbox.files / "go"
    job = sandbox.start("-np", 2, PYTHON, "-c", LEFT, sandbox.files / "port", go)

    def first_has_ended() -> bool:
        job.signal(signal.SIGQUIT)
        return re.search(rb"^hvdrun: +0 .* exit code 0", job.err, re.MULTILINE) is not None

    wait_until(sandbox.ranks, "the ranks")
    wait_until(first_has_ended, "rank 0's end")
    go.touch()
    assert job.wait().expect(0).report["may_be_separate_runs"] is False


def test_the_report_names_ranks_that_hvdrun_killed(sandbox: Sandbox) -> None:
    script = 'trap "" TERM; touch "$0.$HVD_RANK"; while :; do sleep 0.1; done'
    job = sandbox.start("-np", 2, "--grace", "0.2", "sh", "-c", script, sandbox.files / "ready")
    wait_until(lambda: len(list(sandbox.files.glob("ready.*"))) == 2, "both ranks")
    job.signal(signal.SIGTERM)
    assert "hvdrun: note: ranks 0-1: killed by hvdrun (SIGKILL); --grace TIME gives ranks more time to end\n" in job.wait().expect(143).err_text


def test_the_report_mentions_a_core_dump(sandbox: Sandbox) -> None:
    if not read_bytes("/proc/sys/kernel/core_pattern").strip():
        pytest.skip("this kernel writes no core files")
    done = sandbox.run("-c", 'ulimit -c unlimited; exec "$0" "$@"', hvdrun(), "-np", 1, program("crash"), "--signal", 11,
                       tool="/bin/bash").expect(139)
    assert "core dumped" in done.err_text


def hvdrun() -> str:
    from harness import HVDRUN
    return str(HVDRUN)


def memory_group(sandbox: Sandbox) -> str | None:
    """Makes a cgroup (version 1 or 2) with a memory limit; returns its folder, or None without the right to."""
    for base, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = f"{base}/hvdtest-{sandbox.cookie}"
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(f"{folder}/{limit}"):
            with open(f"{folder}/{limit}", "w") as file:
                file.write(str(128 << 20))
            return folder
        os.rmdir(folder)
    return None


# Script of rank 1, its exit code and what the report says of it.
OUT_OF_MEMORY: dict[str, tuple[str, int, str]] = {
    "the rank": ('exec "$0" --megabytes 1000', 137, "killed by SIGKILL, out of memory (the kernel's OOM killer)"),
    "below a shell": ('"$0" --megabytes 1000; exit $?', 137, "exit code 137; out of memory: the kernel's OOM killer"),
    "a worker": ('"$0" --megabytes 1000 || exit 1', 1, "exit code 1; out of memory: the kernel's OOM killer"),
}


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize("victim", OUT_OF_MEMORY)
def test_the_report_names_the_oom_killer_as_cause(sandbox: Sandbox, victim: str) -> None:
    script, code, text = OUT_OF_MEMORY[victim]
    if not (group := memory_group(sandbox)):
        pytest.skip("needs the right to make a cgroup with a memory limit")
    try:
        done = sandbox.run("-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, hvdrun(), "-np", 2, "sh", "-c",
                           f'[ "$HVD_RANK" = 0 ] && exec sleep 1000; {script}', program("memory_hog"), tool="/bin/sh").expect(code)
        assert re.search(rf"rank 1\b.*{re.escape(text)}", done.err_text), done
    finally:
        wait_until(lambda: not read_bytes(f"{group}/cgroup.procs"), "an empty cgroup")
        os.rmdir(group)


def test_writing_the_report_does_not_follow_a_symbolic_link(sandbox: Sandbox) -> None:
    precious = sandbox.files / "precious"
    precious.write_text("precious")
    report = sandbox.files / "own.json"
    (sandbox.files / "own.json.part").symlink_to(precious)
    sandbox.run("-np", 1, "--report", report, "true").expect(0)
    assert precious.read_text() == "precious"
    assert report.stat().st_size > 0


def test_a_program_that_fails_without_tf_config_gets_the_advice_for_tensorflow(sandbox: Sandbox) -> None:
    """With the advised option the program succeeds."""
    script = sandbox.files / "train.py"
    script.write_text("import os; print(os.environ['TF_CONFIG'])\n")
    done = sandbox.run("-np", 2, PYTHON, script).expect(1)
    advice = done.err_text.splitlines()[-1]
    assert advice.startswith("hvdrun: note: --for tensorflow sets TF_CONFIG: hvdrun --for tensorflow "), done
    assert advice.endswith(f" -np 2 {PYTHON} {script}"), done
    sandbox.run("-np", 2, "--for", "tensorflow", PYTHON, script).expect(0)


def test_the_note_on_an_abort_at_pythons_exit_says_the_work_may_be_done(sandbox: Sandbox) -> None:
    """Threads of PyTorch can make the C++ library abort while Python exits."""
    script = sandbox.files / "train.py"
    script.write_text("import atexit, ctypes\n"
                      "atexit.register(ctypes.CDLL('libstdc++.so.6')._ZSt9terminatev)\n"
                      "print('trained', flush=True)\n")
    done = sandbox.run("-np", 1, PYTHON, script).expect(128 + signal.SIGABRT)
    assert "hvdrun: note: rank 0 may have finished its work: programs of PyTorch can abort like this at their exit if they do " \
        "not call torch.distributed.destroy_process_group()\n" in done.err_text, done
    script.write_text(f"{script.read_text()}raise ValueError('no data')\n")
    assert "may have finished" not in sandbox.run("-np", 1, PYTHON, script).expect(128 + signal.SIGABRT).err_text
