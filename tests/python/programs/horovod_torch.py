"""A program written for Horovod: a linear model learns y = 3x - 1 from rows that are divided among the ranks."""

import torch

import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError

hvd.init()
torch.manual_seed(100 + hvd.rank())  # different weights on each rank until the broadcast

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                     compression=hvd.Compression.none, op=hvd.Average)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

inputs = torch.linspace(-1, 1, 24).reshape(-1, 1)[hvd.rank()::hvd.size()]
targets = 3 * inputs - 1

for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()

mean_loss = hvd.allreduce(loss.detach(), name="loss").item()
weights = hvd.broadcast_object([parameter.item() for parameter in model.parameters()], root_rank=0)
assert weights == [parameter.item() for parameter in model.parameters()], "the ranks' weights differ"
assert issubclass(HorovodInternalError, RuntimeError)
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks: loss {mean_loss:.6f}, y = {weights[0]:.3f} x + {weights[1]:.3f}")
