"""Carrying what ranks print: whole lines, each with its label, whatever the bytes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess

import pytest

from harness import HOSTNAME, HVDRUN, PYTHON, SOAK, TIME_LIMIT, Done, Sandbox, program, read_bytes, wait_until


def shell(text: str) -> tuple[str, str, str]:
    return ("sh", "-c", text)


@pytest.mark.core
def test_lines_are_labelled_with_the_rank_when_there_are_several(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("echo hello")).expect(0)
    assert sorted(done.out_lines) == ["[0] hello", "[1] hello"]


def test_a_single_rank_has_no_label(sandbox: Sandbox) -> None:
    assert sandbox.run("-np", 1, *shell("echo hello")).expect(0).out == b"hello\n"


@pytest.mark.parametrize("label, expected", [
    ("none", "x"),
    ("rank", "[1] x"),
    ("rank@host", rf"\[1@{re.escape(HOSTNAME)}\] x"),
    ("<{rank}/{size} {local_rank} {stream}> ", "<1/2 1 stdout> x"),
])
def test_label(sandbox: Sandbox, label: str, expected: str) -> None:
    done = sandbox.run("-np", 2, "--label", label, "--only-rank", "1", *shell("echo x")).expect(0)
    assert re.fullmatch(expected if "@" in label else re.escape(expected), done.out_text.rstrip("\n"))


@pytest.mark.parametrize("option", ["-prefix-timestamp", "--prefix-output-with-timestamp"])
def test_timestamps_are_the_time_of_the_rank_in_milliseconds(sandbox: Sandbox, option: str) -> None:
    done = sandbox.run("-np", 2, option, *shell("echo x")).expect(0)
    assert all(re.search(r"\d\d:\d\d:\d\d\.\d{3}", line) and line.endswith("x") for line in done.out_lines)


@pytest.mark.core
def test_stdout_and_stderr_are_kept_apart(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("echo out; echo err >&2")).expect(0)
    assert sorted(done.out_lines) == ["[0] out", "[1] out"]
    assert {"[0] err", "[1] err"} <= set(done.err_text.splitlines())


@pytest.mark.core
def test_a_last_line_without_newline_is_a_line(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, *shell("printf end")).expect(0)
    assert sorted(done.out_lines) == ["[0] end", "[1] end", "[2] end"] and done.out.endswith(b"\n")


def test_a_partial_line_is_shown_without_waiting_for_its_end(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, *shell(f"printf 'prompt> '; until [ -e {sandbox.files}/go ]; do sleep 0.01; done; echo done"))
    wait_until(lambda: running.out.count(b"prompt> ") == 2, "both prompts on the screen")
    (sandbox.files / "go").touch()
    done = running.wait().expect(0)
    assert done.out_text.count("done") == 2
    # Two ranks' partial lines never share a line.
    assert all(len(re.findall(r"\[\d\]", line)) <= 1 for line in done.out_lines)


def test_progress_bars_with_carriage_returns(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell(r"printf '10%%\r50%%\r100%%\n'")).expect(0)
    for rank in range(2):
        assert f"[{rank}]" in done.out_text
    assert done.out.count(b"100%") == 2
    # Each piece that is shown stands after its own rank's label.
    for line in re.split(rb"[\r\n]+", done.out.strip()):
        assert re.match(rb"\[[01]\] ", line), done


def test_bytes_are_passed_as_they_are(sandbox: Sandbox) -> None:
    payload = bytes(byte for byte in range(256) if byte not in b"\r\n")
    data = sandbox.files / "data"
    data.write_bytes(payload + b"\n")
    done = sandbox.run("-np", 2, "cat", data).expect(0)
    assert sorted(done.out.split(b"\n")) == sorted([b"", b"[0] " + payload, b"[1] " + payload])


def test_lines_of_ten_megabytes_arrive_whole(sandbox: Sandbox) -> None:
    length = 10_000_000
    done = sandbox.run("-np", 2, program("print_lines"), "--lines", 2, "--length", length).expect(0)
    lines = done.out.split(b"\n")
    assert len(done.out) == 4 * (length + len("[0] ")), done
    assert sorted(line[:8] for line in lines if line) == [b"[0] r0 0", b"[0] r0 1", b"[1] r1 0", b"[1] r1 1"]


@pytest.mark.core
@pytest.mark.parametrize("options", [[], ["--alternate"]])
def test_no_line_of_many_is_broken_lost_or_out_of_order(sandbox: Sandbox, options: list[str]) -> None:
    ranks, lines, length = 4, 250_000 if SOAK else 25_000, 100
    done = sandbox.run("-np", ranks, program("print_lines"), "--lines", lines, "--length", length, *options).expect(0)
    for stream, parity in ((done.out, 0), (done.err, 1)):
        if not options and parity == 1:
            continue
        seen = [[] for _ in range(ranks)]
        for line in stream.decode().splitlines():
            if line.startswith("hvdrun: "):
                continue
            found = re.fullmatch(r"\[(\d)\] r(\d) (\d+) x+", line)
            assert found and found[1] == found[2] and len(line) == length - 1 + len("[0] "), f"broken: {line!r}"
            seen[int(found[1])].append(int(found[3]))
        wanted = [counter for counter in range(lines) if not options or counter % 2 == parity]
        assert all(counters == wanted for counters in seen)


def test_output_filename_gives_each_rank_its_files(sandbox: Sandbox) -> None:
    folder = sandbox.files / "logs/of today"
    done = sandbox.run("-np", 2, "--output-filename", folder, *shell("echo out $HVD_RANK; printf err >&2")).expect(0)
    for rank in range(2):
        # Horovod's names: the number has as many digits as the job's greatest rank needs, at least.
        [place] = [path for path in folder.glob("rank.*") if int(path.name.removeprefix("rank.")) == rank]
        assert re.fullmatch(r"rank\.\d+", place.name)
        assert (place / "stdout").read_text() == f"out {rank}\n"
        assert (place / "stderr").read_text().rstrip("\n") == "err"
    assert sorted(done.out_lines) == ["[0] out 0", "[1] out 1"], "the terminal shows it as well"


def test_output_folders_are_numbered_with_four_digits(sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, "--output-filename", sandbox.files / "logs", "true").expect(0)
    assert sorted(path.name for path in (sandbox.files / "logs").iterdir()) == [".hvdrun", "rank.0000", "rank.0001"]


IN_TURNS = """
import os
for number in range(0, 400, 2):
    os.write(1, b"line %d\\n" % number)
    os.write(2, b"line %d\\n" % (number + 1))
"""


def test_a_rank_keeps_the_order_of_its_streams_in_one_place(sandbox: Sandbox) -> None:
    log = sandbox.files / "log"
    with open(log, "wb") as file:
        sandbox.start("-np", 2, PYTHON, "-c", IN_TURNS, stdout=file, stderr=subprocess.STDOUT).wait().expect(0)
    for rank in range(2):
        lines = [line for line in log.read_text().splitlines() if line.startswith(f"[{rank}]")]
        assert lines == [f"[{rank}] line {number}" for number in range(400)]
    with open(log, "wb") as file:
        failing = "for step in range(3): print('step', step)\nraise SystemExit('at the end')"
        sandbox.start("-np", 1, PYTHON, "-c", failing, stdout=file, stderr=subprocess.STDOUT).wait().expect(1)
    assert log.read_text().splitlines()[:4] == ["step 0", "step 1", "step 2", "at the end"]


def test_a_part_of_a_job_after_a_requeue_keeps_what_there_is(sandbox: Sandbox) -> None:
    """SLURM_RESTART_COUNT is what SLURM sets then; SLURM itself is in tests/cluster."""
    logs, report = sandbox.files / "logs", sandbox.files / "run.json"
    for part in range(2):
        sandbox.run("-np", 2, "--output-filename", logs, "--report", report, *shell(f"echo part {part}"),
                    env={"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": str(part)}).expect(0)
    assert (logs / "rank.0001/stdout").read_text() == "part 0\npart 1\n"
    assert sorted(path.name for path in sandbox.files.glob("run.json*")) == ["run.json", "run.json.job12.part0"]
    sandbox.run("-np", 1, "--output-filename", logs, *shell("echo by hand")).expect(0)
    assert (logs / "rank.0000/stdout").read_text() == "by hand\n"
    assert not (logs / "rank.0001").exists(), "an earlier run's further ranks are not this run's"


def test_two_jobs_at_once_do_not_share_a_folder(sandbox: Sandbox) -> None:
    words = ("-np", 1, "--output-filename", sandbox.files / "logs")
    first = sandbox.start(*words, *shell("echo first; exec sleep 7777"))
    first.wait_for(b"first")
    second = sandbox.run(*words, "touch", sandbox.files / "started").expect(2)
    assert f"the hvdrun with process id {first.pid} on " in second.err_text
    assert not (sandbox.files / "started").exists()
    first.signal(signal.SIGTERM)
    first.wait().expect(128 + signal.SIGTERM)
    assert (sandbox.files / "logs/rank.0000/stdout").read_text() == "first\n"
    sandbox.run(*words, "true").expect(0)


def test_only_rank_hides_the_others_on_the_terminal_alone(sandbox: Sandbox) -> None:
    folder = sandbox.files / "logs"
    done = sandbox.run("-np", 4, "--only-rank", "0,2-3", "--output-filename", folder, *shell("echo x; echo y >&2"))
    assert sorted(done.expect(0).out_lines) == ["[0] x", "[2] x", "[3] x"]
    assert "[1]" not in done.err_text
    assert (folder / "rank.0001/stdout").read_text() == "x\n"


def test_colour_only_where_asked(sandbox: Sandbox) -> None:
    assert b"\x1b[" not in sandbox.run("-np", 2, *shell("echo x")).expect(0).out
    colours = sandbox.run("-np", 2, "--color", "always", *shell("echo x")).expect(0).out.splitlines()
    assert all(line.startswith(b"\x1b[") and line.endswith(b"x") for line in colours)
    assert len({line[:8] for line in colours}) == 2, "each rank has its own colour"


@pytest.mark.slow
@pytest.mark.measures
def test_a_slow_reader_slows_the_ranks_and_memory_stays_bounded(sandbox: Sandbox) -> None:
    megabytes, progress = 200, sandbox.files / "progress"
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, program("print_lines"), "--lines", megabytes * 10_000, "--length", 100,
                            "--progress", progress, stdout=write_end)
    os.close(write_end)
    try:
        wait_until(lambda: sandbox.lines_of("progress"), "the first megabyte")
        wait_until(lambda: ranks_are_blocked(sandbox), "ranks that wait for the reader")
        written = sum(max(sizes) for sizes in written_by_rank(sandbox))
        assert written < 100 << 20, "the ranks ran ahead of a reader that reads nothing"
        for pid in (running.pid, running.helper("hvdrun-agent")):
            assert resident_bytes(pid) < 64 << 20
        received = 0
        while chunk := os.read(read_end, 1 << 20):
            received += len(chunk)
    finally:
        os.close(read_end)
    running.wait().expect(0)
    assert received == 2 * megabytes * 10_000 * (100 + len("[0] "))


def ranks_are_blocked(sandbox: Sandbox) -> bool:
    return all(b"pipe" in read_bytes(f"/proc/{pid}/wchan") or b"sock" in read_bytes(f"/proc/{pid}/wchan")
               for pid in sandbox.ranks().values())


def written_by_rank(sandbox: Sandbox) -> list[list[int]]:
    return [[int(words[1]) for words in sandbox.lines_of("progress")] or [0]]


def resident_bytes(pid: int) -> int:
    return int(read_bytes(f"/proc/{pid}/statm").split()[1]) * resource.getpagesize()


@pytest.mark.core
def test_a_reader_that_leaves_ends_the_job(sandbox: Sandbox) -> None:
    """As in `hvdrun … | head -1`."""
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, "yes", stdout=write_end)
    os.close(write_end)
    assert os.read(read_end, 4)
    os.close(read_end)
    done = running.wait()
    assert done.code != 0 and not done.survivors, done
    assert len(done.err) < 10_000, "it is said once"


def test_a_closed_stdout_is_no_crash(sandbox: Sandbox) -> None:
    done = sandbox.run(*("-c", 'exec "$0" "$@" >&-', HVDRUN, "-np", 2, "sh", "-c", "echo x; exit 3"), tool="/bin/sh")
    assert 0 < done.code < 128 and not done.survivors, done


@pytest.mark.parametrize("closing", ["<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_leak_into_anything(sandbox: Sandbox, closing: str) -> None:
    """Descriptors 0 to 2 must not come to mean the job's own pipes or files."""
    marker = sandbox.files / "marker"
    done = sandbox.run("-c", f'exec "$0" "$@" {closing}', HVDRUN, "-np", 2, "sh", "-c",
                       f"cat; echo ran >> {marker}", tool="/bin/sh")
    assert not done.survivors and done.code < 128, done
    assert marker.read_text() == "ran\nran\n"


def test_a_rank_that_closes_its_stdout_runs_on(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("exec >&- 2>&-; sleep 0.2; exit 0")).expect(0)
    assert done.report["exit_code"] == 0


def test_output_of_children_that_outlive_their_rank_is_not_waited_for_without_end(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, *shell("(sleep 1000; echo late) & echo early")).expect(0)
    assert done.out == b"early\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("choice", ["continue", "stop"])
def test_a_full_disk_under_the_files(sandbox: Sandbox, choice: str) -> None:
    folder = sandbox.files / "small"
    folder.mkdir()
    sandbox.mounts.append(f"mount -t tmpfs -o size=256k tmpfs {folder}")
    lines = 20_000
    done = sandbox.run("-np", 2, "--output-filename", folder / "logs", "--on-output-error", choice,
                       program("print_lines"), "--lines", lines, "--length", 100)
    assert "No space left on device" in done.err_text, done
    assert done.err_text.count("No space left on device") <= 6, "said once a file, and in the report"
    if choice == "continue":
        assert len(done.expect(0).out_lines) == 2 * lines, "the terminal still gets everything"
    else:
        assert done.code == 125 and not done.survivors, done


@pytest.mark.parametrize("choice,code", [("continue", 0), ("stop", 125)])
def test_a_full_disk_under_stdout_is_said(sandbox: Sandbox, choice: str, code: int) -> None:
    """Where output counts, ranks that have all succeeded by then are no success."""
    with open("/dev/full", "wb") as full:
        done = sandbox.start("-np", 2, "--on-output-error", choice, *shell("echo x"), stdout=full).wait().expect(code)
    assert "No space left on device" in done.err_text and not done.survivors, done
    assert ("succeeded" in done.err_text) == (code == 0), done


def log_on_a_small_disk(sandbox: Sandbox, rank: str) -> tuple[Done, dict, str]:
    """hvdrun's stdout and stderr in one file of a disk of 64 KiB, as the log of a batch job; a ballast fills half of that."""
    folder = sandbox.files / "small"
    folder.mkdir()
    sandbox.mounts.append(f"mount -t tmpfs -o size=64k tmpfs {folder}")
    report = sandbox.files / "small.json"
    done = sandbox.run("-c", 'head -c 32k /dev/zero > small/ballast; "$0" "$@" > small/log 2>&1; code=$?; cat small/log; exit $code',
                       HVDRUN, "-np", 1, "--report", report, "sh", "-c", rank, tool="/bin/sh")
    assert not done.survivors
    return done, json.loads(report.read_text()), done.out_text


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_log_that_cannot_be_written_is_never_silent(sandbox: Sandbox) -> None:
    done, report, log = log_on_a_small_disk(sandbox, "yes | head -c 100000")
    assert done.code == report["exit_code"] == 125, done
    assert report["reason"] == "hvdrun's last lines could not be written" and report["ranks"][0]["exit_code"] == 0
    assert any("bytes for hvdrun's stdout and stderr were lost: " in note and "No space left on device" in note
               for note in report["notes"]), report["notes"]
    assert "hvdrun: " not in log


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_log_that_can_be_written_again_says_what_it_lacks(sandbox: Sandbox) -> None:
    """The rank frees the disk when hvdrun must have failed to write: it has taken more than it ever holds."""
    done, report, log = log_on_a_small_disk(sandbox, "yes | head -c 20000000; rm small/ballast")
    assert done.code == report["exit_code"] == 0 and report["reason"] == "", done
    lost, succeeded = log.splitlines()[-2:]
    assert re.fullmatch(r"hvdrun: note: \d+ bytes for hvdrun's stdout and stderr were lost: .*No space left on device.*", lost), lost
    assert succeeded.startswith("hvdrun: note: 1 rank succeeded in "), succeeded


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_failed_rank_decides_though_the_log_cannot_be_written(sandbox: Sandbox) -> None:
    done, report, _ = log_on_a_small_disk(sandbox, "yes | head -c 100000; exit 3")
    assert done.code == report["exit_code"] == 3 and report["first_failure"] == 0, done


def test_a_terminal_shows_lines_as_they_come(sandbox: Sandbox) -> None:
    import pexpect

    words = sandbox.command([HVDRUN, "-np", 2, "sh", "-c", f"echo first; until [ -e {sandbox.files}/go ]; do sleep 0.01; done"])
    child = pexpect.spawn(words[0], words[1:], env=sandbox.environment(), cwd=str(sandbox.files), timeout=TIME_LIMIT)
    child.expect("first")
    child.expect("first")
    (sandbox.files / "go").touch()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_python_traceback_arrives_whole_and_in_order(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, PYTHON, "-c", "def f():\n  raise ValueError('boom')\nf()").expect(1)
    lines = done.err_text.splitlines()
    end = lines.index("ValueError: boom")
    assert lines[0].startswith("Traceback") and all(not line.startswith("hvdrun") for line in lines[:end])


def test_head_gets_its_line_from_a_shell(sandbox: Sandbox) -> None:
    words = sandbox.command(["sh", "-c", '"$0" -np 2 yes 2>/dev/null | head -1', HVDRUN])
    done = subprocess.run(words, env=sandbox.environment(), stdout=subprocess.PIPE, timeout=TIME_LIMIT, check=False)
    assert done.stdout in (b"[0] y\n", b"[1] y\n")
    wait_until(lambda: not sandbox.processes(), "the end of the job")
