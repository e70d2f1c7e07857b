"""hvd for Keras on TensorFlow: the API of `horovod.keras`, under the same names. It is that of hvd.tensorflow.keras."""

from __future__ import annotations

from typing import Any

from . import _backend  # noqa: F401 (first: reports what is missing)
from hvd._retired import refuse_elastic
from hvd.tensorflow.keras import *  # noqa: F403
from hvd.tensorflow.keras import __all__  # noqa: F401

from . import callbacks  # type: ignore[no-redef]  # noqa: F401 (makes hvd.keras.callbacks importable)


def __getattr__(name: str) -> Any:
    refuse_elastic(__name__, name)
