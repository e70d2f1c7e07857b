"""What Horovod has and hvd does not, refused by name."""

from __future__ import annotations

from typing import NoReturn


def refuse_elastic(module: str, name: str) -> NoReturn:
    """For __getattr__ of a module."""
    if name == "elastic":
        raise AttributeError(f"{module}.elastic: there are no elastic states: hvdrun restarts the ranks, and a "
                             "checkpoint takes the place of the state; see docs/train/checkpoints.md")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
