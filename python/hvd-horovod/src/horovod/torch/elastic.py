"""Elastic training: refused."""

from horovod._names import NO_ELASTIC, refuse

refuse("horovod.torch.elastic", NO_ELASTIC)
