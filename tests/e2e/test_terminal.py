"""A terminal for one rank (-np 1 or --tty RANK), and the state of the user's terminal after the job."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator

import pexpect
import pytest

from harness import HVDRUN, PYTHON, Sandbox, process_state, read_bytes, wait_until
from terminal import Terminal, is_raw, spawn, wait_raw

LOOK = 'for fd in 0 1 2; do test -t $fd && echo "$fd is a terminal"; done; stty size <&2; ps -o tpgid= -p $$'
ALL_THREE = "0 is a terminal\r\n1 is a terminal\r\n2 is a terminal\r\n30 100\r\n"


@pytest.fixture
def window(sandbox: Sandbox) -> Iterator[Terminal]:
    place = Terminal(sandbox)
    yield place
    place.close()


def shown_by(child: pexpect.spawn, code: int) -> str:
    """Waits for the child's end and checks its code; returns what it printed."""
    child.expect(pexpect.EOF)
    shown = child.before.decode()
    child.close()
    assert child.exitstatus == code, shown
    return shown


def debugged(rank: int) -> list[str]:
    """Returns a program that stops in pdb in one rank. The others print a line when the files "first" and "second" appear."""
    return [PYTHON, "-c", f"""if True:
        import os, time
        if os.environ["RANK"] == "{rank}":
            loss = 0.25
            breakpoint()
            print("after")
        else:
            for name in ("first", "second"):
                while not os.path.exists(name): time.sleep(0.01)
                print("there is the", name, flush=True)"""]


# ---- the only rank of a job has the terminal

@pytest.mark.core
def test_the_only_rank_has_a_terminal(sandbox: Sandbox) -> None:
    shown = shown_by(spawn(sandbox, HVDRUN, "-np", 1, "sh", "-c", f"{LOOK}; echo $$"), 0)
    assert shown.startswith(ALL_THREE), shown
    foreground, pid = shown.splitlines()[4:6]
    assert foreground.strip() == pid, "the rank's terminal is not its controlling terminal"


@pytest.mark.parametrize("options, redirect", [([], "| cat"), ([], "2>err"), ([], "</dev/null"), (["--label", "rank"], ""),
                                               (["--output-filename", "logs"], ""), (["--stdin", "none"], ""), (["-np", "2"], "")])
def test_the_only_rank_has_no_terminal_with_redirection_labels_or_log_files(sandbox: Sandbox, options: list[str], redirect: str) -> None:
    command = shlex.join([str(HVDRUN), "-np", "1", *options, "sh", "-c", LOOK])
    assert "1 is a terminal" not in shown_by(spawn(sandbox, "sh", "-c", f"{command} {redirect}"), 0)


def test_pdb_has_history_and_sees_a_resize_of_the_terminal(sandbox: Sandbox) -> None:
    child = spawn(sandbox, HVDRUN, "-np", 1, *debugged(0))
    child.expect_exact("(Pdb) ")
    wait_raw(child)
    child.send("p loss * 2\r")
    child.expect_exact("0.5\r\n(Pdb) ")
    child.send("\x1b[A")
    child.expect_exact("p loss * 2")
    child.send("\r")
    child.expect_exact("0.5\r\n(Pdb) ")
    child.setwinsize(40, 70)
    child.send("import shutil; shutil.get_terminal_size()\r")
    child.expect_exact("columns=70, lines=40")
    child.send("c\r")
    assert "after\r\n" in shown_by(child, 0)


CATCHES = """if True:
    import signal
    try:
        print("up", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("caught")
"""


def test_ctrl_c_on_a_ranks_terminal_reaches_only_the_program(sandbox: Sandbox) -> None:
    child = spawn(sandbox, HVDRUN, "-np", 1, PYTHON, "-c", CATCHES)
    child.expect_exact("up")
    wait_raw(child)
    child.sendintr()
    assert "caught\r\n" in shown_by(child, 0)


def test_a_program_that_ctrl_c_ends_makes_hvdrun_exit_with_130(sandbox: Sandbox) -> None:
    child = spawn(sandbox, HVDRUN, "-np", 1, "sh", "-c", "echo up; exec sleep 1000")
    child.expect_exact("up")
    wait_raw(child)
    child.sendintr()
    assert "interrupted; exit code 130" in shown_by(child, 130)


def test_ctrl_z_restores_the_terminal_for_the_shell_and_fg_continues(sandbox: Sandbox) -> None:
    shell = spawn(sandbox, "bash", "--norc", "--noprofile", "-i")
    shell.sendline("PS1='rea''dy> '; stty -g >before")
    shell.expect_exact("ready> ")
    shell.sendline(shlex.join(map(str, [HVDRUN, "-np", 1, *debugged(0)])))
    shell.expect_exact("(Pdb) ")
    wait_raw(shell)
    rank = sandbox.ranks()[0]
    shell.sendcontrol("z")
    shell.expect_exact("Stopped")
    wait_until(lambda: process_state(rank) == "T", "the rank to stop")
    shell.sendline("stty -g | cmp - before && echo as be''fore")
    shell.expect_exact("as before")
    shell.sendline("fg")
    wait_raw(shell)
    wait_until(lambda: process_state(rank) == "S", "the rank to run again")
    shell.send("p loss * 2\r")
    shell.expect_exact("0.5")
    shell.send("c\r")
    shell.expect_exact("after")
    shell.expect_exact("ready> ")
    shell.sendline("stty -g | cmp - before && echo as be''fore")
    shell.expect_exact("as before")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()


@pytest.mark.parametrize("words, keys", [
    (["top", "-b", "-n1"], ""), (["top"], "q"), pytest.param(["less", "text"], "Gq", marks=pytest.mark.slow),
    pytest.param(["vi", "-u", "NONE", "text"], ":q\r", marks=pytest.mark.slow),
    pytest.param(["gdb", "-q", "-nx"], "quit\r", marks=pytest.mark.slow)],
    ids=["top in batch mode", "top", "less", "vi", "gdb"])
def test_full_screen_programs_work_in_the_only_rank(sandbox: Sandbox, words: list[str], keys: str) -> None:
    (sandbox.files / "text").write_text("line\n" * 200)
    child = spawn(sandbox, "sh", "-c", f"stty -g >before; {shlex.join([str(HVDRUN), '-np', '1', *words])}; "
                                       "echo code=$?; stty -g | cmp - before && echo as before")
    if keys:
        wait_raw(child)
        child.expect(r"\S")  # before it draws, a program may throw away what was typed
        child.send(keys)
    shown = shown_by(child, 0)
    assert "code=0\r\n" in shown and "as before\r\n" in shown, shown


# ---- one rank of a job of several has the terminal

@pytest.mark.core
def test_the_rank_that_tty_names_has_the_terminal(sandbox: Sandbox) -> None:
    shown = shown_by(spawn(sandbox, HVDRUN, "-np", 2, "--tty", 1, "sh", "-c", f'[ "$RANK" = 0 ] || {{ {LOOK}; }}; test -t 1 || echo none'), 0)
    assert "rank 1 has the terminal; Ctrl-C three times within a second stops the job\r\n" in shown
    others = re.search("\x1b\\[\\d+m\\[0\\]\x1b\\[0m none\r\n", shown)
    assert others and ALL_THREE in shown.replace(others[0], ""), shown


def test_lines_of_other_ranks_appear_above_the_line_that_is_typed(sandbox: Sandbox, window: Terminal) -> None:
    window.start("-np", 2, "--tty", 1, *debugged(1))
    window.wait_for(r"\(Pdb\)")
    window.type("p loss")
    window.wait_for(r"\(Pdb\) p loss")
    for name in ("first", "second"):
        (sandbox.files / name).touch()
        wait_until(lambda: f"[0] there is the {name}" in window.screen(), "the other rank's line")
        window.wait_for(r"\(Pdb\) p loss")
    window.type(" * 2", "Enter")
    wait_until(lambda: [row.strip() for row in window.screen() if row.strip()][-2:] == ["0.5", "(Pdb)"], "pdb's answer and its next prompt")
    window.type("c", "Enter")
    window.wait_for_end(0)
    rows = window.screen()
    at = rows.index("[0] there is the first")
    assert rows[at:at + 6] == ["[0] there is the first", "[0] there is the second", "(Pdb) p loss * 2", "0.5", "(Pdb) c", "after"]


def test_lines_of_other_ranks_wait_while_a_full_screen_program_runs(sandbox: Sandbox, window: Terminal) -> None:
    (sandbox.files / "text").write_text("".join(f"row {number}\n" for number in range(100)))
    window.start("-np", 2, "--tty", 1, "sh", "-c",
                 '[ "$RANK" = 0 ] || exec less text; until [ -e go ]; do sleep 0.01; done; echo meanwhile; touch said')
    window.wait_for("text")
    (sandbox.files / "go").touch()
    wait_until(lambda: (sandbox.files / "said").exists(), "the other rank to print a line")
    window.type("G")
    wait_until(lambda: window.screen()[-2] == "row 99", "the end of the text")
    assert "[0] meanwhile" not in window.screen()
    window.type("q")
    window.wait_for_end(0)
    assert "[0] meanwhile" in window.screen()


def test_three_quick_ctrl_c_stop_a_job_with_tty(sandbox: Sandbox) -> None:
    child = spawn(sandbox, HVDRUN, "-np", 2, "--tty", 1, "--grace", 1000, "sh", "-c", "trap : INT; echo up; while :; do sleep 0.01; done")
    child.expect_exact("up")
    child.expect_exact("up")
    wait_raw(child)
    child.send("\x03")
    child.send("\x03")
    child.send("\x03")
    child.expect_exact("interrupted: stopping 2 ranks")
    wait_until(lambda: not is_raw(child), "hvdrun to restore its terminal")
    child.sendintr()
    child.sendintr()
    shown_by(child, 130)


def test_tty_without_a_terminal_is_an_error(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, "--tty", 1, "true").expect(2)
    assert "--tty needs a terminal, and hvdrun's standard input is none" in done.err_text
    shown = shown_by(spawn(sandbox, "sh", "-c", f"{shlex.quote(str(HVDRUN))} -np 2 --tty 1 true >out; echo code=$?"), 0)
    assert "--tty needs a terminal, and hvdrun's standard output is none" in shown and "code=2" in shown, shown


def test_tty_in_a_batch_job_is_an_error(sandbox: Sandbox) -> None:
    assert "a batch job has no terminal" in sandbox.run("sbatch", "-np", 2, "--tty", 1, "true", tool=str(HVDRUN)).expect(2).err_text


def test_tty_for_a_rank_outside_the_job_is_an_error(sandbox: Sandbox) -> None:
    assert "--tty names rank 2, but the job has 2 ranks" in sandbox.run("-np", 2, "--tty", 2, "true").expect(2).err_text


# ---- the terminal after the job

# A rank that leaves its terminal in raw mode, without echo and cursor, on the alternate screen.
UNTIDY = r"stty raw -echo; printf '\033[?1049h\033[?25lup'; exec sleep 1000"
ALONE = ["-np", "1", "sh", "-c", UNTIDY]
ONE_OF_TWO = ["-np", "2", "--tty", "1", "sh", "-c", f'[ "$RANK" = 0 ] || {{ {UNTIDY}; }}; exec sleep 1000']


def hvdrun_of(sandbox: Sandbox) -> int:
    return next(pid for pid in sandbox.processes() if read_bytes(f"/proc/{pid}/comm") == b"hvdrun\n")


@pytest.mark.parametrize("job", [ALONE, ONE_OF_TWO], ids=["alone", "one of two"])
@pytest.mark.parametrize("cause, code", [("TERM", 143), ("KILL", 137), ("HUP", 129), ("rank", 137), ("agent", 125), ("Ctrl-C", 130)])
def test_the_terminal_is_restored_however_the_job_ends(sandbox: Sandbox, window: Terminal, job: list[str], cause: str, code: int) -> None:
    command = shlex.join(map(str, sandbox.command([HVDRUN, *job])))
    window.open(f"stty -g >before; {command}; echo $? >code; until stty -g | cmp -s - before; do sleep 0.01; done; "
                "touch same; read -r _")
    wait_until(lambda: window.format("#{alternate_on}#{cursor_flag}") == "10", "the rank's alternate screen")
    if cause == "Ctrl-C":
        window.type("C-c", "C-c", "C-c")
    elif cause == "rank":
        os.kill(max(sandbox.ranks().items())[1], signal.SIGKILL)
    elif cause == "agent":
        os.kill(next(pid for pid in sandbox.processes() if read_bytes(f"/proc/{pid}/comm") == b"hvdrun-agent\n"), signal.SIGKILL)
    else:
        os.kill(hvdrun_of(sandbox), getattr(signal, f"SIG{cause}"))
    wait_until(lambda: window.format("#{alternate_on}#{cursor_flag}") == "01", "the shell's screen and cursor")
    wait_until(lambda: (sandbox.files / "same").exists(), "the shell's terminal modes")
    assert (sandbox.files / "code").read_text() == f"{code}\n"


def test_processes_end_and_the_terminal_is_restored_after_hvdrun_is_killed(sandbox: Sandbox) -> None:
    child = spawn(sandbox, "sh", "-c", f"{shlex.join([str(HVDRUN), *ONE_OF_TWO])}; sleep 1000")
    child.expect_exact("up")
    wait_raw(child)
    os.kill(hvdrun_of(sandbox), signal.SIGKILL)
    wait_until(lambda: len(sandbox.processes()) == 2, "only the shell and its sleep to be left")
    wait_until(lambda: not is_raw(child), "the terminal's modes to be restored")
    child.close(force=True)


@pytest.mark.parametrize("ignored", ["", "trap '' HUP; "])
def test_a_job_with_tty_ends_when_its_terminal_closes(sandbox: Sandbox, ignored: str) -> None:
    report = sandbox.files / "report"
    command = shlex.join([str(HVDRUN), "--report", str(report), *ONE_OF_TWO])
    child = spawn(sandbox, "sh", "-c", f"{ignored}exec {command}")
    child.expect_exact("up")
    wait_raw(child)
    child.ptyproc.fileobj.close()
    child.closed = child.ptyproc.closed = True
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")
    content = json.loads(report.read_text())
    assert content["reason"].startswith("the terminal has gone") and content["exit_code"] == 129, content


# ---- without a terminal

def test_a_breakpoint_without_a_terminal_gets_the_advice_tty(sandbox: Sandbox) -> None:
    done = sandbox.run("-np", 2, *debugged(1), stdin=b"").expect(1)
    [advice] = [line for line in done.err_text.splitlines() if "breakpoint() needs a terminal, and rank 1 had none" in line]
    assert "; in a terminal: hvdrun --tty 1 " in advice and " -np 2 " in advice, done
