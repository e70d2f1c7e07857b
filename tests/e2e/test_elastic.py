"""A job with --min-np continues when ranks are lost, in the processes of the others (tests/programs/elastic_trainer.cpp).

After each loss the training has the loss of an undisturbed one, and has used each sample once per epoch. No process was started
again, and the report and the notes are true. HVD_START_TIMEOUT is longer than a test may take: no wait ends by it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness import parent_of, HOSTNAME, HVDRUN, SOAK, Done, Running, Sandbox, load_report, process_state, program, wait_until

TRAINER = program("elastic_trainer")
EPOCHS, STEPS = 4, 20
RANKS = 4
ENVIRONMENT = {"HVD_START_TIMEOUT": "1000"}
SEED = int(os.environ.get("HVD_TEST_SEED", 11))
KILLED = "was killed by SIGKILL"


def slow(*values: object) -> object:
    """Returns a case that the gate leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


@dataclass(frozen=True)
class Row:
    """Deaths, and the generations that follow: the ranks of each, by their numbers at the start."""
    deaths: str
    generations: list[list[int]]
    options: tuple[str, ...] = ()
    how: str = KILLED
    gate: bool = False


ALL = [0, 1, 2, 3]
WITHOUT = {rank: [other for other in ALL if other != rank] for rank in ALL}
ROWS = {
    "before init": Row("before-init:2:0:kill", [[0, 1, 3]], gate=True),
    "after init": Row("after-init:2:1:kill", [ALL, [0, 1, 3]]),
    "in a step": Row("step:2:1:kill:7", [ALL, [0, 1, 3]], gate=True),
    "in a step, by C calls": Row("step:2:1:kill:7", [ALL, [0, 1, 3]], ("--c",)),
    "in a step, with the engine": Row("step:2:1:kill:7", [ALL, [0, 1, 3]], ("--background",), gate=True),
    "in the first step": Row("step:3:1:kill:0", [ALL, [0, 1, 2]]),
    "in the last step": Row("step:1:1:kill", [ALL, [0, 2, 3]]),
    "rank 0": Row("step:0:1:kill:7", [ALL, [1, 2, 3]], gate=True),
    "rank 0, with the engine": Row("step:0:1:kill:7", [ALL, [1, 2, 3]], ("--background",)),
    "after the allreduce": Row("reduced:2:1:kill:7", [ALL, [0, 1, 3]]),
    "after the allreduce, with the engine": Row("reduced:2:1:kill:7", [ALL, [0, 1, 3]], ("--background",)),
    "in commit": Row("commit:2:1:kill:7", [ALL, [0, 1, 3]], gate=True),
    "in the first commit": Row("commit:2:1:kill:0", [ALL, [0, 1, 3]]),
    "in the first sync, as root": Row("sync:0:1:kill", [ALL, [1, 2, 3]]),
    "in the first sync": Row("sync:2:1:kill", [ALL, [0, 1, 3]]),
    "in restore, before the next generation": Row("step:1:1:kill:7,restore:2:1:kill", [ALL, [0, 3]], gate=True),
    "in a reset callback": Row("step:1:1:kill:7,reset:2:2:kill", [ALL, [0, 2, 3], [0, 3]], gate=True),
    "in sync, as root": Row("step:1:1:kill:7,sync:0:2:kill", [ALL, [0, 2, 3], [2, 3]], gate=True),
    "in sync": Row("step:1:1:kill:7,sync:2:2:kill", [ALL, [0, 2, 3], [0, 3]]),
    "two at once": Row("step:1:1:kill:7,step:2:1:kill:7", [ALL, [0, 3]], gate=True),
    "two at once, one of them rank 0": Row("step:0:1:kill:7,step:2:1:kill:7", [ALL, [1, 3]]),
    "three in a row": Row("step:3:1:kill:7,step:0:2:kill:7,step:1:3:kill:7", [ALL, [0, 1, 2], [1, 2], [2]], gate=True),
    "three in a row, with commits between": Row("step:3:1:kill:3,step:0:2:kill:9,step:1:3:kill:15",
                                                [ALL, [0, 1, 2], [1, 2], [2]]),
    "three at once": Row("step:0:1:kill:7,step:1:1:kill:7,step:2:1:kill:7", [ALL, [3]]),
    "a code": Row("step:2:1:exit7:7", [ALL, [0, 1, 3]], how="ended with exit code 7", gate=True),
    "an exception": Row("step:2:1:throw:7", [ALL, [0, 1, 3]], how="was killed by SIGABRT"),
}


@pytest.fixture(scope="module")
def undisturbed() -> float:
    """Returns the loss of a training of one process."""
    done = subprocess.run([TRAINER], capture_output=True, text=True, check=True)
    return results_of(done.stdout)[0].loss


@dataclass(frozen=True)
class Result:
    member: int
    pid: int
    generation: int
    rank: int
    size: int
    loss: float
    used: tuple[int, int]


def results_of(text: str) -> list[Result]:
    found = re.findall(r"member (\d+) pid (\d+) generation (\d+) rank (\d+) size (\d+) step (\d+) loss (\S+) used (\d+) (\d+)", text)
    return [Result(*map(int, words[:5]), float(words[6]), (int(words[7]), int(words[8]))) for words in found]


def pids_at_start(text: str) -> dict[int, int]:
    return {int(member): int(pid) for member, pid in re.findall(r"member (\d+) pid (\d+)$", text, re.MULTILINE)}


def start(sandbox: Sandbox, *options: object, ranks: int = RANKS, least: int = 1, die: str = "",
          program_options: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Running:
    words = ["--die", die] if die else []
    return sandbox.start("--min-np", least, "-np", ranks, *options, TRAINER, *words, *program_options,
                         env={**ENVIRONMENT, **(env or {})})


def train(sandbox: Sandbox, *options: object, **more: object) -> Done:
    return start(sandbox, *options, **more).wait()


def expect_trained(done: Done, loss: float, generations: list[list[int]], finished: Sequence[int] = ()) -> None:
    """Checks that the ranks of the last generation have trained to this loss, in the processes in which they began."""
    done.expect(0)
    results = results_of(done.out_text)
    assert sorted(result.member for result in results) == generations[-1], done
    begun = pids_at_start(done.out_text)
    for result in results:
        assert result.pid == begun[result.member], done
        assert abs(result.loss / loss - 1) < 1e-5, done
        assert result.used == (EPOCHS, EPOCHS), done
    in_report = [entry["ranks"] for entry in done.report["generations"]]
    assert [sorted(ranks) for ranks in in_report] == generations, f"{in_report}\n{done}"
    assert all(result.rank == in_report[-1].index(result.member) for result in results), f"{in_report}\n{done}"
    assert [entry["size"] for entry in done.report["generations"]] == [len(ranks) for ranks in generations], done
    for entry, following in zip(done.report["generations"], [*generations[1:], generations[-1]]):
        assert sorted(loss["rank"] for loss in entry["lost"]) == sorted(set(entry["ranks"]) - {*following, *finished}), f"{entry}\n{done}"


def how_lost(done: Done) -> set[str]:
    return {loss["how"] for entry in done.report["generations"] for loss in entry["lost"]}


def notes_of(done: Done) -> list[str]:
    return re.findall(r"hvdrun: note: (rank.* (?:was|were) lost.*)", done.err_text)


@pytest.mark.parametrize("name", [name if row.gate else slow(name) for name, row in ROWS.items()])
def test_the_others_continue_after_a_death(sandbox: Sandbox, undisturbed: float, name: str) -> None:
    row = ROWS[name]
    done = train(sandbox, die=row.deaths, program_options=row.options)
    expect_trained(done, undisturbed, row.generations)
    assert how_lost(done) <= {row.how}, done.report["generations"]
    notes = notes_of(done)
    assert notes, done
    assert f"{len(row.generations[-1])} rank" in notes[-1] and row.how.removeprefix("was ").removeprefix("ended with ") in notes[-1], done


def train_and_follow(sandbox: Sandbox, member: int, *options: object, more: Sequence[str] = ()) -> Done:
    """Runs a training in which rank 1 dies, with the fault injector. That numbers the system calls of another rank from then on
    until it has done a step in the next generation."""
    running = sandbox.start(*options, "--", HVDRUN, "--report", sandbox.files / "report", "--min-np", 1, "-np", RANKS, *more, TRAINER, "--die",
                            "step:1:1:kill:7", "--follow", member, tool=program("fault_injector"), env=ENVIRONMENT)
    return replace(running.wait(), report=load_report(sandbox.files / "report"))


def expect_second_death(done: Done, loss: float, member: int) -> None:
    """The generation that the second rank had come to may be in the report."""
    done.expect(0)
    between = [sorted(entry["ranks"]) for entry in done.report["generations"]][1:-1]
    assert between in ([], [WITHOUT[1]]), between
    expect_trained(done, loss, [ALL, *between, [rank for rank in WITHOUT[1] if rank != member]])


@pytest.mark.parametrize("call", ["write:socket+:1", "write:socket+:2", "mmap:file:1", "write:socket+:4"])
def test_a_second_death_at_a_system_call_of_the_reform(sandbox: Sandbox, undisturbed: float, call: str) -> None:
    done = train_and_follow(sandbox, 2, "--fault", f"rank:{call}:SIGKILL", "--log", sandbox.files / "log")
    expect_second_death(done, undisturbed, 2)
    assert (sandbox.files / "log").exists(), "the call did not happen"


def test_a_rank_that_is_slow_while_ranks_connect_is_ended(sandbox: Sandbox, undisturbed: float) -> None:
    """Its last message of the wire-up takes longer than --reset-timeout."""
    done = train_and_follow(sandbox, 2, "--fault", "rank:write:socket+:4:20000", "--log", sandbox.files / "log",
                            more=("--reset-timeout", "1"))
    assert (sandbox.files / "log").exists(), "the call did not happen"
    expect_second_death(done, undisturbed, 2)
    assert re.search(r"rank 2 on \S+ .* within 1 s \(--reset-timeout\)", done.err_text), done


@pytest.mark.slow
@pytest.mark.parametrize("member", [0, 2, 3])
def test_a_second_death_at_each_system_call_of_the_reform(sandbox: Sandbox, undisturbed: float, member: int) -> None:
    happened = 0
    for call in ["clone:-", "mmap:file", "open:file", "open:proc", "random:-", "read:event+", "read:file", "read:proc", "write:socket+"]:
        for number in range(1, 10):
            log = sandbox.files / f"log.{call}.{number}"
            done = train_and_follow(sandbox, member, "--fault", f"rank:{call}:{number}:SIGKILL", "--log", log)
            if not log.exists():
                break
            expect_second_death(done, undisturbed, member)
            happened += 1
    assert happened > 10, happened


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(60 if SOAK else 12))
def test_kills_at_random_moments(sandbox: Sandbox, undisturbed: float, trial: int) -> None:
    """The last step waits for the last kill: a rank that is killed after the training is the job's failure."""
    draw = random.Random(f"{SEED} {trial}")
    ranks = draw.randint(2, 8)
    options = draw.choice([(), ("--c",), ("--background",)])
    go = sandbox.files / "go"
    running = start(sandbox, "--oversubscribe", ranks=ranks, program_options=(
        "--pause", str(draw.choice([0, 500, 5000])), "--hold", f"{STEPS - 1}:-1:{go}", *options))
    wait_until(lambda: len(sandbox.ranks()) == ranks, "all ranks")
    left = list(range(ranks))
    while len(left) > 1 and draw.random() < 0.9:
        time.sleep(draw.choice([0, 0.002, 0.02, 0.1]) * draw.random())
        victim = left.pop(draw.randrange(len(left)))
        os.kill(sandbox.ranks()[victim], draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGABRT]))
    go.touch()
    done = running.wait().expect(0)
    expect_trained(done, undisturbed, [*(sorted(entry["ranks"]) for entry in done.report["generations"][:-1]), left])


@pytest.mark.slow
def test_no_rank_of_many_is_lost_with_half_of_them(sandbox: Sandbox, undisturbed: float) -> None:
    deaths = ",".join(f"step:{rank}:1:kill:7" for rank in range(0, 32, 2))
    done = train(sandbox, "--oversubscribe", ranks=32, die=deaths)
    odd = list(range(1, 32, 2))
    done.expect(0)
    expect_trained(done, undisturbed, [entry["ranks"] for entry in done.report["generations"][:-1]] + [odd])


def test_one_rank_alone_trains(sandbox: Sandbox, undisturbed: float) -> None:
    expect_trained(train(sandbox, ranks=1), undisturbed, [[0]])


def test_one_rank_alone_is_the_cause_of_the_end(sandbox: Sandbox) -> None:
    done = train(sandbox, ranks=1, die="step:0:1:kill:7").expect(137)
    assert done.report["first_failure"] == 0, done


# ---- new ranks

def joined(done: Done) -> list[list[int]]:
    return [entry["joined"] for entry in done.report["generations"]]


def newcomers_of(done: Done) -> dict[int, tuple[int, int]]:
    """Returns the rank and local rank of each process that was started later, in its first session. There it was alone."""
    found = re.findall(r"newcomer (\d+) rank (\d+) local (\d+) device -?\d+ value (\d+)", done.out_text)
    assert all(member == value for member, _, _, value in found), done
    return {int(member): (int(rank), int(local)) for member, rank, local, _ in found}


@pytest.mark.parametrize("options", [slow(()), slow(("--c",)), ("--background",)])
def test_a_new_rank_takes_the_place_of_a_lost_one(sandbox: Sandbox, undisturbed: float, options: tuple[str, ...]) -> None:
    done = train(sandbox, "--replace", "auto", die="step:1:1:kill:7", program_options=("--take-in", "12", *options))
    expect_trained(done, undisturbed, [ALL, [0, 2, 3], [0, 2, 3, 4]])
    assert joined(done) == [[], [], [4]] and newcomers_of(done) == {4: (3, 1)}, done
    assert notes_of(done)[0].startswith(f"rank 1 on {HOSTNAME} was lost (killed by SIGKILL): 3 ranks continue after "), done
    assert re.search(rf"note: new rank 4 on {HOSTNAME} has joined: 4 ranks continue after .*; rank 4 is rank 3 in the program",
                     done.err_text), done


def test_new_ranks_have_the_local_ranks_of_the_lost_ones(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "--replace", "auto", least=4, die="step:0:1:kill:7,step:2:1:kill:7")
    expect_trained(done, undisturbed, [ALL, [1, 3, 4, 5]])
    assert newcomers_of(done) in ({4: (2, 0), 5: (2, 2)}, {4: (1, 0), 5: (2, 2)}, {4: (2, 0), 5: (3, 2)}), newcomers_of(done)
    assert done.report["generations"][-1]["ranks"][0] == 1, "rank 0 has old state"


def test_a_job_below_its_minimum_waits_for_new_ranks(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "--replace", "auto", least=4, die="step:1:1:kill:7")
    expect_trained(done, undisturbed, [ALL, [0, 2, 3, 4]])
    assert done.err_text.count(f"rank 1 on {HOSTNAME} was lost (killed by SIGKILL): 3 ranks are left, fewer than --min-np 4: "
                               "waiting for new ones") == 1, done


def waits_for_others(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return "futex" in file.read()
    except OSError:
        return False


@pytest.mark.parametrize("spares", [1, slow(2)])
def test_a_spare_takes_the_place_of_a_lost_rank_at_once(sandbox: Sandbox, undisturbed: float, spares: int) -> None:
    held = Held(sandbox, "-H", f"localhost:{RANKS + spares}", "--spares", spares)
    waiting = range(RANKS, RANKS + spares)
    wait_until(lambda: all(waits_for_others(sandbox.ranks().get(spare, 0)) for spare in waiting), "spares that wait")
    held.kill_rank(1)
    done = held.wait()
    expect_trained(done, undisturbed, [ALL, [0, 2, 3, 4]])
    assert re.search(rf"note: rank 1 on {HOSTNAME} was lost \(killed by SIGKILL\), new rank 4 on {HOSTNAME} has joined: 4 ranks continue ",
                     done.err_text), done
    assert newcomers_of(done)[4] == (3, 4), done


def test_a_spare_without_a_slot_is_in_the_report(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", 1, "-np", 1, "-H", "localhost:1", "--spares", 1, "true").expect(0)
    note = "1 of 1 spares (--spares) has no slot: a spare needs one besides those of the ranks (-H localhost:2)"
    assert done.report["notes"] == [note] and note in done.err_text, done


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="without a /dev/shm of its own the test would touch other jobs")
@pytest.mark.parametrize("emptied", [False, True])
def test_a_loss_is_survived_after_a_cleaner_has_been_in_dev_shm(sandbox: Sandbox, emptied: bool) -> None:
    """systemd-logind does so at a user's last logout (RemoveIPC)."""
    running = start(sandbox, "--replace", "auto", ranks=3, program_options=("--epochs", "1000000", "--pause", "2000", "--take-in", "1"))
    wait_until(lambda: len(pids_at_start(running.out.decode())) == 3, "three ranks that train")
    folder, = sandbox.shm.glob("hvd-*")
    for path in list(folder.iterdir()) if emptied else [folder]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    os.kill(pids_at_start(running.out.decode())[1], signal.SIGKILL)
    running.wait_for(b"has joined", "err")
    running.signal(signal.SIGTERM)
    done = running.wait().expect(143)
    assert done.err_text.count("was removed or emptied while the job runs, and was made again") == 1, done
    assert done.err_text.count("warning") == 1, done


def test_the_pause_of_a_single_survivor_is_measured(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "--replace", "auto", ranks=2, die="step:1:1:kill:7", program_options=("--take-in", "12"))
    expect_trained(done, undisturbed, [[0, 1], [0], [0, 2]])
    assert done.report["generations"][-1]["pause_seconds"] > 0, done


def test_a_spare_that_ends_at_its_start_is_named(sandbox: Sandbox) -> None:
    running = sandbox.start("-H", "localhost:2", "--min-np", 1, "-np", 1, "--spares", 1, "--replace", "off", "sh", "-c",
                            f'[ -n "$HVD_NEWCOMER" ] && exit 3; exec {TRAINER} --epochs 1000000 --pause 2000', env=ENVIRONMENT)
    running.wait_for(f"new rank 1 on {HOSTNAME} ended before it had joined (exit code 3)".encode(), "err")
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


@pytest.mark.slow
def test_a_spare_that_is_killed_is_replaced(sandbox: Sandbox, undisturbed: float) -> None:
    held = Held(sandbox, "-H", "localhost:5", "--spares", 1)
    wait_until(lambda: waits_for_others(sandbox.ranks().get(4, 0)), "a spare that waits")
    held.kill_rank(4)
    wait_until(lambda: waits_for_others(sandbox.ranks().get(5, 0)), "another spare that waits")
    held.kill_rank(1)
    done = held.wait()
    expect_trained(done, undisturbed, [ALL, [0, 2, 3, 5]])
    assert "new rank 4 on" in done.err_text and "ended before it had joined (killed by SIGKILL)" in done.err_text, done


def test_new_ranks_that_fail_end_with_the_first_cause(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", RANKS, "-np", RANKS, "--replace", "auto", "sh", "-c",
                       f'[ -z "$HVD_NEWCOMER" ] || exit 3; exec {TRAINER} --die step:1:1:exit7:7', env=ENVIRONMENT).expect(7)
    assert done.report["first_failure"] == 1, done
    text = "3 processes one after the other ended in slot 1"
    assert done.err_text.count(text) == 1 and any(note.startswith(text) for note in done.report["notes"]), done
    assert done.err_text.count("ended before it had joined (exit code 3)") == 3, done


def test_a_job_waits_for_new_ranks_for_a_while(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", RANKS, "-np", RANKS, "--replace", "auto", "--elastic-timeout", "0.5", "--grace", "0.3", "sh", "-c",
                       f'[ -z "$HVD_NEWCOMER" ] || exec sleep 1000; exec {TRAINER} --die step:1:1:kill:7', env=ENVIRONMENT).expect(137)
    assert done.report["first_failure"] == 1 and "waiting for new ones" in done.err_text, done


def test_a_new_rank_that_does_not_come_to_hvd_init_is_named(sandbox: Sandbox) -> None:
    go, ready = sandbox.files / "go", sandbox.files / "ready"
    running = sandbox.start("--min-np", RANKS, "-np", RANKS, "-H", f"localhost:{RANKS + 1}", "--spares", 1, "--elastic-timeout", "0.3", "--grace", 0.3,
                            "sh", "-c", f'[ -z "$HVD_NEWCOMER" ] || exec sleep 1000; exec {TRAINER} --hold 7:1:{go} --ready {ready}', env=ENVIRONMENT)
    for rank in (RANKS, RANKS + 1):  # the second one takes the place of the first
        running.wait_for(f"new rank {rank} on {HOSTNAME} (pid ".encode(), "err")
        warning = rf"warning: new rank {rank} on {HOSTNAME} \(pid (\d+)\) has not called hvd_init within 0.3 s \(--elastic-timeout\), and the others run"
        [pid] = re.findall(warning, running.err.decode())
        os.kill(int(pid), signal.SIGKILL)
    go.touch()
    done = running.wait().expect(0)
    assert done.err_text.count("has not called hvd_init within") >= 2, done


def test_a_lost_agent_is_to_blame_and_no_loss_that_was_repaired_before(sandbox: Sandbox) -> None:
    held = Held(sandbox, die="step:2:1:kill:5")
    held.running.wait_for(b"rank 2 on", "err")
    os.kill(held.running.helper("hvdrun-agent"), signal.SIGKILL)
    done = held.wait().expect(125)
    assert re.search(r"error: job stopped after .*: the agent on .* was lost: killed by SIGKILL; exit code 125", done.err_text), done


def test_a_program_that_does_not_ask_for_new_ranks_is_named(sandbox: Sandbox) -> None:
    held = Held(sandbox, "--replace", "auto", "--elastic-timeout", "0.3", die="step:2:1:kill:5")
    warning = f"warning: new rank {RANKS} is ready, and the program has not asked for it within 0.3 s: "
    held.running.wait_for(warning.encode(), "err")
    held.go.touch()
    assert held.wait().expect(0).err_text.count("has not asked for") == 1


def test_the_example_takes_new_ranks_in(sandbox: Sandbox) -> None:
    running = sandbox.start("--min-np", 1, "-np", 2, "--replace", "auto", program("../examples/digits"), "--epochs", 100_000)
    running.wait_for(b"epoch 2 ")
    os.kill(sandbox.ranks()[1], signal.SIGKILL)
    running.wait_for(f"new rank 2 on {HOSTNAME} has joined: 2 ranks continue".encode(), "err")
    running.signal(signal.SIGTERM)
    running.wait().expect(143)


def test_a_job_stops_at_its_reset_limit(sandbox: Sandbox) -> None:
    done = train(sandbox, "--reset-limit", 1, die="step:1:1:kill:5,step:2:2:exit7:12").expect(7)
    assert done.report["first_failure"] == 2 and len(done.report["generations"]) == 2, done
    assert "generation 3 would be reset 2, and --reset-limit allows 1: stopping" in done.err_text, done


def test_a_new_rank_does_not_count_for_the_reset_limit(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "--replace", "auto", "--reset-limit", 1, die="step:1:1:kill:7", program_options=("--take-in", "12"))
    expect_trained(done, undisturbed, [ALL, [0, 2, 3], [0, 2, 3, 4]])


def test_a_job_begins_with_as_many_ranks_as_there_are_slots(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "-H", "localhost:5", "--max-np", 3, ranks=2)
    expect_trained(done, undisturbed, [[0, 1, 2]])


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(30 if SOAK else 8))
def test_kills_at_random_moments_with_new_ranks(sandbox: Sandbox, undisturbed: float, trial: int) -> None:
    draw = random.Random(f"{SEED} new {trial}")
    spares = draw.randint(0, 2)
    go = sandbox.files / "go"
    running = start(sandbox, "-H", f"localhost:{RANKS + spares}", "--spares", spares, "--replace", "auto", program_options=(
        "--pause", str(draw.choice([0, 500, 5000])), "--hold", f"{STEPS - 1}:-1:{go}", "--take-in", "1000"))
    wait_until(lambda: len(sandbox.ranks()) == RANKS + spares, "all ranks")
    for _ in range(draw.randint(1, 5)):
        time.sleep(draw.choice([0, 0.002, 0.02, 0.1]) * draw.random())
        living = sandbox.ranks()
        if len(living) > 1:
            os.kill(living[draw.choice(sorted(living))], draw.choice([signal.SIGKILL, signal.SIGTERM]))
    go.touch()
    done = running.wait().expect(0)
    results = results_of(done.out_text)
    assert sorted(result.member for result in results) == sorted(done.report["generations"][-1]["ranks"]), done
    for result in results:
        assert abs(result.loss / undisturbed - 1) < 1e-5 and result.used == (EPOCHS, EPOCHS), done


# ---- the end of a job that cannot continue

@pytest.mark.parametrize("deaths, first, code", [
    ("step:1:1:kill:7,step:2:2:exit7:7", 1, 137),  # nothing was committed in between
    ("step:1:1:kill:7,step:2:2:exit7:12", 2, 7),
    slow("step:1:1:exit7:7,reset:2:2:kill", 1, 7),
])
def test_with_too_few_ranks_the_first_loss_that_was_not_repaired_is_the_cause(sandbox: Sandbox, deaths: str, first: int, code: int) -> None:
    done = train(sandbox, least=3, die=deaths).expect(code)
    assert done.report["first_failure"] == first, done
    assert "fewer than --min-np 3" in done.err_text, done
    assert f"error: rank {first} on" in done.err_text, done


def test_a_job_below_its_minimum_is_restarted(sandbox: Sandbox, undisturbed: float) -> None:
    """Ranks die in the first attempt only."""
    done = sandbox.run("--min-np", 3, "-np", RANKS, "--max-restarts", 1, "sh", "-c",
                       f'if mkdir first.$HVD_RANK 2>/dev/null; then exec {TRAINER} --die step:1:1:kill:7,step:2:2:kill:7; fi;'
                       f'exec {TRAINER}', env=ENVIRONMENT).expect(0)
    assert len(done.report["attempts"]) == 2 and len(results_of(done.out_text)) == RANKS, done
    for result in results_of(done.out_text):
        assert abs(result.loss / undisturbed - 1) < 1e-5 and result.size == 4, done


@pytest.mark.parametrize("point", ["finished", slow("left")])
def test_a_rank_that_is_killed_after_the_training_is_the_jobs_failure(sandbox: Sandbox, point: str) -> None:
    running = start(sandbox, die=f"{point}:1:0:stop")
    wait_until(lambda: list(sandbox.ranks()) == [1] and process_state(sandbox.ranks()[1]) == "T", "the end of all ranks but 1")
    os.kill(sandbox.ranks()[1], signal.SIGKILL)
    done = running.wait().expect(137)
    assert done.report["first_failure"] == 1, done


@pytest.mark.parametrize("how", ["exit0", slow("leave"), slow("quick0")])
def test_the_others_continue_after_a_rank_has_exited_with_0(sandbox: Sandbox, undisturbed: float, how: str) -> None:
    """It is not lost: it has finished."""
    done = train(sandbox, die=f"step:2:1:{how}:7")
    expect_trained(done, undisturbed, [ALL, [0, 1, 3]], finished=[2])
    assert not notes_of(done), done
    assert f"hvdrun: note: rank 2 on {HOSTNAME} has left: 3 ranks continue" in done.err_text, done


@pytest.mark.slow
def test_a_second_training_after_shutdown(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, program_options=("--rounds", "3"), die="step:2:1:kill:7").expect(0)
    results = results_of(done.out_text)
    assert len(results) == 9, done
    for result in results:
        assert abs(result.loss / undisturbed - 1) < 1e-5 and result.used == (EPOCHS, EPOCHS), done


# ---- programs that do not behave

def test_a_program_that_swallows_errors_is_ended(sandbox: Sandbox) -> None:
    done = train(sandbox, "--reset-timeout", "0.5", die="step:1:1:kill:7", program_options=("--swallow",)).expect(137)
    assert done.report["first_failure"] == 1, done
    assert "did not come to generation 2 within 0.5 s (--reset-timeout)" in done.err_text, done


def test_a_rank_that_is_stopped_while_others_reform_is_ended(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, "--reset-timeout", "1", die="step:1:1:kill:7,restore:2:1:stop")
    expect_trained(done, undisturbed, [ALL, [0, 3]])
    assert re.search(r"rank 2 on \S+ did not come to generation 2 within 1 s", done.err_text), done


def test_a_program_that_never_calls_hvd_has_one_warning(sandbox: Sandbox) -> None:
    done = train(sandbox, "--reset-timeout", "1", die="step:1:0:exit7,step:2:0:exit7", program_options=("--never-init",)).expect(7)
    assert done.err_text.count("no rank has called hvd_init yet") == 1, done


def test_a_loss_in_a_program_without_hvd_is_named_and_ends_the_job(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", 1, "-np", 2, "--reset-timeout", "0.5", "--grace", "0.3", "sh", "-c",
                       '[ $HVD_RANK = 0 ] || kill -9 $$; exec sleep 1000').expect(137)
    assert (f"warning: rank 1 on {HOSTNAME} was lost (killed by SIGKILL), and no rank has called hvd_init yet: "
            "the job ends in 0.5 s unless one does") in done.err_text, done
    assert "a rank was lost, and no other has called hvd_init: stopping" in done.err_text, done
    assert done.report["first_failure"] == 1, done


def test_a_rank_whose_shell_continues_is_lost_when_it_is_killed(sandbox: Sandbox, undisturbed: float) -> None:
    done = sandbox.run("--min-np", 1, "-np", RANKS, "--grace", "0.3", "sh", "-c",
                       f'{TRAINER} --die step:1:1:kill:7; [ $? = 0 ] || sleep 1000', env=ENVIRONMENT)
    expect_trained(done, undisturbed, [ALL, [0, 2, 3]])


def test_a_second_process_of_a_rank_is_refused(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, die="step:1:1:spawn:7")
    expect_trained(done, undisturbed, [ALL])
    [line] = [line for line in done.out_lines if "second process: " in line]
    assert "second process: 0" not in line, done
    assert re.search(r"rank 1: process \d+ called hvd_init while process \d+ of the same rank takes part in the job; it is refused",
                     done.err_text), done


@pytest.mark.slow
def test_a_forked_child_that_calls_hvd_costs_a_generation(sandbox: Sandbox, undisturbed: float) -> None:
    """The collective fails on all ranks, as in other jobs. No rank is lost."""
    done = train(sandbox, die="step:1:1:fork:7")
    expect_trained(done, undisturbed, [ALL, ALL])
    assert "called in a process that was forked after hvd_init" in done.out_text, done


def test_mpi_is_refused(sandbox: Sandbox) -> None:
    done = train(sandbox, env={"HVD_TRANSPORT": "mpi"}).expect(2)
    assert "--min-np does not work with HVD_TRANSPORT=mpi: MPI cannot lose a rank" in done.err_text, done


@pytest.mark.slow
def test_a_rank_that_chooses_mpi_itself_is_refused(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", 1, "-np", RANKS, "env", "HVD_TRANSPORT=mpi", TRAINER, env=ENVIRONMENT).expect(134)  # for hvd_init's error
    assert "HVD_TRANSPORT=mpi: MPI cannot lose a rank" in done.err_text, done


def test_pmix_is_refused(sandbox: Sandbox) -> None:
    done = train(sandbox, "--pmix", "on").expect(2)
    assert "--min-np does not work with --pmix on" in done.err_text, done


# ---- processes that are stopped

class Held:
    """A training in which rank 1 waits before step 7, and the others wait for it in its allreduce."""

    def __init__(self, sandbox: Sandbox, *options: object, die: str = "", **more: object) -> None:
        self.sandbox = sandbox
        self.go = sandbox.files / "go"
        self.running = start(sandbox, *options, die=die, program_options=(
            "--hold", f"7:1:{self.go}", "--ready", str(sandbox.files / "ready")), **more)
        wait_until(lambda: sandbox.lines_of("ready"), "rank 1 in its step")

    def kill_rank(self, rank: int) -> None:
        os.kill(self.sandbox.ranks()[rank], signal.SIGKILL)

    def wait(self) -> Done:
        return self.running.wait()


def is_stopped(pid: int) -> bool:
    return process_state(pid) == "T"


def process_of(running: Running, name: str) -> int:
    return running.pid if name == "launcher" else running.helper({"agent": "hvdrun-agent", "guard": "hvd-guard"}[name])


@pytest.mark.slow
def test_a_rank_that_is_stopped_in_the_training_is_waited_for(sandbox: Sandbox, undisturbed: float) -> None:
    running = start(sandbox, "--reset-timeout", "0.2", die="step:2:1:stop:7")
    wait_until(lambda: is_stopped(sandbox.ranks().get(2, 0)), "a stopped rank")
    time.sleep(0.5)  # longer than --reset-timeout, which does not apply
    os.kill(sandbox.ranks()[2], signal.SIGCONT)
    expect_trained(running.wait(), undisturbed, [ALL])


@pytest.mark.slow
def test_a_rank_that_is_stopped_while_others_reform_may_continue(sandbox: Sandbox, undisturbed: float) -> None:
    running = start(sandbox, die="step:1:1:kill:7,restore:2:1:stop")
    wait_until(lambda: is_stopped(sandbox.ranks().get(2, 0)), "a stopped rank")
    os.kill(sandbox.ranks()[2], signal.SIGCONT)
    expect_trained(running.wait(), undisturbed, [ALL, [0, 2, 3]])


@pytest.mark.parametrize("name", ["launcher", slow("agent"), slow("guard")])
def test_a_death_while_a_process_of_hvdrun_is_stopped(sandbox: Sandbox, undisturbed: float, name: str) -> None:
    held = Held(sandbox)
    stopped = process_of(held.running, name)
    os.kill(stopped, signal.SIGSTOP)
    held.kill_rank(1)
    if name == "guard":  # the job ends without it
        return expect_trained(held.wait(), undisturbed, [ALL, [0, 2, 3]])
    held.kill_rank(3)
    time.sleep(0.2)
    os.kill(stopped, signal.SIGCONT)
    expect_trained(held.wait(), undisturbed, [ALL, [0, 2]])


class Reforming:
    """Ranks 0 and 3 wait for rank 2, which is stopped, after the death of rank 1."""

    def __init__(self, sandbox: Sandbox, *options: object, **more: object) -> None:
        self.running = start(sandbox, *options, die="step:1:1:kill:7,restore:2:1:stop", **more)
        wait_until(lambda: is_stopped(sandbox.ranks().get(2, 0)) or self.running.process.poll() is not None, "a stopped rank")
        self.rank = sandbox.ranks()[2]

    def go(self) -> None:
        os.kill(self.rank, signal.SIGCONT)


@pytest.mark.parametrize("name", [slow("launcher"), "agent", slow("guard")])
def test_ranks_reform_after_a_process_of_hvdrun_was_stopped(sandbox: Sandbox, undisturbed: float, name: str) -> None:
    reforming = Reforming(sandbox)
    stopped = process_of(reforming.running, name)
    os.kill(stopped, signal.SIGSTOP)
    reforming.go()
    time.sleep(0.2)
    if name != "guard":
        os.kill(stopped, signal.SIGCONT)
    expect_trained(reforming.running.wait(), undisturbed, [ALL, [0, 2, 3]])


@pytest.mark.slow
def test_job_control_while_ranks_reform(sandbox: Sandbox, undisturbed: float) -> None:
    """Ctrl-Z stops the ranks, too; --reset-timeout then does not pass."""
    reforming = Reforming(sandbox, "--reset-timeout", "1.5")
    reforming.running.signal(signal.SIGTSTP)
    wait_until(lambda: all(map(is_stopped, [reforming.running.pid, *sandbox.ranks().values()])), "a stopped job")
    time.sleep(2)
    reforming.running.signal(signal.SIGCONT)
    expect_trained(reforming.running.wait(), undisturbed, [ALL, [0, 2, 3]])


@pytest.mark.parametrize("number", [signal.SIGINT, slow(signal.SIGTERM), slow(signal.SIGHUP)])
def test_a_signal_ends_ranks_that_reform(sandbox: Sandbox, number: signal.Signals) -> None:
    reforming = Reforming(sandbox, "--grace", "0.3")
    reforming.running.signal(number)
    done = reforming.running.wait().expect(128 + number)
    assert done.report["first_failure"] is None, done


@pytest.mark.parametrize("name, state", [slow("agent", "training"), ("agent", "reforming"), ("guard", "training"),
                                         slow("guard", "reforming")])
def test_a_killed_helper_ends_the_job(sandbox: Sandbox, name: str, state: str) -> None:
    running = Held(sandbox).running if state == "training" else Reforming(sandbox, "--grace", "0.3").running
    os.kill(process_of(running, name), signal.SIGKILL)
    done = running.wait()
    if state == "reforming":  # too few ranks are left since a rank was killed
        assert done.code == 137 and done.report["first_failure"] == 1, done
        return
    done.expect(125)
    assert f"{HOSTNAME} was lost" in done.report["reason"] or name in done.report["reason"], done.report["reason"]
    assert name in done.report["reason"] or "killed by SIGKILL" in done.report["reason"], done.report["reason"]


def test_nothing_is_left_of_ranks_that_reform_after_the_launcher_is_killed(sandbox: Sandbox) -> None:
    running = Reforming(sandbox).running
    running.signal(signal.SIGKILL)
    running.process.wait()
    wait_until(lambda: not sandbox.leftovers(), "nothing left in memory or files")


def test_a_lost_rank_does_not_begin_the_exit_timeout(sandbox: Sandbox, undisturbed: float) -> None:
    held = Held(sandbox, "--exit-timeout", "0.2", die="step:2:1:kill:3")
    time.sleep(0.5)
    held.go.touch()
    expect_trained(held.wait(), undisturbed, [ALL, [0, 1, 3]])


@pytest.mark.slow
def test_exit_timeout_ends_a_job_after_a_rank_has_finished(sandbox: Sandbox) -> None:
    held = Held(sandbox, "--exit-timeout", "0.3", "--grace", "0.3", die="step:2:1:leave:3")
    done = held.wait().expect(124)
    assert "--exit-timeout" in done.err_text, done


# ---- two hosts

# Replaces ssh: runs the agent on this machine, under the host's name.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
name=$2; shift 2
exec unshare --uts /bin/sh -c "hostname $name && $*"
"""


def on_two_hosts(sandbox: Sandbox) -> tuple[object, ...]:
    if not sandbox.isolated:
        pytest.skip("only root may give a process another host name")
    ssh = sandbox.files / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    return "--ssh-program", ssh, "-H", "localhost:2,other:2"


@pytest.mark.parametrize("victim", [slow(0), slow(1), 2, slow(3)])
def test_a_ranks_death_on_two_hosts(sandbox: Sandbox, undisturbed: float, victim: int) -> None:
    done = train(sandbox, *on_two_hosts(sandbox), die=f"step:{victim}:1:kill:7")
    expect_trained(done, undisturbed, [ALL, WITHOUT[victim]])


@pytest.mark.slow
def test_a_new_rank_on_another_host(sandbox: Sandbox, undisturbed: float) -> None:
    done = train(sandbox, *on_two_hosts(sandbox), "--replace", "auto", die="step:3:1:kill:7", program_options=("--take-in", "12"))
    expect_trained(done, undisturbed, [ALL, [0, 1, 2], [0, 1, 2, 4]])
    assert newcomers_of(done) == {4: (3, 1)} and "new rank 4 on other has joined" in done.err_text, done


def held_on_two_hosts(sandbox: Sandbox, *options: object, least: int = 1, login: str = "", newcomer: str = "true", take_in: int = 12,
                      holds: str = "") -> tuple[Running, Path]:
    """A training in which rank 0 waits before step 7, on this host. With `take_in`, it then waits before this step until new ranks are ready.

    `login`: what the second login and later ones do first. `newcomer`: what a new rank's shell does first."""
    go, ready, first = sandbox.files / "go", sandbox.files / "ready", sandbox.files / "first"
    words = [*on_two_hosts(sandbox), *options, "--min-np", least, "-np", RANKS]
    if login:
        (sandbox.files / "ssh").write_text(f"#!/bin/sh\nmkdir {first} 2>/dev/null || {{ {login}; }}\n" + SSH)
    trainer = f"{TRAINER} --hold 7:0:{go}{holds} --ready {ready}" + (f" --take-in {take_in}" if take_in else "")
    running = sandbox.start(*words, "sh", "-c", f'[ -z "$HVD_NEWCOMER" ] || {newcomer}; exec {trainer}', env=ENVIRONMENT)
    wait_until(lambda: sandbox.lines_of("ready"), "rank 0 in its step")
    return running, go


def kill_agent_of(sandbox: Sandbox, rank: int) -> None:
    os.kill(parent_of(sandbox.ranks()[rank]), signal.SIGKILL)


@pytest.mark.parametrize("hosts", ["localhost:2,other:2", "other:2,localhost:2"])
def test_a_killed_agent_is_started_again_and_new_ranks_run_there(sandbox: Sandbox, undisturbed: float, hosts: str) -> None:
    """Ranks 2 and 3 are on the other host, or on this one."""
    running, go = held_on_two_hosts(sandbox, "-H", hosts, "--replace", "auto")
    kill_agent_of(sandbox, 2)
    running.wait_for(b"was started again", "err")
    go.touch()
    done = running.wait().expect(0)
    results = results_of(done.out_text)
    assert sorted(result.member for result in results) == [0, 1, 4, 5], done  # the last two came together, or one by one
    assert all(abs(result.loss / undisturbed - 1) < 1e-5 for result in results), done
    assert newcomers_of(done).keys() == {4, 5} and {local for _, local in newcomers_of(done).values()} == {0, 1}, done


@pytest.mark.parametrize("hosts", [slow("localhost:2,other:2"), "other:2,localhost:2"])
def test_an_agent_that_ends_without_its_guard_is_started_again(sandbox: Sandbox, undisturbed: float, hosts: str) -> None:
    """It ends its ranks in order, which are lost to the job all the same."""
    running, go = held_on_two_hosts(sandbox, "-H", hosts, "--replace", "auto")
    agent = parent_of(sandbox.ranks()[2])
    os.kill(parent_of(agent), signal.SIGKILL)
    running.wait_for(b"was started again", "err")
    go.touch()
    done = running.wait().expect(0)
    assert "the guard of the agent on" in done.err_text, done
    results = results_of(done.out_text)
    assert sorted(result.member for result in results) == [0, 1, 4, 5], done
    assert all(abs(result.loss / undisturbed - 1) < 1e-5 for result in results), done


def test_without_new_ranks_no_agent_is_started_again(sandbox: Sandbox, undisturbed: float) -> None:
    running, go = held_on_two_hosts(sandbox, take_in=0)
    kill_agent_of(sandbox, 2)
    go.touch()
    done = running.wait()
    expect_trained(done, undisturbed, [ALL, [0, 1]])
    assert "started again" not in done.err_text, done


def test_ranks_that_were_lost_with_their_agent_are_lost_for_top_too(sandbox: Sandbox) -> None:
    """They do not hide for what the others wait."""
    last = sandbox.files / "last"
    running, go = held_on_two_hosts(sandbox, take_in=0, holds=f",12:0:{last}")
    kill_agent_of(sandbox, 2)
    go.touch()
    now: dict = {}

    def one_waits() -> bool:
        done = subprocess.run([HVDRUN, "top", "--once", "--json", str(running.pid)], capture_output=True, text=True, env=sandbox.environment())
        assert done.returncode == 0, done
        now.update(json.loads(done.stdout))
        return bool(now["waits"])

    wait_until(one_waits, "a rank that waits for rank 0")
    assert [rank["state"] for rank in now["ranks"][2:]] == ["lost", "lost"], now
    assert now["waits"][0]["missing"] == [0], now["waits"]
    last.touch()
    running.wait().expect(0)


def test_an_agent_that_is_killed_twice_is_started_twice(sandbox: Sandbox, undisturbed: float) -> None:
    """The second time before its new ranks have joined."""
    running, go = held_on_two_hosts(sandbox, "--replace", "auto", newcomer="[ $HVD_MEMBER -ge 6 ] || sleep 1000")
    kill_agent_of(sandbox, 2)
    go.touch()
    wait_until(lambda: sandbox.ranks().get(5, 0), "two new ranks")
    kill_agent_of(sandbox, 5)
    done = running.wait().expect(0)
    assert done.err_text.count("the agent on other was started again") == 2, done
    assert set(newcomers_of(done)) <= {6, 7} and newcomers_of(done), done
    assert all(abs(result.loss / undisturbed - 1) < 1e-5 for result in results_of(done.out_text)), done


@pytest.mark.parametrize("hosts", [slow("localhost:2,other:2"), "other:2,localhost:2"])
def test_a_job_below_its_minimum_waits_for_the_next_agent(sandbox: Sandbox, undisturbed: float, hosts: str) -> None:
    running, go = held_on_two_hosts(sandbox, "-H", hosts, "--replace", "auto", least=4, take_in=0)
    kill_agent_of(sandbox, 2)
    go.touch()
    done = running.wait()
    expect_trained(done, undisturbed, [ALL, [0, 1, 4, 5]])
    assert "2 ranks are left, fewer than --min-np 4: waiting for new ones" in done.err_text, done


@pytest.mark.parametrize("least", [1, slow(4)])
def test_an_agent_that_cannot_be_started_again_is_named(sandbox: Sandbox, undisturbed: float, least: int) -> None:
    running, go = held_on_two_hosts(sandbox, "--replace", "auto", least=least, take_in=0,
                                    login="echo 'user@other: Permission denied (publickey).' >&2; exit 255")
    kill_agent_of(sandbox, 2)
    running.wait_for(b"the agent on other could not be started again: ", "err")
    go.touch()
    done = running.wait()
    if least == 1:
        expect_trained(done, undisturbed, [ALL, [0, 1]])
    else:
        assert done.code == 125 and "other was lost" in done.report["reason"], done
    [line] = [line for line in done.err_text.splitlines() if "could not be started again" in line]
    assert "warning: " in line and "denied" in line and line.endswith(": no new ranks can run there"), done


def test_a_job_ends_while_an_agent_is_started_again(sandbox: Sandbox, undisturbed: float) -> None:
    waiting = sandbox.files / "waiting"
    running, go = held_on_two_hosts(sandbox, "--replace", "auto", take_in=0, login=f"touch {waiting}; exec sleep 1000")
    kill_agent_of(sandbox, 2)
    wait_until(waiting.exists, "the second login")
    go.touch()
    expect_trained(running.wait(), undisturbed, [ALL, [0, 1]])


def test_a_host_whose_new_ranks_end_its_agents_is_left_out(sandbox: Sandbox, undisturbed: float) -> None:
    last = sandbox.files / "last"
    running, go = held_on_two_hosts(sandbox, "--replace", "auto", take_in=0, newcomer="kill -9 $PPID", holds=f",12:0:{last}")
    kill_agent_of(sandbox, 2)
    go.touch()
    running.wait_for(b"hvdrun starts no more in this slot", "err")
    last.touch()
    done = running.wait()
    expect_trained(done, undisturbed, [ALL, [0, 1]])
    assert done.err_text.count("the agent on other was started again") == 3, done  # ranks 2 and 3 had committed
    assert done.err_text.count("hvdrun starts no more in this slot") == 2, done


# ---- spares on hosts without ranks

def wait_for_spares(sandbox: Sandbox, *spares: int) -> None:
    wait_until(lambda: all(waits_for_others(sandbox.ranks().get(spare, 0)) for spare in spares), "spares that wait")


def test_spares_on_a_host_without_ranks_take_the_places_of_a_lost_host(sandbox: Sandbox, undisturbed: float) -> None:
    running, go = held_on_two_hosts(sandbox, "-H", "localhost:2,other:2,third:2", "--spares", 2, "--replace", "off", take_in=0)
    wait_for_spares(sandbox, 4, 5)
    kill_agent_of(sandbox, 2)
    go.touch()
    done = running.wait()
    expect_trained(done, undisturbed, [ALL, [0, 1, 4, 5]])
    assert "new rank 4 on third, new rank 5 on third have joined" in done.err_text, done
    assert "third has only spares (--spares)" in done.err_text, done


def test_a_spare_is_lost_with_its_agent_and_follows_the_next_one(sandbox: Sandbox, undisturbed: float) -> None:
    running, go = held_on_two_hosts(sandbox, "-H", "localhost:4,other:1", "--spares", 1, take_in=0)
    wait_for_spares(sandbox, 4)
    kill_agent_of(sandbox, 4)
    wait_for_spares(sandbox, 5)
    os.kill(sandbox.ranks()[2], signal.SIGKILL)
    go.touch()
    done = running.wait()
    expect_trained(done, undisturbed, [ALL, [0, 1, 3, 5]])
    assert "new rank 4 on other was lost before it had joined (with the agent" in done.err_text, done
    assert "new rank 5 on other has joined" in done.err_text, done


def test_ranks_do_not_count_a_host_that_has_only_spares(sandbox: Sandbox) -> None:
    done = sandbox.run("--min-np", 1, "-np", 2, "-H", "localhost:2,other:2", "--spares", 1, "--print-env", "true").expect(0)
    assert re.search(r"^HVD_NODE_COUNT=1\b", done.out_text, re.MULTILINE), done
