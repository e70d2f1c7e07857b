"""A signal that ends the ranks reaches first who handles it, so that a trainer can save with its workers and below its wrappers."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable

import pytest
from harness import PYTHON, SLOWNESS, TIME_LIMIT, Running, Sandbox, wait_until

# A trainer that needs its worker for the checkpoint. The worker has a handler, as torch's has one, and yet the signal ends it.
TRAINER = """import os, signal, sys, time
stop = []
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
ask, answer = os.pipe(), os.pipe()
if os.fork() == 0:
    def end(*_):
        open(f"worker.{os.environ['HVD_RANK']}", "w").close()
        os._exit(1)
    signal.signal(signal.SIGTERM, end)
    os.close(ask[1]); os.close(answer[0])
    while os.read(ask[0], 1): os.write(answer[1], b"batch")
    signal.pause()
os.close(ask[0]); os.close(answer[1])
open(f"up.{os.environ['HVD_RANK']}", "w").close()
while not stop: time.sleep(0.01)
for _ in range(20):
    os.write(ask[1], b"?")
    if os.read(answer[0], 5) != b"batch": sys.exit("the worker has gone before the checkpoint")
open(f"checkpoint.{os.environ['HVD_RANK']}", "w").close()
"""
# A second SIGTERM ends it before it has saved.
ONCE = """import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
open(f"up.{os.environ['HVD_RANK']}", "w").close()
try:
    while True: time.sleep(0.01)
finally:
    time.sleep(0.3)
    open(f"checkpoint.{os.environ['HVD_RANK']}", "w").close()
"""
RUN = f"{shlex.quote(PYTHON)} train.py"
WRAPPERS: dict[str, list[str]] = {
    "nothing": [PYTHON, "train.py"],
    "shell": ["sh", "-c", f"{RUN}; exit $?"],
    "two shells": ["bash", "-c", f"sh -c '{RUN}; exit $?'; exit $?"],
    "python": [PYTHON, "-c", "import subprocess as s, sys; sys.exit(s.run([sys.executable, 'train.py']).returncode)"],
    "shell with a trap": ["bash", "-c", f"trap 'touch trap.$HVD_RANK' TERM; {RUN}; exit $?"],
    "shell with a slow trap": ["bash", "-c", f"trap 'sleep 0.2 && touch trap.$HVD_RANK' TERM; {RUN}; exit $?"],
    "pipeline with a trap": ["bash", "-c", f"trap 'touch trap.$HVD_RANK' TERM; {RUN} | cat; exit $?"],
    "shell that cleans up": ["bash", "-c", f"trap 'touch trap.$HVD_RANK' EXIT; {RUN}; exit $?"],
    "shell that passes it on": ["bash", "-c", f"trap 'kill -TERM $!' TERM; {RUN} & wait; wait; exit $?"],
}


def start(sandbox: Sandbox, *words: object) -> Running:
    """Starts a job in which ranks 0 and 1 are trainers, and waits for them."""
    (sandbox.files / "train.py").write_text(TRAINER)
    running = sandbox.start(*words)
    wait_until(lambda: len(list(sandbox.files.glob("up.*"))) == 2, "both trainers")
    return running


def checkpoints(sandbox: Sandbox) -> int:
    return len(list(sandbox.files.glob("checkpoint.*")))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_trainer_saves_with_its_workers_on_sigterm(sandbox: Sandbox, wrapper: str) -> None:
    running = start(sandbox, "--grace", TIME_LIMIT, "-np", 2, *WRAPPERS[wrapper])
    running.signal(signal.SIGTERM)
    running.wait().expect(143)
    assert checkpoints(sandbox) == 2
    assert len(list(sandbox.files.glob("trap.*"))) == (2 if "touch trap" in WRAPPERS[wrapper][-1] else 0)


def test_a_trainer_gets_sigterm_once_if_a_trap_passes_it_on(sandbox: Sandbox) -> None:
    (sandbox.files / "once.py").write_text(ONCE)
    trap = f"trap 'sleep 0.1; kill -TERM $p; wait $p' TERM; {shlex.quote(PYTHON)} once.py & p=$!; wait $p"
    running = sandbox.start("--grace", TIME_LIMIT, "-np", 2, "bash", "-c", trap)
    wait_until(lambda: len(list(sandbox.files.glob("up.*"))) == 2, "both trainers")
    running.signal(signal.SIGTERM)
    running.wait().expect(143)
    assert checkpoints(sandbox) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_signal_of_the_user_does_not_shorten_a_stop_for_a_failure(sandbox: Sandbox, number: signal.Signals) -> None:
    saves = "trap 'touch saving; sleep 0.5; touch checkpoint.1; exit 0' TERM; touch up.1; until [ -e saved ]; do sleep 0.01; done"
    running = sandbox.start("--grace", TIME_LIMIT, "-np", 2, "bash", "-c",
                            f'if [ $HVD_RANK = 1 ]; then {saves}; fi; until [ -e up.1 ]; do sleep 0.01; done; exit 5')
    wait_until(lambda: (sandbox.files / "saving").exists(), "the first signal in rank 1")
    running.signal(number)
    running.wait_for(b"the ranks are being stopped with SIGTERM", "err")
    running.wait().expect(5)
    assert checkpoints(sandbox) == 1


def fail_a_rank(sandbox: Sandbox, _: Running) -> None:
    (sandbox.files / "fail").touch()


def interrupt(_: Sandbox, running: Running) -> None:
    running.signal(signal.SIGINT)


# Rank 2 ends the job in some of these ways.
OTHER = 'if [ "$HVD_RANK" = 2 ]; then until [ -e fail ]; do sleep 0.01; done; exit $CODE; fi; exec "$@"'
WAYS: dict[str, tuple[Callable[[Sandbox, Running], None], tuple[object, ...], int, int]] = {
    "Ctrl-C": (interrupt, ("--grace", 4 * SLOWNESS), 0, 130),
    "a rank's failure": (fail_a_rank, ("--grace", TIME_LIMIT), 3, 3),
    "--exit-timeout": (fail_a_rank, ("--grace", TIME_LIMIT, "--exit-timeout", 0.1), 0, 124),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_trainer_saves_with_its_workers_whatever_ends_the_job(sandbox: Sandbox, way: str) -> None:
    end, options, code_of_rank, code = WAYS[way]
    running = start(sandbox, *options, "-x", f"CODE={code_of_rank}", "-np", 3, "sh", "-c", OTHER, "sh", *WRAPPERS["shell"])
    end(sandbox, running)
    running.wait().expect(code)
    assert checkpoints(sandbox) == 2


def test_a_trainer_saves_with_its_workers_after_hvdrun_was_killed(sandbox: Sandbox) -> None:
    running = start(sandbox, "--grace", TIME_LIMIT, "-np", 2, *WRAPPERS["shell"])
    running.signal(signal.SIGKILL)
    wait_until(lambda: checkpoints(sandbox) == 2, "both checkpoints")
    wait_until(lambda: not sandbox.leftovers(), "nothing left")


def test_workers_get_the_signal_when_their_trainer_has_ended(sandbox: Sandbox) -> None:
    running = start(sandbox, "--grace", TIME_LIMIT, "-np", 2, *WRAPPERS["nothing"])
    running.signal(signal.SIGTERM)
    running.wait().expect(143)
    assert len(list(sandbox.files.glob("worker.*"))) == 2


def test_workers_get_the_signal_before_sigkill_if_the_trainer_does_not_end(sandbox: Sandbox) -> None:
    (sandbox.files / "train.py").write_text(TRAINER.replace("while not stop", "while True"))
    running = sandbox.start("--grace", 3 * SLOWNESS, "-np", 2, *WRAPPERS["shell"])
    wait_until(lambda: len(list(sandbox.files.glob("up.*"))) == 2, "both trainers")
    running.signal(signal.SIGTERM)
    running.wait().expect(143)
    assert len(list(sandbox.files.glob("worker.*"))) == 2


def test_a_rank_without_a_handler_ends_at_once(sandbox: Sandbox) -> None:
    """A shell's trap waits for the program, which therefore gets the signal, too."""
    for words in (["sh", "-c", "echo ready; sleep 1000; exit $?"],
                  ["bash", "-c", "trap 'exit 0' TERM; echo ready; sleep 1000; exit $?"]):
        running = sandbox.start("--grace", 1000, "-np", 2, *words)
        wait_until(lambda: running.out.count(b"ready") == 2, "both ranks")  # noqa: B023
        running.signal(signal.SIGTERM)
        running.wait().expect(143)
