"""hvd.keras, under Horovod's name."""

from __future__ import annotations

import hvd.keras

from horovod._names import names_of

__all__ = hvd.keras.__all__
__getattr__ = names_of(hvd.keras, __name__)
