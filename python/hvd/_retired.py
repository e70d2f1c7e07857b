"""Errors for names of Horovod that hvd does not have."""

from __future__ import annotations

from typing import NoReturn


def refuse_elastic(module: str, name: str) -> NoReturn:
    """Raises AttributeError for an unknown name of a module, with advice for `elastic`. For __getattr__ of modules."""
    if name == "elastic":
        raise AttributeError(f"{module}.elastic: there are no elastic states: hvdrun restarts the ranks, and a "
                             "checkpoint takes the place of the state; see docs/train/checkpoints.md")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
