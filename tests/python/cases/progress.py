"""hvd.progress rejects invalid values and yields batches unchanged. test_progress.py tests what it reports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hvd
from _expect import raises

SIZES = (1,)
GATE_SIZE = 1


def case_invalid_values_are_errors_that_name_the_argument() -> None:
    for name in ("step", "steps", "samples", "epoch", "epochs"):
        with raises(hvd.errors.InvalidArgumentError, f"{name} is -1; it must not be negative"):
            hvd.progress(**{name: -1})
        for value in ("7", b"7", math.nan, 1.5, [1], object()):
            with raises(TypeError, f"hvd.progress: {name} is {value!r}, not a whole number"):
                hvd.progress(**{name: value})
        with raises(OverflowError, f"{name} is {2**63}, which does not fit into 64 bits"):
            hvd.progress(**{name: 2**63})
    for loss in ("0.5", [0.5], object()):
        with raises(TypeError, f"hvd.progress: loss is {loss!r}, not a number"):
            hvd.progress(loss=loss)
    with raises(hvd.errors.InvalidArgumentError, "step is 7, but steps is only 5"):
        hvd.progress(step=7, steps=5)
    with raises(hvd.errors.InvalidArgumentError, "epoch is 7, but epochs is only 5"):
        hvd.progress(epoch=7, epochs=5)
    for not_batches in (7, "text", 0.5):
        with raises(TypeError, "hvd.progress: cannot iterate over"):
            hvd.progress(not_batches)  # type: ignore[call-overload]


def case_numbers_of_all_types_are_accepted() -> None:
    hvd.progress()
    hvd.progress(step=np.int64(3), steps=np.uint8(5), samples=np.int32(64), loss=np.float32(0.5), epoch=True)
    for loss in (1, math.nan, math.inf, np.array(0.5)):
        hvd.progress(loss=loss)


def case_a_loop_yields_the_same_batches() -> None:
    batches: list[Any] = [np.ones((4, 2)), (np.ones((3, 2)), np.ones(3)), {"x": np.ones((2, 2))}, [], "text", None, 5]
    steps = hvd.progress(batches)
    assert len(steps) == len(batches)
    assert all(ours is theirs for ours, theirs in zip(steps, batches))
    assert list(hvd.progress(iter("abc"))) == ["a", "b", "c"], "without a length"
    assert not list(hvd.progress([]))


def case_an_exception_of_the_batches_passes_through_the_loop() -> None:
    def broken() -> Any:
        yield 1
        raise KeyError("data")

    with raises(KeyError, "data"):
        list(hvd.progress(broken()))
