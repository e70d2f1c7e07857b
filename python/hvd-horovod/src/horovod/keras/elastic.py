"""Elastic training: refused."""

from horovod._names import NO_ELASTIC, refuse

refuse("horovod.keras.elastic", NO_ELASTIC)
