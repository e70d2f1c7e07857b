"""Starting a function on ranks of its own, from a script or a notebook: `hvd.run()`.

hvdrun starts the ranks, on other hosts as well. The function travels to them over its standard input, and what it
returns comes back in lines of its standard output, so that the hosts need no folder in common.
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

# As multiprocessing calls the caller's program where it is imported again.
_MAIN = "__mp_main__"
_RESULT = "hvd result"
# A line is written to the pipe at once where it has no more than 4096 bytes (pipe(7)): base64 makes 4/3 of these.
_BYTES_A_LINE = 2970
_LABEL = re.compile(r"\[ *\d+(@[^]]*)?\] *")  # what hvdrun puts before a rank's line

# hvdrun in a process group of its own, so that Ctrl-C comes to it from run() alone, and ended (SIGTERM) when the
# process that called run() is killed (PR_SET_PDEATHSIG, prctl(2)). Arguments: that process, the program, its argv.
_START = """\
import ctypes, os, sys
os.setpgid(0, 0)
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[3:])
"""

# What a rank runs. Argument: the folder that has the package hvd.
_RANK = "import sys; sys.path.insert(0, sys.argv[1]); from hvd.launch import _serve; _serve()"

_is_importing_program = False


class RunError(RuntimeError):
    """A job of hvd.run() that has failed. Its text is what hvdrun has said, the report at the end included."""

    def __init__(self, text: str, exit_code: int, report: Optional[dict[str, Any]]) -> None:
        super().__init__(text)
        self.exit_code = exit_code  # hvdrun's; 0 when only results are missing
        self.report = report        # the job's, as of hvdrun --report (docs/reference/report.md); None: it has not started
        first = (report or {}).get("first_failure")
        self.rank: Optional[int] = first  # that failed first; None: no rank is to blame
        ranks = {entry["rank"]: entry for entry in (report or {}).get("ranks", [])}
        failure = ranks[first]["failure"] if first in ranks else None
        self.traceback: Optional[str] = failure["text"] if failure else None  # of that rank, where it has raised


def find_hvdrun() -> Optional[str]:
    """The program: that of PATH, else that which was installed or built together with this Python or libhvd."""
    beside = [Path(sys.executable).parent, Path(_library.path).resolve().parent.parent / "bin"]
    return shutil.which("hvdrun") or shutil.which("hvdrun", path=os.pathsep.join(map(str, beside)))


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None,
        np: Optional[int] = None, *, hosts: Union[str, Sequence[str], None] = None, hostfile: Optional[str] = None,
        executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
        options: Sequence[str] = ()) -> list[Any]:
    """Calls `func(*args, **kwargs)` on `np` ranks, each a process of its own, and returns what they return, by rank.

    np: None for one rank per slot, as of hvdrun without -np. hosts: "n1:4,n2:4", or a list of such. hostfile: as of
    hvdrun --hostfile. Without them, those of a SLURM allocation, else this machine.
    executable: the Python of the ranks; this one by default. env: variables for them, besides those of this process.
    options: further options of hvdrun, such as ["--output-filename", "out"]. --stdin and --only-rank are not for it.

    The function, its arguments and its results are pickled, by cloudpickle where that is installed. pickle itself
    takes what can be imported: functions of modules, and of a script, whose other work then has to stand under
    `if __name__ == "__main__":`.

    What the ranks print appears in sys.stdout and sys.stderr. Ctrl-C ends the job. Errors: RunError when a rank or
    the job fails; TypeError for what cannot be pickled; FileNotFoundError when there is no hvdrun.
    """
    words = ["-np", str(np)] if np is not None else []
    if hosts is not None:
        words += ["-H", hosts if isinstance(hosts, str) else ",".join(hosts)]
    if hostfile is not None:
        words += ["--hostfile", str(hostfile)]
    return start("hvdrun", [*words, *options], func, args, kwargs or {}, executable, env or {})


def start(name: str, options: Sequence[str], func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
          executable: Optional[str], env: Mapping[str, str]) -> list[Any]:
    """run() with the options of the command line. `name`: what hvdrun is called as, hvdrun or horovodrun."""
    if _is_importing_program:
        raise RuntimeError('hvd.run() stands in a program that a rank imports for its function: put the call under '
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
    """hvdrun, as run() starts it, and what comes from it."""

    def __init__(self) -> None:
        self.mark = f"{_RESULT} {secrets.token_hex(16)}"
        self.size = 0                         # number of ranks; 0: no result has come
        self.results: dict[int, bytes] = {}   # pickled, by rank
        self.said: list[str] = []             # hvdrun's own lines on stderr
        self._parts: dict[int, list[str]] = {}

    def wait(self, words: Sequence[str], env: Mapping[str, str], message: bytes) -> int:
        """Runs it to its end. Returns its exit code; a KeyboardInterrupt passes on when it has ended."""
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
                process.send_signal(signal.SIGINT)  # a second one kills at once
        if interrupt is not None:
            raise interrupt
        return code

    def _read_out(self, stream: IO[bytes]) -> None:
        for line in stream:
            text = line.decode("utf-8", "replace")
            before, mark, part = text.partition(self.mark)
            if mark:
                is_first = self._take(part)
                # A line that the function has left unfinished.
                text = before + "\n" if is_first and before and not _LABEL.fullmatch(before) else ""
            _show(sys.stdout, text)

    def _take(self, line: str) -> bool:
        """A line of a result: the rank, how many ranks there are, which line of how many, and what it brings. Returns
        whether it is the first one; a rank that was started again begins anew."""
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
                self.said.append(text.rstrip("\n"))
            _show(sys.stderr, text)


def _write(stream: IO[bytes], message: bytes) -> None:
    try:
        with stream:
            stream.write(message)
    except BrokenPipeError:
        pass  # hvdrun says why it has ended


def _show(stream: Any, text: str) -> None:
    """Prints it where there is something to print to. A stream that fails does not fail the job."""
    if text and stream is not None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            pass


def _pickler() -> Any:
    """The module cloudpickle where it is installed, else pickle."""
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
    """sys.path; for another Python without this one's own modules."""
    own = tuple(os.path.join(prefix, "") for prefix in {sys.prefix, sys.base_prefix})
    return [entry for entry in sys.path if executable is None or not entry.startswith(own)]


def _names_main(data: bytes) -> bool:
    return b"__main__" in data or _MAIN.encode() in data


def _main_of_caller() -> Optional[tuple[str, str]]:
    """How a rank gets the caller's program as a module: ("module", its name) or ("file", its path). None: not at all,
    as in a notebook."""
    main = sys.modules["__main__"]
    if main.__name__ == "__main__":
        sys.modules.setdefault(_MAIN, main)  # results that a rank has pickled name it so
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    return ("file", os.path.abspath(file)) if file and os.path.exists(file) else None


# ---- in a rank ------------------------------------------------------------------------------------

def _serve() -> None:
    """Reads the call from standard input, makes it, and writes what it returns."""
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
    """The caller's program as the module __main__, where functions and classes of it are looked up."""
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
