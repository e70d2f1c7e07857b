"""load_model(): loads a saved model and makes its optimizer a DistributedOptimizer again."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from ..compression import Compression
from ..optimizer import DistributedOptimizer


def load_model(filepath: Any, custom_optimizers: Optional[list[type]] = None,
               custom_objects: Optional[dict[str, Any]] = None, compression: Any = Compression.none,
               legacy_opts: bool = False) -> Any:
    """Like keras.models.load_model(), but the optimizer, with its state, is a DistributedOptimizer.

    custom_optimizers: classes of optimizers that Keras does not know.
    legacy_opts: ignored, because Keras saves the kind of the optimizer.
    """
    known = {kind.__name__: kind for kind in custom_optimizers or []}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
