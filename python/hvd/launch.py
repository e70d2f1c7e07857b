"""hvd.run(): runs a function on ranks of a new job, from a script or a notebook.

hvdrun starts the ranks, on other hosts as well. The function is sent to them over hvdrun's standard input, and its
results come back in lines of hvdrun's standard output. So the hosts need no common folder.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import runpy
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Callable, Optional, Union

from . import _library

# The name under which a rank imports the caller's program, as in multiprocessing.
_MAIN = "__mp_main__"
_RESULT = "hvd result"
# A line of at most 4096 bytes is written to a pipe atomically (pipe(7)). base64 makes 4 bytes of 3.
_BYTES_A_LINE = 2970
_LABEL = re.compile(r"\[ *\d+(@[^]]*)?\] *")  # hvdrun's prefix of a rank's line
_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # a notebook's kernel sets FORCE_COLOR

# Runs hvdrun in a process group of its own, so that only run() sends it SIGINT after a Ctrl-C. The kernel sends hvdrun
# SIGTERM when the process that called run() dies (PR_SET_PDEATHSIG, prctl(2)). Arguments: that process, the program,
# its argv.
_START = """\
import ctypes, os, sys
os.setpgid(0, 0)
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[3:])
"""

# The program of a rank. Argument: the folder that has the package hvd.
_RANK = "import sys; sys.path.insert(0, sys.argv[1]); from hvd.launch import _serve; _serve()"

_is_importing_program = False


class RunError(RuntimeError):
    """A failed job of hvd.run(). Its text is hvdrun's messages, including the report at the end."""

    def __init__(self, text: str, exit_code: int, report: Optional[dict[str, Any]]) -> None:
        super().__init__(text)
        self.exit_code = exit_code  # hvdrun's; 0 if only results are missing
        self.report = report  # that of hvdrun --report (docs/reference/report.md); None if the job has not started
        first = (report or {}).get("first_failure")
        self.rank: Optional[int] = first  # the first failure; None if no rank failed by itself
        ranks = {entry["rank"]: entry for entry in (report or {}).get("ranks", [])}
        failure = ranks[first]["failure"] if first in ranks else None
        self.traceback: Optional[str] = failure["text"] if failure else None  # of that rank, if it raised an exception


def find_hvdrun() -> Optional[str]:
    """Returns the path of hvdrun: from PATH, otherwise next to this Python, or in bin/ next to libhvd's folder."""
    beside = [Path(sys.executable).parent, Path(_library.path).resolve().parent.parent / "bin"]
    return shutil.which("hvdrun") or shutil.which("hvdrun", path=os.pathsep.join(map(str, beside)))


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        np: Optional[int] = None, *, hosts: Union[str, Sequence[str], None] = None, hostfile: Optional[str] = None,
        executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
        options: Sequence[str] = ()) -> list[Any]:
    """Calls `func(*args, **kwargs)` on `np` ranks, each a process of its own, and returns their results by rank.

    np: None for one rank per slot, like hvdrun without -np.
    hosts: "n1:4,n2:4", or a list of such entries. hostfile: like hvdrun --hostfile. Without both, the hosts of a SLURM
    allocation, or else this machine.
    executable: the Python of the ranks; this one by default.
    env: variables for the ranks, in addition to those of this process.
    options: further options of hvdrun, such as ["--output-filename", "out"]. Do not pass --stdin and --only-rank.

    The function, its arguments and its results are pickled, with cloudpickle if it is installed. pickle itself can only
    send what can be imported: functions of modules, and of a script, whose other code must then be inside
    `if __name__ == "__main__":`.

    The ranks' output is written to sys.stdout and sys.stderr. Ctrl-C raises KeyboardInterrupt in every rank, as under
    hvdrun, and then in the caller, when the job has ended.

    Errors: RunError if a rank or the job fails; TypeError for an object that cannot be pickled; FileNotFoundError if
    hvdrun is not found.
    """
    words = ["-np", str(np)] if np is not None else []
    if hosts is not None:
        words += ["-H", hosts if isinstance(hosts, str) else ",".join(hosts)]
    if hostfile is not None:
        words += ["--hostfile", str(hostfile)]
    return start("hvdrun", [*words, *options], func, args, kwargs or {}, executable, env or {})


def start(name: str, options: Sequence[str], func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
          executable: Optional[str], env: Mapping[str, str]) -> list[Any]:
    """Like run(), with command line options. `name`: argv[0] of hvdrun, which is "hvdrun" or "horovodrun"."""
    if _is_importing_program:
        raise RuntimeError('hvd.run() is called in a program that a rank imports for its function: put the call under '
                           'if __name__ == "__main__":')
    program = find_hvdrun()
    if program is None:
        raise FileNotFoundError("hvd.run: hvdrun is neither on PATH nor beside Python or libhvd")
    job = _Job()
    message = pickle.dumps({
        "mark": job.mark,
        "path": _path_for(executable),
        "argv": sys.argv,
        "main": _main_of_caller(),
        "call": _pickled((func, tuple(args), dict(kwargs)), "hvd.run: cannot send the function to the ranks"),
    })
    folder = str(Path(__file__).resolve().parent.parent)
    with tempfile.TemporaryDirectory(prefix="hvd-run-") as place:
        report = Path(place) / "report.json"
        words = [name, "--stdin", "all", "--report", str(report), *options, "--", executable or sys.executable, "-c",
                 _RANK, folder]
        code = job.wait([sys.executable, "-I", "-S", "-c", _START, str(os.getpid()), program, *words],
                        {**os.environ, **env}, message)
        known = json.loads(report.read_text()) if report.exists() else None
    missing = [rank for rank in range(job.size) if rank not in job.results]
    if code != 0 or missing or job.size == 0:
        text = "\n".join(job.said) if code != 0 else f"ranks ended without a result: {missing or 'all'}"
        raise RunError(text or f"hvdrun ended with exit code {code}", code, known)
    return [pickle.loads(job.results[rank]) for rank in range(job.size)]


class _Job:
    """A run of hvdrun, and the results and messages that it has written."""

    def __init__(self) -> None:
        self.mark = f"{_RESULT} {secrets.token_hex(16)}"
        self.size = 0                         # number of ranks; 0 before the first result
        self.results: dict[int, bytes] = {}   # pickled, by rank
        self.said: list[str] = []             # hvdrun's own lines on stderr
        self._parts: dict[int, list[str]] = {}

    def wait(self, words: Sequence[str], env: Mapping[str, str], message: bytes) -> int:
        """Runs hvdrun until it ends, and returns its exit code. Raises a KeyboardInterrupt after it has ended."""
        process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        assert process.stdin and process.stdout and process.stderr
        threads = [threading.Thread(target=_write, args=(process.stdin, message), daemon=True),
                   threading.Thread(target=self._read_out, args=(process.stdout,), daemon=True),
                   threading.Thread(target=self._read_err, args=(process.stderr,), daemon=True)]
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
            _show(sys.stdout, text)

    def _take(self, line: str) -> bool:
        """Takes a line of a result: rank, number of ranks, number of the line, number of lines, data in base64.

        Returns whether it is the first line of a result, which replaces an earlier result of a restarted rank.
        """
        rank, size, number, count, data = line.split()
        self.size = int(size)
        if number == "1":
            self._parts[int(rank)] = []
        parts = self._parts[int(rank)]
        parts.append(data)
        if number == count:
            self.results[int(rank)] = b"".join(map(base64.b64decode, parts))
        return number == "1"

    def _read_err(self, stream: IO[bytes]) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            if text.startswith("hvdrun: "):
                self.said.append(_COLOR.sub("", text).rstrip("\n"))
            _show(sys.stderr, text)


def _write(stream: IO[bytes], message: bytes) -> None:
    try:
        with stream:
            stream.write(message)
    except BrokenPipeError:
        pass  # hvdrun has printed why it ended


def _show(stream: Any, text: str) -> None:
    """Writes the text, unless the stream is None. An error of the stream does not fail the job."""
    if text and stream is not None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass


def _pickler() -> Any:
    """Returns the module cloudpickle if it is installed, otherwise pickle."""
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle


def _pickled(thing: Any, cannot: str) -> bytes:
    pickler = _pickler()
    try:
        data: bytes = pickler.dumps(thing)
    except Exception as error:
        hint = "; cloudpickle, where it is installed, takes lambdas and inner functions" if pickler is pickle else ""
        raise TypeError(f"{cannot}: {error}{hint}") from error
    if pickler is pickle and _names_main(data) and _main_of_caller() is None:
        raise TypeError(f"{cannot}: something of it was defined at a prompt or in a notebook; install cloudpickle, or "
                        "put it into a module")
    return data


def _path_for(executable: Optional[str]) -> list[str]:
    """Returns sys.path; for another Python, without the folders of this Python's own modules."""
    own = tuple(os.path.join(prefix, "") for prefix in {sys.prefix, sys.base_prefix})
    return [entry for entry in sys.path if executable is None or not entry.startswith(own)]


def _names_main(data: bytes) -> bool:
    return b"__main__" in data or _MAIN.encode() in data


def _main_of_caller() -> Optional[tuple[str, str]]:
    """Returns how a rank can import the caller's program: ("module", its name) or ("file", its path).

    Returns None if it cannot, as in a notebook.
    """
    main = sys.modules["__main__"]
    if main.__name__ == "__main__":
        sys.modules.setdefault(_MAIN, main)  # the name in results that a rank has pickled
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    return ("file", os.path.abspath(file)) if file and os.path.exists(file) else None


# ---- in a rank ------------------------------------------------------------------------------------

def _serve() -> None:
    """Reads the call from standard input, makes it, and writes its result to standard output."""
    with open(0, "rb", closefd=False) as stream:
        message = pickle.loads(stream.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    output = os.dup(1)  # the function may close or redirect its own
    sys.path[:] = [*message["path"], *(entry for entry in sys.path if entry not in message["path"])]
    sys.argv[:] = message["argv"]
    if message["main"] is not None and _names_main(message["call"]):
        _import_program(*message["main"])
    func, args, kwargs = pickle.loads(message["call"])
    data = _pickled(func(*args, **kwargs), "hvd.run: cannot send back what the function returned")
    sys.stdout.flush()
    rank, size = os.environ["HVD_RANK"], os.environ["HVD_SIZE"]
    parts = [data[at:at + _BYTES_A_LINE] for at in range(0, len(data), _BYTES_A_LINE)]
    for number, part in enumerate(parts, 1):
        words = (message["mark"], rank, size, str(number), str(len(parts)), base64.b64encode(part).decode())
        line = (" ".join(words) + "\n").encode()
        while line:
            line = line[os.write(output, line):]


def _import_program(kind: str, name: str) -> None:
    """Imports the caller's program as the module __main__, in which pickle looks up its functions and classes."""
    global _is_importing_program
    program = ModuleType(_MAIN)
    _is_importing_program = True
    try:
        if kind == "module":
            program.__dict__.update(runpy.run_module(name, run_name=_MAIN, alter_sys=True))
        else:
            program.__dict__.update(runpy.run_path(name, run_name=_MAIN))
    finally:
        _is_importing_program = False
    sys.modules["__main__"] = sys.modules[_MAIN] = program
