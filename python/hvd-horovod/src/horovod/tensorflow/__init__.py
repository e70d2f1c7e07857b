"""hvd.tensorflow, under Horovod's name."""

from __future__ import annotations

import hvd.tensorflow

from horovod._names import names_of

__all__ = hvd.tensorflow.__all__
__getattr__ = names_of(hvd.tensorflow, __name__)
