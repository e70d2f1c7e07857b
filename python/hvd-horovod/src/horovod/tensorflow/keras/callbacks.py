"""hvd.tensorflow.keras.callbacks, under Horovod's name."""

from __future__ import annotations

import hvd.tensorflow.keras.callbacks

from horovod._names import names_of

__getattr__ = names_of(hvd.tensorflow.keras.callbacks, __name__)
