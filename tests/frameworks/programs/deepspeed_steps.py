"""Trains five steps with DeepSpeed on CPUs."""
import deepspeed
import torch

deepspeed.init_distributed("gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})
for step in range(5):
    engine.backward(engine(torch.full((2, 4), float(rank + step))).mean())
    engine.step()
weights = [torch.empty(4) for _ in range(size)]
torch.distributed.all_gather(weights, engine.module.weight.detach().reshape(4).clone())
assert all(torch.equal(weights[0], other) for other in weights), "the ranks have different weights"
print(f"deepspeed {deepspeed.__version__}: rank {rank} of {size}, {engine.global_steps} steps")
torch.distributed.destroy_process_group()
