"""Measures many calls of allreduce_ of a tensor of 4 KB. Rank 0 prints the median in microseconds."""

import statistics
import sys
import time

import torch

import hvd.torch as hvd


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    tensor = torch.ones(1024)
    times = []
    for _ in range(int(sys.argv[1])):
        tensor.fill_(1.0)
        begin = time.perf_counter()
        hvd.allreduce_(tensor, op=hvd.Sum, name="small")
        times.append(time.perf_counter() - begin)
    if hvd.rank() == 0:
        print(statistics.median(times[len(times) // 10:]) * 1e6)


main()
