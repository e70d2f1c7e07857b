"""Checks that hvd.torch gives the results of CPUs, or of one process, with tensors on a GPU. Runs with any number of ranks."""

from __future__ import annotations

import time
import traceback

import hvd.torch as hvt
import probe_collectives
import probe_training
from gpukit.results import record
from probe_checks import Check, Outcome


def run(name: str, check: Check) -> None:
    """Runs a check, which all ranks call. Rank 0 records the ranks on which it is wrong."""
    start = time.perf_counter()
    own: Outcome
    try:
        own = check()
    except Exception as error:
        own = False, f"{type(error).__name__}: {error}"[-400:]
        print(traceback.format_exc(), flush=True)
    outcomes = hvt.allgather_object(own, name=f"outcome of {name}")
    if hvt.rank() == 0:
        right, value = own
        wrong = [(rank, each[1]) for rank, each in enumerate(outcomes) if each[0] is False]
        record(name, False if wrong else right, wrong[:2] or value, seconds=round(time.perf_counter() - start, 3))


hvt.init()
for checks in (probe_collectives.checks(), probe_training.checks()):
    for label, one in checks.items():
        run(label, one)
hvt.shutdown()
