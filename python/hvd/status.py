"""The training's progress, which hvdrun shows and reports, and hvdrun's requests to the ranks.

Progress works with and without hvd.init(). Under another launcher, or without one, these calls do nothing. None is a
collective.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from ctypes import byref, c_double, c_uint32, c_uint64
from typing import Any, Generic, NamedTuple, NoReturn, Optional, TypeVar, overload

from ._arguments import guards_itself
from ._library import check, lib, whole

Item = TypeVar("Item")

_STOP = 1  # HVD_NOTICE_STOP

# hvd_progress_values: struct_size, known, reserved, step, steps, samples, epoch, epochs, loss. Packing it and passing
# the bytes takes a third of the time that ctypes needs for a Structure.
_VALUES = struct.Struct("@N2I5qd")
_SIZE = _VALUES.size
_pack = _VALUES.pack
_hvd_progress = lib.hvd_progress

_steps_done = 0  # by the loops of progress()


@overload
def progress(iterable: None = None, *, step: Optional[int] = None, steps: Optional[int] = None,
             samples: Optional[int] = None, loss: Any = None, epoch: Optional[int] = None,
             epochs: Optional[int] = None) -> None: ...


@overload
def progress(iterable: Iterable[Item], *, step: Optional[int] = None, steps: Optional[int] = None,
             samples: Optional[int] = None, loss: Any = None, epoch: Optional[int] = None,
             epochs: Optional[int] = None) -> Steps[Item]: ...


@guards_itself
def progress(iterable: Optional[Iterable[Item]] = None, *, step: Optional[int] = None, steps: Optional[int] = None,
             samples: Optional[int] = None, loss: Any = None, epoch: Optional[int] = None,
             epochs: Optional[int] = None) -> Optional[Steps[Item]]:
    """Reports how far the training is, for hvdrun's status line and its report. What is None stays as it is.

    step: training steps done, over all epochs; steps: how many there will be.
    samples: that this rank trained on since the last call.
    epoch: the epoch that has begun, from 0; epochs: how many there will be.
    loss: a number, or a tensor with one element. A tensor on a GPU waits for the GPU: pass it now and then only.

    With an iterable it returns one over the same batches, which reports each as a step when it is done:
    `for batch in hvd.progress(loader, epoch=epoch, epochs=epochs)`. Then `step` is the number of steps before the loop
    (by default those of the loops before), `steps` follows from the iterable's length, and `samples` is the number in
    each batch (by default the length of the batch's first tensor).

    Errors: InvalidArgumentError for a negative number, step > steps and epoch > epochs; TypeError for what is not a
    number.
    """
    if iterable is not None:
        return Steps(iterable, step, steps, samples, loss, epoch, epochs)
    known = 0
    if step is None:
        step = 0
    else:
        known = 1
    if steps is None:
        steps = 0
    else:
        known |= 2
    if samples is None:
        samples = 0
    else:
        known |= 4
    if epoch is None:
        epoch = 0
    else:
        known |= 8
    if epochs is None:
        epochs = 0
    else:
        known |= 16
    if loss is None:
        loss = 0.0
    else:
        known |= 32
    try:
        values = _pack(_SIZE, known, 0, step, steps, samples, epoch, epochs, loss)
    except Exception as error:
        _refuse(error, loss, step=step, steps=steps, samples=samples, epoch=epoch, epochs=epochs)
    if status := _hvd_progress(values):
        check(status)
    return None


def _refuse(error: Exception, loss: Any, **numbers: Any) -> NoReturn:
    """Raises the exception for what cannot be packed."""
    for name, number in numbers.items():
        try:
            struct.pack("q", number)
        except Exception:
            if isinstance(number, int):
                raise OverflowError(f"hvd.progress: {name} is {number}, which does not fit into 64 bits") from None
            raise TypeError(f"hvd.progress: {name} is {number!r}, not a whole number") from None
    raise TypeError(f"hvd.progress: loss is {loss!r}, not a number") from error


class Steps(Generic[Item]):
    """An iterable of a training's batches that reports each as a step (see progress())."""

    def __init__(self, batches: Iterable[Item], step: Optional[int], steps: Optional[int], samples: Optional[int],
                 loss: Any, epoch: Optional[int], epochs: Optional[int]) -> None:
        self._batches = _checked(batches)
        self._step = step
        self._steps = steps
        self._samples = samples
        self._epoch = epoch
        self._epochs = epochs
        progress(step=step, steps=steps, loss=loss, epoch=epoch, epochs=epochs)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Item]:
        global _steps_done
        done = _steps_done if self._step is None else self._step
        steps = self._steps if self._steps is not None else self._steps_in_all(done)
        progress(step=done, steps=steps, epoch=self._epoch, epochs=self._epochs)
        for batch in self._batches:
            samples = samples_in(batch) if self._samples is None else self._samples
            yield batch
            done += 1
            _steps_done = done
            # A length may be an estimate.
            progress(step=done, steps=steps if steps is None or steps >= done else done, samples=samples)
        if self._epoch is not None and self._epochs is not None and self._epoch + 1 == self._epochs:
            progress(epoch=self._epochs)

    def _steps_in_all(self, done: int) -> Optional[int]:
        """Returns the steps of all epochs; without epochs, to the end of this loop. None if that is not known."""
        try:
            length = len(self)
        except TypeError:
            return None
        left = 1 if self._epoch is None or self._epochs is None else self._epochs - self._epoch
        return done + length * left


def _checked(batches: Any) -> Any:
    """Returns the argument. TypeError if it cannot be iterated over, such as a step passed without its name."""
    if isinstance(batches, (str, bytes)) or not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise TypeError(f"hvd.progress: cannot iterate over {batches!r}; numbers need their names: "
                        "hvd.progress(step=…, steps=…)")
    return batches


def samples_in(batch: Any) -> int:
    """Returns the length of the batch's first tensor; 0 if none is found."""
    while isinstance(batch, (dict, tuple, list)):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch), None)
    shape = getattr(batch, "shape", None)
    try:
        return int(shape[0])  # type: ignore[index]
    except (TypeError, IndexError, ValueError):
        return 0


def set_step(step: int) -> None:
    """Sets the number of training steps done."""
    check(lib.hvd_set_step(whole(step, c_uint64, "the step")))


def add_samples(samples: int) -> None:
    """Adds to the number of samples that this rank has trained on."""
    check(lib.hvd_add_samples(whole(samples, c_uint64, "the number of samples")))


def set_epoch(epoch: int) -> None:
    """Sets the epoch that begins, from 0. Call it once more after the last epoch, with the number of epochs."""
    check(lib.hvd_set_epoch(whole(epoch, c_uint64, "the epoch")))


def set_metric(name: str, value: float) -> None:
    """Sets a metric of the training: "loss", "accuracy" (0 to 1) or another; at most 6 names of up to 23 bytes."""
    check(lib.hvd_set_metric(name.encode(), value))


class Notice(NamedTuple):
    """The launcher's requests to this rank so far.

    Ranks may see a request at different times; hvd.agree_stop() makes all ranks act on it at the same step.
    """

    stop: bool  # whether to stop at the end of a step
    stop_at_step: Optional[int]  # the step; None for the next


def notice() -> Notice:
    """Returns what the launcher has asked this rank to do so far, such as to stop. Ranks may learn it at different times.

    Without hvdrun nothing is ever asked. Use agree_stop(), which asks for this and decides for all ranks together.
    """
    bits, step = c_uint32(), c_uint64()
    check(lib.hvd_notice(byref(bits), byref(step)))
    return Notice(bool(bits.value & _STOP), step.value or None)


def time_left() -> float:
    """Returns the seconds until the job must end; negative after that time, math.inf if it is unknown."""
    seconds = c_double()
    check(lib.hvd_time_left(byref(seconds)))
    return seconds.value
