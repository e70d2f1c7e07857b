"""Standard input of rank 0, all ranks, one rank or no rank."""

from __future__ import annotations

import os
import signal

import pytest

from harness import HVDRUN_WORD, TIME_LIMIT, Sandbox, wait_until

COPY = ("sh", "-c", "cat; echo end of $HVD_RANK")


def received(lines: list[str]) -> dict[str, list[str]]:
    """Returns the lines of each rank."""
    found: dict[str, list[str]] = {}
    for line in lines:
        label, _, text = line.partition("] ")
        found.setdefault(label.strip("["), []).append(text)
    return found


@pytest.mark.parametrize("option, readers", [
    ([], ["0"]),
    (["--stdin", "1"], ["1"]),
    (["--stdin", "all"], ["0", "1", "2"]),
    (["--stdin", "none"], []),
])
def test_only_the_chosen_ranks_get_stdin(sandbox: Sandbox, option: list[str], readers: list[str]) -> None:
    done = sandbox.run("-np", 3, *option, *COPY, stdin=b"one\ntwo\n").expect(0)
    for rank, lines in received(done.out_lines).items():
        assert lines == (["one", "two"] if rank in readers else []) + [f"end of {rank}"]


@pytest.mark.core
def test_a_large_stdin_reaches_all_ranks_complete(sandbox: Sandbox) -> None:
    data = b"".join(b"%d\n" % number for number in range(500_000))
    done = sandbox.run("-np", 2, "--stdin", "all", "md5sum", stdin=data).expect(0)
    assert len({line.split()[1] for line in done.out_lines}) == 1
    import hashlib
    assert hashlib.md5(data).hexdigest() in done.out_text


def test_a_rank_that_does_not_read_stdin_does_not_block_others(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--stdin", "all", "sh", "-c", '[ "$HVD_RANK" = 0 ] || wc -c', stdin=b"x" * 5_000_000)
    assert received(done.expect(0).out_lines)["1"] == ["5000000"]


def test_a_typed_line_reaches_the_rank_while_stdin_is_open(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, "cat", stdin=read_end)
    os.close(read_end)
    os.write(write_end, b"ping\n")
    running.wait_for(b"[0] ping\n")
    os.close(write_end)
    running.wait().expect(0)


def test_hvdrun_waits_for_data_of_a_nonblocking_pipe(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    running = sandbox.start("-np", 2, "sh", "-c", "[ $HVD_RANK = 1 ] || { echo reads; exec cat; }", stdin=read_end)
    running.wait_for(b"[0] reads\n")
    os.close(read_end)
    os.write(write_end, b"late\n")
    os.close(write_end)
    assert "[0] late" in running.wait().expect(0).out_lines


def test_the_job_ends_while_stdin_is_open(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    try:
        sandbox.start("-np", 2, "true", stdin=read_end).wait().expect(0)
    finally:
        os.close(read_end)
        os.close(write_end)


LINES = "one\ntwo\nthree\n"


@pytest.mark.parametrize("source", ["{} < lines", "cat lines | {}"])
@pytest.mark.parametrize("options", ["-np 2", "-np 1"])
def test_hvdrun_in_a_shell_loop_leaves_unread_stdin_to_the_loop(sandbox: Sandbox, source: str, options: str) -> None:
    (sandbox.files / "lines").write_text(LINES)
    loop = f"while read -r line; do echo got $line; {HVDRUN_WORD} {options} true; done"
    done = sandbox.run("-c", source.format(f"{{ {loop}; }}"), tool="bash")
    assert done.out_lines == ["got one", "got two", "got three"] and "of input" not in done.err_text, done


def test_a_note_reports_input_that_was_read_and_not_delivered(sandbox: Sandbox) -> None:
    done = sandbox.run("-c", f"printf 'one\\ntwo\\n' | {HVDRUN_WORD} -np 2 --stdin all head -c 5", tool="bash").expect(0)
    assert "note: 3 bytes of input were read that no rank took; --stdin none leaves the input to others" in done.err_text


def test_a_script_on_stdin_continues_after_hvdrun(sandbox: Sandbox) -> None:
    (sandbox.files / "script").write_text(f"{HVDRUN_WORD} -np 2 true\necho second\n")
    for source in ("bash -s < script", "cat script | bash -s"):
        assert sandbox.run("-c", source, tool="bash").out_lines == ["second"], source


@pytest.mark.parametrize("options", [("-np", 2), ("-np", 2, "--stdin", "all"), ("-np", 2, "--max-restarts", 1)])
def test_the_offset_of_a_stdin_file_is_where_ranks_stopped_reading(sandbox: Sandbox, options: tuple[object, ...]) -> None:
    (sandbox.files / "lines").write_text("the first line\n" + LINES)
    with open(sandbox.files / "lines", "rb") as lines:
        lines.readline()
        os.lseek(lines.fileno(), len("the first line\n"), os.SEEK_SET)
        done = sandbox.start(*options, "sh", "-c", "[ $HVD_RANK = 1 ] || head -c 4", stdin=lines).wait().expect(0)
        assert done.out_lines == ["[0] one"]
        assert os.read(lines.fileno(), 100) == b"two\nthree\n"
    with open(sandbox.files / "lines", "rb") as lines:
        sandbox.start(*options, "cat", stdin=lines).wait().expect(0)
        assert os.read(lines.fileno(), 100) == b"", "the file was not read to its end"


def test_stdin_for_a_rank_outside_the_job_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--stdin", "2", "true").expect(2)
    assert "--stdin" in done.err_text


def test_a_background_job_does_not_read_the_terminal(sandbox: Sandbox) -> None:
    """Reading it would stop the job by SIGTTIN."""
    import pexpect
    from harness import HVDRUN_WORD

    words = sandbox.command(["bash", "--norc", "-i"])
    shell = pexpect.spawn(words[0], words[1:], env={**sandbox.environment(), "PS1": "$ "}, cwd=str(sandbox.files),
                          timeout=TIME_LIMIT)
    shell.sendline(f"{HVDRUN_WORD} -np 2 sh -c 'touch started.$HVD_RANK; until [ -e go ]; do sleep 0.01; done' & echo in background")
    wait_until(lambda: len(list(sandbox.files.glob("started.*"))) == 2, "both ranks")
    (sandbox.files / "go").touch()
    shell.sendline("wait %1; echo code=$?")
    shell.expect(r"code=(\d+)")
    assert shell.match[1] == b"0"
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.signalstatus in (None, signal.SIGHUP)
