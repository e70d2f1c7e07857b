"""Fails on a GPU in one of several ways, in a job of two ranks: fail.py HOW.

kill: rank 1 kills itself while rank 0 waits for it in a collective.
kernel: the same, but rank 0 has enqueued the collective, and its GPU waits in NCCL's kernel.
stuck: rank 1's GPU computes for hours, and the collective follows on the same stream. Without a GPU the rank sleeps.
assert: an assertion of a kernel fails. oom: rank 1 allocates more than the GPU's memory. hang: rank 1 sleeps.
gpukit/failures.py has the expected results."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch

import hvd.torch as hvt
from common import CUDA, DEVICE, synchronize

HOW = sys.argv[1]
HELD_BYTES = 256 << 20  # of the GPU's memory, which must be free again afterwards
HALF_A_MINUTE, HOURS = 1 << 36, 1 << 44  # cycles of a GPU


def say_failure() -> None:
    print(f"fails {time.time():.3f}", flush=True)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(tensor: torch.Tensor) -> torch.Tensor:
    """Fails, or returns the tensor for the next collective."""
    say_failure()
    if HOW == "kill":
        die()
    elif HOW == "kernel":
        torch.cuda._sleep(HALF_A_MINUTE)  # the later work of this stream waits
        hvt.synchronize(hvt.allreduce_async_(tensor, op=hvt.Sum, name="after 0"))  # both ranks enqueue it
        time.sleep(1)
        say_failure()
        die()
    elif HOW == "assert":
        return tensor[torch.full((1 << 20,), 1 << 30, device=DEVICE)]
    elif HOW == "oom":
        torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
    elif HOW == "stuck" and CUDA:
        torch.cuda._sleep(HOURS)
    else:  # hang, and stuck on a CPU
        time.sleep(10_000)
    return tensor


def main() -> None:
    hvt.init()
    if HOW in ("kill", "kernel"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # hvdrun sends SIGTERM at once, but this rank must print its error
    tensor = torch.ones(1 << 20, device=DEVICE)
    for _ in range(5):
        hvt.allreduce_(tensor, op=hvt.Average, name="warm")
    held = torch.ones(HELD_BYTES if CUDA else 1, dtype=torch.uint8, device=DEVICE)
    synchronize()
    hvt.barrier()
    if hvt.rank() == 1:
        time.sleep(0.3)  # until rank 0 waits
        tensor = fail(tensor)
    start = time.perf_counter()
    try:
        hvt.allreduce_(tensor, op=hvt.Sum, name="after 0")
        synchronize()
        hvt.allreduce_(tensor, op=hvt.Sum, name="and then")
        print("no error", flush=True)
    except Exception as error:
        print(f"told after {time.perf_counter() - start:.3f} s: {type(error).__name__}: {str(error)[:300]}", flush=True)
        if hvt.rank() == 0:
            print("the device still computes:", torch.ones(4, device=DEVICE).sum().item() == 4, flush=True)
        raise
    del held


main()
