"""The event loops of launcher and agent do not sleep in a call: signals, signs of life and output would wait, too.
tests/programs/loop_trace.c, which is preloaded, finds such turns of the loops."""

from __future__ import annotations

import signal
import subprocess

import pytest

from harness import Sandbox, program, wait_until

TRACE = program("loop_trace.so")
BOTH = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"


def sh(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


# What a user starts; the streams go apart or to one file; the exit code.
JOBS = {
    "true": (["-np", 1, "true"], False, 0),
    "true, one file": (["-np", 1, "true"], True, 0),
    "many, one file": (["-np", 32, "true"], True, 0),
    "without PMIx": (["-np", 4, "--pmix", "off", "true"], True, 0),
    "lines": (["-np", 2, program("print_lines"), "--lines", 20000], False, 0),
    "lines in turns": (["-np", 2, *sh(BOTH)], True, 0),
    "folded lines": (["-np", 4, "--fold-lines", "on", *sh("for i in 1 2 3; do echo same; done")], True, 0),
    "files of ranks": (["-np", 2, "--output-filename", "logs", *sh(BOTH)], False, 0),
    "input": (["-np", 2, "--stdin", "all", "cat"], True, 0),
    "failure": (["-np", 4, *sh("[ $HVD_RANK != 2 ] || exit 3; exec sleep 7777")], True, 3),
    "restart": (["-np", 2, "--max-restarts", 1, *sh("exit 3")], True, 3),
    "killed rank": (["-np", 2, *sh("[ $HVD_RANK = 0 ] && kill -9 $$; exec sleep 7777")], True, 137),
    "orphan": (["-np", 1, *sh("sleep 7777 & exit 0")], True, 0),
    "PMIx program": (["-np", 2, program("pmix_client"), "--fence-only"], True, 0),
}


def sleeps(sandbox: Sandbox) -> list[str]:
    """Returns the turns in which a loop has slept, but for those that wait for a rank's exec or the guard's end."""
    lines = (sandbox.files / "trace").read_text().splitlines()
    assert "hvdrun begins" in lines and "hvdrun-agent begins" in lines, lines
    return [line for line in lines if " turn " in line]


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.measures
@pytest.mark.parametrize("job", JOBS)
def test_the_loops_do_not_sleep_in_a_call(sandbox: Sandbox, job: str) -> None:
    words, one_file, code = JOBS[job]
    streams = {"stderr": subprocess.STDOUT} if one_file else {}
    done = sandbox.run(*words, stdin=b"input\n", env={"LD_PRELOAD": TRACE, "HVD_LOOP_TRACE": str(sandbox.files / "trace")},
                       **streams)
    assert done.code == code, done  # processes that outlive their rank are ended by hvdrun
    assert not sleeps(sandbox), done


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.measures
def test_the_loops_do_not_sleep_when_a_user_stops_the_job(sandbox: Sandbox) -> None:
    running = sandbox.start("-np", 8, "sleep", "7777", stderr=subprocess.STDOUT,
                            env={"LD_PRELOAD": TRACE, "HVD_LOOP_TRACE": str(sandbox.files / "trace")})
    wait_until(lambda: len(sandbox.ranks()) == 8, "the ranks' start")
    running.signal(signal.SIGTERM)
    running.wait().expect(128 + signal.SIGTERM)
    assert not sleeps(sandbox)
