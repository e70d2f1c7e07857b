"""hvdrun inside SLURM: under salloc on the login host, and in a batch script on the first compute host."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from cluster import wait_until
from harness import BUILD, HVDRUN_WORD, PYTHON, SOAK
from settings import TIME_LIMIT_S
from test_ssh import HOST_TIMEOUT_S, HVDRUN, NOTICED, PAUSES, Jobs, finish, jobs, pause, wait_for_go  # noqa: F401, the fixture

WHERE = 'echo $HVD_RANK $(hostname) $HVD_LOCAL_RANK $HVD_NODE_RANK $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS'


def salloc(jobs: Jobs, *words: object, **options: object) -> subprocess.CompletedProcess:  # noqa: F811
    """Runs hvdrun under salloc. Words before "--" are for salloc."""
    at = words.index("--")
    return jobs.cluster.run("salloc", "-Q", *words[:at], HVDRUN, *words[at + 1:], **options)


@pytest.mark.gate
def test_one_rank_runs_per_task_and_slurms_variables_describe_it(jobs: Jobs) -> None:  # noqa: F811
    done = salloc(jobs, "-N4", "--ntasks-per-node=2", "--", "--verbose", "--label", "none", "sh", "-c", WHERE)
    assert done.returncode == 0, done.stderr
    assert re.search(r"n4 +\d+ +srun +10\.80\.0\.1:\d+ < 10\.80\.0\.14:\d+\n", done.stderr), done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} n{rank // 2 + 1} {rank % 2} {rank // 2} {rank} {rank % 2} {rank // 2} 8" for rank in range(8)]


# Variables of ranks that use two of four hosts; {rank}, {node} and {local} are the rank's numbers.
OF_THE_JOB = {"SLURM_PROCID": "{rank}", "SLURM_LOCALID": "{local}", "SLURM_NODEID": "{node}", "NODE_RANK": "{node}",
              "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODELIST": "n[1-2]",
              "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_STEP_NODELIST": "n[1-2]"}
OF_4_RANKS = {"SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "LOCAL_SIZE": "2",
              "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}
OF_3_RANKS = {"SLURM_NTASKS": "3", "SLURM_NPROCS": "3", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS_PER_NODE": "unset",
              "SLURM_TASKS_PER_NODE": "2,1", "SLURM_STEP_TASKS_PER_NODE": "2,1"}


@pytest.mark.parametrize("hosts, size, expected", [
    (("--ntasks-per-node=4",), 4, OF_4_RANKS), (("--ntasks-per-node=1",), 4, OF_4_RANKS), (("-n16",), 3, OF_3_RANKS)])
def test_slurms_variables_describe_the_ranks_and_not_the_allocation(jobs: Jobs, hosts: tuple[str, ...], size: int,  # noqa: F811
                                                                    expected: dict[str, str]) -> None:
    """The values are those that srun gives a step on these hosts. Frameworks compare them with other variables."""
    expected = {**OF_THE_JOB, **expected}
    show = "echo " + " ".join(f"{name}=${{{name}-unset}}" for name in expected)
    done = salloc(jobs, "-N4", *hosts, "--", "-np", size, "--nnodes", 2, "--label", "none", "sh", "-c", show)
    assert done.returncode == 0, done.stderr
    for rank, line in enumerate(sorted(done.stdout.splitlines())):
        values = {name: value.format(rank=rank, node=rank // 2, local=rank % 2) for name, value in expected.items()}
        assert dict(word.split("=") for word in line.split()) == values, done.stderr
    assert done.stdout.count("\n") == size


@pytest.mark.gate
def test_one_rank_runs_per_gpu_of_the_allocation(jobs: Jobs) -> None:  # noqa: F811
    """SLURM's variables list the devices: these hosts have no driver."""
    done = salloc(jobs, "-N2", "--gpus-per-node=2", "--ntasks-per-node=1", "--", "--label", "none", "sh", "-c",
                  "echo $HVD_RANK $(hostname) $HVD_LOCAL_DEVICE $CUDA_VISIBLE_DEVICES")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 n1 0 0,1", "1 n1 1 0,1", "2 n2 0 0,1", "3 n2 1 0,1"], done.stderr


SHOW_GPUS = ("--label", "none", "sh", "-c", "echo $HVD_RANK $(hostname) $CUDA_VISIBLE_DEVICES")
# (options of salloc, GPUs of each host). The soak adds further cases. Unit tests cover the rule.
GPU_REQUESTS = [(("-N2", "--gpus=3"), (2, 1)), (("-N3", "--gpus=9"), (4, 4, 1))]
if SOAK:
    GPU_REQUESTS += [(("-N2", "--gpus=8"), (4, 4)), (("-N2", "-n8", "--gpus=8", "--ntasks-per-node=4"), (4, 4)),
                     (("-n6", "-N2", "--gpus=6"), (4, 2)), (("-N4", "--gpus=16"), (4, 4, 4, 4))]
TOTALS = pytest.mark.parametrize("asked, by_host", GPU_REQUESTS)


def expected_gpus(by_host: tuple[int, ...]) -> list[str]:
    hosts = [host for host, gpus in enumerate(by_host) for _ in range(gpus)]
    return sorted(f"{rank} n{host + 1} {','.join(map(str, range(by_host[host])))}" for rank, host in enumerate(hosts))


def test_hvdrun_in_a_step_of_part_of_the_hosts_or_without_srun_reports_it(jobs: Jobs) -> None:  # noqa: F811
    step = jobs.cluster.run("salloc", "-Q", "-N2", "-n4", "srun", "-N1", "-n1", HVDRUN, "true", stdin=subprocess.DEVNULL)
    assert "srun has started hvdrun in a step on 1 of the 2 hosts of SLURM job" in step.stderr, step.stderr
    bare = jobs.cluster.run("salloc", "-Q", "-N2", "-n4", "env", "PATH=/nowhere", HVDRUN, "/bin/true", stdin=subprocess.DEVNULL)
    assert bare.returncode == 125 and "srun is not in PATH, and hvdrun reaches the other hosts" in bare.stderr, bare.stderr


def test_an_interactive_step_that_hides_gpus_is_an_error_with_working_options(jobs: Jobs) -> None:  # noqa: F811
    def shell(*options: str) -> subprocess.CompletedProcess:
        """Runs hvdrun in an interactive step."""
        return jobs.cluster.run("script", "-qec", " ".join(["srun", *options, "--pty", HVDRUN_WORD, "--label", "none", "sh", "-c", "'echo rank'"]),
                                "/dev/null", stdin=subprocess.DEVNULL)

    hidden = shell("-N1", "-n4", "--gpus-per-task=1").stdout
    assert "--gpus-per-task hides all but 1 of them from this step" in hidden and "rank\n" not in hidden, hidden
    line = re.search(r"#SBATCH (--nodes=1 --gpus-per-node=4 --ntasks-per-node=4)\s", hidden)
    assert line, hidden
    assert shell(*line[1].split()).stdout.count("rank\n") == 4


@TOTALS
def test_total_gpus_are_used_as_slurm_spreads_them(jobs: Jobs, asked: tuple[str, ...], by_host: tuple[int, ...]) -> None:  # noqa: F811
    """SLURM chooses the GPUs per host, and its variables do not say how many."""
    done = salloc(jobs, *asked, "--", *SHOW_GPUS)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == expected_gpus(by_host), done.stderr


@TOTALS
def test_total_gpus_are_used_as_slurm_spreads_them_in_a_batch_script(jobs: Jobs, shared: Path, asked: tuple[str, ...],  # noqa: F811
                                                          by_host: tuple[int, ...]) -> None:
    script = f"#!/bin/sh\nexec {HVDRUN_WORD} {' '.join(map(shlex.quote, SHOW_GPUS))} > {shared}/ranks\n"
    done = jobs.cluster.run("sbatch", "--wait", *asked, "--output", shared / "out", input=script)
    said = jobs.cluster.output("cat", shared / "out")
    assert done.returncode == 0, done.stderr + said
    assert sorted(jobs.cluster.output("cat", shared / "ranks").splitlines()) == expected_gpus(by_host), said


def test_a_host_with_more_gpus_than_the_others_can_be_used_alone(jobs: Jobs) -> None:  # noqa: F811
    """SLURM grants a step on such a host its GPUs only for one of several ways to request them."""
    done = salloc(jobs, "-N3", "--gpus=6", "--", "--exclude", "n2,n3", *SHOW_GPUS)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == expected_gpus((4,)), done.stderr


def test_the_start_timeout_ends_an_srun_that_slurm_does_not_start(jobs: Jobs) -> None:  # noqa: F811
    """SLURM creates no step in a suspended job, so srun waits."""
    with jobs.cluster.start("salloc", "-Q", "-N2", "sh", "-c", f"echo $SLURM_JOB_ID; read go; exec {HVDRUN_WORD} --start-timeout 2 true",
                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        number = job.stdout.readline().strip()
        jobs.cluster.output("scontrol", "suspend", number, on="login", user="root")
        # Shorter than the 20 s that hvdrun waits for agents to end: no agent has started.
        _, err = job.communicate("go\n", timeout=TIME_LIMIT_S / 4)
    assert job.returncode == 124 and "not all ranks had started after 2 s (--start-timeout)" in err, err


@pytest.mark.gate
def test_a_batch_script_runs_ranks_on_all_hosts(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """hvdrun starts the agent on its own host by fork, not in a step."""
    script = f"#!/bin/sh\nexec {HVDRUN_WORD} --label none sh -c '{WHERE}'\n"
    done = jobs.cluster.run("sbatch", "--wait", "-N4", "--ntasks-per-node=1", "--output", shared / "out", input=script)
    out = jobs.cluster.output("cat", shared / "out")
    assert done.returncode == 0, done.stderr + out
    assert sorted(out.splitlines())[:4] == [f"{rank} n{rank + 1} 0 {rank} {rank} 0 {rank} 4" for rank in range(4)], out


@pytest.mark.gate
@pytest.mark.parametrize("program, sum_of_ranks", [("mpi_allreduce", 45), ("pmix_client", 36)])
def test_mpi_and_pmix_programs_communicate_between_hosts(jobs: Jobs, program: str, sum_of_ranks: int) -> None:  # noqa: F811
    done = salloc(jobs, "-N4", "-n4", "--", "-np", 9, BUILD / "bin/tests" / program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] rank {rank} of 9: sum {sum_of_ranks}" for rank in range(9)]


@pytest.mark.gate
def test_hvdruns_code_in_slurm_is_that_of_the_failed_rank(jobs: Jobs) -> None:  # noqa: F811
    done = salloc(jobs, "-N4", "-n4", "--", "sh", "-c", "[ $HVD_RANK = 2 ] && echo why >&2 && exit 3; sleep 7777")
    assert done.returncode == 3
    assert "rank 2 on n3 failed: exit code 3" in done.stderr and "| why" in done.stderr, done.stderr


def start_sleepers(jobs: Jobs, *options: object) -> subprocess.Popen:  # noqa: F811
    """Starts a job with one rank on each of the four hosts of an allocation."""
    job = jobs.cluster.start("salloc", "-Q", "-N4", "-n4", HVDRUN, "--grace", 1, *options, "sleep", 7777, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for host in ("n1", "n2", "n3", "n4"):
        jobs.wait_for_ranks(host, 1)
    return job


@pytest.mark.parametrize("victim", ["hvdrun-agent", "hvd-guard", "hvdrun-link"])
def test_the_job_fails_with_125_after_a_kill_of_agent_guard_or_link(jobs: Jobs, victim: str) -> None:  # noqa: F811
    job = start_sleepers(jobs)
    jobs.cluster.output("kill", "-9", jobs.pid_of("n2", victim), on="n2", user="root")
    code, _, err = finish(job)
    assert code == 125 and "on n2 was " in err, err
    assert ("was lost: killed by SIGKILL;" in err) == (victim == "hvdrun-agent"), err


def test_the_job_restarts_on_the_same_hosts_after_a_link_is_lost(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """The ranks need all four hosts."""
    rank = f"hostname > {shared}/$HVD_RESTART_COUNT.$HVD_RANK; [ $HVD_RESTART_COUNT = 1 ] || exec sleep 7777"
    job = jobs.cluster.start("salloc", "-Q", "-N4", "-n4", HVDRUN, "--grace", 1, "--max-restarts", 1, "sh", "-c", rank, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for host in ("n1", "n2", "n3", "n4"):
        jobs.wait_for_ranks(host, 1)
    jobs.cluster.output("kill", "-9", jobs.pid_of("n2", "hvdrun-link"), on="n2", user="root")
    code, _, err = finish(job)
    assert code == 0 and re.search(r"the agent on n2 was lost: .+; restart 1 of 1", err), err
    assert jobs.cluster.output("sh", "-c", f"cd {shared} && cat 1.*").split() == ["n1", "n2", "n3", "n4"]


def test_a_host_that_loses_power_ends_the_job_with_125(jobs: Jobs) -> None:  # noqa: F811
    job = start_sleepers(jobs)
    jobs.cluster.kill("n2")
    code, _, err = finish(job)
    assert code == 125 and "the agent on n2 was lost" in err, err
    jobs.cluster.power_on("n2")


@pytest.mark.parametrize("victim, is_noticed", [*(PAUSES if SOAK else []), ("hvdrun-link", True)])
def test_a_job_survives_a_pause_longer_than_host_timeout(jobs: Jobs, shared: Path, victim: str, is_noticed: bool) -> None:  # noqa: F811
    """hvdrun is stopped on the login host, the other processes on n2."""
    job = jobs.cluster.start("salloc", "-Q", "-N2", "-n2", HVDRUN, "--host-timeout", HOST_TIMEOUT_S, "sh", "-c", wait_for_go(shared),
                             text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, out, err = pause(jobs, shared, job, victim, is_noticed)
    assert code == 0 and out.count("complete") == 2, (code, out, err)
    assert (NOTICED in err) == is_noticed, err


def test_a_file_system_stall_under_stdout_does_not_end_the_job(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """The stall is longer than agents wait for a silent hvdrun."""
    timeout_s, stall_ms = 2, 32000  # agents wait 15 times as long as --host-timeout
    words = f"exec {shlex.quote(str(BUILD))}/bin/tests/fault_injector --fault launcher:write:file:1:{stall_ms} --log {shared}/stalls -- " \
            f"{HVDRUN_WORD} --host-timeout {timeout_s} sh -c 'echo up; {wait_for_go(shared)}' > {shared}/out"
    job = jobs.cluster.start("salloc", "-Q", "-N2", "-n2", "sh", "-c", words, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: "system call" in jobs.cluster.run("cat", shared / "stalls").stdout, "the stall of the file system")
    jobs.cluster.output("touch", shared / "go")
    code, _, err = finish(job)
    assert code == 0 and jobs.cluster.output("cat", shared / "out").count("complete") == 2, (code, err)


@pytest.mark.gate
def test_scancel_sends_ranks_sigterm_before_they_are_killed(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    script = f"#!/bin/sh\nexec {HVDRUN_WORD} --grace 10 sh -c 'trap \"echo term > {shared}/term.$HVD_RANK; exit 0\" TERM; " \
             f"touch {shared}/up.$HVD_RANK; while :; do sleep 0.1; done'\n"
    number = jobs.cluster.output("sbatch", "--parsable", "-N4", "--ntasks-per-node=1", "--output", shared / "out", input=script).strip()
    wait_until(lambda: jobs.cluster.output("ls", shared).count("up.") == 4, "all ranks to start")
    jobs.cluster.output("scancel", number)
    wait_until(lambda: jobs.cluster.output("ls", shared).count("term.") == 4, "SIGTERM in all ranks")
    jobs.cluster.wait_idle()


def start_recorder_of_signals(jobs: Jobs, shared: Path, *options: str) -> str:  # noqa: F811
    """Starts a batch job with a rank on each host. Ranks record SIGUSR1 and end by SIGUSR2. Returns the job's id."""
    rank = shared / "rank.sh"
    jobs.cluster.output("tee", rank, input=f"trap 'echo >> {shared}/got.$HVD_RANK' USR1; trap 'exit 0' USR2; "
                                           f"touch {shared}/up.$HVD_RANK; while :; do sleep 0.1; done")
    number = jobs.cluster.output("sbatch", "--parsable", "-N4", "--ntasks-per-node=1", *options, "--output",
                                 shared / "out", input=f"#!/bin/sh\nexec {HVDRUN_WORD} sh {rank}\n").strip()
    wait_until(lambda: jobs.cluster.output("ls", shared).count("up.") == 4, "all ranks to start")
    return number


@pytest.mark.gate
def test_scancel_batch_with_a_signal_reaches_all_ranks(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    number = start_recorder_of_signals(jobs, shared)
    jobs.cluster.output("scancel", "--batch", "--signal=USR1", number)
    wait_until(lambda: jobs.cluster.output("ls", shared).count("got.") == 4, "the signal in all ranks")
    jobs.cluster.output("scancel", "--batch", "--signal=USR2", number)
    jobs.cluster.wait_idle()
    assert "4 ranks succeeded" in jobs.cluster.output("cat", shared / "out")


@pytest.mark.gate
def test_scancel_with_a_signal_for_steps_reaches_each_rank_once(jobs: Jobs, shared: Path) -> None:  # noqa: F811
    """With --signal=USR1@90, SLURM also sends the signal to steps on n2 to n4, but not to the batch script on n1."""
    number = start_recorder_of_signals(jobs, shared)
    for count in (1, 2):
        jobs.cluster.output("scancel", "--signal=USR1", number)
        wait_until(lambda: jobs.cluster.output("sh", "-c", f"cat {shared}/got.*").count("\n") >= 4 * count,  # noqa: B023
                   "the signal in all ranks")
    jobs.cluster.output("scancel", "--batch", "--signal=USR2", number)
    jobs.cluster.wait_idle()
    assert jobs.cluster.output("sh", "-c", f"wc -l < {shared}/got.0; wc -l < {shared}/got.3") == "2\n2\n"


# A rank that writes how often it has got the signal. It ends by SIGUSR2.
RECORDER = """import os, pathlib, signal, sys, time
name = os.environ["HVD_RANK"]
got = []
signal.signal(int(sys.argv[1]), lambda *_: got.append(1))
signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
while True:
    time.sleep(0.05)
    part = pathlib.Path(f"{sys.argv[2]}/new.{name}")
    part.write_text(str(len(got)))
    part.replace(f"{sys.argv[2]}/got.{name}")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGURG, signal.SIGALRM, signal.SIGWINCH,
                                    signal.SIGQUIT, signal.SIGRTMIN + 6])
def test_a_signal_for_steps_reaches_all_ranks_and_the_job_continues(jobs: Jobs, shared: Path, number: int) -> None:  # noqa: F811
    jobs.cluster.output("tee", shared / "rank.py", input=RECORDER)
    script = f"#!/bin/sh\nexec {HVDRUN_WORD} {PYTHON} {shared}/rank.py {int(number)} {shared}\n"
    job = jobs.cluster.output("sbatch", "--parsable", "-N2", "--ntasks-per-node=2", "--output", shared / "out", input=script).strip()
    seen = lambda: jobs.cluster.output("sh", "-c", f"cat {shared}/got.* 2>/dev/null || true")  # noqa: E731
    wait_until(lambda: seen() == "0000", "all ranks to start")
    jobs.cluster.output("scancel", f"--signal={int(number)}", job)
    wait_until(lambda: seen() == "1111", "the signal in all ranks")
    jobs.cluster.output("scancel", "--batch", "--signal=USR2", job)
    jobs.cluster.wait_idle()
    assert seen() == "1111" and "4 ranks succeeded" in jobs.cluster.output("cat", shared / "out")


@pytest.mark.parametrize("options, least, most", [([], 5, 8), (["--batch", "--signal=TERM"], 100, 310)])
def test_ranks_have_the_time_that_slurm_gives_after_sigterm(jobs: Jobs, shared: Path, options: list[str], least: int,  # noqa: F811
                                                            most: int) -> None:
    """KillWait is 10 s here. A job that runs on after the signal has the time until its limit, too."""
    script = f"#!/bin/sh\nexec {HVDRUN_WORD} sh -c 'trap \"\" TERM; touch {shared}/up.$HVD_RANK; until [ -e {shared}/go ]; do sleep 0.1; done'\n"
    job = jobs.cluster.output("sbatch", "--parsable", "-N2", "--ntasks-per-node=1", "-t5", "--output", shared / "out", input=script).strip()
    wait_until(lambda: jobs.cluster.output("ls", shared).count("up.") == 2, "all ranks to start")
    jobs.cluster.output("scancel", *options, job)
    wait_until(lambda: "with SIGKILL" in jobs.cluster.output("cat", shared / "out"), "hvdrun's stop")
    jobs.cluster.output("touch", shared / "go")
    jobs.cluster.wait_idle()
    text = jobs.cluster.output("cat", shared / "out")
    found = re.search(r"stopping 2 ranks with SIGTERM, after ([0-9.]+) s with SIGKILL", text)
    assert found and least <= float(found[1]) <= most, text


@pytest.mark.gate
@pytest.mark.parametrize("word", ["", "exec "])
def test_a_signal_for_steps_is_a_warning_if_the_job_has_none(jobs: Jobs, shared: Path, word: str) -> None:  # noqa: F811
    script = f"#!/bin/sh\n#SBATCH --signal=USR1@90\n{word}{HVDRUN_WORD} -np 2 true\n"
    jobs.cluster.output("sbatch", "--wait", "-N1", "--output", shared / "out", input=script)
    assert "warning: SLURM sends this job's --signal=USR1@90 to steps of srun only" in jobs.cluster.output("cat", shared / "out")


if SOAK:  # SLURM checks time limits every half minute

    def test_the_signal_before_the_time_limit_reaches_all_ranks(jobs: Jobs, shared: Path) -> None:  # noqa: F811
        number = start_recorder_of_signals(jobs, shared, "-t1", "--signal=B:USR1@30")
        wait_until(lambda: jobs.cluster.output("ls", shared).count("got.") == 4, "the signal in all ranks", 150)
        jobs.cluster.output("scancel", "--batch", "--signal=USR2", number)
        jobs.cluster.wait_idle()


def test_nothing_is_left_after_launches_in_a_row(jobs: Jobs) -> None:  # noqa: F811
    times = 500 if SOAK else 5
    done = jobs.cluster.run("salloc", "-Q", "-N4", "-n4", "sh", "-c",
                            f"for i in $(seq {times}); do {HVDRUN_WORD} -np 8 true || exit 1; done", timeout=600)
    assert done.returncode == 0, done.stderr
    assert not jobs.left()
