"""Checks that DDP and FSDP of torch.distributed train as one process with the whole batch does: ddp.py BACKEND."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from common import DEVICE, flat_parameters, relative_error
from gpukit.results import record

ROWS = 8  # each rank's in each step
LIMIT = 1e-12  # of the relative error, in float64


def make_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 5)).double()


def train(model: nn.Module, device: torch.device, rank: int | None) -> torch.Tensor:
    """Trains three steps, with one rank's part of each batch or the whole batch. Returns the parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = torch.randn(ROWS * dist.get_world_size(), 20, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        part = batch if rank is None else batch[ROWS * rank : ROWS * (rank + 1)]
        optimizer.zero_grad()
        model(part.to(device)).square().mean().backward()
        optimizer.step()
    return flat_parameters(model)


def shard_fully(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import fully_shard
    fully_shard(model)
    return model


def compare(label: str, wrap: Callable[[nn.Module], nn.Module], wanted: torch.Tensor) -> None:
    name = f"{label} on {dist.get_backend()}, {dist.get_world_size()} ranks = one process"
    value: object
    try:
        value = error = relative_error(train(wrap(make_model().to(DEVICE)), DEVICE, dist.get_rank()), wanted)
        right = error < LIMIT
    except Exception as failure:
        print(traceback.format_exc(), flush=True)
        right, value = False, f"{type(failure).__name__}: {str(failure)[:300]}"
    if dist.get_rank() == 0:
        record(name, right, value)


dist.init_process_group(sys.argv[1])
expected = train(make_model(), torch.device("cpu"), None)
compare("DDP", DistributedDataParallel, expected)
if hasattr(dist, "fsdp") and hasattr(dist.fsdp, "fully_shard"):
    compare("FSDP", shard_fully, expected)
elif dist.get_rank() == 0:
    record("FSDP", None, f"left out: torch {torch.__version__} has no fully_shard")
dist.destroy_process_group()
