"""hvd.run(): runs a function on ranks of a new job, from a script or a notebook.

hvdrun starts the ranks, on other hosts as well. The function is sent to them over hvdrun's standard input, and its
results come back in lines of hvdrun's standard output. So the hosts need no common folder. _calls.py packs both.
"""

from __future__ import annotations

import base64
import json
import operator
import os
import pickle
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Callable, Optional, TypeVar, Union

from . import _library, _portable
from ._calls import Outcome, check_call, check_options, make_call, message_for, rank_program

Result = TypeVar("Result")

_RESULT = "hvd result"
# A line of at most 4096 bytes is written to a pipe atomically (pipe(7)). base64 makes 4 bytes of 3.
_BYTES_A_LINE = 2970
_LABEL = re.compile(r"\[ *\d+(@[^]]*)?\] *")  # hvdrun's prefix of a rank's line
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # a notebook's kernel sets FORCE_COLOR

# Runs hvdrun in a process group of its own, so that only its caller sends it SIGINT after a Ctrl-C. The kernel sends
# hvdrun SIGTERM when the caller dies (PR_SET_PDEATHSIG, prctl(2)). Arguments: that process, the program,
# its argv.
_START = """\
import ctypes, os, sys
os.setpgid(0, 0)
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[3:])
"""


class RunError(RuntimeError):
    """A failed job of hvd.run() or hvd.slurm. Its text is hvdrun's messages, including the report at the end.

    If the rank that failed first has raised an exception, the error is also of that exception's type, and the exception
    is its __cause__. So `except ValueError` works.
    """

    def __init__(self, text: str, exit_code: int, report: Optional[dict[str, Any]]) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code  # hvdrun's; 0 if only results are missing
        self.report = report  # that of hvdrun --report (docs/reference/report.md); None if the job has not started
        first = (report or {}).get("first_failure")
        self.rank: Optional[int] = first  # the first failure; None if no rank failed by itself
        ranks = {entry["rank"]: entry for entry in (report or {}).get("ranks", [])}
        failure = ranks[first]["failure"] if first in ranks else None
        self.traceback: Optional[str] = failure["text"] if failure else None  # of that rank, if it raised an exception

    def __str__(self) -> str:
        return self.text  # whatever the other type would make of it

    def __reduce__(self) -> tuple[Any, ...]:
        cause = _portable.pack(self.__cause__, pickle.dumps) if self.__cause__ is not None else b""
        return _unpickled, (self.text, self.exit_code, self.report, cause)

    def _render_traceback_(self) -> list[str]:
        """Returns what a notebook shows. hvdrun's messages and the rank's traceback are above it already."""
        return [f"{type(self).__name__}: {_last_error(self.text)}"]


def _last_error(text: str) -> str:
    """Returns the last line that says what has failed; the last line at all without one."""
    lines = text.splitlines() or [""]
    found = [line for line in lines if line.startswith("hvdrun: error: ")] or lines[-1:]
    return found[-1].replace("hvdrun: error: ", "", 1)


def _unpickled(text: str, exit_code: int, report: Optional[dict[str, Any]], cause: bytes) -> RunError:
    error = RunError(text, exit_code, report)
    return _of_type(error, cause) if cause else error


def _of_type(error: RunError, packed: bytes) -> RunError:
    """Returns the error with the packed exception as its cause, and of its type."""
    try:
        cause = _portable.unpack(packed)
    except Exception:  # its module cannot be imported here
        return error
    typed: RunError = _portable.joined(error.text, RunError, cause, error.exit_code, error.report)
    typed.__cause__ = cause
    return typed


def failure(error: RunError, outcomes: Mapping[int, Outcome]) -> RunError:
    """Returns the error, of the type of the exception of the rank that failed first, if that has sent one.

    A SystemExit is only the cause, because a caller's program would end by it without a word.
    """
    raised = sorted(rank for rank, outcome in outcomes.items() if not outcome.is_result)
    rank = error.rank if error.rank is not None else next(iter(raised), -1)
    if rank not in raised:
        return error
    return _of_type(error, outcomes[rank].data)


def results_of(outcomes: Mapping[int, Outcome], report: Optional[Mapping[str, Any]]) -> tuple[list[Any], list[int]]:
    """Returns the results by rank, and the ranks that should have sent one and have not.

    A rank that an elastic job has lost has None for its result.
    """
    size = max([outcome.size for outcome in outcomes.values()] + [rank + 1 for rank in outcomes], default=0)
    generations = (report or {}).get("generations") or []
    lost = {each["rank"] for generation in generations for each in generation["lost"]}
    has_result = [rank in outcomes and outcomes[rank].is_result for rank in range(size)]
    missing = [rank for rank in range(size) if not has_result[rank] and rank not in lost]
    if missing:
        return [], missing
    return [pickle.loads(outcomes[rank].data) if has_result[rank] else None for rank in range(size)], []


def find_hvdrun(where: str = "hvdrun") -> str:
    """Returns the path of hvdrun: from PATH, otherwise next to this Python, or in bin/ next to libhvd's folder.

    Raises FileNotFoundError if there is none. `where`: the caller's name, for its text.
    """
    beside = [Path(sys.executable).parent, Path(_library.path).resolve().parent.parent / "bin"]
    found = shutil.which("hvdrun") or shutil.which("hvdrun", path=os.pathsep.join(map(str, beside)))
    if found is None:
        raise FileNotFoundError(f"{where}: hvdrun is neither on PATH nor beside Python or libhvd")
    return found


def start_process(program: str, words: Sequence[str], env: Mapping[str, str], stdin: int = subprocess.DEVNULL,
                  stdout: int = subprocess.PIPE, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Starts hvdrun with that argv, so that it ends with this process. Its stderr is a pipe."""
    return subprocess.Popen(start_words(program, words), env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
                            pass_fds=pass_fds)


def start_words(program: str, words: Sequence[str]) -> list[str]:
    """Returns the command that starts hvdrun as start_process() does."""
    return [sys.executable, "-I", "-S", "-c", _START, str(os.getpid()), program, *words]


def run(func: Callable[..., Result], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        np: Optional[int] = None, *, hosts: Union[str, Sequence[str], None] = None, hostfile: Optional[str] = None,
        executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
        options: Sequence[str] = ()) -> list[Result]:
    """Calls `func(*args, **kwargs)` on `np` ranks, each a process of its own, and returns their results by rank.

    np: None for one rank per slot, like hvdrun without -np.
    hosts: "n1:4,n2:4", or a list of such entries. hostfile: like hvdrun --hostfile. Without both, the hosts of a SLURM
    allocation, or else this machine. In an allocation both choose among its hosts.
    executable: the Python of the ranks; this one by default.
    env: variables for the ranks, in addition to those of this process.
    options: further options of hvdrun, such as ["--output-filename", "out"]. Do not pass --stdin and --only-rank.

    The function, its arguments and its results are pickled, with cloudpickle if it is installed: what the caller's
    program defines is sent, and no rank imports the program. Without cloudpickle the ranks import it: functions of
    modules can be called, and those of a script whose other code is inside `if __name__ == "__main__":`.

    In a job that continues without lost ranks (options=["--min-np", …]) the result of a lost rank is None.

    The ranks' output is written to sys.stdout and sys.stderr. Ctrl-C raises KeyboardInterrupt in every rank, as under
    hvdrun, and then in the caller, when the job has ended.

    Errors: RunError if a rank or the job fails, which is also of the type of the exception of the rank that failed
    first; TypeError for a wrong type of argument, and for an object that cannot be pickled; ValueError for more than
    256 MiB to send; FileNotFoundError if hvdrun is not found.
    """
    check_call("hvd.run", func, args)
    check_options("hvd.run", options)
    words = ["-np", str(_ranks(np))] if np is not None else []
    if hosts is not None:
        words += ["-H", hosts if isinstance(hosts, str) else ",".join(hosts)]
    if hostfile is not None:
        words += ["--hostfile", str(hostfile)]
    return start("hvdrun", [*words, *options], func, args, kwargs or {}, executable, env or {})


def _ranks(np: Any) -> int:
    """Returns `np` of run(), of any type of whole numbers."""
    is_whole = hasattr(np, "__index__") and not isinstance(np, bool)
    if not is_whole or operator.index(np) < 1:
        raise (ValueError if is_whole else TypeError)(f"hvd.run: np is {np!r}, not a number of ranks, 1 or more")
    return operator.index(np)


def start(name: str, options: Sequence[str], func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
          executable: Optional[str], env: Mapping[str, str]) -> list[Any]:
    """Like run(), with command line options. `name`: argv[0] of hvdrun, which is "hvdrun" or "horovodrun"."""
    program = find_hvdrun("hvd.run")
    job = _Job()
    message = message_for("hvd.run", func, args, kwargs, executable)
    words = [name, "--stdin", "all", *options, "--", executable or sys.executable, "-c", rank_program("launch")]
    code = job.wait(program, words, {**os.environ, **env}, message)
    if code != 0:
        text = "\n".join(job.said) or f"hvdrun ended with exit code {code}"
        raise failure(RunError(text, code, job.report), job.outcomes)
    results, missing = results_of(job.outcomes, job.report)
    if not results:
        raise failure(RunError(f"ranks ended without a result: {missing or 'all'}", 0, job.report), job.outcomes)
    return results


class _Job:
    """A run of hvdrun, and what it has written: the ranks' outcomes, its messages, its report."""

    def __init__(self) -> None:
        self.mark = f"{_RESULT} {secrets.token_hex(16)}"
        self.outcomes: dict[int, Outcome] = {}   # by rank
        self.said: list[str] = []                # hvdrun's own lines on stderr
        self.report: Optional[dict[str, Any]] = None
        self._parts: dict[int, list[str]] = {}

    def wait(self, program: str, words: Sequence[str], env: Mapping[str, str], message: bytes) -> int:
        """Runs hvdrun with that argv until it ends, and returns its exit code.

        Raises a KeyboardInterrupt after hvdrun has ended. No file is written, so a killed caller leaves none.
        """
        report, reports_end = os.pipe()
        try:
            with _file_with(self.mark.encode() + b"\n" + message) as call:
                process = start_process(program, [words[0], "--report", f"/dev/fd/{reports_end}", *words[1:]], env,
                                        stdin=call.fileno(), pass_fds=(reports_end,))
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(reports_end)
        assert process.stdout and process.stderr
        threads = [threading.Thread(target=self._read_out, args=(process.stdout,), daemon=True),
                   threading.Thread(target=self._read_err, args=(process.stderr,), daemon=True),
                   threading.Thread(target=self._read_report, args=(report,), daemon=True)]
        for thread in threads:
            thread.start()
        interrupt: Optional[BaseException] = None
        while True:
            try:
                for thread in threads:
                    thread.join()
                code = process.wait()
                break
            except BaseException as error:
                interrupt = error
                process.send_signal(signal.SIGINT)  # each further one shortens hvdrun's wait
        process.stdout.close()
        process.stderr.close()
        if interrupt is not None:
            raise interrupt
        return code

    def _read_out(self, stream: IO[bytes]) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            before, mark, part = text.partition(self.mark)
            if mark:
                is_first = self._take(part)
                # Keeps a line that the function has left unfinished.
                is_label = _LABEL.fullmatch(_COLOR.sub("", before)) is not None
                text = before + "\n" if is_first and before and not is_label else ""
            show(sys.stdout, text)

    def _take(self, line: str) -> bool:
        """Takes a line of an outcome: rank, number of the line, number of lines, data in base64.

        Returns whether it is the first line of an outcome, which replaces an earlier one of a restarted rank.
        """
        rank, number, count, data = line.split()
        if number == "1":
            self._parts[int(rank)] = []
        parts = self._parts[int(rank)]
        parts.append(data)
        if number == count:
            self.outcomes[int(rank)] = Outcome.parse(b"".join(map(base64.b64decode, parts)))
        return number == "1"

    def _read_err(self, stream: IO[bytes]) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            self.said += own_lines(text)
            show(sys.stderr, text)

    def _read_report(self, pipe: int) -> None:
        with open(pipe, "rb") as stream:
            text = stream.read()
        self.report = json.loads(text) if text else None


def own_lines(text: str) -> list[str]:
    """Returns hvdrun's own lines, without colours."""
    return [_COLOR.sub("", line) for line in text.splitlines() if line.startswith("hvdrun: ")]


def _file_with(message: bytes) -> IO[bytes]:
    """Returns a file without a name, at its beginning. hvdrun reads it again at a restart, as it cannot read a pipe."""
    stream: IO[bytes]
    try:
        stream = open(os.memfd_create("hvd.run"), "w+b")
    except (AttributeError, OSError):  # a Python for an older libc; a sandbox that refuses the call
        stream = tempfile.TemporaryFile()
    stream.write(message)
    stream.seek(0)
    return stream


def show(stream: Any, text: str) -> None:
    """Writes the text, unless the stream is None. An error of the stream does not fail the job."""
    if text and stream is not None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass


# ---- in a rank ------------------------------------------------------------------------------------

def serve() -> None:
    """Reads the call from standard input, makes it, and writes its outcome to standard output."""
    with open(0, "rb", closefd=False) as stream:
        mark, _, message = stream.read().partition(b"\n")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    output = os.dup(1)  # the function may close or redirect its own
    make_call(message, lambda outcome: _send(output, mark.decode(), outcome))


def _send(output: int, mark: str, outcome: Outcome) -> None:
    sys.stdout.flush()
    data = outcome.encode()
    parts = [data[at:at + _BYTES_A_LINE] for at in range(0, len(data), _BYTES_A_LINE)]
    for number, part in enumerate(parts, 1):
        words = (mark, os.environ["HVD_RANK"], str(number), str(len(parts)), base64.b64encode(part).decode())
        line = (" ".join(words) + "\n").encode()
        while line:
            line = line[os.write(output, line):]
