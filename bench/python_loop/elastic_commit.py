"""Trains a CNN of 440,000 weights in a job with --min-np. Rank 0 prints the ratio of the medians of a step with a commit and of
one without, and the ms of both."""

import statistics
import time

import torch
from torch.nn import functional

import hvd.torch as hvd

STEPS, WARM_UP = 30, 3
hvd.init()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                            torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                            torch.nn.Flatten(), torch.nn.Linear(64 * 49, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
images, labels = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
state = hvd.elastic.TorchState(model, optimizer, step=0)
times: dict = {True: [], False: []}


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    for step in range(2 * (STEPS + WARM_UP)):
        begin = time.perf_counter()
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        with_commit = step % 2 == 0
        if with_commit:
            state.step += 1
            state.commit()
        times[with_commit].append(time.perf_counter() - begin)


train(state)
if hvd.rank() == 0:
    committing, plain = (1e3 * statistics.median(times[how][WARM_UP:]) for how in (True, False))
    print(committing / plain, committing, plain)
