"""If one rank fails before a collective, it raises its own exception and the others an error that names it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import hvd
import hvd.numpy
from _expect import raises
from _folder import shared_folder

SIZES = (2, 3)
CULPRIT = 1
LOCK_TEXT = "TypeError: cannot pickle '_thread.lock' object"


def is_culprit(rank: int = CULPRIT) -> bool:
    return hvd.rank() == rank


def check(call: Callable[[], Any], own: type[Exception], text: str, culprit: int = CULPRIT) -> None:
    if is_culprit(culprit):
        with raises(own):
            call()
    else:
        with raises(hvd.errors.InvalidArgumentError, f"rank {culprit}: {text}"):
            call()


def case_an_object_that_cannot_be_pickled_is_an_error_on_all_ranks() -> None:
    for culprit in (0, 1):
        thing = {"lock": threading.Lock()} if is_culprit(culprit) else None
        for name in (None, "config"):
            check(lambda: hvd.broadcast_object(thing, culprit, name), TypeError, LOCK_TEXT, culprit)
            check(lambda: hvd.allgather_object(thing, name), TypeError, LOCK_TEXT, culprit)
            assert hvd.broadcast_object(hvd.rank(), 1, name) == 1
            assert hvd.allgather_object(hvd.rank(), name) == list(range(hvd.size()))


def case_a_failure_in_a_process_set_is_an_error_on_its_ranks() -> None:
    members = hvd.add_process_set([0, 1])
    if hvd.rank() in (0, 1):
        thing = threading.Lock() if is_culprit() else None
        check(lambda: hvd.allgather_object(thing, process_set=members), TypeError, LOCK_TEXT)
        check(lambda: hvd.broadcast_object(thing, 1, process_set=members), TypeError, LOCK_TEXT)
        assert hvd.allgather_object(1, process_set=members) == [1, 1]
    hvd.remove_process_set(members)


def case_an_array_of_an_unsupported_type_is_an_error_on_all_ranks() -> None:
    array = np.ones(6, complex if is_culprit() else float)
    text = "TypeError: hvd: no collectives on arrays of complex128"
    for name in (None, "array"):
        calls: list[Callable[[], Any]] = [
            lambda: hvd.numpy.allreduce(array, name), lambda: hvd.numpy.grouped_allreduce([array], name),
            lambda: hvd.numpy.broadcast(array, 0, name), lambda: hvd.numpy.broadcast(array, 1, name),
            lambda: hvd.numpy.allgather(array, name), lambda: hvd.numpy.alltoall(array, name=name),
            lambda: hvd.numpy.reducescatter(array, name)]
        for call in calls:
            check(call, TypeError, text)
        assert hvd.numpy.allreduce(np.ones(1), name)[0] == 1


def case_a_failed_background_call_returns_at_once() -> None:
    if is_culprit():
        with raises(TypeError):
            hvd.numpy.allreduce_async(np.ones(1, complex), "first")
        handle = None
    else:
        handle = hvd.numpy.allreduce_async(np.ones(1), "first")
    # Waits for the end of the first call, because it has the same name.
    second = None if handle else hvd.numpy.allreduce_async(np.ones(1), "first")
    if handle:
        with raises(hvd.errors.InvalidArgumentError, "rank 1: TypeError"):
            handle.wait()
        second = hvd.numpy.allreduce_async(np.ones(1), "first")
    assert second and second.wait()[0] == 1


def case_invalid_arguments_of_functions_are_errors_on_all_ranks() -> None:
    wrong: Any = "x" if is_culprit() else 1.0
    check(lambda: hvd.average_metrics([wrong]), ValueError,
          "ValueError: hvd.average_metrics: metrics[0]: could not convert string to float: 'x'")
    check(lambda: hvd.average_metrics({"accuracy": 1.0, "loss": wrong}), ValueError,
          "ValueError: hvd.average_metrics: metrics['loss']: could not convert string to float: 'x'")
    stopping = hvd.agree.EarlyStopping()
    check(lambda: stopping.update(wrong), Exception, "ArgumentError: ")
    check(lambda: hvd.agree_stop("x" if is_culprit() else 1), Exception, "TypeError: ")  # type: ignore[arg-type]
    check(lambda: hvd.add_process_set(["x"] if is_culprit() else [0]), ValueError, "ValueError: ")  # type: ignore[list-item]
    assert hvd.average_metrics([1.0]) == [1.0] and not hvd.agree_stop(1) and stopping.update(1.0).is_best


def case_a_file_that_cannot_be_opened_is_an_error_on_all_ranks() -> None:
    with shared_folder() as folder:
        path: Any = 3 if is_culprit() else folder / "file"
        check(lambda: hvd.io.Log(path), TypeError, "TypeError: ")
        check(lambda: hvd.start_timeline(path), TypeError, "TypeError: ")


def case_a_checkpoint_that_cannot_be_saved_is_an_error_on_all_ranks() -> None:
    with shared_folder() as folder:
        check(lambda: hvd.checkpoint.Checkpoints(folder, keep_last=0 if is_culprit() else 3), ValueError, "ValueError: ")
        for sharded in (False, True):
            state = {"weights": np.ones(3), "epoch": threading.Lock() if is_culprit() else 1}
            sound = {"weights": np.ones(3), "epoch": 1}
            with hvd.checkpoint.Checkpoints(folder / str(sharded), sharded=sharded) as checkpoints:
                check(lambda: checkpoints.save(state, 1), TypeError, LOCK_TEXT)
                check(lambda: checkpoints.save(sound, -1 if is_culprit() else 1), ValueError, "InvalidArgumentError: ")
                checkpoints.save(sound, 1)
                check(lambda: checkpoints.load(state), TypeError, LOCK_TEXT)
                check(lambda: checkpoints.find("x" if is_culprit() else "newest"), ValueError, "ValueError: ")
                loaded = checkpoints.load()
                assert loaded and loaded["epoch"] == 1
