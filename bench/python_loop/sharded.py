"""Trains ten linear layers of 1000 x 1000 with Adam and hvd.torch.DistributedOptimizer, 16 samples for each rank and step.

  sharded.py plain STEPS      each rank has the whole state of the optimizer
  sharded.py shard STEPS      each rank has the state of its part of the parameters

Rank 0 prints the median of the milliseconds of a step, and the bytes of the optimizer's state.
"""

import statistics
import sys
import time

import torch

import hvd.torch as hvd

LAYERS, WIDTH, BATCH = 10, 1000, 16
WARM_UP = 3  # steps


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    # With shard=True, an inner optimizer has the state. Its parameters are this rank's pieces.
    state = {**optimizer.state, **(optimizer._inner.state if hasattr(optimizer, "_inner") else {})}
    return sum(value.numel() * value.element_size()
               for entries in state.values() for value in entries.values() if torch.is_tensor(value))


def main() -> None:
    how, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hvd.init()
    layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=1e-4),
                                         named_parameters=model.named_parameters(), shard=how == "shard")
    inputs = torch.randn(BATCH, WIDTH)
    times = []
    for _ in range(WARM_UP + steps):
        hvd.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    if hvd.rank() == 0:
        print(statistics.median(times[WARM_UP:]) * 1000, state_bytes(optimizer))


main()
