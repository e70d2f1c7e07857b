"""Sums the ranks with an allreduce of the module horovod."""
import horovod
import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum).item()
print(f"horovod {horovod.__version__}: rank {hvd.rank()} of {hvd.size()}, sum {total}")
