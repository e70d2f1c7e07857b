"""The report has the exceptions of Python programs, once and complete; ranks send them in their status pages."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from harness import BUILD, PYTHON, TIME_LIMIT, TOP, Done, Running, Sandbox, wait_until

# Does what importing hvd does: loads the library and installs the hook for exceptions.
PRELUDE = f"""
import ctypes, os, sys, time
sys.path.insert(0, {str(TOP / "python/hvd")!r})
import _tracebacks
library = ctypes.CDLL({str(BUILD / "lib/libhvd.so.0")!r})
library.hvd_last_error.restype = ctypes.c_char_p
_tracebacks.install(lambda text: library.hvd_report_failure(text.encode()) == 0)
rank = int(os.environ.get("HVD_RANK", 0))

class HvdError(RuntimeError): pass

def check(status):
    if status: raise HvdError(library.hvd_last_error().decode())

def init():
    check(library.hvd_init())

def barrier():
    check(library.hvd_barrier(None))

def wait_for(*names):
    while not all(os.path.exists(name) for name in names): time.sleep(0.005)
"""


def start(sandbox: Sandbox, script: str, *options: object, ranks: int = 4, **how: object) -> Running:
    file = sandbox.files / "train.py"
    file.write_text(PRELUDE + script)
    return sandbox.start("-np", ranks, "--grace", "0.3", *options, PYTHON, file, **how)


def run(sandbox: Sandbox, script: str, *options: object, ranks: int = 4, **how: object) -> Done:
    return start(sandbox, script, *options, ranks=ranks, **how).wait()


def quoted(done: Done) -> str:
    """Returns the text that the report quotes."""
    return "".join(line.removeprefix("hvdrun:   | ") + "\n" for line in done.err_text.splitlines()
                   if line.startswith("hvdrun:   | "))


def test_an_exception_of_one_rank_is_quoted_once_with_its_traceback(sandbox: Sandbox) -> None:
    done = run(sandbox, """
def load(name): raise ValueError("bad batch in " + name)
init()
if rank == 2: load("data.bin")
time.sleep(600)
""").expect(1)
    text = quoted(done)
    assert text.startswith("Traceback (most recent call last):\n"), done
    assert text.endswith("ValueError: bad batch in data.bin\n") and "in load" in text, "the traceback is incomplete"
    assert done.err_text.count("bad batch in data.bin") == 1, "the exception is printed more than once"
    assert re.search(r"rank 2 on \S+ failed: exit code 1", done.err_text), done
    assert "ranks 0-1,3: stopped by hvdrun" in done.err_text
    blamed = done.report["ranks"][2]
    assert done.report["first_failure"] == 2
    assert blamed["failure"] == {"text": text, "because_of_peer": False}
    assert done.report["ranks"][0]["failure"] is None


# Each rank waits until all have reported their exceptions, so that hvdrun stops none before.
REPORT_TOGETHER = """
sys.excepthook, report = lambda *error: (report(*error), open(f"reported{rank}", "w").close(),
                                         wait_for(*(f"reported{i}" for i in range(4)))), sys.excepthook
"""


def test_ranks_that_raise_the_same_exception_share_one_note(sandbox: Sandbox) -> None:
    done = run(sandbox, REPORT_TOGETHER + 'raise FileNotFoundError("no data")\n').expect(1)
    assert done.err_text.count("FileNotFoundError: no data") == 1, done
    others = [other for other in range(4) if other != done.report["first_failure"]]
    assert re.search(rf"hvdrun: note: ranks {others[0]}[-,]\S*{others[2]} raised the same\n", done.err_text), done


def test_each_different_exception_of_other_ranks_has_one_note(sandbox: Sandbox) -> None:
    done = run(sandbox, """
def fail():
    if rank == 3: raise KeyError("lr")
    wait_for("reported3" if rank == 1 else "reported1")
    try:
        raise OSError("disk")
    except OSError as error:
        raise ValueError("bad on rank 1" if rank == 1 else "bad elsewhere") from error
""" + REPORT_TOGETHER + "fail()\n").expect(1)
    assert done.report["first_failure"] == 3, "rank 3 raised first"
    assert quoted(done).endswith("KeyError: 'lr'\n")
    assert "hvdrun: note: ranks 0,2: ValueError: bad elsewhere\n" in done.err_text, done
    assert "hvdrun: note: rank 1: ValueError: bad on rank 1\n" in done.err_text
    assert "direct cause" in done.report["ranks"][1]["failure"]["text"], "the JSON report lacks the cause of the exception"


@pytest.mark.parametrize("lasts", ["False", "any(os.path.exists('/proc/' + pid) for pid in others)", "True"],
                         ids=["at once", "until the others have ended", "until it is stopped"])
def test_the_first_failure_is_the_rank_that_raised_and_not_its_peers(sandbox: Sandbox, lasts: str) -> None:
    """The other ranks may end before the rank whose exception is the cause."""
    done = run(sandbox, f"""
import atexit
with open(f"pid{{rank}}", "w") as file: file.write(str(os.getpid()))
init()
barrier()
if rank == 1:
    others = [open(f"pid{{other}}").read() for other in (0, 2, 3)]
    def end():
        library.hvd_shutdown()
        while {lasts}: time.sleep(0.005)
    atexit.register(end)
    raise ValueError("bad batch")
# They wait until all of them have reported their exceptions, so that hvdrun stops none before.
sys.excepthook, report = lambda *error: (report(*error), open(f"reported{{rank}}", "w").close(),
                                         wait_for("reported0", "reported2", "reported3")), sys.excepthook
barrier()
""").expect(1)
    assert done.report["first_failure"] == 1, done
    assert quoted(done).endswith("ValueError: bad batch\n")
    assert done.err_text.count("Traceback") == 1
    failures = [done.report["ranks"][other]["failure"] for other in (0, 2, 3)]
    assert all(failure is None or failure["because_of_peer"] for failure in failures), done
    if lasts != "False":
        assert re.search(r"hvdrun: note: ranks 0,2-3: \S*HvdError: .*rank 1", done.err_text), done


def test_exceptions_caused_by_the_exit_of_a_rank_show_no_traceback(sandbox: Sandbox) -> None:
    done = run(sandbox, """
init()
barrier()
if rank == 1: sys.exit(3)
barrier()
""").expect(3)
    assert done.report["first_failure"] == 1, "the rank that exited is not the first failure"
    assert "Traceback" not in done.err_text, done


def test_an_exception_before_init_is_quoted(sandbox: Sandbox) -> None:
    done = run(sandbox, "import no_such_module\n", ranks=1).expect(1)
    assert quoted(done).endswith("ModuleNotFoundError: No module named 'no_such_module'\n"), done
    assert done.report["ranks"][0]["counters"] is None, "a rank without hvd_init has counters"
    assert done.err_text.count("Traceback") == 1


def test_an_exception_after_shutdown_is_quoted(sandbox: Sandbox) -> None:
    done = run(sandbox, "init()\ncheck(library.hvd_shutdown())\nraise ValueError('late')\n", ranks=2).expect(1)
    assert quoted(done).endswith("ValueError: late\n"), done


def test_sys_exit_with_a_number_is_not_reported_as_an_exception(sandbox: Sandbox) -> None:
    done = run(sandbox, "sys.exit(3)\n", ranks=2).expect(3)
    assert "Traceback" not in done.err_text and quoted(done) == "", done
    assert [rank["failure"] for rank in done.report["ranks"]] == [None, None]


def test_the_message_of_sys_exit_is_quoted(sandbox: Sandbox) -> None:
    done = run(sandbox, "sys.exit('no data here')\n", ranks=1).expect(1)
    assert "no data here\n" in done.err_text and quoted(done) == "no data here\n", done


@pytest.mark.parametrize("options", [(), ("--kill-signal", "TERM")], ids=["SIGINT", "SIGTERM"])
def test_ctrl_c_prints_no_traceback(sandbox: Sandbox, options: tuple[str, ...]) -> None:
    running = start(sandbox, "init()\nopen(f'up{rank}', 'w').close()\nwhile True: time.sleep(0.01)\n", *options)
    wait_until(lambda: all((sandbox.files / f"up{rank}").exists() for rank in range(4)), "all ranks to start")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert "Traceback" not in done.err_text and "KeyboardInterrupt" not in done.err_text, done


def test_ctrl_c_in_a_collective_prints_no_traceback(sandbox: Sandbox) -> None:
    """Ranks that wait for an ended rank get an exception, which must not be printed."""
    running = start(sandbox, """
init()
open(f'up{rank}', 'w').close()
if rank: barrier()
while True: time.sleep(0.01)
""", "--kill-signal", "INT")
    wait_until(lambda: all((sandbox.files / f"up{rank}").exists() for rank in range(4)), "all ranks to start")
    running.signal(signal.SIGINT)
    done = running.wait().expect(130)
    assert "Traceback" not in done.err_text, done


def test_sigint_to_one_rank_ends_the_job_without_a_traceback(sandbox: Sandbox) -> None:
    running = start(sandbox, "open(f'up{rank}', 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.01)\n")
    wait_until(lambda: all((sandbox.files / f"up{rank}").exists() for rank in range(4)), "all ranks to start")
    os.kill(sandbox.ranks()[2], signal.SIGINT)
    done = running.wait().expect(130)
    assert done.report["ranks"][2]["signal"] == "SIGINT", "Python did not end by the signal"
    assert "Traceback" not in done.err_text, done


def run_without_hvdrun(sandbox: Sandbox, script: str) -> subprocess.CompletedProcess:
    file = sandbox.files / "train.py"
    file.write_text(PRELUDE + script)
    return subprocess.run([PYTHON, file], env=sandbox.environment(), capture_output=True, text=True, timeout=TIME_LIMIT)


def test_without_hvdrun_python_prints_the_traceback(sandbox: Sandbox) -> None:
    done = run_without_hvdrun(sandbox, "init()\nraise ValueError('bad batch')\n")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent") and done.stderr.endswith("ValueError: bad batch\n")
    done = run_without_hvdrun(sandbox, "raise KeyboardInterrupt\n")
    assert done.returncode == -signal.SIGINT and done.stderr.endswith("KeyboardInterrupt\n")


def test_python_prints_the_exception_of_a_ranks_child(sandbox: Sandbox) -> None:
    """The child's exception is not the reason why the rank ends."""
    done = run(sandbox, """
import subprocess
if "CHILD" in os.environ: raise ValueError("of the program that the rank called")
init()
child = os.fork()
if child == 0: raise ValueError("of the fork")
os.waitpid(child, 0)
subprocess.run([sys.executable, __file__], env={**os.environ, "CHILD": "1"}, start_new_session=True)
""", ranks=1).expect(0)
    assert "ValueError: of the fork\n" in done.err_text, done
    assert "ValueError: of the program that the rank called\n" in done.err_text
    assert done.report["ranks"][0]["failure"] is None


def test_python_prints_the_exception_of_a_thread(sandbox: Sandbox) -> None:
    done = run(sandbox, "import threading\n"
                        "thread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()\n", ranks=1)
    assert "ZeroDivisionError: division by zero\n" in done.expect(0).err_text


def test_an_excepthook_of_the_user_is_called_too(sandbox: Sandbox) -> None:
    done = run(sandbox, "sys.excepthook = lambda kind, error, trace: print('mine:', error, file=sys.stderr)\n"
                        "_tracebacks.install(lambda text: library.hvd_report_failure(text.encode()) == 0)\n"
                        "raise ValueError('bad batch')\n", ranks=1).expect(1)
    assert "mine: bad batch\n" in done.err_text
    assert quoted(done).endswith("ValueError: bad batch\n"), done


def test_repeated_lines_of_a_deep_recursion_are_folded(sandbox: Sandbox) -> None:
    done = run(sandbox, "def down(n): return down(n + 1)\ndown(0)\n", ranks=2).expect(1)
    text = quoted(done)
    assert "more times]" in text and "RecursionError: maximum recursion depth exceeded" in text, done


def test_the_middle_of_a_long_traceback_is_left_out(sandbox: Sandbox) -> None:
    done = run(sandbox, "def ping(n): return pong(n + 1)\ndef pong(n): return ping(n + 1)\nping(0)\n", ranks=2).expect(1)
    text = quoted(done)
    assert text.startswith("Traceback (most recent call last):\n") and len(text) < 16384, done
    assert re.search(r"^  \[\.\.\. \d+ lines, \d+ bytes left out \.\.\.\]$", text, re.MULTILINE)
    assert "RecursionError: maximum recursion depth exceeded" in text.splitlines()[-1]


def test_python_prints_the_traceback_if_there_is_no_memory_for_it(sandbox: Sandbox) -> None:
    if not sandbox.isolated:
        pytest.skip("needs root, to mount a small /dev/shm")
    sandbox.mounts.append("mount -t tmpfs -o size=12k tmpfs /dev/shm")
    done = run(sandbox, "raise ValueError('bad batch')\n", ranks=1).expect(1)
    assert done.err_text.startswith("Traceback (most recent call last):\n"), done
    assert done.report["ranks"][0]["failure"] is None


def test_control_characters_and_surrogates_of_an_exception_are_escaped(sandbox: Sandbox) -> None:
    done = run(sandbox, r"""raise ValueError("Gr\u00fc\u00dfe \0 \udc80 \N{SNOWMAN}")""" + "\n", ranks=1).expect(1)
    assert quoted(done).endswith("ValueError: Grüße \\x00 \\udc80 ☃\n"), done


def test_each_attempt_reports_its_own_exception(sandbox: Sandbox) -> None:
    done = run(sandbox, "raise ValueError('try ' + os.environ['HVD_RESTART_COUNT'])\n", "--max-restarts", 1,
               ranks=1).expect(1)
    assert done.err_text.count("hvdrun:   | ValueError: try 0\n") == 1, done
    assert done.err_text.count("hvdrun:   | ValueError: try 1\n") == 1
    first, second = done.report["attempts"]
    assert first["failed_rank"]["failure"]["text"].endswith("try 0\n")
    assert second["failed_rank"]["failure"]["text"].endswith("try 1\n")
