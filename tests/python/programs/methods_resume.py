"""Trains with a method of hvd.torch: methods_resume.py METHOD FOLDER STEPS. Continues from the checkpoint in FOLDER.

Each step's batch is the same for every number of ranks. Saves after the last step and prints its loss.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import hvd.torch as hvd
from hvd.checkpoint import Checkpoints

BATCH = 12
METHODS = {
    "shard": lambda optimizer: hvd.DistributedOptimizer(optimizer, shard=True),
    "LocalSGD": lambda optimizer: hvd.LocalSGD(optimizer, every=4, background=True),
    "DiLoCo": lambda optimizer: hvd.DiLoCo(optimizer, every=4, background=True),
    "ParameterServer": hvd.ParameterServer,
}


def main() -> None:
    hvd.init()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).double()
    optimizer = METHODS[sys.argv[1]](torch.optim.Adam(model.parameters(), lr=0.01))
    with Checkpoints(sys.argv[2]) as checkpoints:
        loaded = checkpoints.load()
        if loaded:
            model.load_state_dict(loaded["model"])
            optimizer.load_state_dict(loaded["optimizer"])
        first = loaded.step if loaded else 0
        steps = range(first, first + int(sys.argv[3]))
        for step in steps:
            generator = torch.Generator().manual_seed(step)
            inputs = torch.randn(BATCH, 5, generator=generator, dtype=torch.float64)
            rows = slice(hvd.rank() * BATCH // hvd.size(), (hvd.rank() + 1) * BATCH // hvd.size())
            optimizer.zero_grad()
            (model(inputs[rows]) - inputs[rows, :2]).square().mean().backward()
            optimizer.step()
        state = optimizer.full_state_dict()
        checkpoints.save({"model": model.state_dict(), "optimizer": state}, steps.stop)
        loss = hvd.allreduce((model(inputs) - inputs[:, :2]).square().mean().detach(), name="loss")
        if hvd.rank() == 0:
            print(f"step {steps.stop} loss {loss.item():.9f}", flush=True)


if __name__ == "__main__":
    main()
