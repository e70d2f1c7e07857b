"""hvd: distributed training on GPUs and CPUs.

    import hvd.torch as hvd       # or hvd.tensorflow, hvd.tensorflow.keras, hvd.keras, hvd.numpy
    hvd.init()
    torch.cuda.set_device(hvd.local_device())

Start a program with `hvdrun -np 4 python train.py`. This module has what is common to all frameworks. `python -m hvd`
prints what hvd finds on this machine.
"""

from __future__ import annotations

import typing as _typing

from . import _arguments, _everywhere, _names, _tracebacks, callbacks, data, elastic
from ._everywhere import *  # noqa: F403
from .job import report_failure, version

__version__ = version()

_tracebacks.install(report_failure)

__all__ = ["callbacks", "data", "elastic"]
__all__ += _everywhere.__all__

for _module in (data, elastic):
    _arguments.guard(vars(_module))

if not _typing.TYPE_CHECKING:  # a type checker would take every name for known
    __getattr__, __dir__ = _names.answers_for(__name__)
