"""Sends uncaught exceptions to the launcher, whose report shows them once for all ranks."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Callable, Optional, Type

Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]

# Modules whose hooks only extend Python's own, and print the traceback as it does.
_LIKE_PYTHONS_OWN = ("apport_python_hook",)


def install(report: Callable[[str], bool]) -> None:
    """Sets sys.excepthook so that `report` gets the traceback of an exception that ends the program.

    report: returns whether the launcher will show the traceback. If it returns False or raises, Python's hook prints
    the traceback. A hook that another module has set before is called in any case. A KeyboardInterrupt under the
    launcher ends the program without output.
    """
    earlier: Hook = sys.excepthook
    own = earlier is sys.__excepthook__ or getattr(earlier, "__module__", None) in _LIKE_PYTHONS_OWN

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if _ends_the_program():
            if issubclass(kind, KeyboardInterrupt) and os.environ.get("HVD_STATUS"):
                return  # Python ends itself by the signal
            if not issubclass(kind, KeyboardInterrupt) and _reported(report, kind, error, trace) and own:
                return
        earlier(kind, error, trace)

    sys.excepthook = hook


def _ends_the_program() -> bool:
    """Returns whether the exception ends the program. False at a prompt, and if another thread calls the hook."""
    at_a_prompt = hasattr(sys, "ps1") or sys.flags.interactive
    return not at_a_prompt and threading.current_thread() is threading.main_thread()


def _reported(report: Callable[[str], bool], kind: Type[BaseException], error: BaseException,
              trace: Optional[TracebackType]) -> bool:
    try:
        text = "".join(traceback.format_exception(kind, error, trace))
        # Escapes NUL, which ends a text in C, and surrogates, which UTF-8 cannot encode.
        text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
        return report(text)
    except Exception:
        return False
