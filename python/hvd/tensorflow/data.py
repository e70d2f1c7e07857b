"""shard(): this rank's part of a tf.data.Dataset."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from .. import errors
from .._place import place
from ..agree import same_on_all_ranks
from ..rates import local_batch


def shard(dataset: tf.data.Dataset, batch: int, shuffle: bool = True, seed: int = 0, buffer_size: Optional[int] = None,
          remainder: str = "pad", samples: Optional[int] = None, rank: Optional[int] = None,
          size: Optional[int] = None) -> tf.data.Dataset:
    """Returns a data set of batches: this rank's part of each step.

    The samples are shuffled first, then sharded, then batched. So one pass over it covers every sample once, over all
    ranks together, in another order each time, and all ranks make the same number of steps.

    dataset: single samples, not batched, the same on all ranks and in the same order. Each rank reads all of it; if
    that is too expensive, use the indices of hvd.data.Shard instead.
    batch: the number of samples in a step, of all ranks together; a multiple of the number of ranks. Step k has the
    same samples at every number of ranks.
    buffer_size: that of shuffle(); None for all samples.
    remainder: the treatment of samples that cannot be divided evenly among the ranks. "pad" repeats up to size - 1 of
    the data set's first samples at the end. "drop" leaves out as many of the pass's last samples. "uneven" does
    neither.
    samples: the number of samples, for a data set that does not know it.
    rank, size: None for those of this job.

    With shuffle=True and the ranks of this job it is a collective, because tf.random.set_seed() also changes the order.

    Errors: InvalidArgumentError for a wrong batch; ValueError if the number of samples is unknown, or if "uneven"
    leaves a rank without a sample in the last step; MismatchError on all ranks if tf.random.set_seed() was not called
    with the same number on all ranks, or on none.
    """
    own = rank is None and size is None
    rank, size = place(rank, size)
    if batch < 1 or batch % size:
        raise errors.InvalidArgumentError(f"hvd: batch={batch} is no multiple of the {size} ranks")
    count = _count(dataset, samples)
    if shuffle:
        graph_seed, _ = tf.compat.v1.get_seed(seed)
        if own and not same_on_all_ranks(graph_seed or 0, "seed of tf.random"):
            raise errors.MismatchError("tf.random.set_seed() was called with other numbers on other ranks: they would "
                                       "shuffle differently")
    first = dataset
    if shuffle:
        dataset = dataset.shuffle(max(1, buffer_size or count), seed=_operations_seed(seed),
                                  reshuffle_each_iteration=True)
    dataset = _even(dataset, first, count, batch, size, remainder)
    return dataset.shard(size, rank).batch(local_batch(batch, rank, size))


def _operations_seed(seed: int) -> int:
    """Returns a seed for TensorFlow that it does not take for 0, for which it may use a random one.

    TensorFlow takes seeds modulo 2^31 - 1.
    """
    return seed % (2**31 - 2) + 1


def _count(dataset: tf.data.Dataset, samples: Optional[int]) -> int:
    known = int(dataset.cardinality())
    if samples is not None:
        if known >= 0 and known != samples:
            raise ValueError(f"hvd: samples={samples}, but the data set has {known}")
        return samples
    if known < 0:
        what = "endless" if known == tf.data.INFINITE_CARDINALITY else "of unknown length"
        raise ValueError(f"hvd: a data set that is {what} has no epochs to share: say samples=")
    return known


def _even(dataset: tf.data.Dataset, first: tf.data.Dataset, count: int, batch: int, size: int,
          remainder: str) -> tf.data.Dataset:
    """Pads or truncates the data set so that all ranks get the same number of samples, unless it is "uneven"."""
    over = count % size
    if remainder == "pad":
        # Padded from the data set before shuffling: another pass over the shuffled one would change its next order.
        return dataset.concatenate(first.repeat().take(size - over)) if over and count else dataset
    if remainder == "drop":
        return dataset.take(count - over)
    if remainder != "uneven":
        raise ValueError(f'hvd: remainder={remainder!r}: "uneven", "pad" or "drop"')
    last = count % batch
    if 0 < last < size:
        raise ValueError(f'hvd: remainder="uneven" leaves ranks without a sample in the last step, which has {last} '
                         f'for {size} ranks: take another batch than {batch}, "pad" or "drop"')
    return dataset
