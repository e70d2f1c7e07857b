"""Standard input: to rank 0, to all, to one, to none."""

from __future__ import annotations

import os
import signal

import pytest

from harness import HVDRUN_WORD, TIME_LIMIT, Sandbox, wait_until

COPY = ("sh", "-c", "cat; echo end of $HVD_RANK")


def received(lines: list[str]) -> dict[str, list[str]]:
    """What each rank printed, by rank."""
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
def test_stdin_goes_where_it_is_sent(sandbox: Sandbox, option: list[str], readers: list[str]) -> None:
    done = sandbox.run("-np", 3, *option, *COPY, stdin=b"one\ntwo\n").expect(0)
    for rank, lines in received(done.out_lines).items():
        assert lines == (["one", "two"] if rank in readers else []) + [f"end of {rank}"]


@pytest.mark.core
def test_a_large_input_arrives_whole(sandbox: Sandbox) -> None:
    data = b"".join(b"%d\n" % number for number in range(500_000))
    done = sandbox.run("-np", 2, "--stdin", "all", "md5sum", stdin=data).expect(0)
    assert len({line.split()[1] for line in done.out_lines}) == 1
    import hashlib
    assert hashlib.md5(data).hexdigest() in done.out_text


def test_a_rank_that_reads_nothing_holds_up_nobody(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--stdin", "all", "sh", "-c", '[ "$HVD_RANK" = 0 ] || wc -c', stdin=b"x" * 5_000_000)
    assert received(done.expect(0).out_lines)["1"] == ["5000000"]


def test_typed_lines_arrive_while_stdin_stays_open(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    running = sandbox.start("-np", 2, "cat", stdin=read_end)
    os.close(read_end)
    os.write(write_end, b"ping\n")
    running.wait_for(b"[0] ping\n")
    os.close(write_end)
    running.wait().expect(0)


def test_a_pipe_that_does_not_block_is_waited_for(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    running = sandbox.start("-np", 2, "sh", "-c", "[ $HVD_RANK = 1 ] || { echo reads; exec cat; }", stdin=read_end)
    running.wait_for(b"[0] reads\n")
    os.close(read_end)
    os.write(write_end, b"late\n")
    os.close(write_end)
    assert "[0] late" in running.wait().expect(0).out_lines


def test_the_job_ends_though_stdin_stays_open(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    try:
        sandbox.start("-np", 2, "true", stdin=read_end).wait().expect(0)
    finally:
        os.close(read_end)
        os.close(write_end)


LINES = "one\ntwo\nthree\n"


@pytest.mark.parametrize("source", ["{} < lines", "cat lines | {}"])
@pytest.mark.parametrize("options", ["-np 2", "-np 1"])
def test_what_no_rank_reads_is_left_to_the_loop_of_a_shell(sandbox: Sandbox, source: str, options: str) -> None:
    (sandbox.files / "lines").write_text(LINES)
    loop = f"while read -r line; do echo got $line; {HVDRUN_WORD} {options} true; done"
    done = sandbox.run("-c", source.format(f"{{ {loop}; }}"), tool="bash")
    assert done.out_lines == ["got one", "got two", "got three"] and "of input" not in done.err_text, done


def test_what_was_read_from_a_pipe_for_nobody_is_said(sandbox: Sandbox) -> None:
    done = sandbox.run("-c", f"printf 'one\\ntwo\\n' | {HVDRUN_WORD} -np 2 --stdin all head -c 5", tool="bash").expect(0)
    assert "note: 3 bytes of input were read that no rank took; --stdin none leaves the input to others" in done.err_text


def test_a_script_on_stdin_continues_after_hvdrun(sandbox: Sandbox) -> None:
    (sandbox.files / "script").write_text(f"{HVDRUN_WORD} -np 2 true\necho second\n")
    for source in ("bash -s < script", "cat script | bash -s"):
        assert sandbox.run("-c", source, tool="bash").out_lines == ["second"], source


@pytest.mark.parametrize("options", [("-np", 2), ("-np", 2, "--stdin", "all"), ("-np", 2, "--max-restarts", 1)])
def test_a_file_is_left_where_the_ranks_have_stopped_to_read(sandbox: Sandbox, options: tuple[object, ...]) -> None:
    (sandbox.files / "lines").write_text("the first line\n" + LINES)
    with open(sandbox.files / "lines", "rb") as lines:
        lines.readline()
        os.lseek(lines.fileno(), len("the first line\n"), os.SEEK_SET)
        done = sandbox.start(*options, "sh", "-c", "[ $HVD_RANK = 1 ] || head -c 4", stdin=lines).wait().expect(0)
        assert done.out_lines == ["[0] one"]
        assert os.read(lines.fileno(), 100) == b"two\nthree\n"
    with open(sandbox.files / "lines", "rb") as lines:
        sandbox.start(*options, "cat", stdin=lines).wait().expect(0)
        assert os.read(lines.fileno(), 100) == b"", "all of it was read"


def test_a_rank_number_that_is_not_there_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--stdin", "2", "true").expect(2)
    assert "--stdin" in done.err_text


def test_stdin_of_a_terminal_in_the_background_is_not_read(sandbox: Sandbox) -> None:
    """Reading there would stop the job with SIGTTIN."""
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
