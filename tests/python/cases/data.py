"""hvd.data and the sampler for torch: the division of samples among ranks, and reading samples."""

from __future__ import annotations

import collections
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

import hvd
from _datasets import Numbers
from _expect import raises
from _folder import barrier, shared_folder
from hvd.data import Reader, RecordWriter, Sample, Shard, Source
from hvd.torch.sampler import DistributedSampler


def case_the_order_of_samples_is_the_specified_one() -> None:
    parts = [[step.tolist() for step in Shard(10, 4, rank=rank, size=2)] for rank in range(2)]
    assert parts == [[[6, 9], [1, 8], [7]], [[0, 2], [4, 5], [3]]]
    assert np.concatenate(list(Shard(10, 10, epoch=1, rank=0, size=1))).tolist() == [7, 2, 6, 1, 9, 4, 3, 0, 8, 5]
    assert np.concatenate(list(Shard(10, 10, seed=1, rank=0, size=1))).tolist() == [2, 0, 3, 1, 5, 6, 7, 4, 9, 8]


def case_global_batches_do_not_depend_on_the_number_of_ranks() -> None:
    own = Shard(103, 12, epoch=2, seed=5)
    alone = Shard(103, 12, epoch=2, seed=5, rank=0, size=1)
    parts = [Shard(103, 12, epoch=2, seed=5, rank=rank, size=hvd.size()) for rank in range(hvd.size())]
    assert len(own) == len(alone) == 9
    for step in range(len(alone)):
        assert np.concatenate([part[step] for part in parts]).tolist() == alone[step].tolist()
        assert own[step].tolist() == parts[hvd.rank()][step].tolist() and own[step].dtype == np.int64
        assert own.batch_size(step) == alone[step].size
    assert own[-1].tolist() == own[8].tolist()
    with raises(IndexError, "9"):
        own[9]


def case_remainder_keeps_pads_or_drops_the_last_samples() -> None:
    def of_all(remainder: str) -> list[int]:
        shards = [Shard(10, 6, shuffle=False, remainder=remainder, rank=rank, size=3) for rank in range(3)]
        return sorted(int(index) for shard in shards for step in shard for index in step)

    assert of_all("uneven") == list(range(10))
    assert of_all("pad") == sorted([*range(10), 0, 1])
    assert of_all("drop") == list(range(9))
    assert [step.size for step in Shard(10, 5, shuffle=False, rank=0, size=7)] == [0, 0]
    assert len(Shard(0, 4)) == 0


def case_invalid_arguments_of_shard_are_errors() -> None:
    with raises(ValueError, "remainder"):
        Shard(10, 4, remainder="even")
    with raises(hvd.errors.InvalidArgumentError, "batch"):
        Shard(10, 0)
    with raises(hvd.errors.InvalidArgumentError, "rank"):
        Shard(10, 4, rank=3, size=3)
    with raises(ValueError, "both"):
        Shard(10, 4, rank=3)
    with raises(hvd.errors.InvalidArgumentError, "size"):
        Shard(10, 4, rank=0, size=0)


def write_records(path: Path, count: int) -> None:
    with RecordWriter(path) as writer:
        for number in range(count):
            writer.write(np.full(3, number, "int32").tobytes())


def case_records_are_read_in_the_order_of_the_shard() -> None:
    with shared_folder() as folder:
        path = folder / hvd.rank_path("data-{rank}.tfrecord")
        write_records(path, 20)
        source = Source.tfrecord(path)
        assert len(source) == 20 and source.classes == []
        with Reader(source, batch=6, seed=3, threads=2) as reader:
            assert reader.steps == 4
            for epoch in range(2):
                shard = Shard(20, 6, epoch=epoch, seed=3)
                steps = list(reader)
                assert len(steps) == 4
                for step, batch in enumerate(steps):
                    expected = shard[step].tolist()
                    assert (batch.epoch, batch.step, batch.batch_size) == (epoch, step, shard.batch_size(step))
                    assert batch.indices.tolist() == expected and batch.labels.tolist() == [-1] * len(batch)
                    assert batch.array("int32", (3,)).tolist() == [[index] * 3 for index in expected]
                    assert [bytes(batch[i]) for i in range(len(batch))] == [np.full(3, i, "int32").tobytes()
                                                                          for i in expected]
            reader.seek(5, 2)
            batch = reader.next()
            assert (batch.epoch, batch.step) == (5, 2)
        with raises(ValueError, "closed"):
            reader.next()


def case_a_decode_function_in_python_is_called_for_each_sample() -> None:
    def decode(sample: Sample) -> tuple[np.ndarray, int]:
        number = int.from_bytes(sample.data[:4], "little")
        assert sample.label == -1 and f"record {sample.index}" in sample.name
        return np.full((2, 2), number / 2), number * 10

    with shared_folder() as folder:
        path = folder / hvd.rank_path("data-{rank}.tfrecord")
        write_records(path, 12)
        with Reader(Source.tfrecord(path), batch=4, decode=decode, threads=4, prefetch=8, cache=True) as reader:
            for batch in (*reader, *reader):
                assert batch.labels.tolist() == (batch.indices * 10).tolist()
                assert (batch.array("float64", (2, 2))[:, 0, 1] == batch.indices / 2).all()


def case_an_exception_in_decode_is_raised_at_its_step() -> None:
    def decode(sample: Sample) -> bytes:
        if sample.index == 0:
            raise RuntimeError("no such colour")
        return b"good"

    with shared_folder() as folder:
        path = folder / hvd.rank_path("data-{rank}.tfrecord")
        write_records(path, 4)
        with Reader(Source.tfrecord(path), batch=2, shuffle=False, decode=decode, rank=0, size=1) as reader:
            with raises(hvd.Error, "no such colour", "record 0"):
                reader.next()
            assert [bytes(sample) for sample in reader.next()] == [b"good", b"good"]


def case_samples_of_a_folder_of_classes_have_their_class() -> None:
    with shared_folder() as folder:
        if hvd.rank() == 0:
            for name in ("cat/1.png", "cat/2.PNG", "dog/1.jpg", "dog/notes.txt"):
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(name)
        barrier("files are written")
        source = Source.folder(folder)
        assert len(source) == 3 and source.classes == ["cat", "dog"]
        assert len(Source.folder(folder, "")) == 4
        source.check_same_on_all_ranks()
        if hvd.size() > 1:
            with raises(hvd.errors.MismatchError, "files"):
                Source.folder(folder, "" if hvd.rank() == 0 else None).check_same_on_all_ranks()
        with Reader(source, batch=3, shuffle=False, rank=0, size=1) as reader:
            batch = reader.next()
            assert batch.labels.tolist() == [0, 0, 1] and bytes(batch[2]) == b"dog/1.jpg"
            with raises(IndexError):
                batch[3]
            texts = [bytes(sample) for sample in batch]
            assert len(texts) == 3
        with raises(hvd.Error, "missing"):
            Source.folder(folder / "missing")


def case_records_of_fixed_length_can_be_read() -> None:
    with shared_folder() as folder:
        path = folder / hvd.rank_path("data-{rank}.bin")
        path.write_bytes(b"head" + bytes(range(12)))
        with Reader(Source.fixed(path, 3, 4), batch=4, shuffle=False, rank=0, size=1) as reader:
            assert reader.next().array("uint8").tolist() == np.arange(12).reshape(4, 3).tolist()
        with raises(hvd.Error, str(path)):
            Source.fixed(path, 5, 4)


def case_a_record_file_is_removed_after_an_exception() -> None:
    with shared_folder() as folder:
        path = folder / hvd.rank_path("data-{rank}.tfrecord")
        with raises(ZeroDivisionError), RecordWriter(path) as writer:
            writer.write(b"record")
            1 / 0
        writer = RecordWriter(path)
        del writer
        barrier("records are dropped")
        assert not list(folder.iterdir())


# ---- torch --------------------------------------------------------------------------------------


def steps_of_all(loader: DataLoader, name: str) -> list[list[int]]:
    """Returns the samples of all ranks by step."""
    own = [batch.tolist() for batch in loader]
    parts = [hvd.broadcast_object(own, root, f"{name} {root}") for root in range(hvd.size())]
    assert len({len(part) for part in parts}) == 1, f"the ranks make {[len(part) for part in parts]} steps"
    return [sorted(sum(step, [])) for step in zip(*parts)]


def case_the_sampler_divides_batches_among_ranks() -> None:
    for remainder, count in (("pad", 37), ("drop", 37), ("uneven", 36), ("uneven", 41)):
        dataset = Numbers(count)
        sampler = DistributedSampler(dataset, batch=6, seed=4, remainder=remainder)
        loader = DataLoader(dataset, sampler=sampler, batch_size=sampler.local_batch)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            steps = steps_of_all(loader, f"{remainder} {count} {epoch}")
            alone = Shard(count, 6, epoch, 4, rank=0, size=1)
            assert len(steps) == sampler.steps == len(loader)
            for step, samples in enumerate(steps[:6]):
                assert samples == sorted(alone[step].tolist()), f"step {step} has other samples than on one rank"
            times = collections.Counter(sum(steps, []))
            more = {"pad": -count % hvd.size(), "drop": -(count % hvd.size()), "uneven": 0}[remainder]
            assert sum(times.values()) == count + more
            assert len(times) == count + min(0, more)
            assert len(sampler) == len(list(sampler))
            assert [sampler.batch_size(step) for step in range(sampler.steps)] == [len(step) for step in steps]


def case_arguments_that_leave_a_rank_without_a_step_are_errors() -> None:
    with raises(ValueError, "uneven", "last step"):
        DistributedSampler(Numbers(13), batch=6, remainder="uneven", rank=0, size=2)
    for rank in range(3):
        for samples in (0, 13):
            with raises(ValueError, "batch=2", "3 ranks together"):
                DistributedSampler(Numbers(samples), batch=2, remainder="uneven", rank=rank, size=3)
    with raises(hvd.errors.InvalidArgumentError, "batch"):
        DistributedSampler(Numbers(13), batch=5, rank=0, size=2)
    assert list(DistributedSampler(Numbers(0), batch=6, rank=0, size=2)) == []


def case_the_sampler_continues_within_an_epoch() -> None:
    sampler = DistributedSampler(Numbers(40), batch=6)
    whole = list(sampler)
    sampler.set_epoch(0, first_step=2)
    assert list(sampler) == whole[2 * sampler.local_batch :] and len(sampler) == len(list(sampler))
    sampler.set_epoch(0, first_step=sampler.steps)
    assert list(sampler) == [] and len(sampler) == 0
    with raises(ValueError, "first_step"):
        sampler.set_epoch(0, first_step=sampler.steps + 1)


def case_the_sampler_works_with_forked_workers() -> None:
    sampler = DistributedSampler(Numbers(30), batch=6, seed=1)
    loader = DataLoader(Numbers(30, kept=sampler), sampler=sampler, batch_size=sampler.local_batch, num_workers=1,
                        multiprocessing_context="fork")
    assert torch.cat(list(loader)).tolist() == list(sampler)
