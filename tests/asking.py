"""Asks a running job why it hangs, with SIGQUIT to its hvdrun, and ends it."""

from __future__ import annotations

import re
import signal

from harness import Running, wait_until


def verdicts(job: Running) -> list[str]:
    """The lines of verdicts that hvdrun has printed."""
    return re.findall(r"^hvdrun: (?:warning: |note: (?=no rank ))(.*)$", job.err.decode(), re.MULTILINE)


def ask(job: Running) -> str:
    """Asks hvdrun once, and returns the verdict."""
    before = job.err.count(b"\nhvdrun: note: rank")
    seen = len(verdicts(job))
    job.signal(signal.SIGQUIT)
    wait_until(lambda: len(verdicts(job)) > seen or job.err.count(b"\nhvdrun: note: rank") > before, "the verdict")
    return (verdicts(job) or [""])[-1]


def ask_until(job: Running, words: tuple[str, ...], limit: float = 20) -> str:
    """Asks until the verdict has these words: ranks may be on their way to where they hang."""
    last = ""

    def is_there() -> bool:
        nonlocal last
        last = ask(job)
        return all(word in last for word in words)

    try:
        wait_until(is_there, "the verdict", limit)
    except AssertionError:
        raise AssertionError(f"{words} are not in {last!r}\n{job.err.decode()}") from None
    return last


def end(job: Running) -> dict:
    """Ends the job, and returns what its report says of the hang."""
    job.signal(signal.SIGTERM)
    done = job.wait()
    assert done.report is not None, done
    return done.report["hang"]
