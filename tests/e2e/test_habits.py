"""Command lines in the style of other launchers: hvdrun accepts them, or its error says what to type instead."""

from __future__ import annotations

import pytest

from harness import HVDRUN, Done, Sandbox


def dry(sandbox: Sandbox, *words: object) -> Done:
    return sandbox.run("--dry-run", "-H", "localhost:4", *words)


ACCEPTED = [
    (("-n", 4), 4),
    (("--ntasks", 4), 4),
    (("--num_processes", 2), 2),
    (("--nproc-per-node", 2), 2),
    (("--nproc_per_node=2",), 2),
    (("--nnodes=1", "--nproc-per-node=3", "--standalone"), 3),
    (("-ppn", 2), 2),
    (("--ntasks-per-node", 2), 2),
    (("-n", 2, "-c", 1), 2),
    (("-np", 2, "--allow-run-as-root", "--tag-output"), 2),
    (("-np", 2, "-l"), 2),
    (("-np", 2, "--no-python"), 2),
    (("-np", 2, "--gloo", "--mpi=pmix"), 2),
    (("-np", 2, "--max_restarts", 3), 2),
]


@pytest.mark.parametrize("words, ranks", ACCEPTED, ids=[" ".join(map(str, words)) for words, _ in ACCEPTED])
def test_options_of_other_launchers_with_the_same_meaning_are_accepted(sandbox: Sandbox, words: tuple[object, ...], ranks: int) -> None:
    done = dry(sandbox, "--oversubscribe", *words, "true").expect(0)
    assert f"{ranks} rank" in done.out_text, done


def test_mpiruns_options_for_hosts_are_accepted(sandbox: Sandbox) -> None:
    (sandbox.files / "hosts").write_text("localhost slots=3\n")
    for words in (("--host", "localhost:3"), ("-host", "localhost:3"), ("-machinefile", "hosts"), ("-f", "hosts")):
        assert "3 ranks" in sandbox.run("--dry-run", *words, "true").expect(0).out_text, words


REJECTED = [
    (("--nnodes=2", "--node_rank=0", "--master_addr=n1", "true"), "start hvdrun once, on one host, with -H"),
    (("--rdzv-backend", "c10d", "--rdzv-endpoint", "n1:29500", "true"), "start hvdrun once"),
    (("-np", 2, "-m", "pkg.train"), "use hvdrun … python3 -m MODULE"),
    (("--log-dir", "logs", "true"), "use --output-filename DIR"),
    (("--redirects", 3, "true"), "use --output-filename DIR"),
    (("--map-by", "ppr:2:node", "true"), "--ranks-per-host K starts K ranks on each host"),
    (("--bind-to", "socket", "true"), "must be core, numa, none or auto"),
    (("-wdir", "/tmp", "true"), "cd FOLDER && hvdrun"),
    (("--chdir", "/tmp", "true"), "cd FOLDER && hvdrun"),
    (("--mca", "btl", "tcp,self", "true"), "-x OMPI_MCA_btl=tcp,self"),
    (("-np", 1, "./a", ":", "-np", 1, "./b"), "let a script choose by $HVD_RANK"),
    (("-genv", "FOO", 1, "true"), "use -x NAME=VALUE"),
    (("-N", 2, "true"), "use --nnodes N for N hosts, or --ranks-per-host K"),
    (("--pty", "bash"), "use --tty RANK"),
    (("--gpus-per-task", 1, "true"), "--gpu-bind single"),
    (("--min-np", 1, "--max-np", 4, "true"), "--max-restarts N"),
    (("--include", "localhost:0,1", "true"), "takes names of hosts only"),
    (("--timeout", 10, "true"), "use timeout SECONDS hvdrun"),
    (("-np", 2, "--follow", "./train"), "--follow is an option of hvdrun sbatch"),
    (("-np", 2, "--requeue", "./train"), "--requeue is an option of hvdrun sbatch"),
    (("--quiet", "true"), "2> FILE"),
    (("--debug", "true"), "use --verbose"),
    (("--verbos", "true"), "did you mean --verbose?"),
    (("--dryrun", "true"), "did you mean --dry-run?"),
    (("--config", "true"), "did you mean --config-file?"),
    (("-y", "true"), "unknown option -y; hvdrun --help lists all"),
    (("top",), "top is a program of its own"),
    (("squeue",), "type squeue or hvdrun jobs"),
    (("scancel", 12), "type scancel or hvdrun cancel"),
    (("help", "sbacth"), "did you mean hvdrun sbatch?"),
    (("sbatch", "-G", 16, "true"), "use -np N: one rank per GPU"),
    (("sbatch", "-w", "n1", "true"), "use --sbatch-arg=--nodelist=HOSTS"),
    (("sbatch", "--nodelist", "n1", "true"), "use --sbatch-arg=--nodelist=HOSTS"),
    (("sbatch", "--export", "ALL", "true"), "the job gets the caller's environment"),
    (("sbatch", "--wrap", "true"), "give the program and its arguments after the options"),
    (("sbatch", "--parsable", "true"), "--submit prints only the job's id"),
    (("sbatch", "--gres", "gpu:4", "true"), "use --gpus-per-node K"),
    (("sbatch", "--exclusive", "true"), "use --sbatch-arg=--exclusive"),
    (("sbatch", "--mail-user", "a@b", "true"), "use --mail ADDRESS"),
    (("sbatch", "--gpu-per-node", 4, "true"), "did you mean --gpus-per-node?"),
    (("sbatch", "--time", "1h", "true"), "needs SLURM's kind of time"),
    (("sbatch", "-o", "out_%j.txt", "-np", 2, "true"), "--output names the file of the job's output"),
]


@pytest.mark.parametrize("words, answer", REJECTED, ids=[" ".join(map(str, words)) for words, _ in REJECTED])
def test_the_error_for_another_launchers_option_says_what_to_type(sandbox: Sandbox, words: tuple[object, ...], answer: str) -> None:
    done = typed(sandbox, *words).expect(2)
    assert answer in done.err_text and len(done.err_text.splitlines()) == 1, done


def typed(sandbox: Sandbox, *words: object) -> Done:
    """Runs hvdrun with exactly these arguments, without the harness's --report."""
    return sandbox.run("-c", 'exec "$0" "$@"', HVDRUN, *words, tool="/bin/sh")


@pytest.mark.parametrize("words, answer", [(("status",), "did you mean hvdrun jobs?"), (("logs", 12), "did you mean hvdrun follow?"),
                                           (("submit",), "did you mean hvdrun sbatch?"), (("sbacth",), "did you mean hvdrun sbatch?"),
                                           (("launch", "--num_processes", 2, "train.py"), "did you mean hvdrun -np N program?")])
def test_the_error_for_a_missing_program_suggests_a_subcommand(sandbox: Sandbox, words: tuple[object, ...], answer: str) -> None:
    assert answer in typed(sandbox, *words).expect(127).err_text


def test_the_help_subcommand_prints_the_same_as_the_option(sandbox: Sandbox) -> None:
    assert typed(sandbox, "help").expect(0).out == typed(sandbox, "--help").expect(0).out
    assert typed(sandbox, "help", "sbatch").expect(0).out == typed(sandbox, "sbatch", "--help").expect(0).out
    assert typed(sandbox, "-V").expect(0).out == typed(sandbox, "--version").expect(0).out


def test_run_starts_a_program_with_the_name_of_a_cluster_tool(sandbox: Sandbox) -> None:
    done = typed(sandbox, "run", "-np", 1, "top", "-v")
    assert "is a program of its own" not in done.err_text, done


def test_a_colon_after_two_dashes_is_an_argument_of_the_program(sandbox: Sandbox) -> None:
    done = typed(sandbox, "-np", 1, "--", "echo", "a", ":", "-np", 1, "b").expect(0)
    assert done.out_text == "a : -np 1 b\n"


def test_sbatch_overwrites_only_its_own_scripts(sandbox: Sandbox) -> None:
    words = ("sbatch", "-np", 2, "--gpus-per-node", 0, "-o", "job.sh", "true")
    typed(sandbox, *words).expect(0)
    script = (sandbox.files / "job.sh").read_text()
    typed(sandbox, *words).expect(0)
    (sandbox.files / "job.sh").write_text("results of a week\n")
    done = typed(sandbox, *words).expect(2)
    assert "job.sh exists and is no batch script, so it is not overwritten" in done.err_text, done
    assert (sandbox.files / "job.sh").read_text() == "results of a week\n"
    (sandbox.files / "job.sh").write_text(script)
    done = typed(sandbox, "sbatch", "job.sh").expect(2)
    assert "job.sh is a batch script already, which SLURM's sbatch submits: sbatch job.sh" in done.err_text, done


def test_hvdrun_sbatch_accepts_the_short_options_of_slurms_sbatch(sandbox: Sandbox) -> None:
    done = typed(sandbox, "sbatch", "-n", 4, "-p", "gpu", "-e", "err", "-a", "0-3", "-d", "afterok:7", "--gpus-per-node", 0, "true").expect(0)
    for directive in ("--ntasks=4", "--partition=gpu", "--error=err", "--array=0-3", "--dependency=afterok:7"):
        assert f"#SBATCH {directive}" in done.out_text, (directive, done)


def test_short_help_is_also_the_usage_and_fits_one_screen(sandbox: Sandbox) -> None:
    short = typed(sandbox, "-h").expect(0)
    assert 24 <= len(short.out_lines) <= 30 and not short.err, short
    assert max(map(len, short.out_lines)) <= 80 < len(typed(sandbox, "--help").expect(0).out_lines)
    nothing = typed(sandbox).expect(2)
    assert nothing.err == short.out and not nothing.out, nothing


def test_help_of_salloc_lists_only_its_own_options(sandbox: Sandbox) -> None:
    text = typed(sandbox, "salloc", "--help").expect(0).out_text
    assert "--partition" in text and not [word for word in ("--module", "--requeue", "--submit", "--follow") if word in text], text
