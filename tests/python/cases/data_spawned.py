"""The sampler with spawned workers of a DataLoader. Separate because each worker imports torch, which takes seconds."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from _datasets import Numbers
from hvd.torch.sampler import DistributedSampler

GATE_SIZE = 0


def case_the_sampler_works_with_spawned_workers() -> None:
    sampler = DistributedSampler(Numbers(30), batch=6, seed=1)
    loader = DataLoader(Numbers(30, kept=sampler), sampler=sampler, batch_size=sampler.local_batch, num_workers=1,
                        multiprocessing_context="spawn")
    assert torch.cat(list(loader)).tolist() == list(sampler)
