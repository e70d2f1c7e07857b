"""Trains a network on handwritten digits with each method of hvd, and prints one table.

    hvdrun -np 4 python3 methods.py

The methods differ in one line of the program: how the optimizer of torch is wrapped. docs/train/methods.md explains
which method to choose when.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvd.torch
import numpy as np
import torch
import torch.nn.functional as F
from hvd.torch.sampler import DistributedSampler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TRAINING = 1437  # images of the 1797; the others are for the test


@dataclass
class Method:
    name: str
    wrap: Callable[[torch.optim.Optimizer], Any]
    ranks_differ: bool = True  # until they synchronize


def calm(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Returns an outer optimizer for DiLoCo: the default is for longer trainings, and makes large steps."""
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.5, nesterov=True)


def make_methods(every: int) -> list[Method]:
    return [
        Method("DistributedOptimizer", hvd.torch.DistributedOptimizer, ranks_differ=False),
        Method("…, shard", lambda optimizer: hvd.torch.DistributedOptimizer(optimizer, shard=True),
               ranks_differ=False),
        Method(f"LocalSGD, every {every}", lambda optimizer: hvd.torch.LocalSGD(optimizer, every=every)),
        Method("…, background", lambda optimizer: hvd.torch.LocalSGD(optimizer, every=every, background=True)),
        Method(f"DiLoCo, every {4 * every}", lambda optimizer: hvd.torch.DiLoCo(optimizer, calm, every=4 * every)),
        Method("…, background",
               lambda optimizer: hvd.torch.DiLoCo(optimizer, calm, every=4 * every, background=True)),
        Method("Gossip, every 1", lambda optimizer: hvd.torch.Gossip(optimizer, every=1)),
        Method("ParameterServer, staleness 0", lambda optimizer: hvd.torch.ParameterServer(optimizer, staleness=0)),
        Method("…, staleness 4", lambda optimizer: hvd.torch.ParameterServer(optimizer, staleness=4)),
    ]


def read_digits(path: Path) -> tuple[TensorDataset, TensorDataset]:
    """Reads the file on rank 0, and returns training and test data on all ranks."""
    rows = hvd.on_rank0(lambda: np.loadtxt(path, delimiter=","))
    images, labels = torch.tensor(rows[:, :64] / 16, dtype=torch.float32), torch.tensor(rows[:, 64]).long()
    return TensorDataset(images[:TRAINING], labels[:TRAINING]), TensorDataset(images[TRAINING:], labels[TRAINING:])


def make_model(width: int) -> nn.Module:
    torch.manual_seed(1)  # the same weights on all ranks
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def accuracy_of(model: nn.Module, data: TensorDataset) -> float:
    """Returns the accuracy on all data, as an average over the parts of the ranks."""
    images, labels = data[hvd.data.Shard(len(data), batch=len(data), shuffle=False)[0]]
    with torch.no_grad():
        hits = (model(images).argmax(1) == labels).float().mean().item()
    return hvd.average_metrics({"accuracy": hits}, len(labels))["accuracy"]


def train(method: Method, data: TensorDataset, test: TensorDataset, options: argparse.Namespace) -> list[Any]:
    """Trains with one method. Returns its name, accuracy, steps, bytes and seconds."""
    model = make_model(options.width)
    optimizer = method.wrap(torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9))
    sampler = DistributedSampler(data, options.batch * hvd.size(), seed=1)
    loader = DataLoader(data, sampler=sampler, batch_size=sampler.local_batch)
    before, start, steps = hvd.sent_bytes(), time.perf_counter(), 0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
            steps += 1
    if method.ranks_differ:
        optimizer.synchronize()  # from here on all ranks have the same parameters
    seconds, sent = time.perf_counter() - start, hvd.sent_bytes() - before
    figures = hvd.allgather_object((sent, seconds), name="figures")
    return [method.name, 100 * accuracy_of(model, test), steps, *(max(values) for values in zip(*figures))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "data/digits.csv.gz")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step of each rank")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=8,
                        help="steps of a period of LocalSGD; of DiLoCo four times as many")
    parser.add_argument("--width", type=int, default=256, help="of the hidden layer")
    options = parser.parse_args()

    hvd.init()
    data, test = read_digits(options.data)
    rows = [train(method, data, test, options) for method in make_methods(options.every)]
    hvd.print0(f"{'method':<29} accuracy  steps      sent    time")
    for name, accuracy, steps, sent, seconds in rows:  # sent by the rank that sends most
        hvd.print0(f"{name:<29} {accuracy:6.1f} %  {steps:5} {sent / 1e6:6.1f} MB {seconds:5.2f} s")
    hvd.shutdown()


if __name__ == "__main__":
    main()
