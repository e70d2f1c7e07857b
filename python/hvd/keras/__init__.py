"""hvd for Keras, with the names of horovod.keras: hvd.tensorflow.keras, for Keras on TensorFlow."""

from __future__ import annotations

from typing import Any

from . import _backend  # noqa: F401 (first: says what is missing)
from hvd._retired import refuse_elastic
from hvd.tensorflow.keras import *  # noqa: F403
from hvd.tensorflow.keras import __all__  # noqa: F401

from . import callbacks  # type: ignore[no-redef]  # noqa: F401 (so that hvd.keras.callbacks can be imported from)


def __getattr__(name: str) -> Any:
    refuse_elastic(__name__, name)
