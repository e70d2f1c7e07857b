"""SIGKILL for any part of a job with --min-np on four hosts, by ssh or in SLURM, with two ranks each, at any moment, while other
parts are stopped and hosts are cut off, and perhaps come back. The ranks that are left end the training with the loss of an
undisturbed one, hvdrun says truly who was lost, and nothing is left.

A constant seed chooses parts and moments, so that a failure is reproducible; ./check --all has a seed that it prints. HVD_CHAOS_TRIALS
and HVD_CHAOS_FIRST choose the trials."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import ClusterFailed
from harness import all_pids, parent_of
from settings import TIME_LIMIT_S
from test_elastic_on_hosts import TRAINER
from test_ssh import HVDRUN, SESSION_PROCESSES, Jobs, finish, jobs  # noqa: F401, the fixture

SEED = int(os.environ.get("HVD_TEST_SEED", 11))
FIRST = int(os.environ.get("HVD_CHAOS_FIRST", 0))
TRIALS = range(FIRST, FIRST + int(os.environ.get("HVD_CHAOS_TRIALS", 40)))
HOSTS = ("n1", "n2", "n3", "n4")
RANKS = 2 * len(HOSTS)
EPOCHS = 60
RESULT = rf"member (\d+) pid \d+ generation \d+ rank \d+ size (\d+) step {5 * EPOCHS} loss (\S+) used (\d+) (\d+)"
SILENT = r"the host has not answered for 1 s \(--host-timeout\)"
# What hvdrun says of a rank that is lost with a part that was hit.
CAUSES = {
    "elastic_trainer": r"killed by SIGKILL",
    "hvdrun-agent": r"with the agent|the guard of the agent on {host} was killed",
    "hvd-guard": r"the guard of the agent on {host} was killed|with the agent",
    "agent and guard": r"the guard of the agent on {host} was killed|with the agent",
    "sshd": r"with the agent",
    "ssh": r"with the agent: ssh was killed by SIGKILL",
    "hvdrun-link": r"with the agent",
    "slurmstepd": r"with the agent",
    "cut": SILENT + "|with the agent",
    "cut for a moment": SILENT + "|with the agent|could not be reached by ranks of other hosts",
    "power": SILENT + "|with the agent",
}
ONLY_WITH = {"ssh": ("openssh",), "sshd": ("libssh", "openssh"), "hvdrun-link": ("srun",), "slurmstepd": ("srun",)}
STOPPED = ("elastic_trainer", "hvdrun-agent", "hvd-guard", "sshd", "launcher", "host", "", "", "")


def pids_of(jobs: Jobs, job: subprocess.Popen, part: str, host: str) -> list[int]:  # noqa: F811
    """Returns the pids on this machine of the job's processes of this kind that belong to the host."""
    if part == "launcher":  # or salloc
        return [pid for pid in all_pids() if parent_of(pid) == job.pid]
    if part == "ssh":
        starts = [line.split(" ", 3) for line in jobs.cluster.processes("login")]
        return [int(pid) for pid, _, name, words in starts if name == "ssh" and f" {host} " in words]
    names = SESSION_PROCESSES if part == "sshd" else f"{part} "
    lines = [line.split(" ", 2) for line in jobs.cluster.processes(host)]
    return sorted(int(pid) for pid, _, words in lines if words.startswith(names))


def send(pidfd: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


class Trial:
    """One job and what happens to it. What undoes a disturbance runs later, on threads of their own, or at the end."""

    def __init__(self, jobs: Jobs, job: subprocess.Popen, draw: random.Random) -> None:  # noqa: F811
        self.jobs, self.job, self.draw = jobs, job, draw
        kinds = ("elastic_trainer", "hvdrun-agent", "hvd-guard", "sshd", "ssh", "hvdrun-link", "slurmstepd", "launcher")
        self.pidfds = {(part, host): [os.pidfd_open(pid) for pid in pids_of(jobs, job, part, host)] for part in kinds for host in HOSTS}
        self.hit: list[tuple[str, str]] = []
        self.log: list[str] = []
        self.timers: list[threading.Timer] = []
        self.began = time.monotonic()

    def note(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:.2f} {text}")

    def later(self, seconds: float, what: str, undo: Callable[[], object]) -> None:
        def run() -> None:
            with contextlib.suppress(ClusterFailed):  # the host has lost power meanwhile
                undo()
            self.note(what)

        self.timers.append(threading.Timer(seconds, run))
        self.timers[-1].start()

    def end(self) -> None:
        """Waits until all that was stopped continues."""
        for timer in self.timers:
            timer.join()

    def close(self) -> None:
        self.end()
        for pidfds in self.pidfds.values():
            for pidfd in pidfds:
                os.close(pidfd)

    def await_ends(self, part: str, host: str) -> None:
        for pidfd in self.pidfds[part, host]:
            assert select.select([pidfd], [], [], TIME_LIMIT_S / 3)[0], f"{part} on {host} has not ended"

    def disturb(self, part: str, host: str) -> None:
        """Kills the part on the host, or cuts the host off. Does nothing if the part has ended."""
        cluster = self.jobs.cluster
        if part in ("cut", "cut for a moment", "power"):
            (cluster.kill if part == "power" else cluster.cut)(host)
            if part == "cut for a moment":
                self.later(self.draw.random() * 4, f"{host} is back", lambda: cluster.join(host))
            done = True
        else:
            names = ["hvd-guard", "hvdrun-agent"] if part == "agent and guard" else [part]
            victims = [self.draw.choice(pids) for name in names if (pids := self.pidfds[name, host])]
            done = any([send(pid, signal.SIGKILL) for pid in victims])
        if done:
            self.hit.append((part, host))
            self.note(f"hit {part} on {host}")

    def stop_for_a_moment(self, part: str, host: str) -> None:
        seconds = self.draw.random() * 2.5
        cluster = self.jobs.cluster
        if part == "host":
            with contextlib.suppress(ClusterFailed):  # it has lost power
                cluster.freeze(host)
            self.later(seconds, f"{host} continues", lambda: cluster.thaw(host))
        for pid in self.pidfds.get((part, host), [])[:1]:
            if send(pid, signal.SIGSTOP):
                self.later(seconds, f"{part} continues", lambda: send(pid, signal.SIGCONT))
        self.note(f"stopped {part} on {host} for {seconds:.2f} s")


def check_notes(trial: Trial, err: str, what: str) -> None:
    """hvdrun names no host but those that were hit, and a true cause."""
    for note in re.findall(r"note: (.*?\blost\b.*?)(?:, new rank .*)?: \d+ ranks? continue", err):
        for host in set(re.findall(r"\bon (n[1-4])\b", note)):
            causes = "|".join(CAUSES[part].format(host=host) for part, its in trial.hit if its == host)
            assert causes and re.search(causes, note), what


def check_report(path: Path, code: int, members: list[int], what: str) -> None:
    report = json.loads(path.read_text())
    generations = report["generations"]
    all_members = {rank for generation in generations for rank in generation["ranks"]}
    lost = {loss["rank"] for generation in generations[:-1] for loss in generation["lost"]}
    assert report["exit_code"] == code, what
    if code == 0:
        assert sorted(all_members - lost) == members, f"{what}\n{generations}"


def start(jobs: Jobs, client: str, shared: Path, replace: str) -> subprocess.Popen:  # noqa: F811
    options = ("--replace", replace, "--host-timeout", 1, "-x", "HVD_HOST_TIMEOUT=2", "--report", shared / "report", "--min-np", 1, "-np", RANKS)
    training = (TRAINER, "--epochs", EPOCHS, "--pause", 8000)
    if client != "srun":
        return jobs.start("--ssh-client", client, *options, "-H", ",".join(f"{host}:2" for host in HOSTS), *training)
    salloc = ("salloc", "-Q", f"-N{len(HOSTS)}", "--ntasks-per-node=2", "--no-kill")
    return jobs.cluster.start(*salloc, HVDRUN, *options, *training, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)


@pytest.mark.parametrize("trial", TRIALS)
def test_the_ranks_that_are_left_train_to_the_undisturbed_loss(jobs: Jobs, shared: Path, trial: int) -> None:  # noqa: F811
    draw = random.Random(f"{SEED} elastic {trial}")
    disturb_a_training(jobs, shared, draw, draw.choice(["libssh", "openssh"]), f"trial {trial}")


@pytest.mark.parametrize("trial", TRIALS[::4])
def test_the_ranks_that_are_left_of_a_slurm_job_train_to_the_undisturbed_loss(jobs: Jobs, shared: Path, trial: int) -> None:  # noqa: F811
    disturb_a_training(jobs, shared, random.Random(f"{SEED} slurm {trial}"), "srun", f"trial {trial} in SLURM")


def disturb_a_training(jobs: Jobs, shared: Path, draw: random.Random, client: str, name: str) -> None:  # noqa: F811
    parts = [draw.choice([part for part in CAUSES if client in ONLY_WITH.get(part, (client,))]) for _ in range(draw.choice([1, 1, 2, 3]))]
    alone = jobs.run("-np", 1, TRAINER, "--epochs", EPOCHS)
    [(_, _, loss, _, _)] = re.findall(RESULT, alone.stdout)
    replace = draw.choice(["off", "auto"])
    job = start(jobs, client, shared, replace)
    for _ in range(RANKS):
        assert job.stdout.readline(), job.communicate()
    # Of hosts that are cut off, those with most ranks may be the ones that are left out: the first of equals stays.
    is_cut = any(part in ("cut", "cut for a moment", "power") for part in parts)
    victims = draw.sample(HOSTS[1:] if is_cut else HOSTS, len(parts))
    run = Trial(jobs, job, draw)
    with contextlib.closing(run):
        for part, host in zip(parts, victims):
            time.sleep(draw.random() * 1.2)
            if stopped := draw.choice(STOPPED):
                run.stop_for_a_moment(stopped, draw.choice(HOSTS))
            run.disturb(part, host)
        code, out, err = finish(job)
        run.end()
        print(run.log, err, sep="\n")
        what = f"seed {SEED}, {name}, {client}, --replace {replace}: {run.log}: code {code}\n{out}{err}"
        # A part that is killed in the last moment may take the output of ranks that had succeeded with it.
        assert code == 0 or (code == 125 and "was lost" in err), what
        results = re.findall(RESULT, out)
        assert results and len({size for _, size, *_ in results}) <= 2, what
        for _, _, own_loss, least, most in results:
            assert float(own_loss) == pytest.approx(float(loss), rel=1e-5), what
            assert (least, most) == (str(EPOCHS), str(EPOCHS)), what
        check_notes(run, err, what)
        root = jobs.cluster.root_of("login")
        check_report(root / f".{shared}/report", code, sorted(int(member) for member, *_ in results), what)
        for host in victims:
            if jobs.cluster.status()["hosts"][host]["state"] == "off":
                jobs.cluster.power_on(host)
            run.await_ends("elastic_trainer", host)
            jobs.cluster.join(host)
            run.await_ends("hvdrun-link", host)  # it still sends, and learns late that no process receives
