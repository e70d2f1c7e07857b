"""Small helpers that programs import from here."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from hvd.capabilities import ccl_built, ddl_built, gloo_built, mpi_built, nccl_built

__all__ = ["ccl_built", "ddl_built", "env", "extension_available", "gloo_built", "gpu_available", "is_iterable",
           "mpi_built", "nccl_built", "num_rank_is_power_2", "split_list"]


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether "torch" or "tensorflow" can be used: hvd is compiled against neither, so whether it is installed."""
    return ext_base_name in ("torch", "tensorflow") and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether "torch" or "tensorflow" sees a GPU of this machine."""
    if not extension_available(ext_base_name):
        return False
    if ext_base_name == "torch":
        import torch
        return torch.cuda.is_available()
    import tensorflow
    return bool(tensorflow.config.list_physical_devices("GPU"))


@contextlib.contextmanager
def env(**variables: Optional[str]) -> Iterator[None]:
    """Environment variables that hold in the block; those with None are left alone."""
    changes = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def is_iterable(x: Any) -> bool:
    """Whether iter(x) works."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def num_rank_is_power_2(num_rank: int) -> bool:
    """1, 2, 4, 8, ..."""
    return num_rank > 0 and bin(num_rank).count("1") == 1


def split_list(l: Sequence[Any], n: int) -> list[Sequence[Any]]:
    """n parts in order, the first ones longer by one where they cannot be equal."""
    ends = [len(l) // n * part + min(part, len(l) % n) for part in range(n + 1)]
    return [l[begin:end] for begin, end in zip(ends, ends[1:])]
