"""Finds a library, as libhvd does when it opens one, without loading it into this process.

The loader knows libraries by their sonames. So a framework that is imported later would get the library that is loaded
here instead of its own, which may be newer. If this process does not have the library yet, a child process opens it:
`python _find_library.py FUNCTION NAME...`.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder, which has modules with the names of Python's

import ctypes
import functools
import os
import subprocess
from typing import NamedTuple, Optional


class Found(NamedTuple):
    """A library that can be opened."""

    path: Optional[str]  # None if it is not known
    version: int  # 0 if it has none


def find(names: tuple[str, ...], version_function: str = "") -> Optional[Found]:
    """Returns the first of the libraries that is loaded, or else the first that can be opened; None if there is none.

    version_function: one of the library's that writes its version to an int, such as "ncclGetVersion".
    """
    return _open(names, version_function, os.RTLD_NOLOAD) or _ask_child(names, version_function)


def mapped_path(file_name: str) -> Optional[str]:
    """Returns the path of a file that is mapped into this process and whose name begins so; None if there is none."""
    with open("/proc/self/maps") as lines:
        paths = ("/" + line.rstrip("\n").partition("/")[2] for line in lines)
        return next((path for path in paths if path.rpartition("/")[2].startswith(file_name)), None)


def _open(names: tuple[str, ...], version_function: str, mode: int) -> Optional[Found]:
    for name in names:
        try:
            library = ctypes.CDLL(name, mode)
        except OSError:
            continue
        version = ctypes.c_int()
        function = getattr(library, version_function, None) if version_function else None
        known = function is not None and function(ctypes.byref(version)) == 0
        return Found(mapped_path(os.path.basename(name)), version.value if known else 0)
    return None


@functools.lru_cache(maxsize=None)
def _ask_child(names: tuple[str, ...], version_function: str) -> Optional[Found]:
    command = [sys.executable or "python3", "-S", __file__, version_function, *names]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    except OSError:
        return None
    version, _, path = done.stdout.strip().partition(" ")
    return Found(path or None, int(version)) if version.isdigit() else None


if __name__ == "__main__":
    if found := _open(tuple(sys.argv[2:]), sys.argv[1], ctypes.DEFAULT_MODE):
        print(found.version, found.path or "")
