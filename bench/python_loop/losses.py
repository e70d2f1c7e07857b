"""Trains a small CNN on the digits with DistributedOptimizer and a batch of 64 over all ranks, and prints the losses.

  losses.py TYPE BATCHES EPOCHS

TYPE is float32 or float64. BATCHES is "whole" or "uneven". With "uneven", the last batch of an epoch has 29 samples, and the
optimizer averages the ranks' gradients although their numbers of samples differ. Rank 0 prints a JSON list: the loss of the
whole batch at each step, then the loss of the test data. The losses are added in float64.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hvd.torch as hvd
from hvd.torch.sampler import DistributedSampler

TRAINING = 1437
WHOLE = 22 * 64


def loss_of_batch(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    own = F.cross_entropy(outputs.detach().double(), labels, reduction="sum")
    both = hvd.allreduce(torch.tensor([own.item(), len(labels)], dtype=torch.float64), op=hvd.Sum)
    return (both[0] / both[1]).item()


def main() -> None:
    kind, batches, epochs = getattr(torch, sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    torch.set_default_dtype(kind)
    hvd.init()
    rows = np.loadtxt(Path(__file__).resolve().parents[2] / "examples/data/digits.csv.gz", delimiter=",")
    images, labels = torch.tensor(rows[:, :64] / 16, dtype=kind).view(-1, 1, 8, 8), torch.tensor(rows[:, 64]).long()
    used = WHOLE if batches == "whole" else TRAINING
    data = TensorDataset(images[:used], labels[:used])
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                                         model.named_parameters())
    sampler = DistributedSampler(data, 64, seed=1, remainder="uneven")
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, wanted in DataLoader(data, sampler=sampler, batch_size=sampler.local_batch):
            optimizer.zero_grad()
            outputs = model(inputs)
            F.cross_entropy(outputs, wanted).backward()
            optimizer.step()
            losses.append(loss_of_batch(outputs, wanted))
    with torch.no_grad():
        losses.append(F.cross_entropy(model(images[TRAINING:]).double(), labels[TRAINING:]).item())
    if hvd.rank() == 0:
        print(json.dumps(losses))
    hvd.shutdown()


main()
