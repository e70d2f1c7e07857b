"""Shared by the programs of the kit: the device, and functions that compare results and time calls."""

from __future__ import annotations

import faulthandler
import os
import statistics
import time
from collections.abc import Callable

import torch

from gpukit.kit import GPU_VARIABLE
from gpukit.runner import DUMP_VARIABLE

CUDA = os.environ.get(GPU_VARIABLE) == "1"
DEVICE = torch.device("cuda", 0) if CUDA else torch.device("cpu")

# A program that hangs prints its stacks and ends, before the runner kills it.
faulthandler.dump_traceback_later(float(os.environ.get(DUMP_VARIABLE, "60")), exit=True)
if CUDA:
    torch.cuda.set_device(0)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def synchronize() -> None:
    """Waits until the GPU has done all work."""
    if CUDA:
        torch.cuda.synchronize()


def relative_error(got: torch.Tensor, reference: torch.Tensor) -> float:
    """Returns ‖got − reference‖ / ‖reference‖, computed in float64 on the CPU; infinity if a number is not finite."""
    got, reference = got.detach().double().cpu(), reference.detach().double().cpu()
    size = max(torch.linalg.vector_norm(reference).item(), 1e-300)
    error = torch.linalg.vector_norm(got - reference).item() / size
    return error if error == error and error != float("inf") else float("inf")


def flat_parameters(model: torch.nn.Module) -> torch.Tensor:
    """Returns all parameters of a model, in float64 on the CPU. Gathers the shards of FSDP."""
    whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters()]
    return torch.cat([one.detach().double().cpu().flatten() for one in whole])


def median_us(call: Callable[[], object], times: int, before: Callable[[], object] = lambda: None,
              after: Callable[[], object] = lambda: None, warm_up: int = 3) -> float:
    """Returns the median of the microseconds of call() and after(). The time of before() is not included."""
    seconds = []
    for _ in range(warm_up + times):
        before()
        start = time.perf_counter()
        call()
        after()
        seconds.append(time.perf_counter() - start)
    synchronize()
    return round(statistics.median(seconds[warm_up:]) * 1e6, 1)
