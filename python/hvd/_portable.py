"""Exceptions that a rank sends to the caller of hvd.run() or hvd.slurm: packed here, unpacked there.

Not every exception can be pickled: its constructor may take other arguments than it keeps, or it may hold a lock. Then
the exception is sent as its type, its arguments and its attributes, without those that cannot be sent. A type that
cannot be sent is replaced by the nearest of its base classes that can.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Callable, Type

Dump = Callable[[Any], bytes]


def pack(error: BaseException, dump: Dump) -> bytes:
    """Returns the exception, pickled by `dump`; b"" if not even a base class can be sent."""
    return next(filter(None, (_packed(form, dump) for form in _forms(error, dump))), b"")


def unpack(data: bytes) -> BaseException:
    """Returns the exception. Raises what pickle raises, if its module cannot be imported here."""
    error: BaseException = pickle.loads(data)
    return error


def joined(text: str, base: Type[Any], cause: BaseException, *args: Any) -> Any:
    """Returns an exception of the type `base` and of the nearest of the cause's types that allows it.

    args: those of the constructor of `base`. The cause's attributes are attributes of it, too. Returns a plain `base` if
    there is no such type.
    """
    for kind in _kinds(cause):
        try:
            both = type(f"{base.__name__}({type(cause).__name__})", (base, kind), {})
            error: Any = kind.__new__(both, *cause.args)
            if isinstance(error, OSError):
                OSError.__init__(error, *cause.args)  # sets errno and filename
            vars(error).update(vars(cause))
            base.__init__(error, text, *args)
        except Exception:  # its metaclass, its layout in memory or its constructor does not allow it
            continue
        return error
    return base(text, *args)


def _kinds(error: BaseException) -> list[Type[BaseException]]:
    """Returns the exception's type and its base classes, the nearest first, without the most general ones."""
    return [kind for kind in type(error).__mro__
            if issubclass(kind, Exception) and kind is not Exception]


def _forms(error: BaseException, dump: Dump) -> Iterator[Any]:
    """Yields the exception, and what can be sent in its place, the nearest first."""
    yield error
    attributes = {name: value for name, value in vars(error).items() if _packed(value, dump)}
    args = _sendable(error.args, dump)
    for kind in _kinds(error):
        yield _Parts(kind, args, attributes)
        yield _Parts(kind, (str(error),), {})


class _Parts:
    """An exception that is made again without its constructor."""

    def __init__(self, kind: Type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> None:
        self._parts = kind, args, attributes

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, self._parts


def _made(kind: Type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


def _sendable(value: Any, dump: Dump) -> Any:
    """Returns the value, or what is nearest to it and can be sent: an exception's parts, an item's text."""
    if _packed(value, dump):
        return value
    if type(value) in (list, tuple):
        return type(value)(_sendable(item, dump) for item in value)
    if isinstance(value, Exception):
        return next((form for form in _forms(value, dump) if _packed(form, dump)), str(value))
    return repr(value)


def _packed(value: Any, dump: Dump) -> bytes:
    """Returns the pickled value; b"" if it cannot be pickled, or not be loaded again."""
    try:
        data = dump(value)
        pickle.loads(data)
    except Exception:
        return b""
    return data
