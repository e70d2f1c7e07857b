"""System calls that Python 3.11 lacks: namespaces, mounts and prctl.

A function raises OSError, which names the call. All need root.
"""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
HOST_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET  # except the PID namespace

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 1, 4096, 16384, 1 << 18

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_SYS_MOUNT_SETATTR = 442
_MOUNT_ATTR_RDONLY = 1
_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Moves this process into new namespaces. Only its later children enter a new PID namespace."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def join(pidfd: int, flags: int) -> None:
    """Enters namespaces of another process. Only later children of this process enter a PID namespace."""
    _checked(_libc.setns(ctypes.c_int(pidfd), ctypes.c_int(flags)), "setns")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    words = [text.encode() if text else None for text in (source, target, kind, options)]
    _checked(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {source} on {target}")


def bind(source: str, target: str) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)


def make_mounts_private() -> None:
    """Makes later mounts visible in this mount namespace only."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def set_read_only(path: str, on: bool) -> None:
    """Makes all mounts at and below the path read-only or writable, in this mount namespace only (mount_setattr(2))."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY * on, _MOUNT_ATTR_RDONLY * (not on), 0, 0)
    _checked(_libc.syscall(ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), path.encode(),
                           ctypes.c_uint(_AT_RECURSIVE), attributes, ctypes.c_size_t(len(attributes))),
             f"mount_setattr {path}")


def die_with_parent(signal_number: int) -> None:
    """Makes the kernel send this signal when the parent ends. A change of user or an exec of a set-user-id program
    cancels it."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number)), "prctl")


def set_process_name(name: str) -> None:
    _checked(_libc.prctl(_PR_SET_NAME, name.encode()), "prctl")


def forbid_core_dump() -> None:
    _checked(_libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0)), "prctl")
