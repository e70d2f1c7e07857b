"""The states and callbacks of hvd.tensorflow.keras.elastic, under the name of horovod.keras."""

from __future__ import annotations

from hvd.tensorflow.keras.elastic import *  # noqa: F403
from hvd.tensorflow.keras.elastic import __all__  # noqa: F401
