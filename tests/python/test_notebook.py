"""hvd.run() in a notebook with a real Jupyter kernel, which nbclient starts."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from framework_cases import python_of
from harness import HVDRUN, TOP, Running, Sandbox, alive, python_environment, wait_until

pytestmark = pytest.mark.notebook

RUNNER = TOP / "tests/python/programs/run_notebook.py"


def notebook_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a kernel whose files are in that folder."""
    places = {name: str(folder / "jupyter") for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    python = Path(python_of("NOTEBOOK"))
    return python_environment({"PATH": f"{HVDRUN.parent}:{python.parent}:/usr/bin:/bin", **places})


def start_notebook(sandbox: Sandbox, notebook: Path, *left_out: str) -> Running:
    if not python_of("NOTEBOOK"):
        pytest.skip("./check --all makes the environment for it")
    return sandbox.start(RUNNER, notebook, *left_out, tool=python_of("NOTEBOOK"), env=notebook_environment(sandbox.files))


def start_cells(sandbox: Sandbox, *cells: str) -> Running:
    code = [{"cell_type": "code", "id": str(at), "metadata": {}, "execution_count": None, "outputs": [], "source": cell}
            for at, cell in enumerate(cells)]
    notebook = sandbox.files / "notebook.ipynb"
    notebook.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return start_notebook(sandbox, notebook)


def run_cells(sandbox: Sandbox, *cells: str) -> list[dict[str, str]]:
    done = start_cells(sandbox, *cells).wait().expect(0)
    return [json.loads(line) for line in done.out_lines]


def test_run_takes_functions_and_classes_of_cells(sandbox: Sandbox) -> None:
    _, last = run_cells(sandbox, "class Result:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return f'R{self.x}'",
                        "import hvd\nfactor = 3\ndef train(more):\n    hvd.init()\n    print('in rank', hvd.rank())\n"
                        "    return Result(hvd.rank() * factor + more)\nhvd.run(train, (100,), np=2, options=['--color', 'never'])")
    assert last["value"] == "[R100, R103]" and last["error"] == ""
    assert sorted(last["stdout"].splitlines()) == ["[0] in rank 0", "[1] in rank 1"]
    assert "2 ranks succeeded" in last["stderr"]


def test_run_raises_exceptions_of_cells_with_their_lines(sandbox: Sandbox) -> None:
    _, caught, shown = run_cells(
        sandbox, "import hvd\nclass Bad(Exception): pass\ndef check(i):\n    if i == 1: raise Bad('batch 7')",
        "def train():\n    hvd.init()\n    return [check(i) for i in (0, hvd.rank())]\n"
        "try:\n    hvd.run(train, np=2)\nexcept Bad as error:\n    print(error.rank, repr(error.__cause__))\n    print(error.traceback)",
        "hvd.run(train, np=2)")
    lines = caught["stdout"].splitlines()
    assert lines[0] == "1 Bad('batch 7')"
    assert "    return [check(i) for i in (0, hvd.rank())]" in lines and "    if i == 1: raise Bad('batch 7')" in lines, caught
    assert shown["error"].startswith("RunError(Bad): ") and "Bad: batch 7" in shown["error"], shown


def test_run_in_a_notebook_raises_an_error_with_the_reason(sandbox: Sandbox) -> None:
    results = run_cells(sandbox, "import hvd, os, signal, threading\nlock = threading.Lock()", "hvd.run(lambda: lock, np=2)",
                        "hvd.run(threading.Lock, np=1)", "hvd.run(lambda: bytes(257 << 20), np=1)",
                        "hvd.run(len, (bytes(257 << 20),), np=1)", "hvd.run(lambda: os.kill(os.getpid(), signal.SIGKILL), np=2)")
    errors = [result["error"] for result in results[1:]]
    expected = ["TypeError: hvd.run: cannot send the function to the ranks: cannot pickle", "cannot send back what the function returned",
                "the result of rank 0 has 258 MiB when pickled; at most 256 MiB can be sent back",
                "ValueError: hvd.run: the function and its arguments have 258 MiB when pickled", "failed: killed by SIGKILL"]
    for error, words in zip(errors, expected):
        assert words in error, results


WAITING = """
import hvd, os
def train():
    import os, signal
    with open(f"begun.{os.environ['HVD_RANK']}.part", "w") as file: file.write(str(os.getpid()))
    os.rename(file.name, file.name[:-5])
    try:
        signal.pause()
    finally:
        print("saved", flush=True)
with open("kernel", "w") as file: file.write(str(os.getpid()))
try:
    hvd.run(train, np=2)
except KeyboardInterrupt:
    print("interrupted")"""


def start_waiting(sandbox: Sandbox) -> tuple[Running, int, list[int]]:
    """Starts the notebook; returns its run, the kernel's pid and the ranks' pids."""
    running = start_cells(sandbox, WAITING)
    begun = [sandbox.files / f"begun.{rank}" for rank in range(2)]
    wait_until(lambda: all(file.exists() for file in begun), "both ranks to begin")
    return running, int((sandbox.files / "kernel").read_text()), [int(file.read_text()) for file in begun]


def test_interrupting_the_kernel_ends_the_ranks(sandbox: Sandbox) -> None:
    running, kernel, _ = start_waiting(sandbox)
    os.killpg(kernel, signal.SIGINT)  # what Jupyter's Interrupt sends
    out = json.loads(running.wait().expect(0).out_lines[0])
    assert [line.split()[-1] for line in out["stdout"].splitlines()] == ["saved", "saved", "interrupted"], out
    assert "interrupted: stopping 2 ranks" in out["stderr"]


def test_the_ranks_end_after_the_kernel_is_killed(sandbox: Sandbox) -> None:
    running, kernel, ranks = start_waiting(sandbox)
    os.kill(kernel, signal.SIGKILL)
    assert "DeadKernelError" in running.wait().expect(1).err_text
    wait_until(lambda: not any(alive(pid) for pid in ranks), "the end of the ranks")
    wait_until(lambda: not sandbox.processes(), "the end of hvdrun")


def test_the_example_notebook_runs_without_its_slurm_cells(sandbox: Sandbox) -> None:
    done = start_notebook(sandbox, TOP / "examples/python/one_to_many.ipynb", "slurm").wait().expect(0)
    cells = [json.loads(line) for line in done.out_lines]
    assert len(cells) == 3 and not any(cell["error"] for cell in cells), cells
    assert "rank 0 of 1, step 30: loss 0.0" in cells[1]["stdout"] and "rank 1 of 2, step 30: loss 0.0" in cells[2]["stdout"], cells
