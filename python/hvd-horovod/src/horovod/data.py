"""Horovod's data loaders: refused."""

from horovod._names import refuse

refuse("horovod.data", "the loaders of PyTorch and TensorFlow take its place")
