#!/usr/bin/env python3
"""Trains a small network with PyTorch, and continues when ranks are lost.

    hvdrun --min-np 1 -np 3 --replace auto python3 elastic_torch.py --pause 0.05

Kill a rank while it runs (kill -9 PID): the others continue, and a new rank takes its place. The losses are those of a
run without a loss, but for rounding. elastic_numpy.py does the same without a framework.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
from torch.nn import functional

import hvd.torch as hvd
from hvd.data import Shard

SAMPLES, BATCH, STEPS_PER_EPOCH = 1200, 60, 20


def main() -> None:
    parser = argparse.ArgumentParser(description="trains a small network, and continues when ranks are lost")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step, to have time to kill a rank")
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)  # the same data everywhere: each rank takes its part of each batch
    inputs = torch.randn(SAMPLES, 20)
    labels = (inputs @ torch.randn(20, 3)).argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    # A sum, because the ranks' parts of a batch may differ by one sample.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
    print(f"rank {hvd.rank()} is process {os.getpid()}", flush=True)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.step < options.epochs * STEPS_PER_EPOCH:
            epoch, step = divmod(state.step, STEPS_PER_EPOCH)
            shard = Shard(SAMPLES, BATCH, epoch, seed=1)
            mine = shard[step]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs[mine]), labels[mine], reduction="sum") / shard.batch_size(step)
            loss.backward()
            optimizer.step()
            loss = hvd.allreduce(loss.detach(), op=hvd.Sum, name="loss")
            state.step += 1
            state.commit()  # what a lost rank cannot take away
            if step + 1 == STEPS_PER_EPOCH:
                hvd.print0(f"epoch {epoch + 1} loss {loss.item():.5f} with {hvd.size()} ranks")
            time.sleep(options.pause)

    train(hvd.elastic.TorchState(model, optimizer, step=0))
    hvd.shutdown()


if __name__ == "__main__":
    main()
