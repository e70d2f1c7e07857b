"""hvd for Keras on TensorFlow: the API of `horovod.keras`, under the same names. It is that of hvd.tensorflow.keras."""

from __future__ import annotations

import typing as _typing

from . import _backend  # noqa: F401 (first: reports what is missing)
from hvd.tensorflow.keras import *  # noqa: F403
from hvd.tensorflow.keras import __all__  # noqa: F401

from . import callbacks, elastic  # type: ignore[no-redef]  # noqa: F401 (makes hvd.keras.callbacks importable)
from hvd import _names

if not _typing.TYPE_CHECKING:  # a type checker would take every name for known
    __getattr__, __dir__ = _names.answers_for(__name__)
