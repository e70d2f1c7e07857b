"""Command lines in the style of other launchers: hvdrun accepts them, or its error says what to type instead."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from harness import HVDRUN, TOP, Done, Sandbox


PAGE = (TOP / "docs/reference/other-launchers.md").read_text()
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True))
# Files and folders that lines of the page name.
FILES = {"hosts": "n1 slots=2\nn2 slots=2\n", "key": "-----BEGIN OPENSSH PRIVATE KEY-----\n", "data.txt": "1 2\n",
         "config.yaml": "compute_environment: LOCAL_MACHINE\n"}


def rows(section: str) -> list[tuple[str, str]]:
    """Returns each line of the section's table that a user types, and the answer."""
    found = re.findall(r"^\| (`.*`) \| (.*) \|$", SECTIONS[section], re.MULTILINE)
    return [(typed, answer) for lines, answer in found for typed in re.findall(r"`([^`]+)`", lines)]


def problem(folder: Path, section: str, line: str, answer: str) -> str:
    """Returns what hvdrun answers to the line, if the page says something else; otherwise nothing."""
    command = ["sbatch"] if "hvdrun sbatch" in section else []

    @cache
    def type_words(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        return subprocess.run([HVDRUN, *command, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False)

    typed = shlex.split(line)
    if ours := re.fullmatch(r"as `(.*)`", answer):
        words = shlex.split(ours[1])
        is_program = words[0] == "python3"
        expected = type_words("--explain", *words, "true") if not is_program else type_words("--explain", "-n", "1", *words)
        typed = ["--explain", *(["-n", "1"] if is_program else []), *typed]
        done = type_words(*typed[:-1], typed[-1]) if is_program else type_words(*typed, "true")
        right = done.returncode == 0 and done.stdout == expected.stdout and done.stderr == expected.stderr
    elif answer.startswith("accepted"):
        done = type_words("--explain", *typed, "true")
        note = answer.partition(": ")[2]
        right = done.returncode == 0 and done.stdout == type_words("--explain", "true").stdout and note in done.stderr
    else:
        done = type_words(*(["-np", "2", "--gpus-per-node", "0"] if command else []), *typed, "true")
        parts = [re.escape(part) for part in answer.replace("\\|", "|").split("…")]
        right = done.returncode == 2 and len(done.stderr.splitlines()) == 1 and re.search(".*".join(parts), done.stderr) is not None
    return "" if right else f"{line!r} should be {answer!r}, but {done.args[1:]} gives {done.returncode}: {done.stderr or done.stdout}"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_line_of_the_page_gets_the_answer_that_the_page_shows(tmp_path: Path, section: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub").mkdir()
    lines = rows(section)
    assert len(lines) > 10, section
    assert not [text for line, answer in lines if (text := problem(tmp_path, section, line, answer))]


def test_a_program_is_a_python_module_as_for_torchrun(sandbox: Sandbox) -> None:
    (sandbox.files / "pkg").mkdir()
    (sandbox.files / "pkg/train.py").write_text("import sys\nprint(__name__, *sys.argv[1:])\n")
    for words in (("-m",), ("--module",)):
        done = sandbox.run("--nproc-per-node", 1, *words, "pkg.train", "--lr", 1).expect(0)
        assert done.out_text == "__main__ --lr 1\n", done
    assert "python3 -m pkg.train --lr 1" in typed(sandbox, "sbatch", "-np", 2, "--gpus-per-node", 0, "-m", "pkg.train", "--lr", 1).out_text


def test_ranks_run_in_the_folder_of_chdir(sandbox: Sandbox) -> None:
    folder = sandbox.files / "deep"
    folder.mkdir()
    program = folder / "here"
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    for option in ("--chdir", "-wdir", "-D"):
        done = sandbox.run("-np", 1, option, "deep", "--output-filename", "logs", "./here").expect(0)
        assert done.out_text == f"{folder}\n" and (sandbox.files / "logs").is_dir(), done
    done = sandbox.run("-np", 1, "--chdir", "nosuch", "true")
    assert done.code != 0 and "nosuch" in done.err_text, done


@pytest.mark.parametrize("words, line", [
    (("-np", 2, "train.py", "--lr", 1), "hvdrun -np 2 python3 train.py --lr 1"),
    (("-np", 2, "FOO=1", "./train", "a b"), "hvdrun -np 2 -x FOO=1 ./train 'a b'"),
    (("-np", 2, "python3 train.py --a b"), "hvdrun -np 2 python3 train.py --a b"),
    (("-np", 2, "python", "train.py"), "hvdrun -np 2 python3 train.py"),
])
def test_the_error_for_a_missing_program_has_the_whole_line_to_type(sandbox: Sandbox, words: tuple[object, ...], line: str) -> None:
    (sandbox.files / "train.py").write_text("")
    (sandbox.files / "bin").mkdir()
    (sandbox.files / "bin/python3").symlink_to("/usr/bin/python3")
    done = sandbox.run("-c", 'PATH=$PWD/bin exec "$0" "$@"', HVDRUN, *words, tool="/bin/sh").expect(127)
    assert done.err_text.endswith(f": {line}\n"), done


def test_v_is_the_version_alone_and_verbose_with_a_program(sandbox: Sandbox) -> None:
    assert typed(sandbox, "-v").expect(0).out_text.startswith("hvdrun ")
    assert typed(sandbox, "-v", "-np", 1, "echo", "ran").expect(0).out_text == "ran\n"


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
    (("-np", 1, "./a", ":", "-np", 1, "./b"), "let a script choose by $HVD_RANK"),
    (("--min-np", 1, "--host-discovery-script", "./hosts", "true"), "--max-restarts N"),
    (("--max-np", 4, "true"), "--max-np needs --min-np M"),
    (("--min-np", 3, "--max-np", 2, "true"), "--max-np 2 is less than --min-np 3"),
    (("-np", 2, "--follow", "./train"), "--follow is an option of hvdrun sbatch"),
    (("-np", 2, "--requeue", "./train"), "--requeue is an option of hvdrun sbatch"),
    (("--verbos", "true"), "did you mean --verbose?"),
    (("-verbos", "true"), "did you mean --verbose?"),
    (("--dryrun", "true"), "did you mean --dry-run?"),
    (("--config", "true"), "did you mean --config-file?"),
    (("-pn", "2", "true"), "unknown option -pn; did you mean -np?"),
    (("--num-workers", "2", "true"), "unknown option --num-workers; for ranks: -np N"),
    (("--overscribe", "true"), "unknown option --overscribe; did you mean --oversubscribe?"),
    (("-y", "true"), "unknown option -y; hvdrun --help lists all, and the program's own options follow its name"),
    (("-ikey", "true"), "unknown option -ikey"),
    (("-oversubscibe", "true"), "did you mean --oversubscribe?"),
    (("squeue",), "type squeue or hvdrun jobs"),
    (("scancel", 12), "type scancel or hvdrun cancel"),
    (("help", "sbacth"), "did you mean sbatch?"),
    (("cancel", "--all"), "scancel --me ends all"),
    (("jobs", "-u", "root7"), "of others: squeue -u root7"),
    (("sbatch", "--wrap", "true"), "give the program and its arguments after the options"),
    (("sbatch", "--gpu-per-node", 4, "true"), "did you mean --gpus-per-node?"),
    (("sbatch", "--time", "1h", "true"), "needs SLURM's kind of time"),
]


@pytest.mark.parametrize("words, answer", REJECTED, ids=[" ".join(map(str, words)) for words, _ in REJECTED])
def test_the_error_for_another_launchers_option_says_what_to_type(sandbox: Sandbox, words: tuple[object, ...], answer: str) -> None:
    done = typed(sandbox, *words).expect(2)
    assert answer in done.err_text and len(done.err_text.splitlines()) == 1, done


def typed(sandbox: Sandbox, *words: object) -> Done:
    """Runs hvdrun with exactly these arguments, without the harness's --report."""
    return sandbox.run("-c", 'exec "$0" "$@"', HVDRUN, *words, tool="/bin/sh")


@pytest.mark.parametrize("words, answer", [(("status",), "did you mean hvdrun jobs?"), (("log", 12), "did you mean hvdrun logs?"),
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
    done = typed(sandbox, "sbatch", "--time", 5, "./job.sh", "--follow").expect(2)
    assert "./job.sh is a batch script already, which SLURM's sbatch submits: sbatch --time=5 ./job.sh; then hvdrun follow\n" in done.err_text
    done = typed(sandbox, "sbatch", "-np", 2, "bash", "job.sh", 1).expect(2)
    assert "job.sh is a batch script already, which SLURM's sbatch submits: sbatch --ntasks=2 job.sh 1\n" in done.err_text, done


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
