"""hvd.agree: averages of metrics, early stopping, and a stop of all ranks at the same step."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import warnings
from multiprocessing.synchronize import Event

import hvd
from _expect import raises

EXIT_CODE = 124  # some cases agree to stop


def case_averages_of_metrics_are_weighted() -> None:
    weight = hvd.rank() + 1
    total = sum(range(1, hvd.size() + 1))
    expected = sum(rank * (rank + 1) for rank in range(hvd.size())) / total
    got = hvd.average_metrics({"loss": float(hvd.rank()), "hits": 1.0}, weight)
    assert list(got) == ["loss", "hits"] and got["hits"] == 1.0
    assert math.isclose(got["loss"], expected)
    assert hvd.average_metrics([3, 4.5]) == [3.0, 4.5]
    assert hvd.average_metrics([]) == []


def case_the_order_of_metrics_may_differ_between_ranks() -> None:
    metrics = {"a": 1.0, "b": 2.0} if hvd.rank() == 0 else {"b": 2.0, "a": 1.0}
    assert hvd.average_metrics(metrics) == {"a": 1.0, "b": 2.0}


def case_different_names_of_metrics_are_an_error_on_all_ranks() -> None:
    if hvd.size() == 1:
        return
    with raises(hvd.errors.MismatchError, "metrics"):
        hvd.average_metrics({"loss": 1.0} if hvd.rank() == 0 else {"accuracy": 1.0}, 10.0)
    with raises(hvd.errors.MismatchError):
        hvd.average_metrics({"loss": 1.0, "more": 2.0} if hvd.rank() == 0 else {"loss": 1.0})
    assert hvd.average_metrics([1.0]) == [1.0], "the next call failed"


def case_a_rank_without_samples_does_not_change_the_average() -> None:
    empty = hvd.rank() == 0 and hvd.size() > 1
    assert hvd.average_metrics([math.nan if empty else 2.0], 0 if empty else 5) == [2.0]
    with raises(hvd.errors.InvalidArgumentError, "weight"):
        hvd.average_metrics([1.0], 0)
    with raises(hvd.errors.InvalidArgumentError, "weight"):
        hvd.average_metrics([1.0], -1)


def case_early_stopping_uses_the_values_of_rank_0() -> None:
    early = hvd.EarlyStopping("min", patience=2, min_delta=0.5)
    assert math.isnan(early.best)
    # Only rank 0's values are used.
    updates = [early.update(value if hvd.rank() == 0 else -value) for value in (3.0, 2.0, 1.75, math.nan)]
    assert updates == [(True, False), (True, False), (False, False), (False, True)]
    assert (early.best, early.best_at, early.updates_since_best) == (2.0, 1, 2)
    assert updates[-1].stop and not updates[-1].is_best


def case_early_stopping_continues_from_a_saved_state() -> None:
    first = hvd.EarlyStopping("max", patience=2)
    for value in (0.5, 0.4):
        first.update(value)
    second = hvd.EarlyStopping("max", patience=2)
    second.load_state_dict(first.state_dict())
    assert second.update(0.3) == first.update(0.3) == (False, True)
    assert second.state_dict() == first.state_dict()
    with raises(ValueError, "best"):
        hvd.EarlyStopping("largest")


def case_ranks_without_a_request_do_not_stop() -> None:
    stop = hvd.agree_stop(5)
    assert not stop and stop.text == "" and stop.reasons == set() and stop.signum is None
    assert stop.seconds_left == math.inf


def case_a_request_of_one_rank_stops_all() -> None:
    stop = hvd.agree_stop(5, requested=hvd.rank() == hvd.size() - 1)
    assert stop and stop.reasons == {"requested"} and stop.text and stop.signum is None


def case_deprecated_names_work_with_a_warning() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stop = hvd.agree_stop(5, wish=hvd.rank() == 0)
        assert stop.reasons == {"requested"} and "wish" in stop.reasons and "wish" not in hvd.agree_stop(5).reasons
        early = hvd.EarlyStopping()
        early.load_state_dict({"updates": 3, "best_at": 0, "best": 1.0, "waited": 2})
        assert early.waited == early.updates_since_best == 2
    assert [warning.category for warning in warned] == [DeprecationWarning] * 4
    assert {warning.filename for warning in warned} == {__file__}


def case_signal_to_one_rank_stops_all() -> None:
    hvd.watch_signal(signal.SIGUSR2)
    if hvd.rank() == 0:
        os.kill(os.getpid(), signal.SIGUSR2)
    stop = hvd.agree_stop(5)
    assert stop.reasons == {"signal"} and stop.signum == signal.SIGUSR2 and "SIGUSR2" in stop.text, stop
    with raises(hvd.errors.InvalidArgumentError, "9"):
        hvd.watch_signal(signal.SIGKILL)


def case_watched_signals_do_not_run_python_handlers() -> None:
    heard = []
    before = signal.signal(signal.SIGWINCH, lambda number, frame: heard.append(number))
    try:
        hvd.watch_signal(signal.SIGWINCH)
        os.kill(os.getpid(), signal.SIGWINCH)
        assert not heard and signal.getsignal(signal.SIGWINCH) is not before
        assert hvd.agree_stop(5).reasons == {"signal"}
    finally:
        signal.signal(signal.SIGWINCH, before)


def case_watched_ctrl_c_raises_no_keyboard_interrupt() -> None:
    hvd.watch_signal(signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    assert "signal" in hvd.agree_stop(5).reasons


def case_child_processes_get_the_original_handlers() -> None:
    hvd.watch_signal(signal.SIGTERM)
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=_wait_for_a_signal, args=(ready,))
    child.start()
    ready.wait()
    child.terminate()
    child.join(20)
    code = child.exitcode
    child.kill()
    assert code == -signal.SIGTERM, f"SIGTERM did not end the child: {code}"
    # The signal is still watched in this process.
    os.kill(os.getpid(), signal.SIGTERM)
    assert "signal" in hvd.agree_stop(5).reasons


def _wait_for_a_signal(ready: Event) -> None:
    ready.set()
    while True:
        signal.pause()
