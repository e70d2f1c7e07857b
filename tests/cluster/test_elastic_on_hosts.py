"""A job with --min-np on several hosts: it continues when a rank is lost, an agent, its guard, or a host, and its lines, report and
exit code are true."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cluster import wait_until
from harness import BUILD
from settings import TIME_LIMIT_S
from test_ssh import HVDRUN, Jobs, finish, jobs  # noqa: F401, the fixture

TRAINER = BUILD / "bin/tests/elastic_trainer"
EPOCHS = 4  # of five steps
TWO_HOSTS = "n1:2,n2:2"
ON_TWO_HOSTS = ("--min-np", 1, "-np", 4, "-H", TWO_HOSTS)
RESULT = r"member (\d+) pid \d+ generation (\d+) rank \d+ size (\d+) step \d+ loss (\S+) used (\d+) (\d+)"


def undisturbed_loss(jobs: Jobs, *options: object) -> float:  # noqa: F811
    [(*_, loss, _, _)] = re.findall(RESULT, jobs.run("-np", 1, TRAINER, *options).stdout)
    return float(loss)


def check_results(out: str, members: list[int], loss: float, epochs: int = EPOCHS) -> None:
    """These members ended the training together, with each sample used as often as in an undisturbed run."""
    results = re.findall(RESULT, out)
    assert sorted(int(result[0]) for result in results) == members, out
    for _, _, size, own_loss, least, most in results:
        assert float(own_loss) == pytest.approx(loss, rel=1e-5)
        assert (int(size), int(least), int(most)) == (len(members), epochs, epochs), out


class Held:
    """A job of four ranks that all wait before step 7, until let_go(). With other `holds` of the trainer, they wait for let_go() with
    the names of these files."""

    def __init__(self, jobs: Jobs, shared: Path, *options: object, hosts: str = TWO_HOSTS, least: int = 1,  # noqa: F811
                 allocation: tuple[str, ...] = (), holds: tuple[str, ...] = ("7:-1:go",), shell: str = "", epochs: int = EPOCHS,
                 program_options: tuple[object, ...] = ()) -> None:
        """With an allocation, salloc's words for it, the hosts are those of SLURM. With `shell`, a script, each rank is a
        shell that runs the trainer as "$@"."""
        self.jobs = jobs
        self.folder = jobs.cluster.root_of("login") / f".{shared}"
        self.epochs = epochs
        self.loss = undisturbed_loss(jobs, "--epochs", epochs)
        pause_us = 1000 if epochs > EPOCHS else 0
        size = sum(int(host.split(":")[1]) for host in hosts.split(","))
        where = () if allocation else ("-H", hosts)
        files = ",".join("{}:{}:{}/{}".format(*hold.split(":")[:2], shared, hold.split(":")[2]) for hold in holds)
        shell_words = ("sh", "-c", shell, "sh") if shell else ()
        self.job = jobs.cluster.start(*allocation, HVDRUN, "--min-np", least, "-np", size, *where, "--report", shared / "report",
                                      *options, *shell_words, TRAINER, "--epochs", epochs, "--pause", pause_us, "--hold", files, "--ready", shared / "ready",
                                      *program_options, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: len(self.pids()) == size, "all ranks in their step")

    def pids(self) -> dict[int, int]:
        """Returns the pids of the members that wait, on their hosts."""
        file = self.folder / "ready"
        lines = file.read_text().splitlines() if file.exists() else []
        return {int(member): int(pid) for member, pid in map(str.split, lines)}

    def let_go(self, file: str = "go") -> None:
        (self.folder / file).touch()

    def kill(self, host: str, name: str, number: str = "KILL") -> None:
        self.jobs.cluster.output("pkill", f"-{number}", "-x", name, on=host, user="root")

    def wait_for_line(self, text: str) -> str:
        """Returns what hvdrun has printed, up to the line with the text."""
        said = ""
        while text not in said and (line := self.job.stderr.readline()):
            said += line
        assert text in said, said
        return said

    def check_end(self, members: list[int], note: str) -> str:
        """The job ends well with these members, and says why the others were lost."""
        code, out, err = finish(self.job)
        assert code == 0, err
        check_results(out, members, self.loss, self.epochs)
        assert re.search(note, err), err
        report = json.loads((self.folder / "report").read_text())
        assert report["exit_code"] == 0 and report["generations"][-1]["size"] == len(members), report["generations"]
        return err


@pytest.mark.parametrize("victim", [0, 1, pytest.param(2, marks=pytest.mark.gate), 3])
def test_the_other_ranks_continue_after_a_death(jobs: Jobs, victim: int) -> None:  # noqa: F811
    loss = undisturbed_loss(jobs)
    done = jobs.run(*ON_TWO_HOSTS, TRAINER, "--die", f"step:{victim}:1:kill:7")
    assert done.returncode == 0, done.stderr
    check_results(done.stdout, [rank for rank in range(4) if rank != victim], loss)
    assert re.search(rf"note: rank {victim} on n[12] was lost \(killed by SIGKILL\): 3 ranks continue", done.stderr), done.stderr


@pytest.mark.gate
def test_a_new_rank_takes_the_place_of_a_lost_one_on_another_host(jobs: Jobs) -> None:  # noqa: F811
    loss = undisturbed_loss(jobs)
    done = jobs.run(*ON_TWO_HOSTS, "--replace", "auto", TRAINER, "--die", "step:3:1:kill:7", "--take-in", 12)
    assert done.returncode == 0, done.stderr
    check_results(done.stdout, [0, 1, 2, 4], loss)
    assert "note: rank 3 on n2 was lost (killed by SIGKILL): 3 ranks continue" in done.stderr, done.stderr
    assert "note: new rank 4 on n2 has joined: 4 ranks continue" in done.stderr, done.stderr


LOST_WITH = {
    "hvdrun-agent": r"with the agent(: killed by SIGKILL)?",
    "hvd-guard": r"the guard of the agent on {host} was killed",
}


@pytest.mark.parametrize("hosts, host", [pytest.param("n1:2,n2:2", "n2", marks=pytest.mark.gate, id="n2"),
                                         pytest.param("n1:2,n2:2", "n1", id="n1"),
                                         pytest.param("login:2,n1:2", "login", marks=pytest.mark.gate, id="login")])
@pytest.mark.parametrize("role", ["hvdrun-agent", "hvd-guard"])
def test_the_ranks_of_other_hosts_continue_without_a_killed_agent_or_guard(jobs: Jobs, shared: Path, role: str, hosts: str,  # noqa: F811
                                                                           host: str) -> None:
    """One of the hosts is the launcher's own."""
    held = Held(jobs, shared, hosts=hosts)
    held.kill(host, role)
    held.let_go()
    lost = [0, 1] if hosts.startswith(host) else [2, 3]
    how = LOST_WITH[role].format(host=host)
    held.check_end([member for member in range(4) if member not in lost],
                   rf"note: ranks {lost[0]}-{lost[1]} on {host} were lost \({how}\): 2 ranks continue")


@pytest.mark.parametrize("hosts, host", [pytest.param("n1:2,n2:2", "n2", marks=pytest.mark.gate, id="n2"),
                                         pytest.param("login:2,n1:2", "login", id="login")])
@pytest.mark.parametrize("roles", [["hvdrun-agent"], ["hvd-guard", "hvdrun-agent"]], ids=["agent", "both"])
def test_a_killed_agent_is_started_again(jobs: Jobs, shared: Path, roles: list[str], hosts: str, host: str) -> None:  # noqa: F811
    """Its guard has ended its ranks, or the next agent does. New ranks take their places."""
    held = Held(jobs, shared, "--replace", "auto", hosts=hosts, least=4, holds=("7:-1:go",))
    for role in roles:
        held.kill(host, role, "STOP" if len(roles) > 1 else "KILL")
    for role in roles if len(roles) > 1 else []:
        held.kill(host, role)
    held.let_go()
    lost = [0, 1] if hosts.startswith(host) else [2, 3]
    members = [*(member for member in range(4) if member not in lost), 4, 5]
    held.check_end(members, rf"note: the agent on {host} was started again")


@pytest.mark.gate
def test_too_few_ranks_after_the_loss_of_an_agent_end_the_job_with_its_reason(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    held = Held(jobs, shared, least=3)
    held.kill("n2", "hvdrun-agent")
    held.let_go()
    code, _, err = finish(held.job)
    assert code == 125 and re.search("error: job stopped after .*: the agent on n2 was lost.*; exit code 125", err), err
    assert "2 ranks are left, fewer than --min-np 3: stopping" in err, err


@pytest.mark.gate
def test_new_ranks_come_on_the_hosts_that_are_left(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """A host is lost, and then a rank on the other one. Only the latter gets a new rank."""
    held = Held(jobs, shared, "--replace", "auto", program_options=("--die", "step:1:2:kill:12", "--take-in", 15))
    held.kill("n2", "hvdrun-agent")
    held.let_go()
    err = held.check_end([0, 4], "note: .*new rank 4 on n1 has joined: 2 ranks continue")
    assert re.search(r"note: ranks 2-3 on n2 were lost \(with the agent.*\): 2 ranks continue", err), err


IN_WHAT = pytest.mark.parametrize("computes", [pytest.param(False, id="in-collectives"), pytest.param(True, id="computing")])
STAYS_BEFORE_STEP_8 = "8:3:never"  # the last member: so no job ends before its host is lost
SILENT = r"note: ranks 2-3 on n2 were lost \(the host has not answered for 1 s \(--host-timeout\)\): 2 ranks continue"


def ranks_on(jobs: Jobs, host: str) -> list[str]:  # noqa: F811
    return [line for line in jobs.cluster.processes(host) if " elastic_trainer " in line]


@IN_WHAT
def test_the_ranks_of_other_hosts_continue_without_a_host_that_is_cut_off(jobs: Jobs, shared: Path, computes: bool) -> None:  # noqa: F811
    """The ranks on the host that is cut off are ended, though their agent hears nothing from hvdrun."""
    held = Held(jobs, shared, "--host-timeout", 1, holds=("7:-1:go",) if computes else ("7:-1:go", STAYS_BEFORE_STEP_8))
    if not computes:
        held.let_go()
    jobs.cluster.cut("n2")
    if computes:
        time.sleep(1.5)
        held.let_go()
    held.check_end([0, 1], SILENT)
    wait_until(lambda: not ranks_on(jobs, "n2"), "the end of the ranks that were cut off", TIME_LIMIT_S / 3)


@pytest.mark.parametrize("computes", [pytest.param(False, id="in-collectives", marks=pytest.mark.gate), pytest.param(True, id="computing")])
def test_the_ranks_of_other_hosts_continue_without_a_host_that_loses_power(jobs: Jobs, shared: Path, computes: bool) -> None:  # noqa: F811
    held = Held(jobs, shared, "--host-timeout", 1, holds=("7:-1:go",) if computes else ("7:-1:go", STAYS_BEFORE_STEP_8))
    if not computes:
        held.let_go()
    jobs.cluster.kill("n2")
    if computes:
        time.sleep(1.5)
        held.let_go()
    held.check_end([0, 1], SILENT)
    jobs.cluster.power_on("n2")


@contextmanager
def separated(jobs: Jobs, first: str, second: str) -> Iterator[None]:  # noqa: F811
    """The hosts reach all others, but not each other: packets between them get lost."""
    for host, other in ((first, second), (second, first)):
        address = f"$(getent ahostsv4 {other} | head -n 1 | cut -d ' ' -f 1)"
        jobs.cluster.output("sh", "-c", f"ip neigh replace {address} lladdr 02:00:00:00:00:99 nud permanent dev eth0", on=host, user="root")
    try:
        yield
    finally:
        for host in (first, second):
            jobs.cluster.output("ip", "neigh", "flush", "dev", "eth0", "nud", "permanent", on=host, user="root")


@pytest.mark.parametrize("hosts, apart, may_be_lost", [
    pytest.param("n1:2,n2:1,n3:1", [("n2", "n3")], {2: "n2", 3: "n3"}, id="one-of-two"),
    pytest.param("n1:1,n2:1,n3:1,n4:1", [("n2", "n1"), ("n2", "n3"), ("n2", "n4")], {1: "n2"}, id="the-one-that-none-can-reach"),
])
def test_a_host_that_other_hosts_cannot_reach_is_left_out(jobs: Jobs, shared: Path, hosts: str, apart: list[tuple[str, str]],  # noqa: F811
                                                          may_be_lost: dict[int, str]) -> None:
    """The launcher reaches all hosts. Of two that cannot reach each other either may be left out."""
    held = Held(jobs, shared, "-x", "HVD_HOST_TIMEOUT=2", hosts=hosts)
    with ExitStack() as cuts:
        for first, second in apart:
            cuts.enter_context(separated(jobs, first, second))
        held.let_go()
        said = held.wait_for_line("continue")
        lost = next(rank for rank, host in may_be_lost.items() if f"rank {rank} on {host} could not be reached" in said)
        held.check_end([member for member in range(4) if member != lost], "")
    who = f"rank {lost} on {may_be_lost[lost]}"
    assert f"warning: {who} could not be reached by ranks of other hosts; ending it" in said, said
    assert f"note: {who} was lost (could not be reached by ranks of other hosts): 3 ranks continue" in said, said


def test_a_node_that_slurm_gives_up_does_not_end_the_others(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """The agents are tasks of one step. It survives, because srun has --no-kill."""
    held = Held(jobs, shared, "--host-timeout", 1, allocation=("salloc", "-Q", "-N2", "--ntasks-per-node=2", "--no-kill", "-w", "n1,n2"))
    jobs.cluster.kill("n2")
    jobs.cluster.output("scontrol", "update", "nodename=n2", "state=down", "reason=test", user="root")
    held.let_go()
    held.check_end([0, 1], SILENT)
    jobs.cluster.power_on("n2")


@pytest.mark.parametrize("role", ["elastic_trainer", "hvdrun-agent", "hvd-guard"])
def test_the_other_ranks_of_a_slurm_job_continue_after_a_kill(jobs: Jobs, shared: Path, role: str) -> None:  # noqa: F811
    """The agents are tasks of one step, whose other tasks survive."""
    held = Held(jobs, shared, allocation=("salloc", "-Q", "-N2", "--ntasks-per-node=2", "-w", "n1,n2"))
    if role == "elastic_trainer":
        jobs.cluster.output("kill", "-KILL", str(held.pids()[3]), on="n2", user="root")
    else:
        held.kill("n2", role)
    held.let_go()
    if role == "elastic_trainer":
        held.check_end([0, 1, 2], r"note: rank 3 on n2 was lost \(killed by SIGKILL\): 3 ranks continue")
    else:
        held.check_end([0, 1], rf"note: ranks 2-3 on n2 were lost \({LOST_WITH[role].format(host='n2')}\): 2 ranks continue")
