"""Checks that PyTorch is installed: ImportError of one line if not. hvd.torch imports this module first."""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ImportError("hvd.torch needs PyTorch: pip install torch") from None
