"""hvd.slurm.submit(): a function, or a program, as a SLURM job.

`hvdrun sbatch` submits the job, `hvdrun follow` and `hvdrun jobs` watch it, and `hvdrun cancel` ends it. What caller and
job exchange is in a folder, which both must see:

    job.json      the job's number, and whether it calls a function
    NAME.py       the program of the ranks; for a function
    call          the pickled call
    outcome.RANK  the pickled result or exception of a rank
    output.txt    what the job has printed
    report.json   hvdrun's report
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Callable, Optional, Union

from ._calls import Outcome, check_call, check_options, make_call, message_for, rank_program
from .launch import RunError, failure, find_hvdrun, own_lines, show, start_process

_LINES_OF_A_FAILURE = 20  # of a job's output; in the text of its error
_SUCCEEDED = "COMPLETED"  # SLURM's word


class Job:
    """A SLURM job of submit(). `Job(folder)` is the same job in another process, such as a notebook's next kernel.

    Errors of all methods: RunError with hvdrun's words if SLURM refuses or does not answer; FileNotFoundError if the
    folder has no job or hvdrun is not found. For one thread at a time.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder = Path(folder).absolute()
        known = json.loads((self.folder / "job.json").read_text())
        self.id: str = known["id"]
        self._is_call: bool = known["is_call"]
        self._end: Optional[_End] = None      # known after wait()
        self._taken: Optional[_Taken] = None  # what was in the folder; known after result() or exception()

    def __repr__(self) -> str:
        return f"hvd.slurm.Job(id={self.id}, folder={str(self.folder)!r})"

    def state(self) -> str:
        """Returns SLURM's name for the job's state: "PENDING", "RUNNING", "COMPLETED", "FAILED", "TIMEOUT" …

        Returns "UNKNOWN" after SLURM has forgotten the job, unless the job has reported its end.
        """
        record = self._record()
        if record is not None:
            return str(record["state"])
        report = self._report()
        return "UNKNOWN" if report is None else _SUCCEEDED if report["exit_code"] == 0 else "FAILED"

    def done(self) -> bool:
        """Returns whether the job has ended."""
        if self._end is not None:
            return True
        record = self._record()
        return record is None or record["exit_code"] is not None

    def output(self) -> str:
        """Returns what the job has printed so far."""
        if self._taken is not None:
            return self._taken.output
        return _read(self.folder / "output.txt").decode("utf-8", "replace")

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for the job's end. Shows its state on sys.stderr. Ctrl-C ends the wait, not the job.

        Raises TimeoutError after `timeout` seconds. Does not raise if the job fails.
        """
        if self._end is not None:
            return
        lines: list[str] = []
        process = start_process(find_hvdrun("hvd.slurm"), ["hvdrun", "follow", "--no-output", self.id], os.environ,
                                stdout=subprocess.DEVNULL)
        reader = threading.Thread(target=_show_lines, args=(process.stderr, lines), daemon=True)
        reader.start()
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"hvd.slurm: job {self.id} has not ended after {timeout:g} s") from None
        finally:
            process.kill()
            process.wait()
            reader.join()
        if self._has_ended(code):
            self._end = _End(code, lines[-1:])
        elif (report := self._report()) is not None:  # SLURM has forgotten the job
            self._end = _End(report["exit_code"], [])
        else:
            raise RunError("\n".join(lines), code, None)

    def result(self) -> Any:
        """Waits for the job's end. Returns the results of a function by rank, or a program's output.

        Then removes the folder. Raises RunError if the job has failed, was cancelled or has reached its time limit, as
        hvd.run() does: its `exit_code` is that of `hvdrun follow`.
        """
        error = self.exception()
        if error is not None:
            raise error
        assert self._taken is not None
        return self._taken.result

    def exception(self) -> Optional[RunError]:
        """Waits for the job's end. Returns the error that result() raises; None if the job has succeeded."""
        self.wait()
        if self._taken is None:
            self._taken = self._take()
            shutil.rmtree(self.folder, ignore_errors=True)
        return self._taken.error

    def cancel(self) -> None:
        """Ends the job, whether it runs or waits. Nothing happens if it has ended."""
        if self._end is None:
            _hvdrun("cancel", self.id)

    def _record(self) -> Optional[dict[str, Any]]:
        jobs = json.loads(_hvdrun("jobs", "--all", "--json"))
        return next((job for job in jobs if job["id"] == self.id), None)

    def _report(self) -> Optional[dict[str, Any]]:
        if self._taken is not None:
            return self._taken.report
        text = _read(self.folder / "report.json")
        report: Optional[dict[str, Any]] = json.loads(text) if text else None
        return report

    def _has_ended(self, code: int) -> bool:
        """Returns whether `hvdrun follow` ended with the job's code, and not with one of its own."""
        if code == 0:
            return True
        record = self._record()
        return record is not None and record["exit_code"] is not None

    def _take(self) -> _Taken:
        """Reads all that the folder has."""
        assert self._end is not None
        output, report = self.output(), self._report()
        outcomes: dict[int, Outcome] = {}
        size = len((report or {}).get("ranks", [])) if self._is_call else 0
        for rank in range(size):
            if data := _read(self.folder / f"outcome.{rank}"):
                outcomes[rank] = Outcome.parse(data)
        error: Optional[RunError] = None
        if self._end.exit_code != 0:
            said = own_lines(output) or output.splitlines()[-_LINES_OF_A_FAILURE:]
            text = "\n".join([*said, *self._end.lines]) or f"job {self.id} ended with exit code {self._end.exit_code}"
            error = failure(RunError(text, self._end.exit_code, report), outcomes)
        elif self._is_call:
            missing = [rank for rank in range(size) if rank not in outcomes or not outcomes[rank].is_result]
            if missing or size == 0:
                error = RunError(f"job {self.id}: ranks ended without a result: {missing or 'all'}", 0, report)
        if error is not None or not self._is_call:
            return _Taken(output, report, error, None if error else output)
        return _Taken(output, report, None, [pickle.loads(outcomes[rank].data) for rank in range(size)])


class _End:
    """The end of a job."""

    def __init__(self, exit_code: int, lines: list[str]) -> None:
        self.exit_code = exit_code  # that of `hvdrun follow`
        self.lines = lines          # what that has printed about it


class _Taken:
    """What the folder of an ended job had."""

    def __init__(self, output: str, report: Optional[dict[str, Any]], error: Optional[RunError], result: Any) -> None:
        self.output = output
        self.report = report
        self.error = error
        self.result = result


def submit(what: Union[Callable[..., Any], Sequence[str]], args: Sequence[Any] = (),
           kwargs: Optional[Mapping[str, Any]] = None, *, nodes: Optional[int] = None, np: Optional[int] = None,
           gpus_per_node: Optional[int] = None, cpus_per_node: Optional[int] = None,
           time: Union[str, int, None] = None, partition: Optional[str] = None, account: Optional[str] = None,
           name: Optional[str] = None, folder: Union[str, "os.PathLike[str]", None] = None,
           executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
           options: Sequence[str] = ()) -> Job:
    """Submits `what(*args, **kwargs)`, or the program with its arguments `what`, to SLURM. Returns the job at once.

    Each rank of the job calls the function, as in hvd.run(), which documents the pickling.

    nodes, np, gpus_per_node, cpus_per_node, time, partition, account: options of `hvdrun sbatch`, which computes what is
    not given. time: "1:00:00", or a number of minutes.
    name: of the job; the function's or the program's by default.
    folder: where the job's own folder is made, with access for this user only; this folder by default. The nodes must
    see it under the same path, as they must see hvdrun, Python, hvd and the current folder. Job.result() removes it.
    executable: the Python of the ranks; this one by default.
    env: variables for the job, in addition to those of this process.
    options: further options of `hvdrun sbatch`, such as ["--module", "cuda/12.1"]. Do not pass --output and --report.

    Errors: RunError with sbatch's words if it refuses, or if there is no SLURM here; TypeError for a wrong type of
    argument, and for an object that cannot be pickled; ValueError for more than 256 MiB, or for arguments of a program;
    FileNotFoundError if hvdrun is not found.
    """
    is_call = callable(what)
    if is_call:
        check_call("hvd.slurm.submit", what, args)
    elif isinstance(what, str):
        raise TypeError(f"hvd.slurm.submit: the program is {what!r}, not a list of its words: {what.split()!r}")
    elif args or kwargs:
        raise ValueError("hvd.slurm.submit: args and kwargs are for a function; a program's are in its list")
    check_options("hvd.slurm.submit", options)
    place = Path(tempfile.mkdtemp(prefix="hvd-slurm-", dir=folder or os.getcwd())).absolute()
    try:
        if callable(what):
            title = re.sub(r"\W+", "_", getattr(what, "__name__", type(what).__name__)).strip("_") or "function"
            (place / "call").write_bytes(message_for("hvd.slurm.submit", what, args, kwargs or {}, executable))
            script = place / f"{title}.py"
            script.write_text(rank_program("slurm", str(place)) + "\n")
            command = [executable or sys.executable, str(script)]
        else:
            command = [str(word) for word in what]
        values = {"--nodes": nodes, "-np": np, "--gpus-per-node": gpus_per_node, "--cpus-per-node": cpus_per_node,
                  "--time": time, "--partition": partition, "--account": account, "--job-name": name}
        words = [word for option, value in values.items() if value is not None for word in (option, str(value))]
        words += ["--output", str(place / "output.txt").replace("%", "%%"), "--report", str(place / "report.json")]
        job = _submitted(["sbatch", "--submit", *words, *options, "--", *command], {**os.environ, **(env or {})})
        (place / "job.json").write_text(json.dumps({"id": job, "is_call": is_call}) + "\n")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Job(place)


def _submitted(words: Sequence[str], env: Mapping[str, str]) -> str:
    """Returns the job's number. A job that was submitted in spite of a KeyboardInterrupt is cancelled."""
    process = start_process(find_hvdrun("hvd.slurm"), ["hvdrun", *words], env)
    try:
        out, err = process.communicate()
    except BaseException:
        out, _ = process.communicate()
        if job := out.decode().strip():
            _hvdrun("cancel", job)
        raise
    if process.returncode != 0:
        raise _refusal(err, process.returncode)
    show(sys.stderr, err.decode("utf-8", "replace"))
    return out.decode().strip()


def _refusal(err: bytes, exit_code: int) -> RunError:
    """Returns the error with what hvdrun has printed on stderr, without its notes and warnings."""
    text = err.decode("utf-8", "replace")
    lines = [line for line in own_lines(text) if line.startswith("hvdrun: error: ")]
    return RunError("\n".join(lines) or text, exit_code, None)


def _hvdrun(*words: str) -> str:
    """Returns what hvdrun prints. Raises RunError with its messages if it fails."""
    process = start_process(find_hvdrun("hvd.slurm"), ["hvdrun", *words], os.environ)
    out, err = process.communicate()
    if process.returncode != 0:
        raise _refusal(err, process.returncode)
    return out.decode("utf-8", "replace")


def _show_lines(stream: IO[bytes], lines: list[str]) -> None:
    for line in stream:
        text = line.decode("utf-8", "replace")
        lines += own_lines(text)
        show(sys.stderr, text)


def _read(file: Path) -> bytes:
    """Returns the file's content; nothing if there is no such file."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


# ---- in a rank ------------------------------------------------------------------------------------

def serve(folder: str) -> None:
    """Makes the call that the folder has, and writes this rank's outcome into the folder."""
    place = Path(folder)

    def send(outcome: Outcome) -> None:
        file = place / f"outcome.{os.environ['HVD_RANK']}"
        part = file.with_name(file.name + ".part")
        part.write_bytes(outcome.encode())
        part.rename(file)

    make_call((place / "call").read_bytes(), send)
