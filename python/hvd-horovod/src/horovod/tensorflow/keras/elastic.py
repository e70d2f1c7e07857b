"""Elastic training: refused."""

from horovod._names import NO_ELASTIC, refuse

refuse("horovod.tensorflow.keras.elastic", NO_ELASTIC)
