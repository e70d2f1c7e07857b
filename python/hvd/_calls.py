"""A function call that is sent to the ranks of a new job, and what comes back of each rank.

Used by hvd.run() and hvd.slurm.submit(). The caller makes a message with `message_for`. A rank reads it with `make_call`,
which also writes the rank's outcome: the result, or the exception, pickled. The caller reads that with `Outcome.parse`.
"""

from __future__ import annotations

import importlib.util
import linecache
import os
import pickle
import re
import runpy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable, NoReturn, Optional

from . import _portable, _remedies

# How a rank can import the caller's program: ("module", its name) or ("file", its path).
Program = tuple[str, str]
# The name under which a rank imports the caller's program, as in multiprocessing.
_MAIN = "__mp_main__"
# The most bytes of a pickled call, and of a pickled result. They pass through memory and the links several times.
MOST_BYTES = 256 << 20

_GUARD = re.compile(r"\b__name__\s*[!=]=|==\s*__name__\b")

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
    check_list(f"{where}: args", args, "the arguments of the function: args=(0.1, \"adam\")")


def check_options(where: str, options: Any) -> None:
    """Raises TypeError if the options of a command are no list, such as one text."""
    check_list(f"{where}: options", options, 'words: options=["--output-filename", "out"]')


def check_list(name: str, value: Any, of: str) -> None:
    """Raises TypeError for what is no collection of things, such as one text. `of`: what it should have."""
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
                           f'if __name__ == "__main__":, or install cloudpickle ({_remedies.python_package("cloudpickle")})')
    call, main = _pickled_call((func, tuple(args), dict(kwargs)), f"{where}: cannot send the function to the ranks")
    if len(call) > MOST_BYTES:
        raise ValueError(f"{where}: the function and its arguments have {_mib(len(call))} when pickled; at most "
                         f"{_mib(MOST_BYTES)} can be sent: let the ranks read large data from files")
    script = _main_of_caller()
    return pickle.dumps({"where": where, "path": _path_for(executable), "argv": sys.argv, "main": main, "call": call,
                         "cells": _cells(func) if script is None else {}, "files": _files(func) if script else {}})


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


def _dump(thing: Any) -> bytes:
    """Pickles with cloudpickle if it is installed."""
    data: bytes = _pickler().dumps(thing)
    return data


def _pickled_call(call: Any, cannot: str) -> tuple[bytes, Optional[Program]]:
    """Returns the pickled call, and the program that a rank must import before it can load the call, if any.

    cloudpickle sends what the program defines by value, so no rank imports the program. pickle sends names only. It is
    the second choice, for a function that uses a lock of its program, or more of its data than can be sent.
    """
    pickler = _pickler()
    if pickler is not pickle:
        try:
            data: bytes = pickler.dumps(call)
        except Exception as error:
            if by_name := _by_name(call):
                return by_name
            raise TypeError(f"{cannot}: {error}{_where_in_call(call)}") from error
        by_name = _by_name(call) if len(data) > MOST_BYTES else None
        return by_name or (data, None)
    try:
        data = pickle.dumps(call)
    except Exception as error:
        raise TypeError(f"{cannot}: {error}{_where_in_call(call)}; cloudpickle takes lambdas and inner functions: "
                        f"{_remedies.python_package('cloudpickle')}") from error
    if by_name := _by_name(call, data):
        return by_name
    where = "at a prompt or in a notebook" if _main_of_caller() is None else 'in a script without if __name__ == "__main__":'
    raise TypeError(f"{cannot}: something of it was defined {where}; install cloudpickle, or put it into a module: "
                    f"{_remedies.python_package('cloudpickle')}")


def _by_name(call: Any, data: bytes = b"") -> Optional[tuple[bytes, Optional[Program]]]:
    """Returns what _pickled_call() does, with pickle; None if it cannot be pickled or a rank cannot import the program."""
    try:
        data = data or pickle.dumps(call)
    except Exception:
        return None
    if not _names_main(data):
        return data, None
    main = _main_of_caller()
    return (data, main) if main is not None and _has_guard(main) else None


def _pickled(thing: Any, cannot: str) -> bytes:
    try:
        return _dump(thing)
    except Exception as error:
        raise TypeError(f"{cannot}: {error}{_where('the result', thing)}") from error


# ---- What cannot be pickled -----------------------------------------------------------------------

_DEEPEST = 6  # levels of what is in what


def _where_in_call(call: Any) -> str:
    """Returns " (in NAME)" for the argument or the variable of a call that cannot be pickled; "" if none is found."""
    func, args, kwargs = call
    parts = [(f"args[{index}]", value) for index, value in enumerate(args)]
    parts += [(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
    owner = getattr(func, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        parts.append((type(owner).__name__, owner))
    for name, each in _functions(getattr(func, "__func__", func)):
        named = name or each.__name__
        cells = each.__closure__ or ()
        parts += [(f"the variable {free}, which {named} uses", cell.cell_contents)
                  for free, cell in zip(each.__code__.co_freevars, cells) if _has_value(cell)]
        parts += [(f"the variable {used}, which {named} uses", each.__globals__[used]) for used in _names(each.__code__)
                  if used in each.__globals__ and not isinstance(each.__globals__[used], (FunctionType, ModuleType))]
    return next(filter(None, (_where(name, value) for name, value in parts)), "")


def _has_value(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _where(name: str, thing: Any) -> str:
    """Returns " (in NAME)", with the way to what cannot be pickled in the thing; "" if it can be."""
    if _can_be_pickled(thing):
        return ""
    steps = ""
    for _ in range(_DEEPEST):
        found = next(((step, value) for step, value in _inside(thing) if not _can_be_pickled(value)), None)
        if found is None:
            break
        steps, thing = steps + found[0], found[1]
    what, comma, rest = name.partition(",")
    return f" (in {what}{steps}{comma}{rest})"


def _can_be_pickled(thing: Any) -> bool:
    try:
        _dump(thing)
    except Exception:
        return False
    return True


def _inside(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple)):
        yield from ((f"[{index}]", value) for index, value in enumerate(thing))
    else:
        yield from ((f".{name}", value) for name, value in getattr(thing, "__dict__", {}).items())


def _mib(count: int) -> str:
    return f"{-(-count // (1 << 20))} MiB"


def _path_for(executable: Optional[str]) -> list[str]:
    """Returns sys.path; for another Python, without the folders of this Python's own modules."""
    own = tuple(os.path.join(prefix, "") for prefix in {sys.prefix, sys.base_prefix})
    return [entry for entry in sys.path if executable is None or not entry.startswith(own)]


def _names_main(data: bytes) -> bool:
    return b"__main__" in data or _MAIN.encode() in data


def _main_of_caller() -> Optional[Program]:
    """Returns the caller's program; None if a rank cannot import it, as in a notebook."""
    main = sys.modules["__main__"]
    if main.__name__ == "__main__":
        sys.modules.setdefault(_MAIN, main)  # the name in results that a rank has pickled
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    return ("file", os.path.abspath(file)) if file and os.path.exists(file) else None


def _has_guard(main: Program) -> bool:
    """Returns whether the program compares __name__, as one that can be imported does."""
    kind, name = main
    spec = importlib.util.find_spec(name) if kind == "module" else None
    file = name if kind == "file" else spec.origin if spec else None
    return file is None or _GUARD.search("".join(linecache.getlines(file))) is not None


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


def _cells(func: Any) -> dict[str, str]:
    """Returns the text of the cell of each of these functions, by the function's name, for the ranks' tracebacks."""
    return {name: "".join(linecache.getlines(each.__code__.co_filename)) for name, each in _functions(func)}


def _files(func: Any) -> dict[str, str]:
    """Returns the text of the program's files that have these functions, for hosts without the files."""
    files = {each.__code__.co_filename for _, each in _functions(func)}
    return {file: "".join(linecache.getlines(file)) for file in files}


# ---- in a rank ------------------------------------------------------------------------------------

def make_call(data: bytes, send: Callable[[Outcome], None]) -> None:
    """Makes the call that message_for() has packed, and sends its outcome.

    Does not return if the function raises an exception: then the process ends, after the exception has been reported.
    """
    message = pickle.loads(data)
    sys.path[:] = [*message["path"], *(entry for entry in sys.path if entry not in message["path"])]
    sys.argv[:] = message["argv"]
    if message["main"] is not None:
        _import_program(*message["main"])
    func, args, kwargs = _loaded(message["where"], message["call"])
    _show_cells(func, message["cells"])
    for file, text in message["files"].items():
        _remember(file, text)
    try:
        packed = _pickled(func(*args, **kwargs), f"{message['where']}: cannot send back what the function returned")
        if len(packed) > MOST_BYTES:
            raise ValueError(f"{message['where']}: the result of rank {os.environ['HVD_RANK']} has {_mib(len(packed))} "
                             f"when pickled; at most {_mib(MOST_BYTES)} can be sent back: save it to a file and return "
                             "the file's name")
    except Exception as error:
        _send_exception(error, send)
        _end_by(error)
    except SystemExit as error:
        _send_exception(error, send)
        raise
    send(Outcome(int(os.environ["HVD_SIZE"]), True, packed))


def _loaded(where: str, call: bytes) -> Any:
    try:
        return pickle.loads(call)
    except ModuleNotFoundError as error:
        if error.name != "cloudpickle":
            raise
        raise ModuleNotFoundError(f"{where}: the ranks' Python ({sys.executable}) has no cloudpickle, with which the "
                                  f"function was sent: {_remedies.python_package('cloudpickle')}") from None


def _send_exception(error: BaseException, send: Callable[[Outcome], None]) -> None:
    """Sends the exception, unless nothing of it can be pickled or it is too large. The report has its traceback."""
    packed = _portable.pack(error, _dump)
    if packed and len(packed) <= MOST_BYTES:
        send(Outcome(int(os.environ["HVD_SIZE"]), False, packed))


def _end_by(error: Exception) -> NoReturn:
    """Ends the process as an uncaught exception does. The traceback begins in the caller's function."""
    trace = error.__traceback__
    sys.excepthook(type(error), error, trace.tb_next if trace else None)
    sys.exit(1)


def _show_cells(func: Any, cells: Mapping[str, str]) -> None:
    """Gives the code of a notebook's functions a file name with which tracebacks show its lines.

    cloudpickle names all such code alike.
    """
    for name, each in _functions(func):
        if name in cells:
            file = f"<cell of {each.__name__}>"
            each.__code__ = _renamed(each.__code__, file)
            _remember(file, cells[name])


def _remember(file: str, text: str) -> None:
    """Gives tracebacks the text of a file that this host may not have."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)


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
