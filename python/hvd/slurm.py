"""hvd.slurm.submit(): a function, or a program, as a SLURM job. hvd.slurm.map(): a function of each item, as a job array.

`hvdrun sbatch` submits the job, `hvdrun follow` and `hvdrun jobs` watch it, and `hvdrun cancel` ends it. What caller and
job exchange is in a folder, which both must see:

    job.json      the job's number, and whether it calls a function
    NAME.py       the program of the ranks; for a function
    call          the pickled call
    outcome.RANK  the pickled result or exception of a rank
    output.txt    what the job has printed
    report.json   hvdrun's report

The folder of map() has NAME.py, jobs.json, and a folder like the above for each item: 0, 1, 2 …
"""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar, Union, overload

from ._calls import Outcome, check_call, check_list, check_options, make_call, message_for, rank_program
from .launch import RunError, failure, find_hvdrun, own_lines, results_of, show, start_process, start_words

if TYPE_CHECKING:  # otherwise imported by what awaits, as it takes longer than the rest of hvd
    import asyncio

Result = TypeVar("Result")
Item = TypeVar("Item")

_LINES_OF_A_FAILURE = 20  # of a job's output; in the text of its error
_SUCCEEDED = "COMPLETED"  # SLURM's word
_LOOK_S = 0.25  # between looks at a job's output
_FOLLOW = ["hvdrun", "follow", "--no-output"]


class Job(Generic[Result]):
    """A SLURM job of submit(). `Job(folder)` is the same job in another process, such as a notebook's next kernel.

    Errors of all methods: RunError with hvdrun's words if SLURM refuses or does not answer; FileNotFoundError if the
    folder has no job or hvdrun is not found. For one thread at a time.

    `await job` is result() for a program with an event loop. Cancelling it ends the wait, not the job.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder = Path(folder).absolute()
        known = json.loads((self.folder / "job.json").read_text())
        self.id: str = known["id"]
        self._is_call: bool = known["is_call"]
        self._index: Optional[int] = known.get("index")  # of a job of map()
        self._printed = _Printed(self.folder / "output.txt")
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

    def wait(self, timeout: Optional[float] = None, *, output: bool = True) -> None:
        """Waits for the job's end. Shows its output on sys.stdout as it grows, and its state on sys.stderr.

        Ctrl-C ends the wait, not the job. output: False shows only the state.
        Raises TimeoutError after `timeout` seconds. Does not raise if the job fails.
        """
        if self._end is not None:
            return
        lines: list[str] = []
        process = start_process(find_hvdrun("hvd.slurm"), [*_FOLLOW, self.id], os.environ, stdout=subprocess.DEVNULL)
        has_ended = threading.Event()
        threads = [threading.Thread(target=_show_lines, args=(process.stderr, lines), daemon=True)]
        if output:
            threads.append(threading.Thread(target=self._printed.show_until, args=(has_ended,), daemon=True))
        for thread in threads:
            thread.start()
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"hvd.slurm: job {self.id} has not ended after {timeout:g} s") from None
        finally:
            process.kill()
            process.wait()
            has_ended.set()
            for thread in threads:
                thread.join()
            assert process.stderr
            process.stderr.close()
        self._followed(code, lines)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._result_without_blocking().__await__()

    async def _result_without_blocking(self) -> Result:
        import asyncio

        if self._end is None:
            lines: list[str] = []
            code = await _follow(self.id, lines, self._printed.show)
            await asyncio.to_thread(self._followed, code, lines)
        return await asyncio.to_thread(self.result)

    def _followed(self, code: int, lines: list[str]) -> None:
        """Notes the job's end, after `hvdrun follow` has ended with that code and these lines."""
        if self._has_ended(code):
            self._end = _End(code, lines[-1:])
        elif (report := self._report()) is not None:  # SLURM has forgotten the job
            self._end = _End(report["exit_code"], [])
        else:
            raise RunError("\n".join(lines), code, None)

    def result(self, *, output: bool = True) -> Result:
        """Waits for the job's end. Returns the results of a function by rank, or a program's output.

        For a job of map() it returns the function's result on rank 0. Then removes the folder. Raises RunError if the
        job has failed, was cancelled or has reached its time limit, as hvd.run() does: its `exit_code` is that of
        `hvdrun follow`. output: as of wait().
        """
        error = self.exception(output=output)
        if error is not None:
            raise error
        assert self._taken is not None
        return self._taken.result  # type: ignore[no-any-return]

    def exception(self, *, output: bool = True) -> Optional[RunError]:
        """Waits for the job's end. Returns the error that result() raises; None if the job has succeeded."""
        self.wait(output=output)
        if self._taken is None:
            self._taken = self._take()
            shutil.rmtree(self.folder, ignore_errors=True)
            if self._index is not None:
                _remove_if_last(self.folder.parent)
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
            results, missing = results_of(outcomes, report)
            if not results:
                error = RunError(f"job {self.id}: ranks ended without a result: {missing or 'all'}", 0, report)
                error = failure(error, outcomes)
        if error is not None or not self._is_call:
            return _Taken(output, report, error, None if error else output)
        return _Taken(output, report, None, results if self._index is None else results[0])


class _End:
    """The end of a job."""

    def __init__(self, exit_code: int, lines: list[str]) -> None:
        self.exit_code = exit_code  # that of `hvdrun follow`
        self.lines = lines          # what that has printed about it


class _Printed:
    """What a job prints, as it is shown: each part once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(self) -> None:
        """Shows what is new."""
        try:
            with open(self._file, "rb") as stream:
                stream.seek(self._at)
                data = stream.read()
        except OSError:  # the job has not begun
            return
        self._at += len(data)
        show(sys.stdout, self._decoder.decode(data))

    def show_until(self, has_ended: threading.Event) -> None:
        while not has_ended.wait(_LOOK_S):
            self.show()
        self.show()


class _Taken:
    """What the folder of an ended job had."""

    def __init__(self, output: str, report: Optional[dict[str, Any]], error: Optional[RunError], result: Any) -> None:
        self.output = output
        self.report = report
        self.error = error
        self.result = result


class Jobs(Sequence[Job[Result]]):
    """The jobs of map(), in the order of its items: one job array of SLURM. `await jobs` is results().

    `Jobs(folder)` are the same jobs in another process. Those whose results were taken are not among them.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]", None]) -> None:
        self.id = ""  # of the array
        self._jobs: list[Job[Result]] = []
        if folder is not None:
            place = Path(folder).absolute()
            known = json.loads((place / "jobs.json").read_text())
            self.id = known["id"]
            self._jobs = [Job(place / str(index)) for index in range(known["items"]) if (place / str(index)).exists()]

    @overload
    def __getitem__(self, index: int) -> Job[Result]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Job[Result]]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Job[Result], list[Job[Result]]]:
        return self._jobs[index]

    def __len__(self) -> int:
        return len(self._jobs)

    def __repr__(self) -> str:
        return f"hvd.slurm.Jobs(id={self.id}, {len(self)} jobs)"

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for the end of all jobs. Shows their states on sys.stderr. Errors: those of Job.wait()."""
        if not self._jobs or all(job._end for job in self._jobs):
            return
        process = start_process(find_hvdrun("hvd.slurm"), [*_FOLLOW, self.id], os.environ, stdout=subprocess.DEVNULL)
        lines: list[str] = []
        reader = threading.Thread(target=_show_lines, args=(process.stderr, lines), daemon=True)
        reader.start()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"hvd.slurm: the jobs of {self.id} have not ended after {timeout:g} s") from None
        finally:
            process.kill()
            process.wait()
            reader.join()
            assert process.stderr
            process.stderr.close()
        self._note_successes()

    def results(self) -> list[Result]:
        """Waits for all jobs. Returns the function's results, one per item, each of rank 0.

        Raises the error of the first item whose job has failed; the other results are still there, in result() of each
        job.
        """
        self.wait()
        return self._results()

    def __await__(self) -> Generator[Any, None, list[Result]]:
        return self._results_without_blocking().__await__()

    async def _results_without_blocking(self) -> list[Result]:
        import asyncio

        if not all(job._end for job in self._jobs):
            await _follow(self.id, [], lambda: None)
            await asyncio.to_thread(self._note_successes)
        return await asyncio.to_thread(self._results)

    def cancel(self) -> None:
        """Ends all jobs that have not ended."""
        if self._jobs:
            _hvdrun("cancel", self.id)

    def _results(self) -> list[Result]:
        return [job.result(output=False) for job in self._jobs]

    def _note_successes(self) -> None:
        """Notes which jobs have succeeded, so that each need not be asked for. The others' ends have words to be read."""
        records = {record["id"]: record for record in json.loads(_hvdrun("jobs", "--all", "--json"))}
        for job in self._jobs:
            if job._end is None and records.get(job.id, {}).get("exit_code") == 0:
                job._end = _End(0, [])


@overload
def submit(what: Callable[..., Result], args: Sequence[Any] = (),
           kwargs: Optional[Mapping[str, Any]] = None, *, nodes: Optional[int] = None, np: Optional[int] = None,
           gpus_per_node: Optional[int] = None, cpus_per_node: Optional[int] = None,
           time: Union[str, int, None] = None, partition: Optional[str] = None, account: Optional[str] = None,
           name: Optional[str] = None, folder: Union[str, "os.PathLike[str]", None] = None,
           executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
           options: Sequence[str] = ()) -> Job[list[Result]]: ...


@overload
def submit(what: Sequence[str], args: Sequence[Any] = (),
           kwargs: Optional[Mapping[str, Any]] = None, *, nodes: Optional[int] = None, np: Optional[int] = None,
           gpus_per_node: Optional[int] = None, cpus_per_node: Optional[int] = None,
           time: Union[str, int, None] = None, partition: Optional[str] = None, account: Optional[str] = None,
           name: Optional[str] = None, folder: Union[str, "os.PathLike[str]", None] = None,
           executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
           options: Sequence[str] = ()) -> Job[str]: ...


def submit(what: Union[Callable[..., Any], Sequence[str]], args: Sequence[Any] = (),
           kwargs: Optional[Mapping[str, Any]] = None, *, nodes: Optional[int] = None, np: Optional[int] = None,
           gpus_per_node: Optional[int] = None, cpus_per_node: Optional[int] = None,
           time: Union[str, int, None] = None, partition: Optional[str] = None, account: Optional[str] = None,
           name: Optional[str] = None, folder: Union[str, "os.PathLike[str]", None] = None,
           executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
           options: Sequence[str] = ()) -> Job[Any]:
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
    if callable(what):
        check_call("hvd.slurm.submit", what, args)
    elif isinstance(what, str):
        raise TypeError(f"hvd.slurm.submit: the program is {what!r}, not a list of its words: {what.split()!r}")
    elif args or kwargs:
        raise ValueError("hvd.slurm.submit: args and kwargs are for a function; a program's are in its list")
    check_options("hvd.slurm.submit", options)
    place = _new_folder(folder)
    try:
        if callable(what):
            (place / "call").write_bytes(message_for("hvd.slurm.submit", what, args, kwargs or {}, executable))
            command = _command_of(what, place, executable)
        else:
            command = [str(word) for word in what]
        words = _words(nodes, np, gpus_per_node, cpus_per_node, time, partition, account, name)
        words += ["--output", str(place / "output.txt").replace("%", "%%"), "--report", str(place / "report.json")]
        job = _submitted([*words, *options, "--", *command], {**os.environ, **(env or {})})
        (place / "job.json").write_text(json.dumps({"id": job, "is_call": callable(what)}) + "\n")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Job(place)


def map(func: Callable[[Item], Result], items: Iterable[Item], *, at_once: Optional[int] = None, nodes: Optional[int] = None,
        np: Optional[int] = None, gpus_per_node: Optional[int] = None, cpus_per_node: Optional[int] = None,
        time: Union[str, int, None] = None, partition: Optional[str] = None, account: Optional[str] = None,
        name: Optional[str] = None, folder: Union[str, "os.PathLike[str]", None] = None,
        executable: Optional[str] = None, env: Optional[Mapping[str, str]] = None, options: Sequence[str] = ()) -> Jobs[Result]:
    """Submits `func(item)` for each item, as a job array. Returns its jobs at once: `map(train, configs).results()`.

    Each item has a job of its own, with one rank unless `np` or `nodes` say otherwise; its result is that of rank 0.
    at_once: how many jobs may run at a time; all by default. The other arguments and errors are those of submit().
    """
    check_call("hvd.slurm.map", func, ())
    check_list("hvd.slurm.map: the second argument", items, "items, one for each job")
    check_options("hvd.slurm.map", options)
    things = list(items)
    if not things:
        return Jobs(None)
    place = _new_folder(folder)
    try:
        for index, item in enumerate(things):
            (place / str(index)).mkdir()
            (place / str(index) / "call").write_bytes(message_for("hvd.slurm.map", func, (item,), {}, executable))
        each = str(place).replace("%", "%%")
        words = _words(nodes, 1 if np is None and nodes is None else np, gpus_per_node, cpus_per_node, time, partition,
                       account, name)
        words += ["--array", f"0-{len(things) - 1}" + (f"%{at_once}" if at_once else ""),
                  "--output", f"{each}/%a/output.txt", "--report", f"{place}/{{index}}/report.json"]
        job = _submitted([*words, *options, "--", *_command_of(func, place, executable)], {**os.environ, **(env or {})})
        for index in range(len(things)):
            (place / str(index) / "job.json").write_text(
                json.dumps({"id": f"{job}_{index}", "is_call": True, "index": index}) + "\n")
        (place / "jobs.json").write_text(json.dumps({"id": job, "items": len(things)}) + "\n")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return Jobs(place)


def _new_folder(folder: Union[str, "os.PathLike[str]", None]) -> Path:
    return Path(tempfile.mkdtemp(prefix="hvd-slurm-", dir=folder or os.getcwd())).absolute()


def _remove_if_last(place: Path) -> None:
    """Removes the folder of map(), unless a job has its own folder in it still."""
    try:
        is_last = not any(entry.is_dir() for entry in place.iterdir())
    except OSError:
        return
    if is_last:
        shutil.rmtree(place, ignore_errors=True)


def _command_of(func: Any, place: Path, executable: Optional[str]) -> list[str]:
    """Writes the program of the ranks, whose name is that of the job, into the folder. Returns its command."""
    title = re.sub(r"\W+", "_", getattr(func, "__name__", type(func).__name__)).strip("_") or "function"
    script = place / f"{title}.py"
    script.write_text(rank_program("slurm", str(place)) + "\n")
    return [executable or sys.executable, str(script)]


def _words(nodes: Optional[int], np: Optional[int], gpus_per_node: Optional[int], cpus_per_node: Optional[int],
           time: Union[str, int, None], partition: Optional[str], account: Optional[str],
           name: Optional[str]) -> list[str]:
    """Returns the options of hvdrun sbatch."""
    values = {"--nodes": nodes, "-np": np, "--gpus-per-node": gpus_per_node, "--cpus-per-node": cpus_per_node,
              "--time": time, "--partition": partition, "--account": account, "--job-name": name}
    return [word for option, value in values.items() if value is not None for word in (option, str(value))]


def _submitted(words: Sequence[str], env: Mapping[str, str]) -> str:
    """Returns the job's number. A job that was submitted in spite of a KeyboardInterrupt is cancelled."""
    if shutil.which("sbatch", path=env.get("PATH")) is None:
        raise RunError("hvd.slurm: there is no SLURM here: PATH has no sbatch; hvd.run starts ranks on this machine", 2, None)
    process = start_process(find_hvdrun("hvd.slurm"), ["hvdrun", "sbatch", "--submit", *words], env)
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


async def _follow(job: str, lines: list[str], look: Callable[[], None]) -> int:
    """Runs `hvdrun follow`, and calls `look` now and then and at the end. Adds its lines, and returns its exit code."""
    import asyncio

    words = start_words(find_hvdrun("hvd.slurm"), [*_FOLLOW, job])
    process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                   stderr=subprocess.PIPE)
    reading = asyncio.ensure_future(_read_lines(process, lines))
    try:
        while not reading.done():
            await asyncio.wait({reading}, timeout=_LOOK_S)
            look()
        return await reading
    finally:
        if not reading.done():
            process.kill()
            await reading


async def _read_lines(process: asyncio.subprocess.Process, lines: list[str]) -> int:
    assert process.stderr
    async for line in process.stderr:
        _show_line(line, lines)
    return await process.wait()


def _show_lines(stream: IO[bytes], lines: list[str]) -> None:
    for line in stream:
        _show_line(line, lines)


def _show_line(line: bytes, lines: list[str]) -> None:
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
    """Makes the call that the folder has, and writes this rank's outcome into the folder. Of map(), that of the index."""
    place = Path(folder)
    if not (place / "call").exists():
        place /= os.environ["SLURM_ARRAY_TASK_ID"]

    def send(outcome: Outcome) -> None:
        file = place / f"outcome.{os.environ['HVD_RANK']}"
        part = file.with_name(file.name + ".part")
        part.write_bytes(outcome.encode())
        part.rename(file)

    make_call((place / "call").read_bytes(), send)
