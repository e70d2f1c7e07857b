"""hvdrun sbatch, its templates and hvdrun scale --submit on a cluster with real Slurm, as an ordinary user."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import Cluster, wait_until
from harness import BUILD, SOAK
from settings import TIME_LIMIT_S

HVDRUN = BUILD / "bin/hvdrun"
DIGITS = BUILD / "bin/examples/digits"

# Values with characters that shells, sbatch, templates or terminals treat specially.
AWKWARD = ["two words", "it's", '"quoted"', "$(touch pwned)", "`touch pwned`", "a;touch pwned", "a\ntouch pwned",
           "-dash", "--", "größe 漢字", "$HOME", "*", "\\", "\\n", "#x", "&&", "{{time}}", "!!", "~", "\x1b[1m", "a=b", "%j"]
TEMPLATES = ["generic", "cte-power", "marconi100", "container", "requeue"]


def hvdrun(cluster: Cluster, shared: Path, *words: object, **options: object) -> subprocess.CompletedProcess:
    return cluster.run(HVDRUN, *words, folder=shared, **options)


def write(cluster: Cluster, file: Path, text: str, mode: str = "755") -> None:
    cluster.output("sh", "-c", f"cat > {shlex.quote(str(file))} && chmod {mode} {shlex.quote(str(file))}", input=text)


def state_of(cluster: Cluster, job: str) -> str:
    return cluster.output("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


@pytest.mark.gate
def test_a_followed_job_gets_the_requested_ranks_gpus_and_cpus(cluster: Cluster, shared: Path) -> None:
    """Eight ranks with one GPU each on two nodes."""
    done = hvdrun(cluster, shared, "sbatch", "-np", 8, "--gpus-per-node", 4, "--cpus-per-node", 16, "--follow", "--label", "none",
                  "--", "sh", "-c", "echo $HVD_RANK $(hostname) $HVD_LOCAL_DEVICE $CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK")
    assert done.returncode == 0, done.stderr
    assert "hvdrun: note: 8 ranks: 2 nodes × 4 GPUs, 4 CPUs per rank\n" in done.stderr
    ranks = [line.split() for line in done.stdout.splitlines() if not line.startswith("hvdrun")]
    assert sorted(ranks) == [[str(rank), f"n{rank // 4 + 1}", str(rank % 4), "0,1,2,3", "4"] for rank in range(8)], done.stdout


@pytest.mark.gate
def test_gpus_and_cpus_of_a_node_are_read_from_sinfo(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 6, "--", "true")
    assert done.stderr == ("hvdrun: note: a node of partition all has 4 GPUs and 16 CPUs (--gpus-per-node 0: ranks without GPUs)\n"
                           "hvdrun: note: 6 ranks: 2 nodes × 3 GPUs, 4 CPUs per rank\n")
    without = hvdrun(cluster, shared, "sbatch", "-np", 6, "--gpus-per-node", 0, "--", "true")
    assert without.stderr == "hvdrun: note: 6 ranks: 1 CPU per rank\n" and "gpus" not in without.stdout


@pytest.mark.gate
@pytest.mark.parametrize("words, warning", [
    (["--gpus-per-node", 8], "requests 8 GPUs on each node, and a node of partition all has 4 (sinfo)"),
    (["--gpus-per-node", 4, "--cpus-per-rank", 5], "requests 20 CPUs on each node, and a node of partition all has 16 (sinfo)")])
def test_a_request_larger_than_a_node_is_a_warning(cluster: Cluster, shared: Path, words: list[object], warning: str) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 8, *words, "--", "true")
    assert done.returncode == 0 and f"hvdrun: warning: the job {warning}: it may never start; " in done.stderr, done.stderr


@pytest.mark.gate
def test_one_cpu_per_rank_because_sinfo_is_missing_is_a_warning(cluster: Cluster, shared: Path) -> None:
    words = ("sbatch", "-np", 4, "--gpus-per-node", 4, "--", "true")
    unknown = hvdrun(cluster, shared, *words, environment={"PATH": str(shared)})  # no sinfo there
    assert "hvdrun: warning: each rank gets 1 CPU, because it is not known here how many a node has; " in unknown.stderr, unknown.stderr
    known = hvdrun(cluster, shared, *words)
    assert "warning" not in known.stderr and "4 CPUs per rank" in known.stderr, known.stderr


@pytest.mark.gate
def test_hosts_of_a_job_may_have_different_numbers_of_ranks(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 7, "--gpus-per-node", 4, "--follow", "--label", "none", "--", "hostname")
    assert done.returncode == 0, done.stderr
    hosts = [line for line in done.stdout.splitlines() if re.fullmatch("n[1-4]", line)]
    assert sorted(hosts) == ["n1"] * 4 + ["n2"] * 3, done.stdout


@pytest.mark.gate
def test_the_submitted_script_is_the_printed_one(cluster: Cluster, shared: Path) -> None:
    words = ["sbatch", "-np", 2, "--time", 5, "--job-name", "my job", "--set", "x=1"]
    write(cluster, shared / "own.sbatch", "---\nabout: mine\nx: number | a number\n---\n#!/bin/bash\n{{#directives}}\n#SBATCH {{.}}\n"
          "{{/directives}}\nexport X={{x}}\nexec {{#command}}{{.}} {{/command}}\n")
    words += ["--template", "own", "--template-path", shared]
    program = ["--", "sh", "-c", "echo rank $HVD_RANK $X"]
    printed = hvdrun(cluster, shared, *words, *program)
    assert printed.returncode == 0, printed.stderr
    assert '#SBATCH --job-name="my job"\n' in printed.stdout and "#SBATCH --time=5\n" in printed.stdout
    kept = hvdrun(cluster, shared, *words, "-o", "job.sh", *program)
    assert kept.stdout == "" and cluster.output("cat", shared / "job.sh") == printed.stdout
    job = hvdrun(cluster, shared, *words, "--submit", *program).stdout.strip()
    assert cluster.output("scontrol", "write", "batch_script", job, "-") == printed.stdout
    by_hand = cluster.run("sbatch", "--wait", "job.sh", folder=shared)
    assert by_hand.returncode == 0, by_hand.stderr
    wait_until(lambda: state_of(cluster, job) in ("COMPLETED", ""), "the job to end")
    assert "[1] rank 1 1\n" in cluster.output("cat", shared / f"slurm-{job}.out")


@pytest.mark.gate
def test_sbatch_wait_exits_with_the_code_of_the_job(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 2, "--wait", "--output", "wait.out", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    assert "failed with exit code 7" in done.stderr, done.stderr
    assert f"; its output is in {shared}/wait.out\n" in done.stderr, done.stderr


def test_jobs_shows_the_program_of_a_job(cluster: Cluster, shared: Path) -> None:
    job = hvdrun(cluster, shared, "sbatch", "-np", 1, "--submit", "--", "sleep", "7777").stdout.strip()
    listed = json.loads(hvdrun(cluster, shared, "jobs", "--json").stdout)
    assert [(one["id"], one["runs"]) for one in listed] == [(job, "sleep 7777")]
    assert hvdrun(cluster, shared, "cancel", job).returncode == 0


@pytest.mark.gate
def test_the_test_only_option_submits_nothing(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 4, "--test-only", "--", "true")
    assert done.returncode == 0, done.stderr
    assert re.search(r"hvdrun: note: the job could start at .* nothing is submitted", done.stderr), done.stderr
    assert cluster.output("squeue", "-h") == ""


@pytest.mark.parametrize("words, refusal, advice", [
    (["-np", 1, "--partition", "nix"], "Invalid partition name", "sinfo -s"),
    (["-np", 1, "--gpus-per-node", 99, "--ranks-per-host", 1], "node configuration is not available", "--gpus-per-node"),
    (["-np", 1, "--dependency", "nonsense:1"], "dependency", "--dependency"),
])
def test_a_refusal_of_slurm_is_an_error_with_advice(cluster: Cluster, shared: Path, words: list[object], refusal: str, advice: str) -> None:
    """The error has SLURM's message and the option to change."""
    done = hvdrun(cluster, shared, "sbatch", *words, "--submit", "--", "true")
    assert done.returncode == 2 and done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hvdrun: error: sbatch refuses: ") and refusal in last and advice in last, done.stderr


@pytest.mark.parametrize("template", TEMPLATES)
def test_special_characters_in_values_reach_the_program_unchanged(cluster: Cluster, shared: Path, tmp_path: Path, template: str) -> None:
    """Puts the values into every variable of every template. The script passes shellcheck and runs only the program.
    The program gets all values as arguments; each variable gets all values without control characters as one text.
    In the soak, each value has a job of its own."""
    shown = cluster.output(HVDRUN, "templates", "show", template)
    own = re.findall(r"^  (\w+) +(word|text|list) ", shown.partition("of its own")[2].partition("fills in")[0], re.MULTILINE)
    # Replacements of programs that the scripts call: each records its arguments.
    note = f"printf '%s\\n' \"${{0##*/}} $(printf '<%q>' \"$@\")\" >> {shared}/called"
    for tool in ("module", "conda"):
        write(cluster, shared / tool, f"#!/bin/bash\n{note}\n[ \"$1\" = shell.bash ] && "
              f"echo 'conda() {{ {shared}/conda \"$@\"; }}'\nexit 0\n")
    # Replaces the container runtime: runs the words after the image.
    write(cluster, shared / "apptainer", f"#!/bin/bash\n{note}\nwhile [[ $1 != */image* ]]; do shift; done; shift; exec \"$@\"\n")
    if template != "container":
        cluster.output("mkdir", "-p", shared / "venv/bin")
        write(cluster, shared / "venv/bin/activate", "export ACTIVE=1\n")
    for number, values in enumerate([[value] for value in AWKWARD] if SOAK else [AWKWARD]):
        options: list[object] = ["sbatch", "-np", 1, "--nodes", 1, "--cpus-per-node", 16, "--template", template, "--output", "out"]
        lines = [value for value in values if not re.search(r"[\x00-\x1f]", value)]
        unexpanded = " ".join(value for value in lines if "$" not in value)  # the script expands $
        if lines:
            options += [f"--job-name={' '.join(lines)}"]
            options += [f"--set={name}={' '.join(lines)}" for name, _ in own if name != "runtime"]
        if template == "container":
            options += [f"--container={shared}/image {number}{unexpanded}"]
        else:
            options += [f"--venv={shared}/venv"]
            options += [f"--module={value.replace(',', ' ')}" for value in lines if not value.startswith("-")]
            options += [f"--conda={unexpanded}"] if unexpanded and not unexpanded.startswith("-") else []
        program = ["--", "printf", "<%s>", *values]
        printed = hvdrun(cluster, shared, *options, *program)
        assert printed.returncode == 0, f"{values!r}: {printed.stderr}"
        script = tmp_path / "job.sh"
        script.write_text(printed.stdout)
        assert subprocess.run(["bash", "-n", script], capture_output=True, text=True).stderr == "", printed.stdout
        lint = subprocess.run(["shellcheck", "--severity=warning", script], capture_output=True, text=True)
        assert lint.returncode == 0, lint.stdout
        done = hvdrun(cluster, shared, *options, "--wait", "--label", "none", *program,
                      environment={"PATH": f"{shared}:/usr/bin:/bin"})
        out = cluster.output("cat", shared / "out")
        assert done.returncode == 0 and "".join(f"<{value}>" for value in values) in out, \
            f"{values!r}: {done.stderr}{out}\n{printed.stdout}"
    assert "pwned" not in cluster.output("ls", shared)


@pytest.mark.gate
def test_a_newline_in_a_directives_value_is_an_error(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 1, "--job-name", "a\ntouch pwned", "--", "true")
    assert done.returncode == 2 and '--job-name must be one line of text, not "a\\ntouch pwned"' in done.stderr


def losses(text: str) -> dict[str, str]:
    return dict(re.findall(r"epoch (\d+) loss (\S+)", text))


def signal_while_stopped(cluster: Cluster, host: str, name: str, number: signal.Signals, send: Callable[[], object]) -> None:
    """Stops the host's processes of this name until the signal that `send` makes SLURM send is pending in all of them."""
    pids = [int(line.split()[0]) for line in cluster.processes(host) if line.split()[2] == name]
    assert pids, f"no {name} runs on {host}"
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def have_it() -> bool:
        masks = (re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1] for pid in pids)
        return all(int(mask, 16) >> number - 1 & 1 for mask in masks)

    send()
    wait_until(have_it, f"{number.name} to be pending in {name}")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_requeued_job_continues_from_its_checkpoint(cluster: Cluster, shared: Path) -> None:
    """The losses are those of an uninterrupted run. In the soak the job is requeued twice."""
    epochs = 100
    whole = cluster.output(HVDRUN, "-np", 2, DIGITS, "--epochs", epochs, folder=shared)
    requeues = 2 if SOAK else 1
    job = hvdrun(cluster, shared, "sbatch", "-np", 2, "--requeue", "--output", "out", "--output-filename", "logs", "--report",
                 "run.json", "--submit", "--", DIGITS, "--epochs", epochs, "--checkpoint-dir", "ck").stdout.strip()
    out = cluster.root_of("login") / str(shared / "out").lstrip("/")

    def text() -> str:
        return out.read_text() if out.exists() else ""

    for number in range(1, requeues + 1):
        begun = len(losses(text()))
        wait_until(lambda: len(losses(text())) > begun + 5, "some epochs of the run")
        signal_while_stopped(cluster, "n1", "digits", signal.SIGUSR1,
                          lambda: cluster.output("scancel", "--batch", "--signal=USR1", job))
        wait_until(lambda: f"job {job} goes back into the queue ({number} of 10)" in text(), f"requeue {number}: {text()[-500:]}")
        # SLURM may delay the job by two minutes.
        wait_until(lambda: text().count("continuing from") == number, f"the start of run {number + 1}", 120 + TIME_LIMIT_S)
    wait_until(lambda: "test accuracy" in text(), "the end of the training")
    assert losses(text()) == losses(whole)
    assert losses((out.parent / "logs/rank.0000/stdout").read_text()) == losses(whole), "the ranks' files lack output of an earlier run"
    reports = [f"run.json.job{job}.part{number}" for number in range(requeues)]
    assert [path.name for path in sorted(out.parent.glob("run.json.*"))] == reports


@pytest.mark.gate
def test_a_job_that_stops_early_fails_in_slurm(cluster: Cluster, shared: Path) -> None:
    """The program runs below a shell, which the signal would end."""
    job = hvdrun(cluster, shared, "sbatch", "-np", 2, "--nodes", 2, "--gpus-per-node", 0, "--output", "out", "--submit", "--",
                 "sh", "-c", '"$0" "$@"; exit $?', DIGITS, "--epochs", 10**6, "--checkpoint-dir", "ck").stdout.strip()
    after = hvdrun(cluster, shared, "sbatch", "-np", 1, "--dependency", f"afterok:{job}", "--submit", "--", "true").stdout.strip()
    out = cluster.root_of("login") / str(shared / "out").lstrip("/")
    wait_until(lambda: out.exists() and "epoch 1 " in out.read_text(), "the end of the first epoch")
    cluster.output("scancel", "--batch", "--signal=USR1", job)
    done = hvdrun(cluster, shared, "follow", "--no-output", job)
    assert done.returncode == 124 and "failed with exit code 124" in done.stderr, done.stderr + out.read_text()
    assert "hvdrun: note: the program stopped before its end; exit code 124; with --max-requeues" in out.read_text()
    wait_until(lambda: "DependencyNeverSatisfied" in cluster.output("squeue", "-h", "-j", after, "-o", "%T %r"), "a refused dependency")
    assert hvdrun(cluster, shared, "cancel", after).returncode == 0


@pytest.mark.gate
def test_a_dependency_on_a_job_that_slurm_does_not_know_is_warned_of(cluster: Cluster, shared: Path) -> None:
    """SLURM starts such a job at once."""
    job = hvdrun(cluster, shared, "sbatch", "-np", 1, "--submit", "--", "true").stdout.strip()
    done = hvdrun(cluster, shared, "sbatch", "-np", 1, "--dependency", f"afterok:{job}:99999", "--", "true")
    warnings = [line for line in done.stderr.splitlines() if "hvdrun: warning: " in line]
    assert done.returncode == 0 and warnings == [
        f"hvdrun: warning: --dependency afterok:{job}:99999: SLURM knows no job 99999: there was none, or it ended some time ago; the new "
        "job may start without waiting for it"], done.stderr


def test_sbatch_follow_skips_the_output_of_an_earlier_job(cluster: Cluster, shared: Path) -> None:
    for word in ("first", "second"):
        done = hvdrun(cluster, shared, "sbatch", "-np", 1, "--requeue", "--output", "train.log", "--follow", "--", "echo", word)
        assert done.returncode == 0 and done.stdout.splitlines()[0] == word, done.stdout + done.stderr
    assert done.stdout.count("succeeded") == 1, done.stdout


# SLURM checks time limits once per minute, so this is part of the soak.
if SOAK:
    def test_the_signal_before_the_time_limit_requeues_the_job(cluster: Cluster, shared: Path) -> None:
        job = hvdrun(cluster, shared, "sbatch", "-np", 2, "--requeue", "--time", 2, "--signal", "B:USR1@100", "--output", "out",
                     "--submit", "--", DIGITS, "--epochs", 10**6, "--checkpoint-dir", "ck").stdout.strip()
        out = cluster.root_of("login") / str(shared / "out").lstrip("/")
        wait_until(lambda: out.exists() and f"job {job} goes back into the queue (1 of 10)" in out.read_text(), "the requeue", 240)
        assert hvdrun(cluster, shared, "cancel", job).returncode == 0


@pytest.mark.gate
def test_sbatch_submit_without_slurm_is_an_error(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "sbatch", "-np", 2, "--submit", "--", "true", environment={"PATH": "/nowhere"})
    assert done.returncode == 127
    assert "there is no SLURM on this machine" in done.stderr and "prints the script" in done.stderr, done.stderr


def test_scale_submit_runs_each_run_as_a_job(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "scale", "-np", "1,2", "--repeat", 2, "--submit", "--report", "study", "--time", 5, "--gpus-per-node", 0,
                  "--", DIGITS, "--epochs", 4)
    assert done.returncode == 0, done.stderr + done.stdout
    jobs = re.findall(r"hvdrun scale: run \d, (\d) ranks?: job (\d+)\n", done.stderr)
    assert [size for size, _ in jobs] == ["1", "2", "1", "2"] and len({job for _, job in jobs}) == 4, done.stderr
    study = json.loads(cluster.output("cat", shared / "study/scaling.json"))
    assert [(size["ranks"], size["epoch_seconds"] is not None) for size in study["sizes"]] == [(1, True), (2, True)], study["sizes"]
    assert "epoch 4 loss" in cluster.output("cat", shared / "study/runs/np2-1.log")
    assert cluster.output("squeue", "-h", "-t", "PD,R") == ""


def test_scale_submit_with_devices_requests_that_many_gpus(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "scale", "--devices", "1,2", "--submit", "--report", "study", "--time", 5, "--",
                  "sh", "-c", "echo $HVD_SIZE rank, $CUDA_VISIBLE_DEVICES, $1 >> said", "sh", "{np}")
    assert done.returncode == 0, done.stderr + done.stdout
    assert sorted(cluster.output("cat", shared / "said").splitlines()) == ["1 rank, 0, 1", "1 rank, 0,1, 2"]
    study = json.loads(cluster.output("cat", shared / "study/scaling.json"))
    assert study["unit"] == "devices" and [size["size"] for size in study["sizes"]] == [1, 2]
    assert study["hosts"][0]["host"] == "n1" and len(study["hosts"][0]["devices"]) in (1, 2), study["hosts"]


def test_ctrl_c_of_a_submitted_study_cancels_its_jobs(cluster: Cluster, shared: Path) -> None:
    process = cluster.start(HVDRUN, "scale", "-np", "1,2", "--submit", "--report", "study", "--", "sleep", "7777", folder=shared,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: cluster.output("squeue", "-h", "-o", "%T").count("RUNNING") == 2, "both jobs to run")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 130, said
    wait_until(lambda: cluster.output("squeue", "-h", "-t", "PD,R") == "", "the end of its jobs")


def test_a_study_that_slurm_refuses_is_an_error(cluster: Cluster, shared: Path) -> None:
    done = hvdrun(cluster, shared, "scale", "-np", "1,2", "--submit", "--report", "study", "--partition", "nix", "--", "true")
    assert done.returncode == 2 and "1 rank: sbatch refuses: " in done.stderr and "Invalid partition name" in done.stderr, done.stderr
    alone = hvdrun(cluster, shared, "scale", "-np", "1,2", "--partition", "all", "--", "true")
    assert alone.returncode == 2 and "--partition is an option of sbatch: it goes with --submit" in alone.stderr
    nowhere = hvdrun(cluster, shared, "scale", "-np", "1,2", "--submit", "--", "true")
    assert nowhere.returncode == 2 and "--submit needs --report DIR" in nowhere.stderr
