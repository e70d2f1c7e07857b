"""A sampler for torch's DataLoader: selects this rank's samples of each step.

    sampler = DistributedSampler(dataset, batch=64, seed=1)               # 64 over all ranks
    loader = DataLoader(dataset, sampler=sampler, batch_size=sampler.local_batch)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Optional

from torch.utils.data import Sampler

from .._place import place
from ..data import Shard
from ..rates import local_batch


class DistributedSampler(Sampler[int]):
    """Yields this rank's indices, in the order of hvd.data.Shard.

    With a DataLoader of batch_size=sampler.local_batch, a step's batch is the same set of samples at every number of
    ranks, and all ranks make the same number of steps.

    dataset: an object with a length.
    batch: the number of samples in a step, of all ranks together.
    remainder: "pad" (torch's own sampler with drop_last=False) repeats up to size - 1 samples of the epoch's beginning
    at its end. "drop" (drop_last=True) leaves out as many. For both the batch must be a multiple of the size, and the
    average of the ranks' gradients is that of the batch. "uneven" uses every sample exactly once and takes any batch;
    the ranks' parts may differ by one sample, so that gradients must be summed and divided by the batch.
    rank, size: None for those of this job.

    Needs hvd.init() only when it is made: a forked or spawned worker of a DataLoader may use it.

    Errors: ValueError, on all ranks, for a batch smaller than the number of ranks, or if "uneven" leaves a rank without
    a sample in the last step: a DataLoader cannot make a step without samples.
    """

    def __init__(self, dataset: Sized, batch: int, shuffle: bool = True, seed: int = 0, remainder: str = "pad",
                 rank: Optional[int] = None, size: Optional[int] = None) -> None:
        self._samples = len(dataset)
        self._batch = batch
        self._shuffle = shuffle
        self._seed = seed
        self._remainder = remainder
        self._given = rank, size
        self._epoch = 0
        self._first_step = 0
        self.reset()

    def reset(self) -> None:
        """Divides the samples among the present ranks of the job. A TorchState calls it after each reset.

        `local_batch` may change: make the DataLoader anew. Errors: those of the constructor.
        """
        self._rank, self._size = place(*self._given)
        batch = self._batch
        self.local_batch = local_batch(batch, self._rank, self._size)  # this rank's samples in a step
        if batch < self._size:  # checked alike on all ranks, also on those that have a sample
            raise ValueError(f"hvd: batch={batch} leaves ranks without a sample in every step: it is for all "
                             f"{self._size} ranks together")
        # Only positions are needed here; without shuffling no order is computed.
        shard = self._shard(shuffle=False)
        self.steps = len(shard)  # of an epoch, the same on all ranks
        self._last_batch = shard.batch_size(self.steps - 1) if self.steps else self._size
        if self._last_batch < self._size:
            raise ValueError(f'hvd: remainder="uneven" leaves ranks without a sample in the last step, which has '
                             f'{self._last_batch} for {self._size} ranks: take another batch than {batch}, "pad" or '
                             '"drop"')
        self._last = len(shard[self.steps - 1]) if self.steps else 0

    def _shard(self, shuffle: bool) -> Shard:
        return Shard(self._samples, self._batch, self._epoch, self._seed, shuffle, self._remainder, self._rank,
                     self._size)

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        """Sets the epoch, on which the order depends. Call it before each epoch; otherwise all have the same order.

        first_step: the number of steps that the next pass skips, to continue from a checkpoint within the epoch.
        """
        if not 0 <= first_step <= self.steps:
            raise ValueError(f"hvd: first_step={first_step} of an epoch of {self.steps} steps")
        self._epoch = epoch
        self._first_step = first_step

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "first_step": self._first_step}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.set_epoch(state_dict["epoch"], state_dict["first_step"])

    def batch_size(self, step: int) -> int:
        """Returns the samples of all ranks in a step of the epoch: the divisor for a sum of their gradients."""
        if not 0 <= step < self.steps:
            raise IndexError(f"hvd: step {step} of an epoch of {self.steps}")
        return self._last_batch if step == self.steps - 1 else self._batch

    def __iter__(self) -> Iterator[int]:
        shard = self._shard(self._shuffle)
        return (int(index) for step in range(self._first_step, self.steps) for index in shard[step])

    def __len__(self) -> int:
        """Returns the number of this rank's samples in the next pass."""
        steps = self.steps - self._first_step
        return (steps - 1) * self.local_batch + self._last if steps else 0
