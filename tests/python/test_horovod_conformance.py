"""A program gives the same results on Horovod and on hvd, on each rank, with 1, 2 and 3 ranks.

Horovod's results are recorded (horovod_results.py). With HVD_TEST_HOROVOD=PYTHON, an interpreter with Horovod, the test
runs Horovod as well. Exceptions agree if each `except` that catches Horovod's also catches hvd's.
"""

from __future__ import annotations

import os
import re

import pytest

from harness import TOP, Sandbox, python_environment
from horovod_results import PROGRAM, SIZES, Lines, lines_in, read_results, results_folder, run_horovod
from rank_cases import JOB_LIMIT, PYTHONS

INSTALLED = os.environ.get("HVD_TEST_HOROVOD")

# Intended differences: hvd's result and the reason. docs/frameworks/horovod-differences.md lists each.
VALUE = r"\[.*\]|\w+\[.*"
ERROR = r"raises HorovodInternalError, RuntimeError(, ValueError)?"
DIFFERENCES = {
    "allgather_bool": (VALUE, "a type like the others"),
    "allgather_without_dimensions": (ERROR, "Horovod's is an IndexError, of the Python around it"),
    "allreduce_bfloat16": (VALUE, "a type like the others"),
    "allreduce_bool": (VALUE, "a type like the others"),
    "allreduce_in_place_of_a_parameter": ("raises RuntimeError", "as PyTorch's own operations in place"),
    "allreduce_not_contiguous": (VALUE, "a copy is made"),
    "allreduce_on_a_set_that_is_not_known": (ERROR, "Horovod's is a TypeError, as the set's number is None"),
    "allreduce_small_integers": (VALUE, "types like the others"),
    "alltoall_splits_of_fewer_rows": (ERROR, "Horovod leaves rows out"),
    "alltoall_splits_of_long_integers": (VALUE, "any integers will do"),
    "broadcast_bool": (VALUE, "a type like the others"),
    "gradient_of_max": (ERROR, "Horovod's maximum of the gradients is no gradient"),
    "name_in_flight": (ERROR, "a mistake of one rank is an error on all"),
    "no_tensor": (VALUE, "the result for an empty list is an empty list"),
    "reducescatter_max": (VALUE, "every operation"),
    "reducescatter_small_integers": (VALUE, "types like the others"),
    "set_that_is_not_known": (ERROR, "says what to do; Horovod gives None for rank and size"),
    "set_with_the_ranks_of_another": ("added", "sets may have the same ranks"),
    "sparse_allreduce_max": (ERROR, "Horovod adds, whatever the operation"),
    "sync_batch_norm": (VALUE, "works on CPUs"),
    "synchronize_twice": (r"\[(float32.*), \1\]", "the result is kept; Horovod's second one is None"),
}


def run_hvd(sandbox: Sandbox, ranks: int) -> Lines:
    folder = results_folder(sandbox)
    variables = {"HVD_STALL_SHUTDOWN_TIME_SECONDS": "30"}
    job = sandbox.start("--horovod", "-np", ranks, "-H", f"localhost:{ranks}", "--bind-to", "none", PYTHONS["torch"],
                        PROGRAM, folder, env=python_environment(variables))
    job.wait(JOB_LIMIT).expect(0)
    return lines_in(folder, ranks)


def exceptions(line: str) -> set[str]:
    """Returns the exceptions in a line `raises KIND, KIND`. Returns an empty set for another line."""
    return set(line.removeprefix("raises ").split(", ")) if line.startswith("raises ") else set()


def agree(theirs: str, ours: str) -> bool:
    return theirs == ours or (bool(exceptions(theirs)) and exceptions(theirs) <= exceptions(ours))


def faults(theirs: Lines, ours: Lines) -> list[str]:
    found = []
    for rank, cases in theirs.items():
        assert list(cases) == list(ours[rank]), f"rank {rank} has other cases; run horovod_results.py to record them again"
        for case, line in cases.items():
            got = ours[rank][case]
            if not agree(line, got) and not (case in DIFFERENCES and re.fullmatch(DIFFERENCES[case][0], got)):
                found.append(f"{case}, rank {rank}:\n  Horovod {line}\n  hvd     {got}")
    return found


@pytest.mark.parametrize("ranks", [pytest.param(size, marks=() if size == 2 else pytest.mark.slow) for size in SIZES])
def test_hvd_gives_the_same_results_as_horovod(sandbox: Sandbox, ranks: int) -> None:
    if INSTALLED:
        theirs = run_horovod(sandbox, INSTALLED, ranks)
        (sandbox.files / "results").rename(sandbox.files / "results of Horovod")
    else:
        theirs = read_results()[ranks]
    found = faults(theirs, run_hvd(sandbox, ranks))
    if found:
        pytest.fail(f"{len(found)} differences at {ranks} ranks\n" + "\n".join(found), pytrace=False)


def test_each_listed_difference_exists() -> None:
    recorded = read_results()
    for case, (pattern, reason) in DIFFERENCES.items():
        lines = [cases[case] for lines in recorded.values() for cases in lines.values()]
        assert reason and not all(re.fullmatch(pattern, line) for line in lines), f"{case} no longer differs"
