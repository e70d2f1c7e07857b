"""Calls every public function of hvd with nonsense: nonsense.py MODULE. Prints a line for each exception that does not help.

An exception helps if it is a TypeError or a ValueError that names the function, or one of hvd, of the system or of pickle.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import pickle
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
            if not (inspect.isclass(thing) and issubclass(thing, BaseException)):
                yield name, thing


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
        return "" if name in str(error) or "hvd" in str(error) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


module = importlib.import_module(sys.argv[1])
hvd.init()
for name, thing in callables(module):
    for arguments in calls(thing):
        if problem := problem_of(name, thing, arguments):
            print(f"{sys.argv[1]}.{name}({arguments}): {problem}", flush=True)
print("walked", sum(1 for _ in callables(module)), "names")
