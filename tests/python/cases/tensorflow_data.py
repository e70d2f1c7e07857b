"""hvd.tensorflow.data divides a tf.data.Dataset among the ranks."""

from __future__ import annotations

import collections

import tensorflow as tf

import hvd
from _expect import raises
from hvd.tensorflow.data import shard

FRAMEWORK = "tensorflow"


def steps_of(dataset: tf.data.Dataset) -> list[list[int]]:
    return [batch.numpy().tolist() for batch in dataset]


def steps_of_all(dataset: tf.data.Dataset, name: str) -> list[list[int]]:
    """Returns the samples of all ranks by step."""
    own = steps_of(dataset)
    parts = [hvd.broadcast_object(own, root, f"{name} {root}") for root in range(hvd.size())]
    assert len({len(part) for part in parts}) == 1, f"the ranks make {[len(part) for part in parts]} steps"
    return [sorted(sum(step, [])) for step in zip(*parts)]


def case_each_pass_has_every_sample_once() -> None:
    for remainder, count in (("pad", 37), ("drop", 37), ("uneven", 36), ("uneven", 41)):
        part = shard(tf.data.Dataset.range(count), batch=6, seed=3, remainder=remainder)
        alone = shard(tf.data.Dataset.range(count), batch=6, seed=3, rank=0, size=1)
        passes = [steps_of_all(part, f"{remainder} {count} {number}") for number in range(2)]
        assert passes[0] != passes[1], "both passes have the same order"
        for steps in passes:
            assert steps[: count // 6] == [sorted(step) for step in steps_of(alone)][: count // 6]
            times = collections.Counter(sum(steps, []))
            more = {"pad": -count % hvd.size(), "drop": -(count % hvd.size()), "uneven": 0}[remainder]
            assert sum(times.values()) == count + more and len(times) == count + min(0, more)


def case_without_shuffling_samples_keep_their_order() -> None:
    assert steps_of(shard(tf.data.Dataset.range(5), 4, shuffle=False, rank=1, size=2)) == [[1, 3], [0]]
    assert steps_of(shard(tf.data.Dataset.range(5), 4, shuffle=False, remainder="drop", rank=1, size=2)) == [[1, 3]]
    assert steps_of(shard(tf.data.Dataset.range(1), 3, shuffle=False, rank=2, size=3)) == [[0]]
    assert steps_of(shard(tf.data.Dataset.range(0), 3, rank=2, size=3)) == []


def case_data_sets_of_unknown_length_are_divided() -> None:
    odd = tf.data.Dataset.range(10).filter(lambda number: number % 2 == 1)
    with raises(ValueError, "unknown length", "samples="):
        shard(odd, 6)
    assert sum(map(len, steps_of(shard(odd, 2, samples=5, rank=0, size=2)))) == 3
    with raises(ValueError, "endless"):
        shard(odd.repeat(), 6)
    with raises(ValueError, "samples=4"):
        shard(tf.data.Dataset.range(5), 6, samples=4)


def case_every_seed_gives_a_reproducible_order() -> None:
    """Also seeds that TensorFlow converts to 0, for which it would use a random seed."""
    for seed in (-1, 0, 2**31 - 2, 2**31 - 1):
        assert sorted(sum(steps_of_all(shard(tf.data.Dataset.range(60), 6, seed=seed), f"seed {seed}"), [])) == list(range(60))
    tf.random.set_seed(0)
    for seed in (-1, 0, 2**31 - 2):
        passes = [steps_of(shard(tf.data.Dataset.range(60), 6, seed=seed, rank=0, size=1)) for _ in range(2)]
        assert passes[0] == passes[1], f"seed={seed} is random"


def case_invalid_arguments_are_errors() -> None:
    numbers = tf.data.Dataset.range(13)
    with raises(hvd.errors.InvalidArgumentError, "batch=5"):
        shard(numbers, 5, rank=0, size=2)
    with raises(ValueError, "uneven", "last step"):
        shard(numbers, 6, remainder="uneven", rank=0, size=2)
    with raises(ValueError, "remainder"):
        shard(numbers, 6, remainder="even", rank=0, size=2)


def case_different_seeds_on_ranks_are_an_error() -> None:
    tf.random.set_seed(hvd.rank())
    if hvd.size() > 1:
        with raises(hvd.errors.MismatchError, "set_seed"):
            shard(tf.data.Dataset.range(12), 6)
    tf.random.set_seed(5)
    assert sorted(sum(steps_of_all(shard(tf.data.Dataset.range(12), 6), "the same seed"), [])) == list(range(12))
