"""A pytest plugin that runs Horovod's own tests against hvd: `pytest -p horovod_own_tests test/parallel/test_torch.py`.

Each rank loads the plugin; docs/frameworks/horovod.md has the command. After each test the ranks wait for each other
through files in HOROVOD_TESTS_FOLDER, a shared empty folder, so that a failure does not affect the next test. A test that
takes longer than HOROVOD_TESTS_LIMIT seconds (60) fails. If it still does not return, the rank prints its stacks and
ends. At the end rank 0 prints each test that failed on any rank, and the totals.
"""

from __future__ import annotations

import collections
import faulthandler
import importlib
import json
import os
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import hvd

FOLDER = Path(os.environ["HOROVOD_TESTS_FOLDER"])
LIMIT = int(os.environ.get("HOROVOD_TESTS_LIMIT", 60))
RANK, SIZE = int(os.environ["HVD_RANK"]), int(os.environ["HVD_SIZE"])

_outcomes: dict[str, tuple[str, str]] = {}  # this rank's results by test: "passed", "skipped" or "failed", and the reason
_results: dict[str, list[tuple[str, str]]] = {}  # all ranks' results by test


def _provide_what_the_tests_import() -> None:
    """Makes modules that hvd does not provide: two functions of Horovod's launcher, and horovod.keras with legacy Keras.

    test_tensorflow2_keras.py imports horovod.keras for one function, which it calls with optimizers of tf.keras.
    """
    def get_env_rank_and_size() -> tuple[int, int]:
        return RANK, SIZE

    def in_thread(target: Any, args: Any = (), **options: Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        return thread

    for name, function in (("runner.common.util.env", get_env_rank_and_size), ("runner.util.threads", in_thread)):
        module = types.ModuleType(f"horovod.{name}")
        setattr(module, function.__name__, function)
        sys.modules[module.__name__] = module
        for package in ("runner.common", "runner.common.util", "runner.util"):
            sys.modules.setdefault(f"horovod.{package}", types.ModuleType(f"horovod.{package}"))


    if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
        sys.modules["horovod.keras"] = importlib.import_module("horovod.tensorflow.keras")


_provide_what_the_tests_import()


def _too_slow(*_: Any) -> None:
    raise TimeoutError(f"the test takes longer than {LIMIT} s")


def pytest_runtest_setup(item: Any) -> None:
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(LIMIT)
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)


def pytest_runtest_logreport(report: Any) -> None:
    """Records the outcome of each phase of a test (setup, call, teardown); the worst is the test's outcome."""
    reason = ""
    if report.failed:
        reason = getattr(report.longrepr, "reprcrash", None)
        reason = f"{reason.path}:{reason.lineno}: {reason.message}" if reason else str(report.longrepr)
    elif report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
    known = _outcomes.get(report.nodeid)
    if known is None or report.failed or (report.skipped and known[0] == "passed"):
        _outcomes[report.nodeid] = (report.outcome, reason)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Waits until all ranks have ended the test."""
    signal.alarm(0)
    name = "".join(letter if letter.isalnum() else "_" for letter in nodeid)[-200:]
    mine = FOLDER / f"{name}.{RANK}"
    new = FOLDER / f"{name}.new.{RANK}"
    new.write_text(json.dumps(_outcomes[nodeid]))
    new.rename(mine)
    found = [FOLDER / f"{name}.{rank}" for rank in range(SIZE)]
    while not all(file.exists() for file in found):
        time.sleep(0.002)
    faulthandler.cancel_dump_traceback_later()
    _results[nodeid] = [tuple(json.loads(file.read_text())) for file in found]
    if any("PeerError" in reason for _, reason in _results[nodeid]):
        hvd.shutdown()  # no collective works after this error; the next test calls init()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the failures of all ranks and the totals, on rank 0."""
    if RANK != 0:
        return
    numbers: collections.Counter[str] = collections.Counter()
    for nodeid, outcomes in _results.items():
        test = nodeid.rpartition("::")[2]
        kinds = [outcome for outcome, _ in outcomes]
        worst = "failed" if "failed" in kinds else "passed" if "passed" in kinds else "skipped"
        numbers[worst] += 1
        for rank, (outcome, reason) in enumerate(outcomes):
            if outcome == "failed":
                print(f"FAILED {test}, rank {rank}: {' '.join(reason.split())[:600]}")
    print(", ".join(f"{numbers[kind]} {kind}" for kind in ("passed", "skipped", "failed")), f"on {SIZE} ranks")
