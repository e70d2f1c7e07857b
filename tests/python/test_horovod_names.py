"""docs/frameworks/horovod-names.md lists every public name and option of Horovod 0.28.1 with its true state.

horovod_names.json, made from Horovod's sources, has the names by module and the arguments of functions and constructors.
A section of the page is about one or more modules.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness import HVDRUN, PYTHON, TOP, Sandbox
from rank_cases import PYTHONS
from test_horovod import run_code

PAGE = TOP / "docs/frameworks/horovod-names.md"
NAMES: dict[str, dict[str, str | None]] = json.loads((Path(__file__).parent / "horovod_names.json").read_text())
STATES = ("same", "more", "no effect", "not supported")

# Options of horovodrun 0.28.1 without a value, from its --help.
FLAGS = """
    --disable-cache --verbose --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather
    --no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --autotune --no-autotune --timeline-mark-cycles
    --no-timeline-mark-cycles --no-stall-check --stall-check --mpi-threads-disable --no-mpi-threads-disable --tcp
    --log-with-timestamp --log-without-timestamp -prefix-timestamp --prefix-output-with-timestamp --log-hide-timestamp
    --no-log-hide-timestamp --gloo --mpi --jsrun""".split()
ENDING = "-v --version -cb --check-build".split()  # print something and exit
VALUES = {
    "-np": "1", "--num-proc": "1", "--start-timeout": "30", "--network-interfaces": "lo", "--network-interface": "lo",
    "--output-filename": "logs", "--config-file": "horovod.yaml", "-p": "22", "--ssh-port": "22", "-i": "key",
    "--ssh-identity-file": "key", "--fusion-threshold-mb": "8", "--cycle-time-ms": "1", "--cache-capacity": "8",
    "--autotune-log-file": "log", "--autotune-warmup-samples": "1", "--autotune-steps-per-sample": "1",
    "--autotune-bayes-opt-max-samples": "1", "--autotune-gaussian-process-noise": "0.8", "--min-np": "1",
    "--min-num-proc": "1", "--max-np": "1", "--max-num-proc": "1", "--slots-per-host": "1", "--elastic-timeout": "1",
    "--reset-limit": "1", "--blacklist-cooldown-range": "1", "--timeline-filename": "run.json",
    "--stall-check-warning-time-seconds": "5", "--stall-check-shutdown-time-seconds": "60", "--mpi-args": "-x",
    "--binding-args": "-x", "--num-nccl-streams": "1", "--thread-affinity": "1", "--gloo-timeout-seconds": "1",
    "--log-level": "INFO", "-H": "localhost:1", "--hosts": "localhost:1", "-hostfile": "hosts", "--hostfile": "hosts",
    "--host-discovery-script": "x"}


def rows_of(section: str) -> dict[str, str]:
    """Returns the state of each name in the section's table."""
    states = {}
    for names, here in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE):
        [state] = [state for state in STATES if re.match(rf"{state}\b", here)]
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in states, f"{name} is listed twice"
            states[name] = state
    return states


def sections() -> dict[str, str]:
    """Returns the text below each heading of the page."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def states_by_module() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for heading, text in sections().items():
        modules = re.findall(r"`(horovod[\w.]*)`", heading)
        rows = rows_of(text)
        for module in modules:
            found[module.partition(".")[2]] = rows
        known = {name for module in modules for name in NAMES[module.partition(".")[2]]}
        assert not modules or not set(rows) - known, f"{heading}: Horovod does not have {set(rows) - known}"
    # A submodule also has names of its package. These are only in the package's section.
    for module in found:
        package = module.partition(".")[0]
        if module != package and package in ("torch", "tensorflow") and not module.endswith("elastic"):
            found[module] = {**found[package], **found[module]}
    return found


def test_the_page_lists_every_name() -> None:
    states = states_by_module()
    assert not NAMES.keys() - states.keys()
    missing = {module: names.keys() - states[module].keys() for module, names in NAMES.items()}
    assert not {module: names for module, names in missing.items() if names}


@pytest.mark.parametrize("framework", ["torch", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def test_the_page_gives_the_true_state_of_every_name(sandbox: Sandbox, framework: str) -> None:
    asked = {"torch": ("torch", "common", "runner", "data", ""), "tensorflow": ("tensorflow", "keras")}[framework]
    expected = {module: {name: (states_by_module()[module][name], arguments) for name, arguments in names.items()}
                for module, names in NAMES.items() if module.partition(".")[0] in asked}
    code = f"""if True:
        import importlib, inspect
        from types import ModuleType
        for module, names in {expected!r}.items():
            full = f"horovod.{{module}}".rstrip(".")
            for name, (state, arguments) in names.items():
                found = error = None
                try:
                    found = getattr(importlib.import_module(full), name)
                    if state == "not supported" and name == "elastic":
                        found.run
                    elif state == "not supported" and callable(found):
                        found("")
                except (ImportError, AttributeError, RuntimeError) as raised:
                    error = raised
                if state == "not supported":
                    if error is None or "; " not in str(error) and "elastic" not in str(error):
                        print(full, name, "is not refused with advice:", found, error)
                elif error is not None:
                    print(full, name, "is not there:", error)
                elif arguments is not None:
                    own = [("", "", "*", "", "**")[parameter.kind] + parameter.name
                           for parameter in inspect.signature(found).parameters.values()]
                    rest = iter(own)
                    if not all(argument in rest for argument in arguments.split()):
                        print(full, name, "has the arguments", *own, "but Horovod:", arguments)"""
    done = run_code(sandbox, code, python=PYTHONS[framework]).expect(0)
    assert not done.out_lines, done.out_text


def test_the_page_lists_every_option() -> None:
    states = rows_of(sections()["Options of horovodrun"])
    assert states.keys() == {*FLAGS, *ENDING, *VALUES}


def test_the_page_gives_the_true_state_of_every_option(sandbox: Sandbox) -> None:
    (sandbox.files / "horovod.yaml").write_text("verbose: false\n")
    (sandbox.files / "hosts").write_text("localhost slots=1\n")
    (sandbox.files / "key").write_text("")
    wrong = []
    for option, state in rows_of(sections()["Options of horovodrun"]).items():
        words = [option, *([VALUES[option]] if option in VALUES else [])]
        if option in ("--max-np", "--max-num-proc", "--elastic-timeout", "--reset-limit"):
            words += ["--min-np", "1"]  # without it they are refused, or noted
        done = sandbox.run("--dry-run", *words, PYTHON, "-c", "", tool=HVDRUN.with_name("horovodrun"))
        noted = f"{option} has no effect" in done.err_text
        refused = done.code != 0 and f"{option} is an option of horovodrun that hvdrun does not have: " in done.err_text
        seen = "not supported" if refused else "no effect" if noted else "same" if done.code == 0 else done.err_text
        if seen != state.replace("more", "same"):
            wrong.append((option, state, seen))
    assert not wrong
