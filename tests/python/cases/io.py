"""hvd.io, hvd.status and hvd.timeline: calls on one rank for all, files, and values for the launcher."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import re
import threading

import hvd
from _expect import raises
from _folder import barrier, shared_folder
from hvd import _library


def case_on_rank0_returns_its_result_on_all_ranks() -> None:
    calls = []
    words = hvd.on_rank0(lambda: calls.append(1) or {"words": ["a", "b"], "rank": hvd.rank()})
    assert words == {"words": ["a", "b"], "rank": 0}
    assert len(calls) == (1 if hvd.rank() == 0 else 0)
    assert hvd.on_rank0(lambda: None) is None


def case_each_status_has_an_exception_class_and_a_text() -> None:
    failures = [_library.failure(status, "") for status in range(1, 12)]
    assert len({type(failure) for failure in failures}) == len({str(failure) for failure in failures}) == 11
    assert type(_library.failure(12, "")) is hvd.Error and str(_library.failure(12, "")) == "unknown status"
    assert str(_library.failure(4, "")) == "a rank died or left" and str(_library.failure(4, "why")) == "why"


def case_on_root_works_with_any_root() -> None:
    root = hvd.size() - 1
    assert hvd.on_root(hvd.rank, root) == root
    with raises(hvd.errors.InvalidArgumentError):
        hvd.on_root(hvd.rank, hvd.size())


def case_an_exception_in_on_rank0_is_raised_on_all_ranks() -> None:
    def fail() -> None:
        raise KeyError("words.txt")

    if hvd.rank() == 0:
        with raises(KeyError, "words.txt"):
            hvd.on_rank0(fail)
    else:
        with raises(hvd.errors.RootError, "rank 0", "KeyError", "words.txt"):
            hvd.on_rank0(fail)
    assert hvd.on_rank0(lambda: 1) == 1, "the next call failed"


def case_a_result_of_on_rank0_that_cannot_be_pickled_is_an_error() -> None:
    kind = Exception if hvd.rank() == 0 else hvd.errors.RootError
    with raises(kind, "pickle"):
        hvd.on_rank0(threading.Lock)  # not an open file: cloudpickle, if installed, can pickle one


def case_a_collective_inside_on_rank0_is_an_error() -> None:
    kind = hvd.errors.InvalidArgumentError if hvd.rank() == 0 else hvd.errors.RootError
    with raises(kind):
        hvd.on_rank0(lambda: hvd.average_metrics([1.0]))


def case_print0_prints_on_rank_0_only() -> None:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        hvd.print0("loss", 0.5, sep="=")
    assert text.getvalue() == ("loss=0.5\n" if hvd.rank() == 0 else "")


def case_each_line_of_the_log_is_written_once() -> None:
    with shared_folder() as folder:
        with hvd.io.Log(folder / "train.log") as log:
            print(f"rank {hvd.rank()}", 1.5, file=log)
            handler = logging.StreamHandler(log)
            logger = logging.getLogger("case_each_line_of_the_log_is_written_once")
            logger.addHandler(handler)
            logger.warning("läuft")
            logger.removeHandler(handler)
            log.write("the rest")
        with raises(ValueError, "closed"):
            log.write("late")
        barrier("log is written")
        lines = (folder / "train.log").read_text().splitlines()
        texts = [re.sub(r"^\d{4}-\d\d-\d\dT\S+ ", "", line) for line in lines]
        assert texts == ["rank 0 1.5", "läuft", "the rest"], lines


def case_a_log_that_cannot_be_opened_is_an_error() -> None:
    with shared_folder() as folder, raises(hvd.Error, "missing"):
        hvd.io.Log(folder / "missing" / "train.log")


def case_each_rank_has_its_own_path() -> None:
    assert hvd.rank_path("out/{rank}-{size}.txt") == f"out/{hvd.rank()}-{hvd.size()}.txt"
    if hvd.size() > 1:
        with raises(hvd.errors.InvalidArgumentError, "{rank}"):
            hvd.rank_path("out.txt")


def case_an_atomic_file_appears_when_its_block_ends() -> None:
    with shared_folder() as folder:
        path = folder / hvd.rank_path("result-{rank}.json")
        with hvd.io.atomic_file(path, "w") as file:
            json.dump({"rank": hvd.rank()}, file)
            file.flush()
            assert not path.exists(), "the file exists before the block has ended"
        assert json.loads(path.read_text()) == {"rank": hvd.rank()}
        data = bytes(range(256)) * 10_000
        with hvd.io.atomic_file(path) as file:
            file.write(data[:100])
            file.write(data[100:])
        assert path.read_bytes() == data
        with raises(ValueError):
            file.write(b"late")
        barrier("files are written")
        assert len(list(folder.iterdir())) == hvd.size()


def case_an_atomic_file_is_removed_after_an_exception() -> None:
    with shared_folder() as folder:
        path = folder / hvd.rank_path("result-{rank}.txt")
        path.write_text("before")
        for mode, data in (("w", "x" * 3_000_000), ("wb", b"half")):
            with raises(ZeroDivisionError), hvd.io.atomic_file(path, mode) as file:
                file.write(data)
                1 / 0
        assert path.read_text() == "before"
        barrier("files are removed")
        assert len(list(folder.iterdir())) == hvd.size(), "a temporary file is left"
        with raises(hvd.Error, "missing"), hvd.io.atomic_file(folder / "missing" / "file"):
            raise AssertionError("the block must not be entered")
        with raises(ValueError, "mode"), hvd.io.atomic_file(path, "a"):
            pass


def case_values_for_the_launcher_are_accepted_and_long_names_are_errors() -> None:
    hvd.set_epoch(0)
    hvd.set_step(10)
    hvd.add_samples(640)
    hvd.set_metric("loss", 0.25)
    with raises(hvd.errors.InvalidArgumentError, "name"):
        hvd.set_metric("a name that is longer than 23 bytes", 1.0)
    assert hvd.notice() == (False, None)
    assert hvd.time_left() == math.inf


def case_the_timeline_has_the_programs_events() -> None:
    with shared_folder() as folder:
        path = folder / "timeline.json"
        hvd.start_timeline(path)
        with raises(hvd.errors.InvalidArgumentError, "already"):
            hvd.start_timeline(path)
        with hvd.span("load data"), hvd.span("decode"):
            pass
        hvd.average_metrics([1.0], name="the metrics")
        hvd.stop_timeline()
        text = path.read_text()
        json.loads(text)
        for word in ("load data", "decode", "the metrics"):
            assert word in text, f"{word} is not in the timeline"
        with raises(hvd.errors.InvalidArgumentError):
            hvd.stop_timeline()
    with hvd.span("without a timeline"):
        pass
