"""Loading a model whose optimizer is distributed again."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from ..compression import Compression
from ..optimizer import DistributedOptimizer


def load_model(filepath: Any, custom_optimizers: Optional[list[type]] = None,
               custom_objects: Optional[dict[str, Any]] = None, compression: Any = Compression.none,
               legacy_opts: bool = False) -> Any:
    """keras.models.load_model(), whose optimizer, with its state, is a DistributedOptimizer then.

    custom_optimizers: classes of optimizers that Keras does not know. legacy_opts changes nothing: Keras knows what
    kind of optimizer it has saved.
    """
    known = {kind.__name__: kind for kind in custom_optimizers or []}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
