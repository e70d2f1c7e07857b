"""Work that one rank does for all, logs, and files.

    words = hvd.on_rank0(lambda: read_vocabulary("words.txt"))   # read once, the same on all ranks
    hvd.print0("epoch", epoch, "loss", loss)
    with hvd.io.Log("train.log") as log:                         # one file, with the time before each line
        print("epoch", epoch, file=log)
    with hvd.io.atomic_file("result.json", "w") as file:         # appears complete or not at all
        json.dump(result, file)
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p
from typing import IO, Any, Optional, TypeVar, Union

from . import _library, errors
from ._collectives import options, sharing_failure
from ._library import check, lib, whole
from .job import is_root, rank
from .objects import _pickled, broadcast_object

Result = TypeVar("Result")
PathName = Union[str, os.PathLike[str]]

_BODY = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(c_char_p))

_library.declare({
    "hvd_on_root": (c_int32, _BODY, c_void_p, c_int, POINTER(_library.Options)),
    "hvd_log_open": (c_int32, c_char_p, POINTER(c_void_p), POINTER(_library.Options)),
    "hvd_log_write": (c_int32, c_void_p, c_char_p, c_size_t),
    "hvd_log_close": (None, c_void_p),
    "hvd_rank_path": (c_int32, c_char_p, c_char_p, c_size_t),
    "hvd_file_create": (c_int32, c_char_p, POINTER(c_void_p)),
    "hvd_file_write": (c_int32, c_void_p, c_char_p, c_size_t),
    "hvd_file_commit": (c_int32, c_void_p),
    "hvd_file_discard": (None, c_void_p),
})

# ---- Work of one rank for all -------------------------------------------------------------------


class _Body:
    """The function that hvd_on_root calls, with its result or exception."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._text = b""
        self.value: Any = None
        self.data = b""
        self.failure: Optional[BaseException] = None

    def run(self, _argument: Optional[int], error: Any) -> int:
        try:
            self.value = self._function()
            self.data = _pickled(self.value)  # here, so that an error in pickling is raised on all ranks
            return 0
        except BaseException as failure:
            self.failure = failure
            self._text = f"{type(failure).__name__}: {failure}".encode("utf-8", "replace").replace(b"\0", b"")
            error[0] = self._text
            return errors.RootError.status


def on_root(function: Callable[[], Result], root: int = 0, name: str = "on_root") -> Result:
    """Calls the function on rank `root` while the others wait, and returns its result on all ranks. A collective.

    The result is sent as a pickle. If the function raises, the root raises the same exception, and the others RootError
    with its text ("rank 0: ..."). The function must not call collectives; they raise InvalidArgumentError.
    """
    root = whole(root, c_int, "the root")
    body = _Body(function)
    status = lib.hvd_on_root(_BODY(body.run), None, root, byref(options(name, 0)))
    if body.failure is not None:
        raise body.failure
    check(status)
    data = broadcast_object(body.data, root, f"{name}.result")
    return body.value if is_root(root) else pickle.loads(data)


def on_rank0(function: Callable[[], Result], name: str = "on_rank0") -> Result:
    """Like on_root(), with rank 0 as root."""
    return on_root(function, 0, name)


def print0(*values: Any, **how: Any) -> None:
    """Calls print() on rank 0 and flushes; does nothing on other ranks. Not a collective."""
    if rank() == 0:
        how.setdefault("flush", True)
        print(*values, **how)


# ---- The log ------------------------------------------------------------------------------------


class Log(io.TextIOBase):
    """A text file to which rank 0 appends, with the local time (ISO 8601) before each line.

    Text that other ranks write is dropped. For print(file=log) and logging.StreamHandler(log).

    Opening is a collective: if rank 0 cannot open the file, all ranks get the error. Writing is not, and any thread may
    do it. A full disk is a SystemCallError in write(), after which the log can still be used.
    """

    def __init__(self, path: PathName) -> None:
        self._log: Optional[c_void_p] = None
        log = c_void_p()
        with sharing_failure(""):
            name, call = os.fsencode(path), options(f"log {os.fspath(path)}", 0)
        check(lib.hvd_log_open(name, byref(log), byref(call)))
        self._log = log

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._log is None:
            raise ValueError("hvd: write to a closed log")
        data = text.encode("utf-8", "backslashreplace")
        check(lib.hvd_log_write(self._log, data, len(data)))
        return len(text)

    def close(self) -> None:
        """Writes an unfinished last line, and closes the file. Not a collective."""
        log, self._log = self._log, None
        if log is not None:
            lib.hvd_log_close(log)
        super().close()


# ---- Files --------------------------------------------------------------------------------------


def rank_path(pattern: str) -> str:
    """Returns a path for this rank alone, from a pattern such as "out/{rank}.txt".

    Fields: {rank}, {local_rank}, {node_rank}, {size}, {host}, {job}, {restart}; "{{" is a brace. InvalidArgumentError
    for a pattern that gives several ranks the same path.
    """
    path = ctypes.create_string_buffer(4096)
    check(lib.hvd_rank_path(os.fsencode(pattern), path, len(path)))
    return os.fsdecode(path.value)


class _RawFile(io.RawIOBase):
    """hvd_file as a raw file of Python's, for BufferedWriter and TextIOWrapper."""

    def __init__(self, path: PathName) -> None:
        self._file: Optional[c_void_p] = None
        file = c_void_p()
        check(lib.hvd_file_create(os.fsencode(path), byref(file)))
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        own = bytes(data)
        if self._file is not None:  # otherwise dropped: a detached writer flushes once more after discard()
            check(lib.hvd_file_write(self._file, own, len(own)))
        return len(own)

    def commit(self) -> None:
        file, self._file = self._file, None
        check(lib.hvd_file_commit(file))

    def discard(self) -> None:
        file, self._file = self._file, None
        lib.hvd_file_discard(file)


@contextmanager
def atomic_file(path: PathName, mode: str = "wb", encoding: str = "utf-8") -> Iterator[IO[Any]]:
    """Writes a file that appears complete or not at all.

        with hvd.io.atomic_file("model.pt") as file: torch.save(model, file)

    Until the block ends, a reader sees the earlier file of that name. Afterwards the new file has replaced it and is on
    the disk. An exception in the block drops the new file. mode: "wb" or "w". For one rank; works without hvd.init().
    """
    if mode not in ("w", "wb", "wt"):
        raise ValueError(f'hvd: atomic_file(mode={mode!r}): "wb" or "w"')
    raw = _RawFile(path)
    buffered = io.BufferedWriter(raw, 1 << 20)
    file: Any = buffered if mode == "wb" else io.TextIOWrapper(buffered, encoding)
    try:
        yield file
        file.flush()
    except BaseException:
        raw.discard()
        raise
    else:
        raw.commit()
    finally:
        file.detach()  # type: ignore[attr-defined]  # later writes are a ValueError
