"""Exceptions of hvd.errors that are also of tf.errors, so that a program for Horovod catches them.

The classes of tf.errors are those of Horovod's operations. In a graph TensorFlow itself makes the exception (_calls);
docs/frameworks/tensorflow.md lists its classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from .. import errors

_PRECONDITION = (tf.errors.FailedPreconditionError,)
# Horovod rejects some arguments in the call, and others after the ranks have compared them.
_ARGUMENT = (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError)

# All other errors become UnknownError.
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
    """Returns a subclass of `ours` and of its classes of tf.errors, with the name of `ours`.

    Its constructor has the arguments of tf.errors, because tf.function constructs such an exception again.
    """
    theirs = _THEIRS.get(ours, (tf.errors.UnknownError,))

    def begin(self: Any, node_def: Any, op: Any, message: str, *_: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, _CODES[theirs[0]])

    def reduce(self: Any) -> Any:
        return both_kinds, (errors.of_status(self.status, self.message),)

    return type(ours.__name__, (ours, *theirs), {"__init__": begin, "__reduce__": reduce, "__doc__": ours.__doc__,
                                                "__module__": ours.__module__})


_CLASSES = {ours: _class_of(ours) for ours in [errors.Error, *errors.Error.__subclasses__()]}


def both_kinds(error: errors.Error) -> errors.Error:
    """Returns the same error as an instance of both hierarchies."""
    if isinstance(error, tf.errors.OpError):
        return error
    both = _CLASSES[type(error)](None, None, str(error))
    both.status = error.status
    return both.with_traceback(error.__traceback__)


def is_precondition(error: BaseException) -> bool:
    """Returns whether Horovod raises FailedPreconditionError for this error, and no other class."""
    return isinstance(error, errors.Error) and _THEIRS.get(type(error)) == _PRECONDITION


@contextmanager
def also_tensorflows() -> Iterator[None]:
    """Returns a context that converts errors of hvd.errors with both_kinds()."""
    try:
        yield
    except errors.Error as error:
        raise both_kinds(error) from error.__cause__
