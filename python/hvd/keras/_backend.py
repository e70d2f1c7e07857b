"""Says when Keras does not run on TensorFlow. Imported first."""

from __future__ import annotations

import hvd.tensorflow._framework  # noqa: F401 (says when there is no TensorFlow)
import keras
import tensorflow

_backend = keras.backend.backend()
if _backend != "tensorflow":
    raise ImportError(f"hvd.keras: Keras runs on {_backend}, and hvd has it on TensorFlow only: set "
                      "KERAS_BACKEND=tensorflow")
if not issubclass(keras.callbacks.Callback, tensorflow.keras.callbacks.Callback):
    raise ImportError("hvd.keras: keras and tf.keras are of different versions (TF_USE_LEGACY_KERAS); "
                      "hvd.tensorflow.keras is the one for tf.keras")
