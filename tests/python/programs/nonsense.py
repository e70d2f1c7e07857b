"""Calls every public function of hvd with nonsense: nonsense.py MODULE... Prints a line for each exception that does not help.

An exception helps if it is a TypeError or a ValueError that names the function, or one of hvd, of the system or of pickle.
Each module has a process of its own, because nonsense may change what later calls do.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import io
import os
import pickle
import signal
import sys

import hvd

NONSENSE = [object(), "nonsense", -1.5, [object()], None]
NAMED = (TypeError, ValueError)
OTHER = (hvd.Error, OSError, NotImplementedError, pickle.PicklingError)
# These end the process, or wait for what never comes.
LEFT_OUT = {"shutdown", "reform", "join", "serve", "report_failure", "map", "submit"}


def callables(module):
    own = [name for name, thing in vars(module).items() if name[0] != "_" and getattr(thing, "__module__", "") == module.__name__]
    for name in getattr(module, "__all__", own):
        thing = getattr(module, name)
        if callable(thing) and str(getattr(thing, "__module__", "")).startswith("hvd") and name not in LEFT_OUT:
            if not (inspect.isclass(thing) and issubclass(thing, (BaseException, enum.Enum))):
                yield name, thing
            for made_by in vars(thing) if inspect.isclass(thing) else ():
                if made_by[0] != "_" and isinstance(vars(thing)[made_by], (classmethod, staticmethod)):
                    yield f"{name}.{made_by}", getattr(thing, made_by)


def calls(thing):
    """Yields arguments: the required ones are nonsense, and one of the others is."""
    parameters = [each for each in inspect.signature(thing).parameters.values()
                  if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    required = [each.name for each in parameters if each.default is each.empty and each.kind is not each.POSITIONAL_ONLY]
    for nonsense in NONSENSE:
        first = {name: nonsense for name in required}
        yield first
        for each in parameters:
            if each.name not in first:
                yield {**first, each.name: nonsense}


def problem_of(name, thing, arguments):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = thing(**arguments)
            if hasattr(result, "__next__"):
                next(result)
    except OTHER:
        return ""
    except NAMED as error:
        return "" if str(error).startswith(("hvd", name)) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def walk(module):
    """Returns whether all exceptions help."""
    hvd.init()
    problems = [f"{module.__name__}.{name}({arguments}): {problem}" for name, thing in callables(module) for arguments in calls(thing)
                if (problem := problem_of(name, thing, arguments))]
    print(*problems, f"walked {module.__name__}", sep="\n", flush=True)
    return not problems


def walk_in_a_child(module):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a call that hangs ends the child
        os._exit(0 if walk(module) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


faults = [f"{module.__name__}: {code}" for module in map(importlib.import_module, sys.argv[1:]) if (code := walk_in_a_child(module))]
sys.exit(", ".join(faults) or 0)
