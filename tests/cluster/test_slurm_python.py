"""hvd.slurm.submit() runs functions and programs as SLURM jobs, from the login host, as an ordinary user."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cluster import Cluster
from framework_cases import python_of
from harness import HVDRUN, PYTHON, TOP, python_environment


def run(cluster: Cluster, shared: Path, code: str) -> subprocess.CompletedProcess:
    """Runs a script in the test's folder. Ranks import the script, so only main() makes calls."""
    text = f"import hvd\nfrom hvd.slurm import submit\n{code}\nif __name__ == '__main__':\n    main()\n"
    cluster.output("tee", shared / "train.py", input=text)
    return cluster.run(PYTHON, "train.py", folder=shared,
                       environment=python_environment({"PATH": f"{HVDRUN.parent}:/usr/bin:/bin"}))


def folders(cluster: Cluster, shared: Path) -> list[str]:
    return cluster.output("find", shared, "-name", "hvd-slurm-*").split()


@pytest.mark.gate
def test_submit_runs_a_function_and_returns_the_results_of_all_ranks(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, """
def train(factor, more):
    hvd.init()
    print("in rank", hvd.rank())
    return hvd.rank() * factor, hvd.size(), hvd.node_count(), more
def main():
    job = submit(train, (3,), {"more": "m"}, nodes=2, gpus_per_node=2, time=5, env={"MINE": "1"})
    again = hvd.slurm.Job(job.folder)
    assert again.id == job.id and job.folder.stat().st_mode & 0o777 == 0o700
    print(job.result())
    print(job.state(), job.done(), job.exception(), sorted(job.output().splitlines()))""")
    assert done.returncode == 0, done.stderr
    results, end = done.stdout.splitlines()[-2:]
    assert results == str([(rank * 3, 4, 2, "m") for rank in range(4)])
    assert {f"[{rank}] in rank {rank}" for rank in range(4)} < set(done.stdout.splitlines())
    assert end.startswith(f"COMPLETED True None {[f'[{rank}] in rank {rank}' for rank in range(4)]}"[:-1]), end
    assert "hvdrun: note: 4 ranks: 2 nodes × 2 GPUs" in done.stderr and " succeeded after " in done.stderr
    assert folders(cluster, shared) == []


@pytest.mark.gate
def test_submit_raises_the_exception_of_a_rank_and_the_error_of_sbatch(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, """
class Bad(Exception): pass
def train():
    hvd.init()
    if hvd.rank() == 1:
        raise Bad("batch 7")
    hvd.broadcast_object(1, root_rank=1)
def main():
    try:
        submit(train, np=2, gpus_per_node=0, partition="nowhere")
    except hvd.RunError as error:
        print("refused:", error)
    job = submit(train, np=2, gpus_per_node=0, time=5)
    try:
        job.result()
    except Bad as error:
        print("failed:", isinstance(error, hvd.RunError), repr(error.__cause__), error.rank, error.exit_code)
        print(error.traceback.splitlines()[-1])
        print(error)""")
    assert done.returncode == 0, done.stderr
    assert "refused: hvdrun: error: sbatch refuses: " in done.stdout and "nvalid partition" in done.stdout
    assert "\nfailed: True Bad('batch 7') 1 1\n" in done.stdout and "Bad: batch 7\n" in done.stdout, done.stdout
    assert "hvdrun: error: rank 1 on n1 failed: exit code 1 " in done.stdout
    assert " failed with exit code 1 after " in done.stdout.splitlines()[-1]
    assert folders(cluster, shared) == []


@pytest.mark.gate
def test_the_output_of_a_job_is_shown_while_it_runs_and_no_descriptor_stays_open(cluster: Cluster, shared: Path) -> None:
    """The rank waits for a file, which the caller makes when it sees the rank's output."""
    done = run(cluster, shared, """
import gc, os, sys, time, warnings
def train():
    print("größe", flush=True)
    while not os.path.exists("seen"):
        time.sleep(0.02)
class Screen:
    text = ""
    def write(self, text):
        self.text += text
        if "größe" in text:
            open("seen", "w").close()
    def flush(self): pass
def main():
    warnings.simplefilter("error")
    before = set(os.listdir("/proc/self/fd"))
    terminal, sys.stdout = sys.stdout, Screen()
    job = submit(train, np=1, gpus_per_node=0, time=5)
    try:
        job.wait(timeout=0.01)
    except TimeoutError:
        pass
    job.result()
    screen, sys.stdout = sys.stdout, terminal
    gc.collect()
    print(screen.text.count("größe"), set(os.listdir("/proc/self/fd")) - before)""")
    assert done.stdout == "1 set()\n" and "ResourceWarning" not in done.stderr, done


@pytest.mark.gate
def test_map_calls_a_function_for_each_item_and_await_waits(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, """
import asyncio, os
def train(rate):
    print("at", rate, "of", os.environ["SLURM_ARRAY_TASK_ID"])
    if rate == 0.3:
        raise ValueError("too fast")
    return rate * 10
async def wait(jobs):
    steps = 0
    async def count():
        nonlocal steps
        while True:
            await asyncio.sleep(0.01)
            steps += 1
    counting = asyncio.ensure_future(count())
    error = await asyncio.gather(jobs, return_exceptions=True)
    counting.cancel()
    return error[0], steps > 1
async def give_up(job):
    waiting = asyncio.ensure_future(asyncio.wait_for(job, 0.01))
    await asyncio.wait({waiting})
    return type(waiting.exception()).__name__, job.done()
def main():
    jobs = hvd.slurm.map(train, [0.1, 0.2, 0.3], at_once=2, gpus_per_node=0, time=5, options=["--label", "none"])
    folder = jobs[0].folder.parent
    print(len(jobs), len(hvd.slurm.Jobs(folder)), jobs.id == jobs[2].id[:-2], len(hvd.slurm.map(train, [])))
    error, has_waited = asyncio.run(wait(jobs))
    print(isinstance(error, ValueError), error.__cause__, has_waited)
    print([job.result() for job in jobs[:2]], type(jobs[2].exception().__cause__).__name__, jobs[1].output())
    print(hvd.slurm.map(abs, range(-2, 0), gpus_per_node=0, time=5).results())
    job = submit(["sleep", "7777"], np=1, gpus_per_node=0, time=5)
    print(asyncio.run(give_up(job)))
    job.cancel()
    print(asyncio.run(wait(job))[0].exit_code)""")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(("hvdrun", "slurmstepd"))]
    assert lines == ["3 3 True 0", "True too fast True", "[1.0, 2.0] ValueError at 0.2 of 1", "[2, 1]",
                     "('TimeoutError', False)", "143"], done
    assert folders(cluster, shared) == []


@pytest.mark.gate
def test_submit_runs_a_program_and_cancel_ends_it(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, """
import os, time
def main():
    job = submit(["sh", "-c", "echo $HVD_RANK of $HVD_SIZE, $MINE"], np=2, gpus_per_node=0, time=5, env={"MINE": "mine"},
                 options=["--label", "none"])
    print(sorted(line for line in job.result(output=False).splitlines() if "hvdrun" not in line))
    begun = os.path.abspath("begun")  # before that SLURM ends the job's script with SIGKILL
    job = submit(["sh", "-c", f"touch {begun}; exec sleep 7777"], np=1, gpus_per_node=0, time=5)
    while not os.path.exists(begun):
        time.sleep(0.01)
    try:
        job.wait(timeout=0.01)
    except TimeoutError as error:
        print(error)
    print(job.done(), job.exception if job.state() not in ("PENDING", "CONFIGURING", "RUNNING") else "lives")
    job.cancel()
    job.cancel()
    print(job.exception(), job.exception().exit_code, job.state())""")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "['0 of 2, mine', '1 of 2, mine']"
    assert lines[1].startswith("hvd.slurm: job ") and lines[1].endswith(" has not ended after 0.01 s")
    assert lines[2] == "False lives"
    assert " was cancelled" in lines[-1] and lines[-1].endswith(" 143 CANCELLED"), done.stdout
    assert folders(cluster, shared) == []


def test_submit_raises_errors_for_missing_results_and_bad_arguments(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, """
import os, threading
def train():
    if os.environ["HVD_RANK"] == "1":
        os._exit(0)
def attempt(*args, **kwargs):
    try:
        print(submit(*args, **kwargs).result())
    except Exception as error:
        print(type(error).__name__, error)
def main():
    attempt(train, np=2, gpus_per_node=0, time=5)
    attempt(threading.Lock, np=1, gpus_per_node=0, time=5)
    attempt(lambda: 1, np=1, gpus_per_node=0)
    attempt(["true"], (1,), np=1)
    attempt(train, np=1, folder="/nowhere")""")
    assert done.returncode == 0, done.stderr
    for words in (": ranks ended without a result: [1]\n", "RunError(TypeError) ", "cannot send back what the function returned",
                  "TypeError hvd.slurm.submit: cannot send the function to the ranks: ",
                  "ValueError hvd.slurm.submit: args and kwargs are for a function", "FileNotFoundError "):
        assert words in done.stdout, done.stdout
    assert folders(cluster, shared) == []


def test_results_of_a_job_that_slurm_has_forgotten_can_be_read(cluster: Cluster, shared: Path) -> None:
    """SLURM forgets a job five minutes after its end. The test instead writes an unknown job id into the folder."""
    done = run(cluster, shared, """
def train():
    return 7
def main():
    job = submit(train, np=2, gpus_per_node=0, time=5)
    hvd.slurm.Job(job.folder).wait(output=False)
    known = job.folder / "job.json"
    known.write_text(known.read_text().replace(job.id, "4000000"))
    job = hvd.slurm.Job(job.folder)
    print(job.state(), job.done(), job.result(output=False))
    (job.folder).mkdir()
    known.write_text('{"id": "4000000", "is_call": true}')
    job = hvd.slurm.Job(job.folder)
    print(job.state())
    try:
        job.wait()
    except hvd.RunError as error:
        print(error)
        known.unlink()
        job.folder.rmdir()""")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["COMPLETED True [7, 7]", "UNKNOWN"] and "SLURM knows no job 4000000" in lines[2], done
    assert folders(cluster, shared) == []


def test_submit_without_slurm_is_an_error(cluster: Cluster, shared: Path) -> None:
    done = run(cluster, shared, f"""
import os
def main():
    os.environ["PATH"] = "{HVDRUN.parent}"
    try:
        submit(print, np=1)
    except hvd.RunError as error:
        print(error.exit_code, error)""")
    assert done.stdout.startswith("2 hvd.slurm: there is no SLURM here: PATH has no sbatch"), done
    assert folders(cluster, shared) == []


@pytest.mark.notebook
def test_the_example_notebook_runs_in_slurm(cluster: Cluster, shared: Path) -> None:
    python = python_of("NOTEBOOK")
    if not python:
        pytest.skip("./check --all makes the environment for it")
    paths = {"PATH": f"{HVDRUN.parent}:{Path(python).parent}:/usr/bin:/bin"}
    done = cluster.run(python, TOP / "tests/python/programs/run_notebook.py", TOP / "examples/python/one_to_many.ipynb",
                       folder=shared, environment=python_environment(paths))
    assert done.returncode == 0, done.stderr
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(cells) == 5 and not any(cell["error"] for cell in cells), cells
    assert "rank 7 of 8, step 30: loss 0.0" in cells[-1]["stdout"], cells
    assert folders(cluster, shared) == []
