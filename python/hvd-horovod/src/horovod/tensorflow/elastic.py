"""Elastic training: refused."""

from horovod._names import NO_ELASTIC, refuse

refuse("horovod.tensorflow.elastic", NO_ELASTIC)
