"""Trains one step with parameters that are sharded over the ranks (PyTorch 2.6 and later, on CPUs)."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(4, 4, bias=False)
fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
model(torch.full((1, 4), float(rank))).sum().backward()
gradient = model.weight.grad.full_tensor()[0, 0].item()
print(f"torch {torch.__version__}: rank {rank} of {size}, gradient {gradient}, {len(model.weight.to_local())} rows here")
dist.destroy_process_group()
