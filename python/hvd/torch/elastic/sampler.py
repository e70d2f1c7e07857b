"""ElasticSampler: Horovod's sampler, which divides the samples that are left of an epoch among the ranks that are left.

hvd.DistributedSampler and hvd.data.Shard use every sample exactly once. This one may repeat some, as Horovod's does: it
repeats samples until all ranks have the same number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from ...job import rank, size


class ElasticSampler(Sampler[int]):
    """Yields this rank's samples among those that are left of the epoch.

    Give it to the TorchState; call record_batch() after each step, and set_epoch() at the end of each epoch.

    dataset: an object with a length, which stays the same.
    shuffle, seed: of the order, which all ranks must have alike. Each epoch has another one.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # samples of all ranks in this epoch
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, with all samples. Call it at the end of the epoch before."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that each rank has used `batch_size` samples. `batch_idx` is ignored, as in Horovod."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues where the state was, and divides what is left among the present ranks."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Divides the samples that are left among the present ranks."""
        self.rank, self.num_replicas = rank(), size()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        missing = self.total_size - len(left)
        repeated = (left * -(-missing // len(left)))[:missing] if missing else []
        self.indices = (left + repeated)[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
