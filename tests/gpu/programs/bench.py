"""Measures the times of hvd.torch and of torch.distributed on a GPU in the same process: bench.py one|share|twin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

import hvd.torch as hvt
from common import CUDA, DEVICE, median_us, synchronize
from gpukit.results import record

HOW = sys.argv[1]
BESIDE_TORCH = HOW != "share"  # NCCL refuses ranks that share a GPU
FEW = 20 if HOW == "twin" or not CUDA else 200
MEGABYTES: Sequence[float] = (1 / 256, 1, 16, 64, 256) if CUDA and HOW != "twin" else (1 / 256, 1, 16)
GRADIENTS = [512] * 108 + [480_000 if CUDA else 4_800] * 53  # on a GPU the number of tensors and elements of ResNet-50


def say(name: str, value: object, **measured: object) -> None:
    if hvt.rank() == 0:
        record(f"{HOW}: {name}", None, value, **measured)


def step_us(call: Callable[[], object], times: int) -> float:
    """Returns the microseconds of a call and the GPU's work. The ranks begin each call together."""
    def begin_together() -> None:
        synchronize()
        hvt.barrier()
    return median_us(call, times, before=begin_together, after=synchronize, warm_up=2)


def beside_torch(call: Callable[[], object], times: int) -> dict[str, object]:
    return {"torch_distributed": step_us(call, times)} if BESIDE_TORCH else {}


def reduce_all(tensors: list[torch.Tensor], prefix: str, op: Any) -> None:
    """Submits all tensors, then waits for all, as an optimizer does."""
    for handle in [hvt.allreduce_async_(tensor, op=op, name=f"{prefix}{place}") for place, tensor in enumerate(tensors)]:
        handle.wait()


def time_one_call() -> None:
    """Measures the CPU's time of a call."""
    tensor = torch.ones(1, device=DEVICE)
    say("named async allreduce of 4 B + wait, CPU us",
        median_us(lambda: hvt.synchronize(hvt.allreduce_async_(tensor, op=hvt.Sum, name="tiny")), FEW))
    pending: list[Any] = []
    say("submission alone, CPU us",
        median_us(lambda: pending.append(hvt.allreduce_async_(torch.ones(1, device=DEVICE), op=hvt.Sum)), FEW))
    for handle in pending:
        handle.wait()
    if BESIDE_TORCH:
        say("torch.distributed, the same, CPU us", median_us(lambda: dist.all_reduce(tensor, async_op=True).wait(), FEW))


def time_sizes() -> None:
    for megabytes in MEGABYTES:
        tensor = torch.ones(int(megabytes * (1 << 18)), device=DEVICE)
        times = 5 if megabytes > 1 else min(FEW, 50)
        own = step_us(lambda: hvt.allreduce_(tensor, op=hvt.Sum, name="sized"), times)
        other = beside_torch(lambda: dist.all_reduce(tensor), times)
        say(f"allreduce of {megabytes:g} MB, us", own, gigabytes_per_s=round(tensor.numel() * 4 / own / 1e3, 2), **other)


def time_gradients() -> None:
    times = 5 if HOW == "twin" else 20
    tensors = [torch.ones(count, device=DEVICE) for count in GRADIENTS]

    def by_torch() -> None:
        with dist._coalescing_manager(device=DEVICE if CUDA else None, async_ops=False):
            for tensor in tensors:
                dist.all_reduce(tensor)

    other = beside_torch(by_torch, times) if CUDA else {}  # not with gloo
    own = step_us(lambda: reduce_all(tensors, "gradient", hvt.Average), times)
    say(f"161 gradients, {sum(GRADIENTS) * 4 / 1e6:.0f} MB, us", own, **other)
    small = [torch.ones(512, device=DEVICE) for _ in GRADIENTS]
    say("161 tensors of 2 KB, us", step_us(lambda: reduce_all(small, "small", hvt.Sum), times),
        grouped_allreduce=step_us(lambda: hvt.grouped_allreduce_async_(small, op=hvt.Sum, name="group").wait(), times))


def time_sync_batch_norm() -> None:
    images = torch.randn(32, 64, 28, 28, device=DEVICE)
    synchronized, plain = hvt.SyncBatchNorm(64).to(DEVICE), torch.nn.BatchNorm2d(64).to(DEVICE)
    times = 5 if HOW == "twin" else 20
    say("SyncBatchNorm forward, us", step_us(lambda: synchronized(images), times), BatchNorm2d=step_us(lambda: plain(images), times))


def main() -> None:
    hvt.init()
    if BESIDE_TORCH:
        dist.init_process_group("nccl" if CUDA else "gloo")
    for part in (time_one_call, time_sizes, time_gradients, time_sync_batch_norm):
        part()
    hvt.barrier()
    if BESIDE_TORCH:
        dist.destroy_process_group()
    hvt.shutdown()


main()
