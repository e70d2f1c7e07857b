"""Names of hvd.torch that Horovod has in this module."""

from __future__ import annotations

import hvd.torch

from horovod._names import names_of

__getattr__ = names_of(hvd.torch, __name__)
