"""Trains on batches that two forked workers of a DataLoader load: torch_loader.py [call].

With "call" the dataset, and so a worker, calls a collective. Each rank prints whether the worker's error and the error of
its own next collective are the expected ones.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader, Dataset

import hvd
import hvd.torch as hvt


class Numbers(Dataset):
    """The numbers 0 to 31."""

    def __init__(self, calls: bool) -> None:
        self._calls = calls

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> float:
        assert hvt.size() == 2, "size() does not work in a worker"
        if self._calls:
            hvt.allreduce(torch.ones(1))
        return float(index)


hvt.init()
calls = sys.argv[1:] == ["call"]
# Batches are lists: tensors would need a socket in TMPDIR, whose path is too long in a test's folder.
loader = DataLoader(Numbers(calls), batch_size=4, num_workers=2, collate_fn=list, multiprocessing_context="fork")
if calls:
    try:
        next(iter(loader))
    except hvd.errors.ForkedError as error:
        print("worker:", "forked after hvd.init()" in str(error))
    try:
        hvt.allreduce(torch.ones(1))
    except hvd.errors.PeerError as error:
        print("rank:", "forked" in str(error))
else:
    for _ in range(2):
        total = 0.0
        for batch in loader:
            total += hvt.allreduce(torch.tensor(batch), op=hvt.Sum).sum().item()
        print("sum:", total)
