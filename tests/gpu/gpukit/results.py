"""Results: a file with one line of JSON for each check, to which all processes of a run append, and the summary of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

FILE_VARIABLE = "GPUKIT_RESULTS"  # the file
STAGE_VARIABLE = "GPUKIT_STAGE"  # the stage that the checks belong to
MOST_SUMMARY_BYTES = 11_500  # a tool that shows the summary may cut a longer one
LONGEST_VALUE = 1500


@dataclass(frozen=True)
class Result:
    """The result of a check. `ok` is None for a measurement and for a skipped check."""

    stage: str
    check: str
    ok: Optional[bool]
    value: Any = None
    expected: Any = None
    measured: dict[str, Any] = field(default_factory=dict)


def record(check: str, ok: Optional[bool], value: Any = None, expected: Any = None, **measured: Any) -> None:
    """Appends a result at once, so that it remains if the process is killed. May be called on any thread of any process."""
    if isinstance(value, str):
        value = value[-LONGEST_VALUE:]
    result = Result(os.environ.get(STAGE_VARIABLE, ""), check, ok, value, expected, measured)
    line = json.dumps(asdict(result), default=str) + "\n"
    file = os.open(os.environ[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())  # one write: lines of several processes do not mix
    finally:
        os.close(file)


def read_results(path: Path) -> list[Result]:
    """Reads all complete lines. The last one is incomplete if its process was killed during the write."""
    results = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def shorten(value: Any, most: int) -> str:
    """Returns the value as text. Removes the middle of a text that is too long."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def describe(result: Result, most: int) -> str:
    """Returns a line about a wrong check or a measurement."""
    expected = f" (expected {shorten(result.expected, 100)})" if result.expected is not None else ""
    value = "" if result.value is None else f": {shorten(result.value, most)}"
    measured = "".join(f", {name} {shorten(each, 60)}" for name, each in result.measured.items())
    return f"  {result.stage}: {result.check}{value}{expected}{measured}"


def list_by_stage(results: list[Result]) -> list[str]:
    """Returns a line for each stage, with the names of its checks."""
    checks: dict[str, list[str]] = {}
    for result in results:
        checks.setdefault(result.stage, []).append(result.check)
    return [f"  {stage}: {'; '.join(names)}" for stage, names in checks.items()]


def summarize(results: list[Result], seconds: float) -> str:
    """Returns the summary: the numbers of checks, then the wrong checks, the measurements and skipped checks, and the right checks."""
    wrong = [result for result in results if result.ok is False]
    right = [result for result in results if result.ok is True]
    rest = [result for result in results if result.ok is None]
    lines = [f"{len(right)} right, {len(wrong)} wrong, {seconds:.0f} s"]
    for title, body in (("WRONG", [describe(result, 500) for result in wrong]),
                        ("MEASURED, OR LEFT OUT", [describe(result, 260) for result in rest]), ("RIGHT", list_by_stage(right))):
        lines += ["", title, *body] if body else []
    text = "\n".join(lines) + "\n"
    whole = text.encode()
    if len(whole) <= MOST_SUMMARY_BYTES:
        return text
    note = "… (results.jsonl has all)\n"
    return whole[: MOST_SUMMARY_BYTES - len(note.encode())].decode(errors="ignore") + note
