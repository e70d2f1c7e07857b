"""The ranks' output reaches hvdrun's stdout and stderr as whole, labelled lines with unchanged bytes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from harness import HOSTNAME, HVDRUN, PYTHON, SOAK, TIME_LIMIT, Done, Sandbox, program, read_bytes, wait_until


def shell(text: str) -> tuple[str, str, str]:
    return ("sh", "-c", text)


@pytest.mark.core
def test_lines_of_several_ranks_have_the_rank_as_label(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("echo hello")).expect(0)
    assert sorted(done.out_lines) == ["[0] hello", "[1] hello"]


def test_lines_of_a_single_rank_have_no_label(sandbox: Sandbox) -> None:
    assert sandbox.run("-np", 1, *shell("echo hello")).expect(0).out == b"hello\n"


@pytest.mark.parametrize("label, expected", [
    ("none", "x"),
    ("rank", "[1] x"),
    ("rank@host", rf"\[1@{re.escape(HOSTNAME)}\] x"),
    ("<{rank}/{size} {local_rank} {stream}> ", "<1/2 1 stdout> x"),
])
def test_label_sets_the_text_before_each_line(sandbox: Sandbox, label: str, expected: str) -> None:
    done = sandbox.run("-np", 2, "--label", label, "--only-rank", "1", *shell("echo x")).expect(0)
    assert re.fullmatch(expected if "@" in label else re.escape(expected), done.out_text.rstrip("\n"))


@pytest.mark.parametrize("option", ["-prefix-timestamp", "--prefix-output-with-timestamp"])
def test_timestamps_of_lines_have_milliseconds(sandbox: Sandbox, option: str) -> None:
    done = sandbox.run("-np", 2, option, *shell("echo x")).expect(0)
    assert all(re.search(r"\d\d:\d\d:\d\d\.\d{3}", line) and line.endswith("x") for line in done.out_lines)


@pytest.mark.core
def test_stdout_and_stderr_of_ranks_stay_separate(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("echo out; echo err >&2")).expect(0)
    assert sorted(done.out_lines) == ["[0] out", "[1] out"]
    assert {"[0] err", "[1] err"} <= set(done.err_text.splitlines())


@pytest.mark.core
def test_a_last_line_without_a_newline_gets_one(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 3, *shell("printf end")).expect(0)
    assert sorted(done.out_lines) == ["[0] end", "[1] end", "[2] end"] and done.out.endswith(b"\n")


def test_a_partial_line_is_shown_before_its_newline(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 2, *shell(f"printf 'prompt> '; until [ -e {sandbox.files}/go ]; do sleep 0.01; done; echo done"))
    wait_until(lambda: running.out.count(b"prompt> ") == 2, "both prompts on stdout")
    (sandbox.files / "go").touch()
    done = running.wait().expect(0)
    assert done.out_text.count("done") == 2
    # Partial lines of two ranks never share a line.
    assert all(len(re.findall(r"\[\d\]", line)) <= 1 for line in done.out_lines)


def test_each_part_of_a_line_with_carriage_returns_has_a_label(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell(r"printf '10%%\r50%%\r100%%\n'")).expect(0)
    for rank in range(2):
        assert f"[{rank}]" in done.out_text
    assert done.out.count(b"100%") == 2
    for line in re.split(rb"[\r\n]+", done.out.strip()):
        assert re.match(rb"\[[01]\] ", line), done


def test_bytes_that_are_no_text_pass_unchanged(sandbox: Sandbox) -> None:
    payload = bytes(byte for byte in range(256) if byte not in b"\r\n")
    data = sandbox.files / "data"
    data.write_bytes(payload + b"\n")
    done = sandbox.run("-np", 2, "cat", data).expect(0)
    assert sorted(done.out.split(b"\n")) == sorted([b"", b"[0] " + payload, b"[1] " + payload])


def test_lines_of_ten_megabytes_are_not_split(sandbox: Sandbox) -> None:
    length = 10_000_000
    done = sandbox.run("-np", 2, program("print_lines"), "--lines", 2, "--length", length).expect(0)
    lines = done.out.split(b"\n")
    assert len(done.out) == 4 * (length + len("[0] ")), done
    assert sorted(line[:8] for line in lines if line) == [b"[0] r0 0", b"[0] r0 1", b"[1] r1 0", b"[1] r1 1"]


@pytest.mark.core
@pytest.mark.parametrize("options", [[], ["--alternate"]])
def test_many_lines_arrive_whole_and_in_order(sandbox: Sandbox, options: list[str]) -> None:
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


def test_output_filename_writes_stdout_and_stderr_of_each_rank_to_files(sandbox: Sandbox) -> None:
    folder = sandbox.files / "logs/of today"
    done = sandbox.run("-np", 2, "--output-filename", folder, *shell("echo out $HVD_RANK; printf err >&2")).expect(0)
    for rank in range(2):
        # As in Horovod, the number has at least as many digits as the greatest rank.
        [place] = [path for path in folder.glob("rank.*") if int(path.name.removeprefix("rank.")) == rank]
        assert re.fullmatch(r"rank\.\d+", place.name)
        assert (place / "stdout").read_text() == f"out {rank}\n"
        assert (place / "stderr").read_text().rstrip("\n") == "err"
    assert sorted(done.out_lines) == ["[0] out 0", "[1] out 1"], "the output must be on stdout too"


def test_output_folders_are_numbered_with_four_digits(sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, "--output-filename", sandbox.files / "logs", "true").expect(0)
    assert sorted(path.name for path in (sandbox.files / "logs").iterdir()) == [".hvdrun", "rank.0000", "rank.0001"]


IN_TURNS = """
import os
for number in range(0, 400, 2):
    os.write(1, b"line %d\\n" % number)
    os.write(2, b"line %d\\n" % (number + 1))
"""


def test_a_rank_keeps_the_order_of_stdout_and_stderr_in_one_file(sandbox: Sandbox) -> None:
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


def test_many_ranks_keep_the_order_of_their_streams_in_one_file(sandbox: Sandbox) -> None:
    ranks, lines = 40, 10
    turns = "; ".join(f"echo {number}{' >&2' if number % 2 else ''}" for number in range(lines))
    running = sandbox.start("-np", ranks, "--pmix", "off", *shell(turns), stderr=subprocess.STDOUT)
    seen = [line.split() for line in running.wait().expect(0).out_lines if line.startswith("[")]
    for rank in range(ranks):
        assert [text for label, text in seen if label == f"[{rank}]"] == [str(number) for number in range(lines)]


def test_the_order_of_two_streams_costs_other_programs_nothing(sandbox: Sandbox) -> None:
    """A user has few instances of inotify on a host, and ranks have the caller's limit on queued signals."""
    limit = resource.getrlimit(resource.RLIMIT_SIGPENDING)[0]
    show = "import resource as r, time; print('limit', r.getrlimit(r.RLIMIT_SIGPENDING)[0], flush=True); time.sleep(7777)"
    running = sandbox.start("-np", 2, PYTHON, "-c", show, stderr=subprocess.STDOUT)
    for rank in range(2):
        running.wait_for(f"[{rank}] limit {limit}\n".encode())
    opened = []
    for path in [path for pid in running.descendants() for path in Path(f"/proc/{pid}/fd").iterdir()]:
        with contextlib.suppress(FileNotFoundError):  # closed since
            opened.append(os.readlink(path))
    assert opened and "anon_inode:inotify" not in opened
    running.signal(signal.SIGTERM)
    running.wait().expect(128 + signal.SIGTERM)


def test_a_requeued_job_keeps_the_output_of_its_earlier_runs(sandbox: Sandbox) -> None:
    """SLURM sets SLURM_RESTART_COUNT after a requeue. tests/cluster tests this with SLURM itself."""
    logs, report = sandbox.files / "logs", sandbox.files / "run.json"
    for part in range(2):
        sandbox.run("-np", 2, "--output-filename", logs, "--report", report, *shell(f"echo part {part}"),
                    env={"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": str(part)}).expect(0)
    assert (logs / "rank.0001/stdout").read_text() == "part 0\npart 1\n"
    assert sorted(path.name for path in sandbox.files.glob("run.json*")) == ["run.json", "run.json.job12.part0"]
    sandbox.run("-np", 1, "--output-filename", logs, *shell("echo by hand")).expect(0)
    assert (logs / "rank.0000/stdout").read_text() == "by hand\n"
    assert not (logs / "rank.0001").exists(), "the folder of a rank of an earlier run was kept"


def test_a_second_job_with_the_same_output_folder_is_an_error(sandbox: Sandbox) -> None:
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


def test_only_rank_hides_other_ranks_but_keeps_their_files(sandbox: Sandbox) -> None:
    folder = sandbox.files / "logs"
    done = sandbox.run("-np", 4, "--only-rank", "0,2-3", "--output-filename", folder, *shell("echo x; echo y >&2"))
    assert sorted(done.expect(0).out_lines) == ["[0] x", "[2] x", "[3] x"]
    assert "[1]" not in done.err_text
    assert (folder / "rank.0001/stdout").read_text() == "x\n"


def test_output_to_a_file_has_colour_only_with_color_always(sandbox: Sandbox) -> None:
    assert b"\x1b[" not in sandbox.run("-np", 2, *shell("echo x")).expect(0).out
    colours = sandbox.run("-np", 2, "--color", "always", *shell("echo x")).expect(0).out.splitlines()
    assert all(line.startswith(b"\x1b[") and line.endswith(b"x") for line in colours)
    assert len({line[:8] for line in colours}) == 2, "both ranks have the same colour"


@pytest.mark.slow
@pytest.mark.measures
def test_a_reader_that_does_not_read_blocks_the_ranks_and_bounds_memory(sandbox: Sandbox) -> None:
    megabytes, progress = 200, sandbox.files / "progress"
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, program("print_lines"), "--lines", megabytes * 10_000, "--length", 100,
                            "--progress", progress, stdout=write_end)
    os.close(write_end)
    try:
        wait_until(lambda: sandbox.lines_of("progress"), "the first megabyte")
        wait_until(lambda: ranks_are_blocked(sandbox), "ranks to block on their pipes")
        written = sum(max(sizes) for sizes in written_by_rank(sandbox))
        assert written < 100 << 20, "the ranks wrote on although the reader reads nothing"
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
def test_a_reader_that_closes_the_pipe_ends_the_job(sandbox: Sandbox) -> None:
    """`hvdrun … | head -1` does this."""
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, "yes", stdout=write_end)
    os.close(write_end)
    assert os.read(read_end, 4)
    os.close(read_end)
    done = running.wait()
    assert done.code != 0 and not done.survivors, done
    assert len(done.err) < 10_000, "the error was repeated"


def test_hvdrun_with_a_closed_stdout_does_not_crash(sandbox: Sandbox) -> None:
    done = sandbox.run(*("-c", 'exec "$0" "$@" >&-', HVDRUN, "-np", 2, "sh", "-c", "echo x; exit 3"), tool="/bin/sh")
    assert 0 < done.code < 128 and not done.survivors, done


@pytest.mark.parametrize("closing", ["<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_ranks_run_if_hvdrun_starts_with_closed_standard_streams(sandbox: Sandbox, closing: str) -> None:
    """The job's pipes and files must not get descriptors 0 to 2."""
    marker = sandbox.files / "marker"
    done = sandbox.run("-c", f'exec "$0" "$@" {closing}', HVDRUN, "-np", 2, "sh", "-c",
                       f"cat; echo ran >> {marker}", tool="/bin/sh")
    assert not done.survivors and done.code < 128, done
    assert marker.read_text() == "ran\nran\n"


def test_a_rank_continues_after_closing_its_stdout_and_stderr(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *shell("exec >&- 2>&-; sleep 0.2; exit 0")).expect(0)
    assert done.report["exit_code"] == 0


def test_hvdrun_ends_although_a_child_of_a_rank_keeps_its_stdout_open(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, *shell("(sleep 1000; echo late) & echo early")).expect(0)
    assert done.out == b"early\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("choice", ["continue", "stop"])
def test_a_full_disk_under_the_output_files_is_an_error(sandbox: Sandbox, choice: str) -> None:
    folder = sandbox.files / "small"
    folder.mkdir()
    sandbox.mounts.append(f"mount -t tmpfs -o size=256k tmpfs {folder}")
    lines = 20_000
    done = sandbox.run("-np", 2, "--output-filename", folder / "logs", "--on-output-error", choice,
                       program("print_lines"), "--lines", lines, "--length", 100)
    assert "No space left on device" in done.err_text, done
    assert done.err_text.count("No space left on device") <= 6, "the error is printed once per file, and in the report"
    if choice == "continue":
        assert len(done.expect(0).out_lines) == 2 * lines, "lines are missing on stdout"
    else:
        assert done.code == 125 and not done.survivors, done


@pytest.mark.parametrize("choice,code", [("continue", 0), ("stop", 125)])
def test_a_full_disk_under_stdout_is_an_error(sandbox: Sandbox, choice: str, code: int) -> None:
    """With --on-output-error stop the job fails, even if all ranks have succeeded."""
    with open("/dev/full", "wb") as full:
        done = sandbox.start("-np", 2, "--on-output-error", choice, *shell("echo x"), stdout=full).wait().expect(code)
    assert "No space left on device" in done.err_text and not done.survivors, done
    assert ("succeeded" in done.err_text) == (code == 0), done


def log_on_a_small_disk(sandbox: Sandbox, rank: str) -> tuple[Done, dict, str]:
    """Runs hvdrun with stdout and stderr in one file on a disk of 64 KiB, of which another file, ballast, fills half.

    A batch job writes its log so. Returns the run, its report and the log."""
    folder = sandbox.files / "small"
    folder.mkdir()
    sandbox.mounts.append(f"mount -t tmpfs -o size=64k tmpfs {folder}")
    report = sandbox.files / "small.json"
    done = sandbox.run("-c", 'head -c 32k /dev/zero > small/ballast; "$0" "$@" > small/log 2>&1; code=$?; cat small/log; exit $code',
                       HVDRUN, "-np", 1, "--report", report, "sh", "-c", rank, tool="/bin/sh")
    assert not done.survivors
    return done, json.loads(report.read_text()), done.out_text


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_the_exit_code_is_125_if_hvdruns_last_lines_cannot_be_written(sandbox: Sandbox) -> None:
    done, report, log = log_on_a_small_disk(sandbox, "yes | head -c 100000")
    assert done.code == report["exit_code"] == 125, done
    assert report["reason"] == "hvdrun's last lines could not be written" and report["ranks"][0]["exit_code"] == 0
    assert any("bytes for hvdrun's stdout and stderr were lost: " in note and "No space left on device" in note
               for note in report["notes"]), report["notes"]
    assert "hvdrun: " not in log


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_log_that_can_be_written_again_reports_the_lost_bytes(sandbox: Sandbox) -> None:
    """The rank frees the disk once hvdrun has taken more output than it buffers, so that hvdrun has failed to write."""
    done, report, log = log_on_a_small_disk(sandbox, "yes | head -c 20000000; rm small/ballast")
    assert done.code == report["exit_code"] == 0 and report["reason"] == "", done
    lost, succeeded = log.splitlines()[-2:]
    assert re.fullmatch(r"hvdrun: note: \d+ bytes for hvdrun's stdout and stderr were lost: .*No space left on device.*", lost), lost
    assert succeeded.startswith("hvdrun: note: 1 rank succeeded in "), succeeded


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_the_exit_code_is_the_failed_ranks_although_the_log_cannot_be_written(sandbox: Sandbox) -> None:
    done, report, _ = log_on_a_small_disk(sandbox, "yes | head -c 100000; exit 3")
    assert done.code == report["exit_code"] == 3 and report["first_failure"] == 0, done


def test_a_terminal_shows_lines_at_once(sandbox: Sandbox) -> None:
    import pexpect

    words = sandbox.command([HVDRUN, "-np", 2, "sh", "-c", f"echo first; until [ -e {sandbox.files}/go ]; do sleep 0.01; done"])
    child = pexpect.spawn(words[0], words[1:], env=sandbox.environment(), cwd=str(sandbox.files), timeout=TIME_LIMIT)
    child.expect("first")
    child.expect("first")
    (sandbox.files / "go").touch()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_no_line_of_hvdrun_interrupts_a_python_traceback(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 1, PYTHON, "-c", "def f():\n  raise ValueError('boom')\nf()").expect(1)
    lines = done.err_text.splitlines()
    end = lines.index("ValueError: boom")
    assert lines[0].startswith("Traceback") and all(not line.startswith("hvdrun") for line in lines[:end])


def test_a_job_piped_into_head_in_a_shell_ends(sandbox: Sandbox) -> None:
    words = sandbox.command(["sh", "-c", '"$0" -np 2 yes 2>/dev/null | head -1', HVDRUN])
    done = subprocess.run(words, env=sandbox.environment(), stdout=subprocess.PIPE, timeout=TIME_LIMIT, check=False)
    assert done.stdout in (b"[0] y\n", b"[1] y\n")
    wait_until(lambda: not sandbox.processes(), "the end of the job")


def test_a_line_of_all_ranks_is_printed_once_with_fold_lines(sandbox: Sandbox) -> None:
    # Each rank waits for the others, so that all print within a second.
    program = "touch at.$HVD_RANK; while [ $(ls at.* | wc -l) -lt 4 ]; do sleep 0.01; done; seq -f 'line %.0f' 500; echo rank $HVD_RANK"
    words = ("-np", 4, "--oversubscribe", "--output-filename", "logs", "sh", "-c", program)
    lines = [f"line {number}" for number in range(1, 501)]
    done = sandbox.run("--fold-lines", "on", *words).expect(0)
    folders = sorted((sandbox.files / "logs").glob("rank.*"))
    for rank in range(4):
        assert folders[rank].joinpath("stdout").read_text().splitlines() == [*lines, f"rank {rank}"]
        shown = []
        for line in done.out_lines:
            ranks, _, text = line.partition("] ")
            if any(int(part.partition("-")[0]) <= rank <= int(part.rpartition("-")[2]) for part in ranks[1:].split(",")):
                shown.append(text)
        assert shown == [*lines, f"rank {rank}"], done
    assert len(done.out_lines) < 4 * 501
    assert len(sandbox.run(*words).expect(0).out_lines) == 4 * 501


# Prints a traceback as PyTorch does, when all ranks have come so far.
FAILS = """
import os, sys, time
rank, folder = os.environ["RANK"], sys.argv[1]
open(f"{folder}/here{rank}", "w").close()
while len(os.listdir(folder)) < int(os.environ["WORLD_SIZE"]): time.sleep(0.001)
lines = ["Traceback (most recent call last):", '  File "t.py", line 3', "ValueError: bad"]
sys.stderr.write("".join(f"[rank{rank}]: {line}\\n" for line in lines))
sys.stderr.close()
sys.stdout.close()
time.sleep(600 if rank != "0" else 0)
sys.exit(1)
"""


def test_the_failure_of_all_ranks_is_shown_once(sandbox: Sandbox) -> None:
    folder = sandbox.files / "ranks"
    folder.mkdir()
    done = sandbox.run("-np", 8, "python3", "-c", FAILS, folder).expect(1)
    lines = done.err_text.splitlines()
    for text in ("Traceback (most recent call last):", '  File "t.py", line 3', "ValueError: bad"):
        assert lines.count(f"[0-7] {text}") == 1, done
    assert len([line for line in lines if not line.startswith("hvdrun:   |")]) <= 8, done
