"""hvdrun's report shows an uncaught exception once, and does not report its consequences on other ranks as causes."""

from __future__ import annotations

import signal
from pathlib import Path

from harness import PYTHON, Done, Running, Sandbox, python_environment

PROGRAM = Path(__file__).resolve().parent / "programs/raises.py"


def start(sandbox: Sandbox, ranks: int, *how: object) -> Running:
    return sandbox.start("-np", ranks, "-H", f"localhost:{ranks}", "--bind-to", "none", PYTHON, PROGRAM, *how,
                         env=python_environment())


def run(sandbox: Sandbox, ranks: int, how: str) -> Done:
    return start(sandbox, ranks, how).wait().expect(1)


def test_an_exception_of_one_rank_is_shown_once_while_others_wait(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "one")
    assert "rank 1 on" in done.err_text and "failed: exit code 1" in done.err_text, done
    assert done.err_text.count("Traceback (most recent call last)") == 1, done
    assert done.err_text.count("ValueError: bad batch 17") == 1, done
    assert done.report["ranks"][1]["failure"]["because_of_peer"] is False, done.report


def test_the_same_exception_on_all_ranks_is_shown_once(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "all")
    assert done.err_text.count("Traceback (most recent call last)") == 1, done
    assert done.err_text.count("ValueError: bad batch") == 1, done


def test_an_exception_before_init_is_shown_once(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "before")
    assert done.err_text.count("RuntimeError: before init") == 1, done


def test_ctrl_c_shows_no_traceback(sandbox: Sandbox) -> None:
    running = start(sandbox, 2, "interrupt")
    running.wait_for(b"[1] waiting")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert "Traceback" not in done.err_text and "KeyboardInterrupt" not in done.err_text, done


def test_a_program_can_catch_keyboard_interrupt_during_a_collective(sandbox: Sandbox) -> None:
    """Python may raise it inside libhvd's callback for memory, where the program could not catch it."""
    done = start(sandbox, 2, "interrupted", sandbox.files / "signalled").wait().expect(0)
    assert done.out == b"[0] interrupted\n", done
    assert "Traceback" not in done.err_text, done


def test_without_hvdrun_python_prints_the_exception(sandbox: Sandbox) -> None:
    done = sandbox.run(PROGRAM, "all", tool=PYTHON, env=python_environment())
    assert done.code == 1 and done.err_text.splitlines()[-1] == "ValueError: bad batch", done
