"""Reduces the 161 gradients of ResNet-50 with hvd.torch.DistributedOptimizer.

  gradients.py there STEPS [SECONDS]      the gradients are already written, and are reduced: as hvd_gradients does in C++
  gradients.py own STEPS [SECONDS]        the same in the program's own memory, which the ranks do not share
  gradients.py backward STEPS [SECONDS]   reduced while backward runs
  gradients.py alone STEPS [SECONDS]      backward without reducing

Does not measure the steps of the first SECONDS, during which --autotune searches.
Rank 0 prints the median of the milliseconds of a step.
"""

import statistics
import sys
import time

import torch

import hvd.torch as hvd


def resnet50_sizes() -> list:
    """Returns the number of elements of each parameter, as in bench/engine_loop/gradients.h."""
    sizes = []

    def add_layer(weights: int, channels: int) -> None:
        sizes.extend([weights, channels, channels])

    add_layer(3 * 64 * 49, 64)
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        planes = 64 << stage
        for block in range(blocks):
            add_layer(channels * planes, planes)
            add_layer(planes * planes * 9, planes)
            add_layer(planes * planes * 4, planes * 4)
            if block == 0:
                add_layer(channels * planes * 4, planes * 4)
            channels = planes * 4
    return [*sizes, 2048 * 1000, 1000]


def total(parameters: list) -> torch.Tensor:
    return torch.stack([parameter.square().sum() for parameter in parameters]).sum()


def main() -> None:
    how, steps = sys.argv[1], int(sys.argv[2])
    early_seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0
    torch.set_num_threads(1)
    hvd.init()
    parameters = [torch.nn.Parameter(torch.ones(size)) for size in resnet50_sizes()]
    optimizer = torch.optim.SGD(parameters, lr=0.0)
    if how != "alone":
        names = [(f"gradient.{index}", parameter) for index, parameter in enumerate(parameters)]
        optimizer = hvd.DistributedOptimizer(optimizer, names, op=hvd.Sum)
    if how == "own":
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
    else:
        total(parameters).backward()
        optimizer.step()
    times = []
    early = early_seconds > 0
    first = time.perf_counter()
    while len(times) < steps + 1:  # the first is a warm-up
        if early:  # all ranks begin to measure at the same step
            elapsed = torch.tensor([time.perf_counter() - first])
            early = hvd.broadcast(elapsed, 0, name="elapsed").item() < early_seconds
            times.clear()
        for parameter in parameters:
            parameter.grad.fill_(1.0)
        hvd.barrier()
        begin = time.perf_counter()
        if how in ("backward", "alone"):
            total(parameters).backward()
        if how != "alone":
            optimizer.synchronize()
        times.append(time.perf_counter() - begin)
        if how != "alone":
            with optimizer.skip_synchronize():
                optimizer.step()
    if hvd.rank() == 0:
        print(statistics.median(times[1:]) * 1000)


main()
