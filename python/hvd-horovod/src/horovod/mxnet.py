"""Horovod for MXNet: refused."""

from horovod._names import refuse

refuse("horovod.mxnet", "MXNet is retired, and hvd is for PyTorch, TensorFlow and Keras")
