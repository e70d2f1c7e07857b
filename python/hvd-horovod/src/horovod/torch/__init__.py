"""hvd.torch, under Horovod's name."""

from __future__ import annotations

import hvd.torch

from horovod._names import names_of

__all__ = hvd.torch.__all__
__getattr__ = names_of(hvd.torch, __name__)
