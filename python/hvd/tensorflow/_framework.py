"""Checks that TensorFlow is installed: ImportError of one line if not. hvd.tensorflow imports this module first."""

from __future__ import annotations

try:
    import tensorflow  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "tensorflow":
        raise
    raise ImportError("hvd.tensorflow needs TensorFlow: pip install tensorflow") from None
