"""Exceptions that are of hvd.errors and of tf.errors: what a program for Horovod catches, it catches here.

The classes of tf.errors are those that Horovod's operations fail with. In a graph TensorFlow itself makes the
exception, of a class that docs/frameworks/tensorflow.md tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from .. import errors

_PRECONDITION = (tf.errors.FailedPreconditionError,)
# Horovod finds some arguments wrong in the call, and others when the ranks have compared them.
_ARGUMENT = (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError)

# Of the others: UnknownError.
_THEIRS: dict[type[errors.Error], tuple[type[tf.errors.OpError], ...]] = {
    errors.InvalidArgumentError: _ARGUMENT,
    errors.EnvironmentVariableError: _ARGUMENT,
    errors.NotInitializedError: _PRECONDITION,
    errors.MismatchError: _PRECONDITION,
    errors.UnsupportedError: _PRECONDITION,
    errors.ForkedError: _PRECONDITION,
}
_CODES = {tf.errors.InvalidArgumentError: tf.errors.INVALID_ARGUMENT,
          tf.errors.FailedPreconditionError: tf.errors.FAILED_PRECONDITION,
          tf.errors.UnknownError: tf.errors.UNKNOWN}


def _class_of(ours: type[errors.Error]) -> type[errors.Error]:
    """A subclass of `ours` and of those of tf.errors, with the name of `ours` and the arguments of tf.errors, which
    tf.function makes it with again."""
    theirs = _THEIRS.get(ours, (tf.errors.UnknownError,))

    def begin(self: Any, node_def: Any, op: Any, message: str, *_: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, _CODES[theirs[0]])

    def reduce(self: Any) -> Any:
        return both_kinds, (errors.of_status(self.status, self.message),)

    return type(ours.__name__, (ours, *theirs), {"__init__": begin, "__reduce__": reduce, "__doc__": ours.__doc__,
                                                "__module__": ours.__module__})


_CLASSES = {ours: _class_of(ours) for ours in [errors.Error, *errors.Error.__subclasses__()]}


def both_kinds(error: errors.Error) -> errors.Error:
    """The same error, also one of TensorFlow's."""
    if isinstance(error, tf.errors.OpError):
        return error
    both = _CLASSES[type(error)](None, None, str(error))
    both.status = error.status
    return both.with_traceback(error.__traceback__)


@contextmanager
def also_tensorflows() -> Iterator[None]:
    """Errors of hvd.errors leave the block as both_kinds()."""
    try:
        yield
    except errors.Error as error:
        raise both_kinds(error) from error.__cause__
