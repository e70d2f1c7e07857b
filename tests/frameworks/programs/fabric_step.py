"""Trains one step with Lightning Fabric, which detects the launcher by itself."""
import os

import lightning
import torch

fabric = lightning.Fabric(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                          num_nodes=int(os.environ["GROUP_WORLD_SIZE"]))
fabric.launch()
model = torch.nn.Linear(1, 1, bias=False)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
fabric.backward(model(torch.full((1, 1), float(fabric.global_rank))).sum())
optimizer.step()
print(f"lightning {lightning.__version__}: rank {fabric.global_rank} of {fabric.world_size}, "
      f"gradient {model.weight.grad.item()}")
torch.distributed.destroy_process_group()
