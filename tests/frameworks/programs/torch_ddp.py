"""Trains one step with DistributedDataParallel, as in PyTorch's tutorial."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
model(torch.full((1, 1), float(rank))).sum().backward()
print(f"torch {torch.__version__}: rank {rank} of {size}, gradient {model.module.weight.grad.item()}")
dist.destroy_process_group()
