"""Training data: the division of samples among ranks (Shard), and reading in background threads (Source, Reader).

    for epoch in range(epochs):
        shard = hvd.data.Shard(samples=len(images), batch=64, epoch=epoch, seed=1)
        for step, indices in enumerate(shard):
            train(images[indices], divide_by=shard.batch_size(step))

Only Source.check_same_on_all_ranks() is a collective. Each rank computes its part from the same numbers, so arguments
and files must be the same on all ranks. docs/reference/formats/shuffle.md specifies the order exactly. Indices are
numpy arrays of int64, or lists without numpy.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator
from ctypes import (POINTER, addressof, byref, c_char_p, c_int32, c_int64, c_size_t, c_ubyte, c_uint32, c_uint64,
                    c_void_p, memmove)
from types import TracebackType
from typing import Any, Optional, Union

from . import _library, errors
from ._library import check, lib, whole
from ._place import place

PathName = Union[str, os.PathLike[str]]
Indices = Any  # a numpy array of int64; a list without numpy

_REMAINDERS = {"uneven": 0, "pad": 1, "drop": 2}  # hvd_remainder


class _ShardOptions(ctypes.Structure):
    """hvd_shard_options."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("samples", c_int64),
        ("batch", c_int64),
        ("epoch", c_int64),
        ("seed", c_uint64),
        ("shuffle", c_int32),
        ("remainder", c_int32),
        ("rank", c_int32),
        ("size", c_int32),
    ]


class _Sample(ctypes.Structure):
    """hvd_sample."""

    _fields_ = [("index", c_int64), ("label", c_int64), ("data", c_void_p), ("bytes", c_size_t), ("name", c_char_p)]


_DECODE = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(_Sample), c_void_p)


class _ReaderOptions(ctypes.Structure):
    """hvd_reader_options."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("threads", c_int32),
        ("prefetch", c_int32),
        ("cache", c_int32),
        ("decode", _DECODE),
        ("context", c_void_p),
    ]


class _Batch(ctypes.Structure):
    """hvd_batch."""

    _fields_ = [
        ("epoch", c_int64),
        ("step", c_int64),
        ("batch_size", c_int64),
        ("count", c_size_t),
        ("indices", POINTER(c_int64)),
        ("labels", POINTER(c_int64)),
        ("data", c_void_p),
        ("offsets", POINTER(c_size_t)),
    ]


_NEW = POINTER(c_void_p)

_library.declare({
    "hvd_shard_create": (c_int32, POINTER(_ShardOptions), _NEW),
    "hvd_shard_steps": (c_int32, c_void_p, POINTER(c_int64)),
    "hvd_shard_step": (c_int32, c_void_p, c_int64, POINTER(POINTER(c_int64)), POINTER(c_size_t)),
    "hvd_shard_batch_size": (c_int32, c_void_p, c_int64, POINTER(c_int64)),
    "hvd_shard_free": (None, c_void_p),
    "hvd_source_open_folder": (c_int32, c_char_p, c_char_p, _NEW),
    "hvd_source_open_tfrecord": (c_int32, c_char_p, _NEW),
    "hvd_source_open_fixed": (c_int32, c_char_p, c_size_t, c_size_t, _NEW),
    "hvd_source_samples": (c_int32, c_void_p, POINTER(c_int64)),
    "hvd_source_classes": (c_int32, c_void_p, POINTER(c_int64)),
    "hvd_source_class_name": (c_int32, c_void_p, c_int64, POINTER(c_char_p)),
    "hvd_source_fingerprint": (c_int32, c_void_p, POINTER(c_uint32)),
    "hvd_source_free": (None, c_void_p),
    "hvd_output_resize": (c_void_p, c_void_p, c_size_t),
    "hvd_output_set_label": (None, c_void_p, c_int64),
    "hvd_output_fail": (None, c_void_p, c_char_p),
    "hvd_reader_open": (c_int32, c_void_p, POINTER(_ShardOptions), POINTER(_ReaderOptions), _NEW),
    "hvd_reader_steps": (c_int32, c_void_p, POINTER(c_int64)),
    "hvd_reader_next": (c_int32, c_void_p, POINTER(POINTER(_Batch))),
    "hvd_reader_seek": (c_int32, c_void_p, c_int64, c_int64),
    "hvd_reader_close": (None, c_void_p),
    "hvd_record_writer_open": (c_int32, c_char_p, _NEW),
    "hvd_record_writer_write": (c_int32, c_void_p, c_char_p, c_size_t),
    "hvd_record_writer_close": (c_int32, c_void_p),
    "hvd_record_writer_discard": (None, c_void_p),
})


def _shard_options(samples: int, batch: int, epoch: int, seed: int, shuffle: bool, remainder: str,
                   rank: Optional[int], size: Optional[int]) -> _ShardOptions:
    if remainder not in _REMAINDERS:
        raise ValueError(f'hvd: remainder={remainder!r}: "uneven", "pad" or "drop"')
    if rank is None and size is None:
        rank, size = 0, 0  # those of the job, also when hvd.elastic has changed them
    else:
        rank, size = place(rank, size)
        if size < 1:
            raise errors.InvalidArgumentError(f"hvd: size={size}: there is at least one rank")
    return _ShardOptions(ctypes.sizeof(_ShardOptions), samples, batch, epoch, seed, int(shuffle),
                         _REMAINDERS[remainder], rank, size)


def _int64(pointer: Any, count: int) -> Indices:
    """Returns a copy of an array of the library's."""
    try:
        import numpy as np
    except ImportError:
        return pointer[:count] if count else []
    copy = np.empty(count, np.int64)
    if count:
        memmove(copy.ctypes.data, pointer, copy.nbytes)
    return copy


def _number(function: Callable[..., int], kind: type, *arguments: Any) -> int:
    answer = kind()
    check(function(*arguments, byref(answer)))
    return answer.value


# ---- Shards -------------------------------------------------------------------------------------


class Shard:
    """One rank's samples in one epoch: a sequence of steps, each an array of indices 0 to samples - 1.

    All samples are shuffled first, batches are cut from that one order, and each batch is divided among the ranks. So a
    step's batch is the same set of samples at every number of ranks, and all ranks make the same number of steps.

    batch: the number of samples in a step, of all ranks together.
    epoch: each epoch has another order.
    remainder: "uneven" uses every sample exactly once per epoch. The last batch may be smaller, and a rank's part may
    be smaller by one than another's, or empty. "pad" repeats samples of the epoch's beginning at its end until all
    ranks have the same number. "drop" leaves out the epoch's last samples, fewer than there are ranks. With "pad" and
    "drop" the batch must be a multiple of the size.
    rank, size: None for those of this job. These are the present ones in each call, also after hvd.elastic has changed
    them; the other ranks then share what is left of the steps.

    Errors: InvalidArgumentError, which names the argument; SystemCallError if the order does not fit into memory.
    """

    def __init__(self, samples: int, batch: int, epoch: int = 0, seed: int = 0, shuffle: bool = True,
                 remainder: str = "uneven", rank: Optional[int] = None, size: Optional[int] = None) -> None:
        options = _shard_options(samples, batch, epoch, seed, shuffle, remainder, rank, size)
        self._shard = c_void_p()
        check(lib.hvd_shard_create(byref(options), byref(self._shard)))
        self._free = weakref.finalize(self, lib.hvd_shard_free, self._shard)

    def __len__(self) -> int:
        """Returns the number of steps, the same on all ranks."""
        return _number(lib.hvd_shard_steps, c_int64, self._shard)

    def __getitem__(self, step: int) -> Indices:
        """Returns the indices of this rank's samples in a step."""
        steps = len(self)
        if not -steps <= step < steps:
            raise IndexError(f"hvd: step {step} of an epoch of {steps}")
        indices, count = POINTER(c_int64)(), c_size_t()
        check(lib.hvd_shard_step(self._shard, step % steps, byref(indices), byref(count)))
        return _int64(indices, count.value)

    def __iter__(self) -> Iterator[Indices]:
        return (self[step] for step in range(len(self)))

    def batch_size(self, step: int) -> int:
        """Returns the samples of all ranks in a step: the divisor for a sum of their gradients."""
        return _number(lib.hvd_shard_batch_size, c_int64, self._shard, step)


# ---- Sources ------------------------------------------------------------------------------------


class Source:
    """Samples on a disk, numbered from 0: bytes, with or without a label. Several readers may use one source."""

    def __init__(self, source: c_void_p) -> None:
        """Use folder(), tfrecord() or fixed() instead."""
        if not isinstance(source, c_void_p):  # a wrong address would end the process
            raise TypeError(f"hvd.data.Source: source is {source!r}; call Source.folder(), tfrecord() or fixed() instead")
        self._source = source
        self._free = weakref.finalize(self, lib.hvd_source_free, source)

    @classmethod
    def folder(cls, path: PathName, extensions: Optional[str] = None) -> Source:
        """Opens a folder with one sub-folder per class, with files and labels as in torchvision's ImageFolder.

        A sample is the bytes of a file. extensions: for example ".jpg,.png"; None for those of images, "" for all.
        """
        source = c_void_p()
        ends = None if extensions is None else extensions.encode()
        check(lib.hvd_source_open_folder(os.fsencode(path), ends, byref(source)))
        return cls(source)

    @classmethod
    def tfrecord(cls, path: PathName) -> Source:
        """Opens one TFRecord file, not compressed."""
        source = c_void_p()
        check(lib.hvd_source_open_tfrecord(os.fsencode(path), byref(source)))
        return cls(source)

    @classmethod
    def fixed(cls, path: PathName, record_bytes: int, header_bytes: int = 0) -> Source:
        """Opens one file of records of the same length after a header: CIFAR's (3073, 0), MNIST's images (784, 16)."""
        source = c_void_p()
        check(lib.hvd_source_open_fixed(os.fsencode(path), record_bytes, header_bytes, byref(source)))
        return cls(source)

    def __len__(self) -> int:
        """Returns the number of samples."""
        return _number(lib.hvd_source_samples, c_int64, self._source)

    @property
    def classes(self) -> list[str]:
        """The names of a folder's classes, by label; empty for files of records."""
        count = _number(lib.hvd_source_classes, c_int64, self._source)
        names = []
        for label in range(count):
            name = c_char_p()
            check(lib.hvd_source_class_name(self._source, label, byref(name)))
            names.append(os.fsdecode(name.value or b""))
        return names

    @property
    def fingerprint(self) -> int:
        """A checksum of the samples' names, classes and number, not of their bytes."""
        return _number(lib.hvd_source_fingerprint, c_uint32, self._source)

    def check_same_on_all_ranks(self) -> None:
        """Raises MismatchError on all ranks unless all see the same files. A collective."""
        from .agree import same_on_all_ranks

        if not same_on_all_ranks(self.fingerprint, "fingerprint of the data"):
            raise errors.MismatchError("the ranks do not see the same files of training data")


# ---- The reader ---------------------------------------------------------------------------------


class Sample:
    """The argument of a decode function. `data` is valid until that returns."""

    __slots__ = ("data", "index", "label", "name")

    def __init__(self, index: int, label: int, data: memoryview, name: str) -> None:
        self.index = index  # in the source
        self.label = label  # -1 if the source has none
        self.data = data
        self.name = name  # the file, or "FILE record N", for messages


# A decoded sample: its bytes (any object with a buffer, such as a numpy array), or a pair of these and its label.
Decoded = Union[Any, tuple[Any, int]]


class Batch:
    """This rank's part of a step's batch."""

    def __init__(self, batch: _Batch) -> None:
        count = batch.count
        self.epoch: int = batch.epoch
        self.step: int = batch.step
        self.batch_size: int = batch.batch_size  # samples of all ranks together
        self.indices: Indices = _int64(batch.indices, count)
        self.labels: Indices = _int64(batch.labels, count)  # -1 for a sample without one
        self.offsets: list[int] = batch.offsets[: count + 1]  # sample i is data[offsets[i] : offsets[i + 1]]
        self.data = bytearray(self.offsets[-1])  # the samples' bytes, concatenated
        if self.data:
            memmove(addressof(c_ubyte.from_buffer(self.data)), batch.data, len(self.data))

    def __len__(self) -> int:
        """Returns the number of this rank's samples, which may be 0."""
        return len(self.indices)

    def __getitem__(self, index: int) -> memoryview:
        """Returns a sample's bytes."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"hvd: sample {index} of a batch of {len(self)}")
        index %= len(self)
        return memoryview(self.data)[self.offsets[index] : self.offsets[index + 1]]

    def array(self, dtype: Any, shape: tuple[int, ...] = (-1,)) -> Any:
        """Returns the samples as a numpy array (samples, *shape), a view of `data`. ValueError if lengths differ."""
        import numpy as np

        lengths = {after - before for before, after in zip(self.offsets, self.offsets[1:])}
        if len(lengths) > 1:
            raise ValueError(f"hvd: samples of {min(lengths)} to {max(lengths)} bytes do not make one array")
        flat = np.frombuffer(self.data, dtype)
        return flat.reshape(len(self), *(shape if len(self) else (max(0, extent) for extent in shape)))


class Reader:
    """Reads a source in the order of a Shard, epoch after epoch, in background threads.

    Its batches do not depend on the number of threads.

        with hvd.data.Reader(source, batch=256, seed=1) as reader:
            for epoch in range(epochs):
                for batch in reader:          # one epoch; the threads continue into the next
                    train(batch.array("uint8", (3, 32, 32)), batch.labels, batch.batch_size)

    decode: turns a Sample into its bytes, or into (bytes, label). It runs in the reader's threads, in several at the
    same time as far as Python's lock allows. An exception in it is an error at that step. None leaves samples as they
    are.
    threads: the number of threads that read and decode.
    prefetch: the number of batches kept ready in addition to the one in use.
    cache: keeps the bytes of every sample, as read, for later epochs.
    The other arguments are those of Shard.

    Errors: a file that cannot be read, is damaged or was rejected by `decode` is an error at its step, with the file's
    name; the next call returns the next step. A reader cannot be used in a forked child (ForkedError): open another one
    there.
    """

    def __init__(self, source: Source, batch: int, epoch: int = 0, seed: int = 0, shuffle: bool = True,
                 remainder: str = "uneven", rank: Optional[int] = None, size: Optional[int] = None,
                 decode: Optional[Callable[[Sample], Decoded]] = None, threads: int = 2, prefetch: int = 4,
                 cache: bool = False) -> None:
        shard = _shard_options(0, batch, epoch, seed, shuffle, remainder, rank, size)
        # The threads call `call` until hvd_reader_close, so the finalizer keeps it alive until then.
        call = ctypes.cast(0, _DECODE) if decode is None else _DECODE(_caller(decode))
        options = _ReaderOptions(ctypes.sizeof(_ReaderOptions), threads, prefetch, int(cache), call)
        reader = c_void_p()
        check(lib.hvd_reader_open(source._source, byref(shard), byref(options), byref(reader)))
        self._reader: Optional[c_void_p] = reader
        self._close = weakref.finalize(self, _close_reader, reader, call)
        self.steps = _number(lib.hvd_reader_steps, c_int64, reader)  # per epoch

    def next(self) -> Optional[Batch]:
        """Returns the next step's batch; None, once, at the end of an epoch."""
        batch = POINTER(_Batch)()
        check(lib.hvd_reader_next(self._open(), byref(batch)))
        return Batch(batch.contents) if batch else None

    def __iter__(self) -> Iterator[Batch]:
        """Iterates to the end of the epoch."""
        return iter(self.next, None)

    def seek(self, epoch: int, step: int = 0) -> None:
        """Continues at a step of an epoch."""
        check(lib.hvd_reader_seek(self._open(), whole(epoch, c_int64, "the epoch"), whole(step, c_int64, "the step")))

    def close(self) -> None:
        """Ends the threads."""
        self._reader = None
        self._close()

    def _open(self) -> c_void_p:
        if self._reader is None:
            raise ValueError("hvd: the reader is closed")
        return self._reader

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def _close_reader(reader: c_void_p, _call: Any) -> None:
    lib.hvd_reader_close(reader)


def _caller(decode: Callable[[Sample], Decoded]) -> Callable[[Any, Any, int], int]:
    """Returns an hvd_decode function that calls `decode`."""

    def call(_context: Any, sample: Any, output: int) -> int:
        try:
            _put(decode(_sample(sample.contents)), output)
            return 0
        except BaseException as failure:
            text = f"{type(failure).__name__}: {failure}".encode("utf-8", "replace").replace(b"\0", b"")
            lib.hvd_output_fail(output, text)
            return errors.SystemCallError.status

    return call


def _sample(raw: _Sample) -> Sample:
    data = (c_ubyte * raw.bytes).from_address(raw.data) if raw.bytes else b""
    return Sample(raw.index, raw.label, memoryview(data).cast("B"), os.fsdecode(raw.name or b""))


def _put(decoded: Decoded, output: int) -> None:
    if isinstance(decoded, tuple):
        decoded, label = decoded
        lib.hvd_output_set_label(output, label)
    data = memoryview(decoded)
    if data.nbytes == 0:
        return
    to = lib.hvd_output_resize(output, data.nbytes)
    if not to:
        raise MemoryError(f"{data.nbytes} bytes for a decoded sample")
    ctypes.memmove(to, data.tobytes(), data.nbytes)


# ---- Writing records ----------------------------------------------------------------------------


class RecordWriter:
    """Writes a TFRecord file, which appears under its name, complete, when it is closed.

    As a context manager: an exception in the block drops the file.
    """

    def __init__(self, path: PathName) -> None:
        self._writer: Optional[c_void_p] = None
        writer = c_void_p()
        check(lib.hvd_record_writer_open(os.fsencode(path), byref(writer)))
        self._writer = writer

    def write(self, record: bytes) -> None:
        if self._writer is None:
            raise ValueError("hvd: the record writer is closed")
        check(lib.hvd_record_writer_write(self._writer, bytes(record), len(record)))

    def close(self) -> None:
        """Writes the file to the disk and makes it visible. Ends the writer even if that fails."""
        writer, self._writer = self._writer, None
        if writer is not None:
            check(lib.hvd_record_writer_close(writer))

    def discard(self) -> None:
        """Drops the file."""
        writer, self._writer = self._writer, None
        lib.hvd_record_writer_discard(writer)

    def __del__(self) -> None:
        self.discard()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
