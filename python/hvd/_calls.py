"""A function call that is sent to the ranks of a new job, and what comes back of each rank.

Used by hvd.run() and hvd.slurm.submit(). The caller makes a message with `message_for`. A rank reads it with `make_call`,
which also writes the rank's outcome: the result, or the exception, pickled. The caller reads that with `Outcome.parse`.
"""

from __future__ import annotations

import linecache
import os
import pickle
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable, NoReturn, Optional

# The name under which a rank imports the caller's program, as in multiprocessing.
_MAIN = "__mp_main__"
# The most bytes of a pickled call, and of a pickled result. They pass through memory and the links several times.
MOST_BYTES = 256 << 20

_is_importing_program = False


@dataclass(frozen=True)
class Outcome:
    """What a rank's call came to."""

    size: int  # number of ranks of the job
    is_result: bool  # False: `data` is a pickled exception
    data: bytes

    def encode(self) -> bytes:
        return b"%d %s\n" % (self.size, b"result" if self.is_result else b"exception") + self.data

    @staticmethod
    def parse(text: bytes) -> Outcome:
        head, _, data = text.partition(b"\n")
        size, kind = head.split()
        return Outcome(int(size), kind == b"result", data)


# ---- in the caller --------------------------------------------------------------------------------

def check_call(where: str, func: Any, args: Any) -> None:
    """Raises TypeError for what is no function, such as a program, and for arguments that are no list."""
    if not callable(func):
        program = func if isinstance(func, str) and func.endswith(".py") else "train.py"
        raise TypeError(f"{where}: the first argument is {func!r}, not a function; a program is started by a command: "
                        f"hvdrun -np 4 python3 {program}")
    _check_list(f"{where}: args", args, "the arguments of the function: args=(0.1, \"adam\")")


def check_options(where: str, options: Any) -> None:
    """Raises TypeError if the options of a command are no list, such as one text."""
    _check_list(f"{where}: options", options, 'words: options=["--output-filename", "out"]')


def _check_list(name: str, value: Any, of: str) -> None:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}, not a list or tuple of {of}")


def message_for(where: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
                executable: Optional[str]) -> bytes:
    """Returns the call `func(*args, **kwargs)` as make_call() takes it. executable: the Python of the ranks, if another.

    Raises TypeError for what cannot be pickled, ValueError for too much, and RuntimeError in a rank that imports the
    program. `where`: the caller's name, for these errors.
    """
    if _is_importing_program:
        raise RuntimeError(f'{where}() is called in a program that a rank imports for its function: put the call under '
                           'if __name__ == "__main__":')
    call = _pickled((func, tuple(args), dict(kwargs)), f"{where}: cannot send the function to the ranks")
    if len(call) > MOST_BYTES:
        raise ValueError(f"{where}: the function and its arguments have {_mib(len(call))} when pickled; at most "
                         f"{_mib(MOST_BYTES)} can be sent: let the ranks read large data from files")
    main = _main_of_caller()
    return pickle.dumps({"where": where, "path": _path_for(executable), "argv": sys.argv, "main": main, "call": call,
                         "sources": _sources(func) if main is None else {}})


def rank_program(module: str, *args: str) -> str:
    """Returns the Python code of a rank: a call of the function `serve` of that module of this package."""
    folder = str(Path(__file__).resolve().parent.parent)
    return f"import sys; sys.path.insert(0, {folder!r}); from hvd.{module} import serve; serve{args!r}"


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


def _mib(count: int) -> str:
    return f"{-(-count // (1 << 20))} MiB"


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


def _functions(func: Any) -> Iterator[tuple[str, FunctionType]]:
    """Yields `func`, and the functions that it uses, if they belong to the caller's program: their names, and they."""
    found: dict[str, FunctionType] = {}
    todo = [("", func)]
    while todo:
        name, each = todo.pop()
        if isinstance(each, FunctionType) and each.__module__ == "__main__" and name not in found:
            found[name] = each
            yield name, each
            todo += [(used, each.__globals__.get(used)) for used in _names(each.__code__)]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):  # an inner function, a comprehension
            yield from _names(each)


def _sources(func: Any) -> dict[str, str]:
    """Returns the text of the cell of each of these functions, by the function's name, for the ranks' tracebacks."""
    return {name: "".join(linecache.getlines(each.__code__.co_filename)) for name, each in _functions(func)}


# ---- in a rank ------------------------------------------------------------------------------------

def make_call(data: bytes, send: Callable[[Outcome], None]) -> None:
    """Makes the call that message_for() has packed, and sends its outcome.

    Does not return if the function raises an exception: then the process ends, after the exception has been reported.
    """
    message = pickle.loads(data)
    sys.path[:] = [*message["path"], *(entry for entry in sys.path if entry not in message["path"])]
    sys.argv[:] = message["argv"]
    if message["main"] is not None and _names_main(message["call"]):
        _import_program(*message["main"])
    func, args, kwargs = pickle.loads(message["call"])
    _show_sources(func, message["sources"])
    try:
        packed = _pickled(func(*args, **kwargs), f"{message['where']}: cannot send back what the function returned")
        if len(packed) > MOST_BYTES:
            raise ValueError(f"{message['where']}: the result of rank {os.environ['HVD_RANK']} has {_mib(len(packed))} "
                             f"when pickled; at most {_mib(MOST_BYTES)} can be sent back: save it to a file and return "
                             "the file's name")
    except Exception as error:
        _send_exception(error, send)
        _end_by(error)
    send(Outcome(int(os.environ["HVD_SIZE"]), True, packed))


def _send_exception(error: Exception, send: Callable[[Outcome], None]) -> None:
    """Sends the exception, unless it cannot be pickled or is too large. Its traceback comes with the report."""
    try:
        packed = _pickled(error, "")
    except TypeError:
        return
    if len(packed) <= MOST_BYTES:
        send(Outcome(int(os.environ["HVD_SIZE"]), False, packed))


def _end_by(error: Exception) -> NoReturn:
    """Ends the process as an uncaught exception does. The traceback begins in the caller's function."""
    trace = error.__traceback__
    sys.excepthook(type(error), error, trace.tb_next if trace else None)
    sys.exit(1)


def _show_sources(func: Any, sources: Mapping[str, str]) -> None:
    """Gives the code of a notebook's functions a file name with which tracebacks show its lines.

    cloudpickle names all such code alike.
    """
    for name, each in _functions(func):
        if name in sources:
            file = f"<cell of {each.__name__}>"
            each.__code__ = _renamed(each.__code__, file)
            linecache.cache[file] = (len(sources[name]), None, sources[name].splitlines(True), file)


def _renamed(code: CodeType, file: str) -> CodeType:
    inner = tuple(_renamed(each, file) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)


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
