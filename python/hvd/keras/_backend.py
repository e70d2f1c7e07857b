"""Checks that Keras runs on TensorFlow: ImportError if not. hvd.keras imports this module first."""

from __future__ import annotations

import hvd.tensorflow._framework  # noqa: F401 (reports a missing TensorFlow)
import keras
import tensorflow

_backend = keras.backend.backend()
if _backend != "tensorflow":
    raise ImportError(f"hvd.keras: Keras runs on {_backend}, and hvd has it on TensorFlow only: set "
                      "KERAS_BACKEND=tensorflow")
if not issubclass(keras.callbacks.Callback, tensorflow.keras.callbacks.Callback):
    raise ImportError("hvd.keras: keras and tf.keras are of different versions (TF_USE_LEGACY_KERAS); "
                      "hvd.tensorflow.keras is the one for tf.keras")
