"""An uncaught exception stands in hvdrun's report once, whole; what follows from it is not blamed."""

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


def test_of_one_rank_with_others_that_wait_for_it(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "one")
    assert "rank 1 on" in done.err_text and "failed: exit code 1" in done.err_text, done
    assert done.err_text.count("Traceback (most recent call last)") == 1, done
    assert done.err_text.count("ValueError: bad batch 17") == 1, done
    assert done.report["ranks"][1]["failure"]["because_of_peer"] is False, done.report


def test_of_all_ranks_is_told_once(sandbox: Sandbox) -> None:
    done = run(sandbox, 3, "all")
    assert done.err_text.count("Traceback (most recent call last)") == 1, done
    assert done.err_text.count("ValueError: bad batch") == 1, done


def test_before_init(sandbox: Sandbox) -> None:
    done = run(sandbox, 2, "before")
    assert done.err_text.count("RuntimeError: before init") == 1, done


def test_an_interrupt_is_quiet(sandbox: Sandbox) -> None:
    running = start(sandbox, 2, "interrupt")
    running.wait_for(b"[1] waiting")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert "Traceback" not in done.err_text and "KeyboardInterrupt" not in done.err_text, done


def test_an_interrupt_in_a_collective_reaches_the_program(sandbox: Sandbox) -> None:
    """Python may raise it as libhvd calls back for memory, where the program cannot catch it."""
    done = start(sandbox, 2, "interrupted", sandbox.files / "signalled").wait().expect(0)
    assert done.out == b"[0] interrupted\n", done
    assert "Traceback" not in done.err_text, done


def test_without_hvdrun_python_prints_it(sandbox: Sandbox) -> None:
    done = sandbox.run(PROGRAM, "all", tool=PYTHON, env=python_environment())
    assert done.code == 1 and done.err_text.splitlines()[-1] == "ValueError: bad batch", done
