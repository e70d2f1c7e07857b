"""Uncaught exceptions go to the launcher, whose report shows them once for all ranks."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Callable, Optional, Type

Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]

# These only add to Python's own hook, and print the traceback as it does.
_LIKE_PYTHONS_OWN = ("apport_python_hook",)


def install(report: Callable[[str], bool]) -> None:
    """From now on `report` gets the traceback of an exception that ends the program.

    It returns whether the launcher will show it; when not, or when it raises, the traceback is
    printed as Python does. A hook of somebody else's that was set before is called in any case.
    A KeyboardInterrupt under the launcher ends the program without a word.
    """
    earlier: Hook = sys.excepthook
    own = earlier is sys.__excepthook__ or getattr(earlier, "__module__", None) in _LIKE_PYTHONS_OWN

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if _ends_the_program():
            if issubclass(kind, KeyboardInterrupt) and os.environ.get("HVD_STATUS"):
                return  # Python ends itself by the signal
            if not issubclass(kind, KeyboardInterrupt) and _told(report, kind, error, trace) and own:
                return
        earlier(kind, error, trace)

    sys.excepthook = hook


def _ends_the_program() -> bool:
    """Not so at a prompt, nor where a thread calls the hook for an exception of its own."""
    at_a_prompt = hasattr(sys, "ps1") or sys.flags.interactive
    return not at_a_prompt and threading.current_thread() is threading.main_thread()


def _told(report: Callable[[str], bool], kind: Type[BaseException], error: BaseException,
          trace: Optional[TracebackType]) -> bool:
    try:
        text = "".join(traceback.format_exception(kind, error, trace))
        # What C takes for the end of the text, and UTF-8 has no bytes for.
        text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
        return report(text)
    except Exception:
        return False
