"""hvdrun sbatch and hvdrun templates on a machine without SLURM."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness import HVDRUN, Done, Sandbox

TEMPLATES = ["container", "cte-power", "generic", "marconi100", "requeue"]


def hvdrun(sandbox: Sandbox, *words: object, **options: object) -> Done:
    """Runs a subcommand of hvdrun, without the harness's --report."""
    return sandbox.run(HVDRUN, *words, tool="/usr/bin/env", **options)


def test_sbatch_prints_the_script(sandbox: Sandbox) -> None:
    (sandbox.files / "train.py").touch()
    done = hvdrun(sandbox, "sbatch", "-np", 16, "--template", "cte-power", "--time", "2:00:00", "--module", "gcc/8,cuda", "--label", "rank",
                       "--", "python3", "train.py", "--name", "a b")
    assert done.code == 0, done.err_text
    assert done.err_text == "hvdrun: note: 16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank\n"
    for line in ("# 16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank", "#SBATCH --job-name=train.py", "#SBATCH --nodes=4",
                 "#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=40", "#SBATCH --gres=gpu:4", "#SBATCH --time=2:00:00",
                 "module load gcc/8 cuda || exit 1"):
        assert f"\n{line}\n" in done.out_text, done.out_text
    assert done.out_text.endswith(f"exec {shlex.quote(str(HVDRUN))} -np 16 --label rank -- python3 train.py --name 'a b'\n"), done.out_text


def test_sbatch_says_what_becomes_of_a_signal_a_short_time_and_an_unknown_template(sandbox: Sandbox) -> None:
    words = ("sbatch", "-np", 2, "--gpus-per-node", 0)
    done = hvdrun(sandbox, *words, "--nodes", 1, "--signal", "USR1@60", "--time", "1:30", "true")
    assert done.code == 0 and "on one node no rank gets it; type --signal B:USR1@60\n" in done.err_text, done
    assert "--time 1:30 is minutes:seconds, 90 s in all; for hours: --time 1:30:00\n" in done.err_text, done
    done = hvdrun(sandbox, *words, "--template", "slurm", "true")
    assert done.code == 2 and f"there are {', '.join(TEMPLATES)} (hvdrun templates says what for)\n" in done.err_text, done


@pytest.mark.parametrize("words, message", [
    (("--signal", "USR1@60"), "--requeue with the signal of --signal USR1@60: SLURM sends it to steps of srun only"),
    (("--signal", "TERM@120"), "type --signal B:USR1@120"),
    (("--signal", "B:TERM@120"), "SIGTERM ends the job"),
    (("--signal", "60"), "type --signal B:USR1@60"),
    (("--sbatch-arg=--signal=B:INT@60",), "SIGINT ends the job"),
    (("--time", 1), "--requeue with --time 1: SLURM sends the warning signal 120 s before the time limit"),
    (("--sbatch-arg=--no-requeue",), "keeps the job from going back into the queue"),
])
def test_what_defeats_a_requeue_is_an_error(sandbox: Sandbox, words: tuple[object, ...], message: str) -> None:
    done = hvdrun(sandbox, "sbatch", "-np", 2, "--gpus-per-node", 0, "--requeue", *words, "--", "true")
    assert done.code == 2 and message in done.err_text, done
    assert not done.out


# Shell functions that replace a node's module, conda and hvdrun; conda prints which environment it activates.
NODE = """
module() { [ "$*" = "load autoload cineca-ai/1.0" ] && export CINECA_AI_ENV=/ai/env; return 0; }
conda() { [ "$1" = activate ] && echo "activated $2"; return 0; }
hvdrun() { echo started; }
exec() { "$@"; }
"""


@pytest.mark.parametrize("words", [("--conda", "$CINECA_AI_ENV"), ("--conda", "${CINECA_AI_ENV}"), ("--set", "cineca_ai=true")])
def test_a_variable_of_a_module_is_expanded_in_the_script(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    """The variable has no value before the script runs."""
    made = hvdrun(sandbox, "sbatch", "--template", "marconi100", "-np", 2, "--module", "cineca-ai/1.0", *words, "--", "python3", "t.py")
    assert made.code == 0, made.err_text
    script = made.out_text.replace("exec " + made.out_text.rsplit("exec ", 1)[1], "echo started\n")
    ran = subprocess.run(["bash", "-c", NODE + script], capture_output=True, text=True)
    assert ran.stdout == "activated /ai/env\nstarted\n", made.out_text + ran.stderr
    without = subprocess.run(["bash", "-c", NODE + script.replace("cineca-ai/1.0", "other")], capture_output=True, text=True)
    assert without.returncode != 0 and "started" not in without.stdout and "CINECA_AI_ENV" in without.stderr, without


def test_invalid_values_of_sbatch_options_are_an_error(sandbox: Sandbox) -> None:
    def refused(*words: str) -> str:
        done = hvdrun(sandbox, "sbatch", "-np", 1, "--gpus-per-node", 0, *words, "--", "true")
        assert done.code == 2 and not done.out, done
        return done.err_text

    assert "--conda can have $NAME or ${NAME} in it, which the script expands" in refused("--conda", "$(whoami)")
    for array in ("abc", "1-", "1,,2", "3%", "1-5:", ""):
        assert "--array needs indices such as 0-9, 1,3 or 0-99%4" in refused("--array", array)
    for mail in ("foo", "@", "a@:END"):
        assert "--mail needs an address such as me@example.org" in refused("--mail", mail)
    for file in ("job.log", "out.txt", "%j"):
        assert "--output names the file of the job's output" in refused("-o", file)
    assert "to leave out hosts: --sbatch-arg=--exclude=n1" in refused("-x", "n1")
    for array in ("0", "0-9", "1,3", "0-15:4", "1,5-9:2%4"):
        assert hvdrun(sandbox, "sbatch", "-np", 1, "--array", array, "--", "true").code == 0


def test_each_task_of_an_array_has_its_index_in_the_words_of_the_command(sandbox: Sandbox) -> None:
    def script(*words: str) -> list[str]:
        return hvdrun(sandbox, "sbatch", "-np", 1, "--gpus-per-node", 0, "--report", "run.{index}.json", *words, "--", "true",
                      "configs/{index} $x.yaml").expect(0).out_lines

    lines = script("--array", "0-19", "--output", "log.{index}", "--error", "err.%a")
    assert "#SBATCH --output=log.%a" in lines and "#SBATCH --error=err.%a" in lines, lines
    index = '"${SLURM_ARRAY_TASK_ID:?}"'
    assert lines[-1] == f"exec {HVDRUN} -np 1 --report run.{index}.json -- true configs/{index}' $x.yaml'"
    assert script("--output", "log.{index}")[-1].endswith("--report 'run.{index}.json' -- true 'configs/{index} $x.yaml'")


@pytest.mark.parametrize("words", [["--output-filename", "logs"], ["--report", "r.json"], ["--metrics", "m.prom"],
                                   ["--timeline-filename", "t.json"], ["--autotune-log-file", "a.csv"]])
def test_files_that_tasks_of_an_array_would_share_are_refused(sandbox: Sandbox, words: list[str]) -> None:
    base = ["sbatch", "-np", 1, "--gpus-per-node", 0]
    refused = hvdrun(sandbox, *base, "--array", "0-2%1", *words, "--", "true").expect(2).err_text
    assert words[0] in refused and "{index}" in refused and refused.count("\n") == 1
    hvdrun(sandbox, *base, "--array", "7", *words, "--", "true").expect(0)
    hvdrun(sandbox, *base, *words, "--", "true").expect(0)


@pytest.mark.parametrize("name, line", [("train.py", "hvdrun sbatch … python3 train.py"), ("./train.py", "chmod +x ./train.py")])
def test_sbatch_refuses_a_file_here_that_cannot_be_executed(sandbox: Sandbox, name: str, line: str) -> None:
    (sandbox.files / "train.py").write_text("print(1)")
    done = hvdrun(sandbox, "sbatch", "-np", 4, "--gpus-per-node", 0, "--", name)
    assert done.code in (126, 127) and line in done.err_text and not done.out_text, done


def test_sbatch_notes_what_it_cannot_check_on_this_host(sandbox: Sandbox) -> None:
    unknown = sandbox.run("PATH=/nowhere", HVDRUN, "sbatch", "-np", 4, "--", "./nosuch", tool="/usr/bin/env")
    assert unknown.code == 0 and "no GPUs are requested, because it is not known here what a node has; --gpus-per-node K" in unknown.err_text
    assert "./nosuch is not on this host; the job fails unless the nodes have it" in unknown.err_text
    (sandbox.files / "train.py").write_text("print(1)")
    missing = hvdrun(sandbox, "sbatch", "-np", 4, "--venv", "nosuch", "--", "python3", "trian.py")
    assert missing.code == 0 and "trian.py is not on this host; the job fails unless the nodes have it; did you mean train.py?" in missing.err_text
    assert f"--venv: {sandbox.files}/nosuch/bin/activate is not on this host" in missing.err_text
    for program, script, is_missing in (("python3", "nosuch.py", True), ("bash", "nosuch.sh", True), ("python3", "train.py", False),
                                        ("python3", "-c", False)):
        said = hvdrun(sandbox, "sbatch", "-np", 4, "--gpus-per-node", 0, "--", program, script).err_text
        assert (f"{script} is not on this host" in said) == is_missing, said
    for words, folder in ((("--output", "nosuch/%j.out"), "nosuch"), (("--error", "/nosuch/e"), "/nosuch"), (("--chdir", "/nosuch"), "/nosuch")):
        said = hvdrun(sandbox, "sbatch", "-np", 4, "--gpus-per-node", 0, *words, "--", "true").err_text
        assert f"{words[0]}: there is no folder {folder} on this host; the job fails unless the nodes have it" in said, said
    for words in (("--output", "%j.out"), ("--output", "%x/%j.out"), ("--output", "/dev/null"), ("--chdir", "/tmp")):
        assert "no folder" not in hvdrun(sandbox, "sbatch", "-np", 4, "--gpus-per-node", 0, *words, "--", "true").err_text
    module = hvdrun(sandbox, "sbatch", "-np", 4, "--module", "mine", "--", "program-of-the-module")
    assert "program-of-the-module" not in module.err_text, "a module may provide the program"
    for words in (("--gpus-per-node", 0), ("--gpus-per-node", 2), ("--sbatch-arg=--gres=gpu:2",)):
        known = sandbox.run("PATH=/usr/bin", HVDRUN, "sbatch", "-np", 4, *words, "--", "true", tool="/usr/bin/env")
        assert known.code == 0 and "no GPUs are requested" not in known.err_text and "not on this host" not in known.err_text, known


def test_templates_lists_all_and_shows_one(sandbox: Sandbox) -> None:
    listed = hvdrun(sandbox, "templates")
    assert [line.split()[0] for line in listed.out_text.splitlines()] == ["TEMPLATE", *TEMPLATES]
    shown = hvdrun(sandbox, "templates", "show", "marconi100")
    assert shown.code == 0 and re.search(r"profile +word +profile/deeplrn", shown.out_text) and "--gpus-per-node=4" in shown.out_text, shown.out_text
    assert "#!/bin/bash\n" in shown.out_text
    assert hvdrun(sandbox, "templates", "show", "genric").err_text == 'hvdrun: error: there is no template "genric"; did you mean "generic"?\n'


def test_folders_of_templates_are_searched_in_order(sandbox: Sandbox, tmp_path: Path) -> None:
    for folder in ("first", "second", "config/hvdrun/templates"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "generic.sbatch").write_text(
            f"---\nabout: from {folder}\n---\n#!/bin/bash\n# {folder}\n{{{{#directives}}}}\n#SBATCH {{{{.}}}}\n{{{{/directives}}}}\n"
            "{{#command}}{{.}} {{/command}}\n")
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ["sbatch", "-np", 1, "--", "true"]
    assert "# config/hvdrun/templates\n" in hvdrun(sandbox, *words, env=environment).out_text
    environment["HVD_TEMPLATE_PATH"] = f"{tmp_path / 'second'}"
    assert "# second\n" in hvdrun(sandbox, *words, env=environment).out_text
    assert "# first\n" in hvdrun(sandbox, words[0], "--template-path", tmp_path / "first", *words[1:], env=environment).out_text


def test_the_error_for_a_bad_template_names_its_line(sandbox: Sandbox, tmp_path: Path) -> None:
    file = tmp_path / "mine.sbatch"
    file.write_text("---\nabout: x\nthreads: number = 1 | for OpenMP\n---\n#!/bin/bash\nexport T={{thread}}\n{{#command}}{{.}} {{/command}}\n")
    done = hvdrun(sandbox, "sbatch", "-np", 1, "--template", file, "--", "true")
    assert done.code == 2
    assert done.err_text == f'hvdrun: error: {file}:6: unknown variable "thread"; did you mean "threads"?\n'
    listed = hvdrun(sandbox, "templates", "--template-path", tmp_path)
    assert f"cannot be used: {file}:6: unknown variable" in listed.out_text


def test_sbatch_submit_without_slurm_suggests_printing_the_script(sandbox: Sandbox) -> None:
    done = sandbox.run("PATH=/nowhere", HVDRUN, "sbatch", "-np", 1, "--submit", "--", "true", tool="/usr/bin/env")
    assert done.code == 127
    assert "there is no SLURM on this machine" in done.err_text and "without --submit hvdrun sbatch prints the script" in done.err_text


def test_sbatch_reports_a_full_disk(sandbox: Sandbox) -> None:
    done = hvdrun(sandbox, "sbatch", "-np", 1, "-o", "/dev/full", "--", "true")
    assert done.code == 125 and "cannot write the script to /dev/full: No space left on device" in done.err_text


def test_how_many_ranks_is_asked_with_what_is_known(sandbox: Sandbox) -> None:
    for command in ("sbatch", "salloc"):
        asked = hvdrun(sandbox, command, "--gpus-per-node", 4, "--", "true").expect(2).err_text
        assert "how many ranks? -np N, or --nodes N; --nodes 1 has 4 ranks; SLURM's sinfo does not answer here" in asked
