"""Checkpoints of jobs that are killed at any moment, whose disk is full or whose folder vanishes."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from harness import HVDRUN_WORD, SANITIZED, SOAK, Done, Running, Sandbox, program, wait_until

SAVER = program("checkpoint_saver")
SAVER_WORD = shlex.quote(SAVER)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def loaded(done: Done) -> int:
    """Returns the step from which the job resumed; 0 if it found no checkpoint."""
    found = re.search(r"loaded (\d+)|nothing", done.out_text)
    assert found, done
    return int(found[1] or 0)


def seed(own: int) -> int:
    """Returns the test's own seed, or one derived from HVD_TEST_SEED if that is set."""
    given = os.environ.get("HVD_TEST_SEED")
    return int(given) + own if given else own


def saved(out: bytes) -> list[int]:
    return [int(step) for step in re.findall(rb"saved (\d+)", out)]


@pytest.mark.core
@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_a_job_resumes_from_its_checkpoint_with_another_number_of_ranks(sandbox: Sandbox, options: list[str]) -> None:
    for size, before in ((3, 0), (2, 4), (1, 8)):
        done = sandbox.run("-np", size, SAVER, "run", "--steps", 4, *options).expect(0)
        assert loaded(done) == before
        assert saved(done.out) == list(range(before + 1, before + 5))


class Kills:
    """A folder in which one job after another saves until it is killed."""

    def __init__(self, sandbox: Sandbox, chance: random.Random, options: list[str]) -> None:
        self._sandbox, self._chance, self._options = sandbox, chance, options
        self._durable = 0  # the last step that a job knew to be on disk

    def round(self) -> None:
        ready = self._sandbox.files / "ready"
        ready.unlink(missing_ok=True)
        job = self._sandbox.start("-np", 2, "--grace", "0.2", SAVER, "run", "--ready", ready, *self._options)
        wait_until(lambda: ready.exists() and ready.read_bytes().count(b"\n") == 2 or job.process.poll() is not None,
                   "both ranks to load their checkpoint")
        if job.process.poll() is None:
            time.sleep(self._chance.uniform(0, 0.03))
            self._kill(job)
        done = job.wait()
        wait_until(lambda: not self._sandbox.leftovers(), "the cleanup after the kill")
        # The program checks that the checkpoint is complete and consistent. Here: it is no older than the last durable step.
        # The ranks' output may be lost with hvdrun.
        [step] = set(map(int, ready.read_text().split())) if ready.exists() else {loaded(done)}
        assert b"does not fit" not in done.err and "skipped" not in done.err_text, done
        assert step >= self._durable, done
        # save() of a step returns once the previous step is durable.
        self._durable = max([step, *(number - 1 for number in saved(done.out))])

    def _kill(self, job: Running) -> None:
        """Kills one rank, or hvdrun and all ranks; leaves agent and guard, which clean up."""
        ranks = self._sandbox.ranks()
        one = self._chance.choice((0, 1)) if self._chance.random() < 0.5 else None
        for pid in [job.pid, *ranks.values()] if one is None else [ranks[one]] if one in ranks else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_the_newest_checkpoint_can_be_read_after_a_kill_at_any_moment(sandbox: Sandbox, options: list[str]) -> None:
    """With HVD_TEST_SEED there are many more kills, at moments drawn with that seed."""
    fresh = "HVD_TEST_SEED" in os.environ
    rounds = 1000 if SOAK else 5 if not fresh else 20 if SANITIZED else 100
    drawn_from = seed(len(options))
    kills = Kills(sandbox, random.Random(drawn_from), options)
    assert saved(sandbox.run("-np", 2, SAVER, "run", "--steps", 1, *options).expect(0).out) == [1]
    for number in range(rounds):
        print(f"round {number} with the seed {drawn_from}", flush=True)  # pytest shows it when the test fails
        kills.round()
    done = sandbox.run("-np", 2, SAVER, "run", "--steps", 1, *options).expect(0)
    assert loaded(done) > 0
    names = sorted(path.name for path in (sandbox.files / "run").iterdir())
    assert not [name for name in names if name.startswith(".hvd-checkpoint.")], names
    whole = [name for name in names if name.endswith(".hvd")]
    assert len(whole) <= 3, "more than the last three checkpoints were kept"
    parts = [name for name in names if ".part-" in name]
    assert len(parts) == (2 * len(whole) if options else 0), names


def test_a_second_job_on_a_folder_gets_an_error_that_names_the_first(sandbox: Sandbox) -> None:
    pace = sandbox.files / "pace"
    first = sandbox.start("-np", 2, SAVER, "run", "--steps", 1, "--pace", pace)
    first.wait_for(b"nothing")
    second = sandbox.run("-np", 2, "--grace", "0.3", SAVER, "run", "--steps", 1)
    assert second.code == 2, second
    job = re.search(r"in use by job ([0-9a-f]{32}) \(host \S+, pid (\d+),", second.err_text)
    assert job, second
    pace.write_text("1\n")
    first.wait().expect(0)
    assert loaded(sandbox.run("-np", 2, SAVER, "run", "--steps", 1).expect(0)) == 1


@needs_root
def test_a_full_disk_is_an_error_on_all_ranks_and_keeps_older_checkpoints(sandbox: Sandbox) -> None:
    folder = sandbox.files / "small"
    folder.mkdir()
    sandbox.mounts.append(f"mount -t tmpfs -o size=1m tmpfs {folder}")
    pace = sandbox.files / "pace"
    pace.write_text("\n" * 12)
    script = (f"{HVDRUN_WORD} -np 2 {SAVER_WORD} {folder} --steps 12 --keep -1 --pace {pace} && "
              f"{HVDRUN_WORD} -np 3 {SAVER_WORD} {folder} --read --steps 0; ls -A {folder}")
    done = sandbox.run("-c", script, tool="/bin/sh").expect(0)
    good = saved(done.out)
    assert good and good[-1] < 12
    for step in range(good[-1] + 1, 13):
        assert re.search(rf"\[0\] failed {step}: .*No space left on device", done.out_text), done
        assert re.search(rf"\[1\] failed {step}: .*rank 0: .*No space left on device", done.out_text), done
    assert f"loaded {good[-1]}" in done.out_text
    assert done.out_text.count(".hvd\n") == len(good) and ".hvd-checkpoint." not in done.out_text, done


@needs_root
def test_saving_to_a_read_only_folder_is_an_error_and_loading_works(sandbox: Sandbox) -> None:
    sandbox.run("-np", 2, SAVER, "run", "--steps", 2).expect(0)
    folder = sandbox.files / "run"
    sandbox.mounts += [f"mount --bind {folder} {folder}", f"mount -o remount,bind,ro {folder}"]
    refused = sandbox.run("-np", 2, "--grace", "0.3", SAVER, folder, "--steps", 1)
    assert refused.code == 2, refused
    assert "Read-only file system" in refused.err_text
    assert loaded(sandbox.run("-np", 2, SAVER, folder, "--read", "--steps", 0).expect(0)) == 2


@needs_root
@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_saving_fails_while_the_folder_is_unmounted_and_works_again_later(sandbox: Sandbox, options: list[str]) -> None:
    real, seen, pace = (sandbox.files / name for name in ("real", "seen", "pace"))
    real.mkdir()
    seen.mkdir()
    pace.write_text("1\n")
    out = sandbox.files / "out"
    wait_for = "until grep -q '{0}' {1}; do sleep 0.01; kill -0 $job || exit 99; done"
    script = "; ".join([
        f"mount --bind {real} {seen}",
        f"{HVDRUN_WORD} -np 2 {SAVER_WORD} {seen} --steps 3 --pace {pace} {' '.join(options)} > {out} & job=$!",
        wait_for.format("saved 1", out), f"umount -l {seen}", f"echo 2 >> {pace}",
        wait_for.format(".1. failed 2", out), wait_for.format(".0. failed 2", out),
        f"mount --bind {real} {seen}", f"echo 3 >> {pace}", "wait $job"])
    sandbox.run("-c", script.replace("& job=$!;", "& job=$!\n"), tool="/bin/sh").expect(0)
    assert re.search(r"failed 2: .*is not the one that was opened; is its file system still mounted", out.read_text())
    assert "saved 3" in out.read_text()
    assert not list(Path(seen).iterdir()), "something was written to the folder beneath the mount"
    steps = sorted(int(path.name[11:31]) for path in real.glob("checkpoint-*.hvd"))
    assert steps == [1, 3]
