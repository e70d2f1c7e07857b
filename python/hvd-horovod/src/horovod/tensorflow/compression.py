"""Names of hvd.tensorflow that Horovod has in this module."""

from __future__ import annotations

import hvd.tensorflow

from horovod._names import names_of

__getattr__ = names_of(hvd.tensorflow, __name__)
