"""Programs written for Horovod, unchanged: `hvdrun --horovod`, the module horovod, and what it refuses by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harness import BUILD, PYTHON, TOP, Done, Sandbox
from rank_cases import PYTHONS, python_environment

MODULES = TOP / "python/hvd-horovod/src"
PROGRAMS = Path(__file__).resolve().parent / "programs"


def environment(**changes: str) -> dict[str, str]:
    """Without PYTHONPATH: that is what --horovod is for."""
    known = python_environment(changes)
    if "PYTHONPATH" not in changes:
        del known["PYTHONPATH"]
    return known


def run_ranks(sandbox: Sandbox, *words: object, ranks: int = 2, **changes: str) -> Done:
    return sandbox.run("--horovod", "-np", ranks, "-H", f"localhost:{ranks}", "--bind-to", "none", PYTHON, *words,
                       env=environment(**changes))


def run_code(sandbox: Sandbox, code: str, python: str = PYTHON, **changes: str) -> Done:
    return sandbox.run("-W", "always", "-c", code, tool=python,
                       env=environment(PYTHONPATH=f"{MODULES}:{TOP}/python", **changes))


def errors_of(sandbox: Sandbox, *statements: str) -> list[str]:
    """What each of them raises, all in one Python, as importing torch takes a second: "KIND: text"."""
    code = f"""if True:
        for statement in {statements!r}:
            try:
                exec(statement, {{}})
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}")
            else:
                print("nothing")"""
    return run_code(sandbox, code).expect(0).out_lines


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_torch_program_trains(sandbox: Sandbox, ranks: int) -> None:
    done = run_ranks(sandbox, PROGRAMS / "horovod_torch.py", ranks=ranks).expect(0)
    [line] = done.out_lines
    assert line.removeprefix("[0] ") == f"{ranks} ranks: loss 0.000000, y = 3.000 x + -1.000"


def test_folders_of_horovod_stand_around_the_users(sandbox: Sandbox) -> None:
    share = BUILD / "share"
    code = "import os; print(os.environ['PYTHONPATH'])"
    for changes, users in (({}, ""), ({"PYTHONPATH": "/mine"}, "/mine:")):
        done = sandbox.run("--horovod", "-np", 1, PYTHON, "-c", code, env=environment(**changes)).expect(0)
        assert done.out_lines == [f"{share}/hvdrun/horovod:{users}{share}/hvd/python"]
    code = "import os; print(os.environ.get('PYTHONPATH'))"
    done = sandbox.run("--horovod", "--no-horovod", "-np", 1, PYTHON, "-c", code, env=environment()).expect(0)
    assert done.out_lines == ["None"]


def test_the_version_says_whose_names_and_who_brings_them(sandbox: Sandbox) -> None:
    done = run_code(sandbox, "import horovod, hvd; print(horovod.__version__, hvd.__version__)").expect(0)
    theirs, ours = done.out_text.split()
    assert theirs == f"0.28.1+hvd.{ours}"
    assert f'version = "{ours}"' in (TOP / "python/hvd-horovod/pyproject.toml").read_text()


def test_modules_that_there_are_not(sandbox: Sandbox) -> None:
    refused = {"mxnet": "mxnet", "spark": "spark", "spark.torch": "spark", "ray": "ray", "runner": "runner",
               "data": "data", "torch.elastic": "torch.elastic", "torch.elastic.sampler": "torch.elastic"}
    errors = errors_of(sandbox, *(f"import horovod.{module}" for module in refused))
    for (module, named), error in zip(refused.items(), errors, strict=True):
        assert re.match(rf"ImportError: horovod\.{named}: hvd does not have it; ", error), module


def test_names_that_there_are_not(sandbox: Sandbox) -> None:
    missing, imported, elastic, run = errors_of(
        sandbox, "import horovod.torch as hvd; hvd.no_such_thing", "from horovod.torch import no_such_thing",
        "import horovod.torch as hvd; hvd.elastic.run(print)", "import horovod; horovod.run(print, num_proc=2)")
    assert missing.startswith("AttributeError: horovod.torch.no_such_thing: hvd has nothing of that name")
    assert "cannot import name 'no_such_thing' from 'horovod.torch'" in imported
    assert "hvd.elastic.run" in elastic
    assert run.startswith("NotImplementedError: horovod.run: ")


def test_every_public_name_of_hvd_torch_is_there(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        import hvd.torch, horovod.torch
        from horovod.torch import *
        from horovod.torch.mpi_ops import allreduce_async_, synchronize
        from horovod.torch.compression import Compression
        from horovod.torch.functions import broadcast_object
        from horovod.torch.optimizer import DistributedOptimizer
        from horovod.torch.sync_batch_norm import SyncBatchNorm
        from horovod.common.process_sets import ProcessSet, global_process_set
        assert horovod.torch.__all__ == hvd.torch.__all__
        assert all(getattr(horovod.torch, name) is getattr(hvd.torch, name) for name in hvd.torch.__all__)
        assert DistributedOptimizer is hvd.torch.DistributedOptimizer and allreduce is hvd.torch.allreduce""").expect(0)


@pytest.mark.tensorflow
def test_every_public_name_of_tensorflow_and_keras_is_there(sandbox: Sandbox) -> None:
    code = """if True:
        import sys
        import horovod.tensorflow.keras, horovod.keras
        from horovod.tensorflow.mpi_ops import allreduce
        from horovod.tensorflow.compression import Compression
        from horovod.tensorflow.functions import broadcast_object
        from horovod.tensorflow.keras.callbacks import BroadcastGlobalVariablesCallback
        from horovod.keras.callbacks import MetricAverageCallback
        for name in ("tensorflow", "tensorflow.keras", "keras"):
            ours, theirs = sys.modules["hvd." + name], sys.modules["horovod." + name]
            assert ours.__all__ == theirs.__all__, name
            for public in set(ours.__all__) - {"callbacks"}:  # a module of its own
                assert getattr(ours, public) is getattr(theirs, public), (name, public)"""
    run_code(sandbox, code, python=PYTHONS["tensorflow"]).expect(0)


def test_helpers_of_horovod_common_util(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        import os
        from horovod.common.util import env, extension_available, is_iterable, num_rank_is_power_2, split_list
        assert split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
        assert split_list([1], 2) == [[1], []]
        assert [size for size in range(10) if num_rank_is_power_2(size)] == [1, 2, 4, 8]
        assert is_iterable("ab") and not is_iterable(3)
        assert extension_available("torch") and not extension_available("mxnet")
        os.environ["A"] = "before"
        with env(A="1", B="2", C=None):
            assert (os.environ["A"], os.environ["B"]) == ("1", "2") and "C" not in os.environ
        assert os.environ["A"] == "before" and "B" not in os.environ""").expect(0)


def test_variables_without_effect_are_said_by_rank_0_only(sandbox: Sandbox) -> None:
    done = run_ranks(sandbox, "-c", "import horovod, horovod.common.util", HOROVOD_AUTOTUNE="1",
                     HOROVOD_HIERARCHICAL_ALLREDUCE="1", HOROVOD_TORUS_ALLREDUCE="0", HOROVOD_CYCLE_TIME="(None,)",
                     HOROVOD_FUSION_THRESHOLD="1000", HOROVOD_ELASTIC="", PYTHONPATH="").expect(0)
    said = re.findall(r"^(?:\[(\d)\] )?.*UserWarning: (HOROVOD_\w+) has no effect: .+$", done.err_text, re.MULTILINE)
    assert said == [("0", "HOROVOD_AUTOTUNE"), ("0", "HOROVOD_HIERARCHICAL_ALLREDUCE")], done


def test_what_hvdrun_itself_sets_is_no_cause_for_a_warning(sandbox: Sandbox) -> None:
    assert b"has no effect" not in run_ranks(sandbox, "-c", "import horovod").expect(0).err


@pytest.mark.parametrize("level, verbose", [("debug", "1"), ("WARNING", "None"), ("", "None")])
def test_horovods_log_level_makes_libhvd_talk(sandbox: Sandbox, level: str, verbose: str) -> None:
    done = run_code(sandbox, "import horovod, os; print(os.environ.get('HVD_VERBOSE'))", HOROVOD_LOG_LEVEL=level)
    assert done.expect(0).out_text == f"{verbose}\n"


def test_documented_variables_are_those_of_the_module() -> None:
    tree = ast.parse((MODULES / "horovod/_environment.py").read_text())
    [table] = [node.value for node in tree.body
               if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_WITHOUT_EFFECT"]
    names = {f"`HOROVOD_{ast.literal_eval(name)}`" for name in table.keys}
    text = (TOP / "docs/environment.md").read_text()
    assert not [name for name in sorted(names) if name not in text]
