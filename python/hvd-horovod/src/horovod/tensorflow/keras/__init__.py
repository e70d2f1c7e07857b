"""hvd.tensorflow.keras, under Horovod's name."""

from __future__ import annotations

import hvd.tensorflow.keras

from horovod._names import names_of

__all__ = hvd.tensorflow.keras.__all__
__getattr__ = names_of(hvd.tensorflow.keras, __name__)
