"""`hvdrun scale` runs a program with several numbers of ranks and compares their speed."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pexpect
import pytest

from harness import BUILD, HVDRUN, TIME_LIMIT, Done, Running, Sandbox, wait_until

DIGITS = BUILD / "bin/examples/digits"

# Prints like a training program. It fails if the number of ranks is $FAILS. Its loss grows with the size by $1 hundredths.
TRAINER = """
[ "$HVD_SIZE" = "$FAILS" ] && { echo "no memory left" >&2; exit 3; }
[ "$HVD_RANK" = 0 ] || exit 0
for rate in 1 50 70 60; do echo "rate $((rate * HVD_SIZE)) per second"; done
echo "final loss 0.$((50 + $1 * HVD_SIZE))"
"""


def scale(sandbox: Sandbox, *arguments: object, **options: object) -> Done:
    return start(sandbox, *arguments, **options).wait()


def start(sandbox: Sandbox, *arguments: object, **options: object) -> Running:
    # env(1) keeps the harness from adding --report before "scale".
    return sandbox.start(HVDRUN, "scale", *arguments, tool="/usr/bin/env", **options)


def trainer(sandbox: Sandbox, *arguments: object, sizes: str = "1,2", drift: int = 0, fails: int = 0) -> Done:
    return scale(sandbox, "-np", sizes, "--metric", "rate ([0-9.]+)", "--loss", "loss ([0-9.]+)", "--oversubscribe",
                 *arguments, "sh", "-c", TRAINER, "trainer", drift, env={"FAILS": str(fails)})


def study_of(folder: Path) -> dict:
    return json.loads((folder / "scaling.json").read_text())


class Page(HTMLParser):
    """Collects references to files outside an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.outside += [f"{tag} {name}" for name, _ in attributes if name in ("src", "href", "srcset", "data")]
        if tag in ("script", "link", "iframe", "img", "object"):
            self.outside.append(tag)


def test_a_study_of_digits_has_table_json_csv_and_page(sandbox: Sandbox) -> None:
    folder = sandbox.files / "study"
    done = scale(sandbox, "-np", "2,1", "--repeat", 2, "--report", folder, DIGITS, "--epochs", 4).expect(0)
    title, one, two, *_ = done.out_text.strip().splitlines()
    assert title.split() == ["RANKS", "EPOCH", "SPREAD", "SAMPLES/S", "SPEED-UP", "EFFICIENCY", "LOSS", "ACCURACY"]
    assert one.split()[0] == "1" and two.split()[0] == "2"
    assert "warning" not in done.out_text, done
    assert "epoch 1" not in done.out_text + done.err_text, "output of runs is shown without --show-output"
    assert re.search(r"run 4 of 4, 2 ranks: .* s an epoch, .* samples/s, loss ", done.err_text), done

    study = study_of(folder)
    assert study["speedup_from"] == "samples_per_second" and study["baseline"] == 1
    assert [run["ranks"] for run in study["runs"]] == [1, 2, 1, 2], "sizes do not take turns"
    for size in study["sizes"]:
        assert size["runs"] == 2 and size["failed"] == 0
        assert size["epoch_seconds"]["least"] > 0
        assert size["samples_per_second"]["median"] > 0
    losses = [size["metrics"]["loss"]["median"] for size in study["sizes"]]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert all(run["epochs"] == 3 for run in study["runs"]), "the first of four epochs was not left out"

    with open(folder / "scaling.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["ranks"] for row in rows] == ["1", "2"]
    assert float(rows[0]["speedup_median"]) == 1
    assert not Page((folder / "scaling.html").read_text()).outside, "the page refers to other files"
    svg = ElementTree.parse(folder / "scaling.svg").getroot()
    texts = ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ranks", "ideal"} <= set(texts) and any(text.startswith("Speed-up") for text in texts)
    assert "epoch 1" in (folder / "runs/np2-1.log").read_text()
    assert json.loads((folder / "runs/np2-2.json").read_text())["exit_code"] == 0


def test_metric_takes_samples_per_second_from_the_output(sandbox: Sandbox) -> None:
    done = trainer(sandbox, "--repeat", 2, "--report", sandbox.files).expect(0)
    sizes = study_of(sandbox.files)["sizes"]
    assert [size["samples_per_second"]["median"] for size in sizes] == [60, 120], "the first value was not dropped"
    assert sizes[1]["speedup"]["median"] == 2 and sizes[1]["efficiency"]["median"] == 1
    assert sizes[0]["metrics"]["loss"]["median"] == 0.5
    assert "warning" not in done.out_text


def test_np_in_arguments_is_replaced_by_the_number_of_ranks(sandbox: Sandbox) -> None:
    scale(sandbox, "-np", "1,2", "-x", "BATCH=b{np}", "sh", "-c", "echo $BATCH $1 $2 >> said", "sh", "--ranks={np},{np}", "{n}").expect(0)
    assert sandbox.lines_of("said") == [["b1", "--ranks=1,1", "{n}"]] + 2 * [["b2", "--ranks=2,2", "{n}"]]


def test_devices_runs_one_rank_with_several_numbers_of_gpus(sandbox: Sandbox) -> None:
    gpus = {"CUDA_VISIBLE_DEVICES": "5,6,7"}
    program = ("sh", "-c", "echo $HVD_SIZE $CUDA_VISIBLE_DEVICES $1 >> said", "sh", "{np}")
    done = scale(sandbox, "--devices", "1,2,3", "--report", sandbox.files, *program, env=gpus).expect(0)
    assert sandbox.lines_of("said") == [["1", "5", "1"], ["1", "5,6", "2"], ["1", "5,6,7", "3"]]
    assert done.out_text.startswith("\nDEVICES  ") and "speed-up over 1 device (" in done.out_text
    assert "run 3 of 3, 3 devices: " in done.err_text
    study = study_of(sandbox.files)
    assert study["unit"] == "devices" and [(size["size"], size["ranks"]) for size in study["sizes"]] == [(1, 1), (2, 1), (3, 1)]
    assert study["hosts"][0]["devices"] == [None] * 3 and study["hosts"][0]["cores"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", study["date"]) and study["versions"].keys() == {"hvdrun"}
    assert (sandbox.files / "runs/devices3-1.log").exists()


def test_more_devices_than_the_host_has_is_an_error(sandbox: Sandbox) -> None:
    done = scale(sandbox, "--devices", "1,3", "true", env={"CUDA_VISIBLE_DEVICES": "5,6"}).expect(2)
    assert "hvdrun scale: 3 devices:\nhvdrun: error: 3 ranks for 2 GPUs" in done.err_text and "run 1 of" not in done.err_text
    none = scale(sandbox, "--devices", "1", "true", env={"CUDA_VISIBLE_DEVICES": "-1"}).expect(2)
    assert "--devices: hvdrun found no GPUs on " in none.err_text


def test_a_loss_that_depends_on_the_number_of_ranks_is_a_warning(sandbox: Sandbox) -> None:
    done = trainer(sandbox, "--repeat", 2, "--report", sandbox.files, drift=10).expect(0)
    warning = "loss at 2 ranks (0.700) differs from that at 1 rank (0.600) by 16.7 %, more than over repeats"
    assert f"warning: {warning}\n" in done.out_text, done
    assert study_of(sandbox.files)["warnings"] == [warning]
    assert warning in (sandbox.files / "scaling.html").read_text()


def test_a_failed_size_is_in_the_table_and_not_repeated(sandbox: Sandbox) -> None:
    done = trainer(sandbox, "--repeat", 2, "--report", sandbox.files, sizes="1,2,3", fails=2).expect(3)
    assert re.search(r"^2 +failed: exit code 3$", done.out_text, re.MULTILINE), done
    assert re.search(r"^3 .* 3\.00 ", done.out_text, re.MULTILINE), "the other sizes are not compared"
    assert re.search(r"^  \| .*no memory left$", done.err_text, re.MULTILINE), done
    study = study_of(sandbox.files)
    assert [run["ranks"] for run in study["runs"]] == [1, 2, 3, 1, 3]
    assert study["sizes"][1]["failed"] == 1 and study["sizes"][1]["speedup"] is None
    ElementTree.parse(sandbox.files / "scaling.svg")


def test_scale_suggests_progress_calls_for_a_program_without_counters(sandbox: Sandbox) -> None:
    done = scale(sandbox, "-np", "1,2", "true").expect(0)
    assert done.out_text.splitlines()[1].split() == ["RANKS", "RUN", "SPREAD", "SPEED-UP", "EFFICIENCY"]
    assert "hvd_progress" in done.out_text and "--metric" in done.out_text
    assert "--repeat" in done.out_text, "no advice to repeat runs"


def test_show_output_prints_the_output_of_runs_on_stderr(sandbox: Sandbox) -> None:
    done = scale(sandbox, "-np", "1", "--show-output", "sh", "-c", "echo from the program").expect(0)
    assert "from the program" in done.err_text
    assert "from the program" not in done.out_text, "output of a run is on stdout, among the table"


@pytest.mark.parametrize("arguments, code, said", [
    (("-np", "1,two", "true"), 2, "-np needs numbers of ranks such as 1,2,4"),
    (("-np", "1,2", "--frobnicate", "true"), 2, "unknown option --frobnicate"),
    (("-np", "1,2", "no-such-program"), 127, "no-such-program"),
    (("-np", "1,2", "-H", "localhost:1", "true"), 2, "2 ranks for 1 slot"),
    (("-np", "1", "--report", "/proc/study", "true"), 2, "/proc/study"),
])
def test_an_invalid_study_is_an_error_before_any_run(sandbox: Sandbox, arguments: tuple, code: int,
                                                       said: str) -> None:
    done = scale(sandbox, *arguments).expect(code)
    assert said in done.err_text, done
    assert "run 1 of" not in done.err_text and not done.out_text


def waiting_study(sandbox: Sandbox) -> Running:
    """Starts a study whose second size waits for ever."""
    return start(sandbox, "-np", "1,2", "--report", sandbox.files, "--grace", "0.3", "sh", "-c",
                 f'[ $HVD_SIZE = 1 ] || {{ echo $HVD_RANK >> {sandbox.files}/waiting; exec sleep 1000; }}')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_study_prints_its_results_so_far(sandbox: Sandbox, number: signal.Signals) -> None:
    running = waiting_study(sandbox)
    wait_until(lambda: len(sandbox.lines_of("waiting")) == 2, "the run of the second size")
    running.signal(number)
    done = running.wait().expect(128 + number)
    assert re.search(r"^1 .* 1\.00 ", done.out_text, re.MULTILINE), done
    assert "interrupted" in done.out_text
    study = study_of(sandbox.files)
    assert study["interrupted"] and study["runs"][1]["trouble"] == "interrupted"


# A rank that records its start, SIGINT and SIGTERM, and ends half a second after SIGINT. hvdrun sends SIGTERM if it is
# interrupted twice.
POLITE = """
trap "echo $HVD_RANK >> ended; left=10" INT
trap "echo $HVD_RANK >> hurried" TERM
echo $HVD_RANK >> waiting
while [ "${left:-1}" -gt 0 ]; do sleep 0.05; [ -z "$left" ] || left=$((left - 1)); done
"""


def test_ctrl_c_on_a_terminal_interrupts_the_run_once(sandbox: Sandbox) -> None:
    """The terminal sends SIGINT to the study and to its run."""
    words = sandbox.command([HVDRUN, "scale", "-np", 2, "--grace", 60, "sh", "-c", POLITE])
    child = pexpect.spawn(words[0], words[1:], env=sandbox.environment({"TERM": "xterm"}), cwd=str(sandbox.files),
                          timeout=TIME_LIMIT)
    wait_until(lambda: len(sandbox.lines_of("waiting")) == 2, "both ranks")
    child.sendintr()
    child.expect("interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert len(sandbox.lines_of("ended")) == 2 and not sandbox.lines_of("hurried"), "the run was not interrupted exactly once"


def test_a_signal_to_the_study_is_forwarded_to_its_run(sandbox: Sandbox) -> None:
    running = start(sandbox, "-np", "2", "--grace", "60", "sh", "-c", POLITE)
    wait_until(lambda: len(sandbox.lines_of("waiting")) == 2, "both ranks")
    running.signal(signal.SIGINT)
    running.wait().expect(130)
    assert len(sandbox.lines_of("ended")) == 2 and not sandbox.lines_of("hurried"), "the run was not interrupted exactly once"


def test_the_run_ends_after_its_study_is_killed(sandbox: Sandbox) -> None:
    running = waiting_study(sandbox)
    wait_until(lambda: len(sandbox.lines_of("waiting")) == 2, "the run of the second size")
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait()
    wait_until(lambda: not sandbox.processes(), "the run to end")


def test_help_of_scale_lists_its_options(sandbox: Sandbox) -> None:
    done = scale(sandbox, "--help").expect(0)
    assert "--repeat" in done.out_text and "--metric" in done.out_text
