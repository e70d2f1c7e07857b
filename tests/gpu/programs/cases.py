"""Runs the cases of tests/python on tensors of the GPU: cases.py SECONDS MODULE.py …

torch's default device is the GPU, so that the cases make their tensors there. After SECONDS no further case begins."""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import hvd
from common import DEVICE, synchronize
from gpukit.results import record
from hvd import _collectives


class _IsGenerator(type):
    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, torch._C.Generator)


class Generator(metaclass=_IsGenerator):
    """Replaces torch.Generator. The default device is the GPU, as for the tensors that it fills."""

    def __new__(cls, device: Any = None) -> Any:
        return torch._C.Generator(device=DEVICE if device is None else device)


def use_gpu_by_default() -> None:
    """Puts all tensors on the GPU, and makes conversions to and from NumPy copy them."""
    torch.set_default_device(DEVICE)
    torch.Generator = Generator  # type: ignore[misc]
    to_numpy, from_numpy = torch.Tensor.numpy, torch.from_numpy
    torch.Tensor.numpy = lambda self, **options: to_numpy(self.cpu(), **options)  # type: ignore[method-assign]

    def as_array(self: torch.Tensor, dtype: Any = None, copy: Any = None) -> Any:
        array = to_numpy(self.detach().cpu())
        return array if dtype is None else array.astype(dtype)

    torch.Tensor.__array__ = as_array  # type: ignore[method-assign, assignment]
    torch.from_numpy = lambda array: from_numpy(array).to(DEVICE)


def load(source: Path) -> ModuleType:
    sys.path.insert(0, str(source.parent))  # cases import helpers from their folder
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases_in(sources: list[Path]) -> Iterator[tuple[str, Callable[[], None]]]:
    for source in sources:
        for name, case in list(vars(load(source)).items()):
            if name.startswith("case_"):
                yield f"{source.stem}.{name}", case


def run_case(name: str, case: Callable[[], None]) -> str:
    """Returns "" if the case has passed on this rank, otherwise the last line of its error."""
    try:
        case()
        synchronize()
    except Exception:
        text = traceback.format_exc().strip()
        print(f"FAILED {name}: {text}", flush=True)
        return text.splitlines()[-1][:150]
    finally:
        number = _collectives.barrier(_collectives.options(f"after {name}", 0))
        hvd.Handle(number, lambda: None).wait()
    return ""


def main() -> None:
    seconds, sources = float(sys.argv[1]), [Path(word) for word in sys.argv[2:]]
    if DEVICE.type == "cuda":
        use_gpu_by_default()
    hvd.init()
    deadline = time.monotonic() + seconds
    passed, left, failed = 0, 0, {}
    for name, case in cases_in(sources):
        if any(hvd.allgather_object(time.monotonic() > deadline, name=f"time for {name}")):
            left += 1
            continue
        outcomes: list[str] = hvd.allgather_object(run_case(name, case), name=f"outcome of {name}")
        errors = [text for text in outcomes if text]
        if errors:
            failed[name] = errors[0]
        passed += not errors
    if hvd.rank() == 0:
        words = " ".join(source.stem.replace("torch_", "") for source in sources)
        record(f"cases: {words}", not failed, {"passed": passed, "no time": left, "failed": failed}, "0 failed")
    hvd.shutdown()


main()
