"""hvd.keras.callbacks, under Horovod's name."""

from __future__ import annotations

import hvd.keras.callbacks

from horovod._names import names_of

__getattr__ = names_of(hvd.keras.callbacks, __name__)
