"""Unchanged programs for Horovod under `hvdrun --horovod`, and the module horovod, whose errors name missing functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from harness import BUILD, HVDRUN, PYTHON, TOP, Done, Sandbox, python_environment
from rank_cases import PYTHONS

MODULES = TOP / "python/hvd-horovod/src"
PROGRAMS = Path(__file__).resolve().parent / "programs"


def environment(**changes: str) -> dict[str, str]:
    """Returns an environment without PYTHONPATH, which --horovod sets."""
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
    """Returns "KIND: text" of the exception of each statement. One Python runs all, because importing torch takes a second."""
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
def test_a_torch_program_for_horovod_trains(sandbox: Sandbox, ranks: int) -> None:
    done = run_ranks(sandbox, PROGRAMS / "horovod_torch.py", ranks=ranks).expect(0)
    [line] = done.out_lines
    assert line.removeprefix("[0] ") == f"{ranks} ranks: loss 0.000000, y = 3.000 x + -1.000"


def test_horovod_option_puts_its_folders_around_the_users_pythonpath(sandbox: Sandbox) -> None:
    share = BUILD / "share"
    code = "import os; print(os.environ['PYTHONPATH'])"
    for changes, users in (({}, ""), ({"PYTHONPATH": "/mine"}, "/mine:")):
        done = sandbox.run("--horovod", "-np", 1, PYTHON, "-c", code, env=environment(**changes)).expect(0)
        assert done.out_lines == [f"{share}/hvdrun/horovod:{users}{share}/hvd/python"]
    code = "import os; print(os.environ.get('PYTHONPATH'))"
    done = sandbox.run("--horovod", "--no-horovod", "-np", 1, PYTHON, "-c", code, env=environment()).expect(0)
    assert done.out_lines == ["None"]


def test_the_version_has_horovods_and_hvds_number(sandbox: Sandbox) -> None:
    done = run_code(sandbox, "import horovod, hvd; print(horovod.__version__, hvd.__version__)").expect(0)
    theirs, ours = done.out_text.split()
    assert theirs == f"0.28.1+hvd.{ours}"
    assert f'version = "{ours}"' in (TOP / "python/hvd-horovod/pyproject.toml").read_text()


# The modules of Horovod 0.28.1, without those below spark, ray, mxnet and runner, and those that are compiled.
MODULES_OF_HOROVOD = """
    _keras _keras.callbacks _keras.elastic common common.basics common.elastic common.exceptions common.process_sets
    common.util data data.data_loader_base keras keras.callbacks keras.elastic mxnet ray runner runner.common.util.hosts
    runner.driver runner.elastic runner.gloo_run runner.http.http_server runner.js_run runner.launch runner.mpi_run
    runner.run_task runner.task runner.task_fn runner.util spark spark.torch tensorflow tensorflow.compression
    tensorflow.data.compute_service tensorflow.elastic tensorflow.functions tensorflow.gradient_aggregation
    tensorflow.gradient_aggregation_eager tensorflow.keras tensorflow.keras.callbacks tensorflow.keras.elastic
    tensorflow.mpi_lib tensorflow.mpi_ops tensorflow.sync_batch_norm tensorflow.util torch torch.compression
    torch.elastic torch.elastic.sampler torch.elastic.state torch.functions torch.mpi_lib_v2 torch.mpi_ops
    torch.optimizer torch.sync_batch_norm""".split()


@pytest.mark.parametrize("framework, others", [
    ("torch", ("tensorflow", "keras")), pytest.param("tensorflow", ("torch",), marks=pytest.mark.tensorflow)])
def test_each_module_of_horovod_imports_or_names_a_replacement(sandbox: Sandbox, framework: str,
                                                              others: tuple[str, ...]) -> None:
    code = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            try:
                importlib.import_module(f"horovod.{name}")
                print(name)
            except ImportError as error:
                assert f"{error.name}: hvd does not have it; " in str(error), (name, str(error))
                assert f"horovod.{name}".startswith(error.name), (name, error.name)"""
    asked = [name for name in MODULES_OF_HOROVOD if not name.startswith(others)]
    done = sandbox.run("-c", code, *asked, tool=PYTHONS[framework],
                       env=environment(PYTHONPATH=f"{MODULES}:{TOP}/python")).expect(0)
    table = {"common", "runner", framework, *(["keras"] if framework == "tensorflow" else [])}
    refused = re.compile(r"runner\.(?!elastic)|.*\.(data|gradient_aggregation|mpi_lib)")
    assert done.out_lines == [name for name in asked if name.split(".")[0] in table and not refused.match(name)]


def test_importing_an_unsupported_module_says_that_hvd_lacks_it(sandbox: Sandbox) -> None:
    refused = {"mxnet": "mxnet", "spark": "spark", "spark.torch": "spark", "ray": "ray", "runner.launch": "runner.launch",
               "data": "data", "_keras.callbacks": "_keras"}
    errors = errors_of(sandbox, *(f"import horovod.{module}" for module in refused))
    for (module, named), error in zip(refused.items(), errors, strict=True):
        assert re.match(rf"ImportError: horovod\.{named}: hvd does not have it; ", error), module


def test_importing_an_unknown_module_raises_module_not_found_error(sandbox: Sandbox) -> None:
    assert errors_of(sandbox, "import horovod.no_such") == ["ModuleNotFoundError: No module named 'horovod.no_such'"]
    run_code(sandbox, "import importlib.util as u; assert u.find_spec('horovod.no_such') is None").expect(0)


def test_using_an_unsupported_name_raises_an_error_that_names_it(sandbox: Sandbox) -> None:
    plain, missing, imported = errors_of(
        sandbox, "import horovod; horovod.torch", "import horovod.torch as hvd; hvd.no_such_thing",
        "from horovod.torch import no_such_thing")
    assert plain == "AttributeError: module 'horovod' has no attribute 'torch'; import horovod.torch"
    assert missing.startswith("AttributeError: horovod.torch.no_such_thing: hvd has nothing of that name")
    assert "cannot import name 'no_such_thing' from 'horovod.torch'" in imported


def test_callbacks_of_keras_are_named_where_a_program_expects_them_in_tensorflow(sandbox: Sandbox) -> None:
    [error] = errors_of(sandbox, "import horovod._modules as m; m._attribute_of('horovod.tensorflow', (), 'callbacks')")
    assert error == ("AttributeError: horovod.tensorflow has no callbacks: it is in horovod.tensorflow.keras, which has the other "
                     "functions, too: import horovod.tensorflow.keras as hvd")


def test_horovods_cache_computes_once(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        from horovod.common.util import _cache
        found = []
        cached = _cache(lambda *key: found.append(key) or len(found))
        assert [cached(), cached(), cached(1)] == [1, 1, 2]""").expect(0)


def test_modules_of_the_frameworks_have_what_the_documents_call_hvd(sandbox: Sandbox) -> None:
    """Not in __all__: `import *` would take a program's own "data"."""
    names = {"torch": ["progress", "checkpoint", "errors", "callbacks", "data"], "tensorflow": ["progress", "checkpoint", "errors"]}
    code = f"""if True:
        import importlib, hvd
        for framework, names in {names!r}.items():
            try:
                importlib.import_module(framework)
            except ImportError:
                continue
            module = importlib.import_module(f"hvd.{{framework}}")
            assert all(getattr(module, name) is getattr(hvd, name) for name in names), framework
            print(framework)"""
    assert "torch" in run_code(sandbox, code).expect(0).out_lines


def test_horovod_torch_has_every_public_name_of_hvd_torch(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        import hvd.torch, horovod.torch
        from horovod.torch import *
        from horovod.torch.mpi_ops import allreduce_async_, synchronize
        from horovod.torch.compression import Compression, Compressor, FP16Compressor, NoneCompressor
        from horovod.torch.functions import broadcast_object
        from horovod.torch.optimizer import DistributedOptimizer
        from horovod.torch.sync_batch_norm import SyncBatchNorm
        from horovod.common.process_sets import ProcessSet, global_process_set
        assert horovod.torch.__all__ == hvd.torch.__all__
        assert all(getattr(horovod.torch, name) is getattr(hvd.torch, name) for name in hvd.torch.__all__ if name != "elastic")
        assert horovod.torch.elastic.TorchState is hvd.torch.elastic.TorchState
        assert DistributedOptimizer is hvd.torch.DistributedOptimizer
        assert Compression is hvd.torch.Compression and issubclass(FP16Compressor, Compressor)
        assert str(ProcessSet([1, 0])) == "ProcessSet(process_set_id=None, ranks=[0, 1], mpi_comm=None)"
        assert horovod.torch.gloo_built() or horovod.torch.mpi_built()""").expect(0)


def test_submodules_and_helpers_work_after_importing_horovod_torch(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        import horovod.torch as hvd
        assert hvd.mpi_ops.Sum == hvd.Sum and hvd.mpi_ops.allreduce is hvd.allreduce
        assert hvd.compression.NoneCompressor is hvd.Compression.none
        import horovod
        assert horovod.common.util.num_rank_is_power_2(4) and horovod.runner.run is horovod.run
        hvd.init()
        from horovod.common.basics import HorovodBasics
        for basics in (HorovodBasics(__name__, "mpi_lib"), hvd.mpi_ops._basics):
            assert (basics.rank(), basics.size(), basics.is_initialized()) == (0, 1, True)
            assert basics._get_process_set_ids_and_ranks() == {0: [0]} and basics.Average == hvd.Average
            assert not hasattr(basics, "no_such") and basics.nccl_built() == hvd.nccl_built()
        from horovod.common.exceptions import HorovodInternalError, HorovodVersionMismatchError
        assert HorovodInternalError is hvd.HorovodInternalError and issubclass(HorovodVersionMismatchError, ImportError)
        from horovod.common import rank
        assert rank() == 0""").expect(0)


def test_a_program_can_define_its_own_compressor(sandbox: Sandbox) -> None:
    code = """if True:
        import torch
        import horovod.torch as hvd
        from horovod.torch.compression import Compressor
        class Half(Compressor):
            @staticmethod
            def compress(tensor): return tensor.half(), tensor.dtype
            @staticmethod
            def decompress(tensor, ctx): return tensor.to(ctx)
        hvd.init()
        got = hvd.allreduce(torch.ones(2) * hvd.rank(), op=hvd.mpi_ops.Sum, compression=Half)
        assert got.tolist() == [1, 1] and got.dtype == torch.float32"""
    run_ranks(sandbox, "-c", code).expect(0)


@pytest.mark.tensorflow
def test_helpers_of_horovod_tensorflow_that_programs_use_work(sandbox: Sandbox) -> None:
    code = """if True:
        import tensorflow as tf
        import horovod.tensorflow as hvd
        from horovod.tensorflow.mpi_ops import _allreduce, check_num_rank_power_of_2
        from horovod.tensorflow.compression import Compressor, FP16Compressor, NoneCompressor
        from horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs
        hvd.init()
        assert _allreduce(tf.constant([2.0]), name="a").numpy() == [4.0]
        assert hvd.mpi_ops._allreduce(tf.constant([2.0]), op=hvd.mpi_ops.Average).numpy() == [2.0]
        assert hvd.Compression.fp16 is FP16Compressor and issubclass(NoneCompressor, Compressor)
        assert _executing_eagerly() and _make_subgraph(lambda x: x + 1)(tf.constant(1)).numpy() == 2
        calls = []
        cached = _cache(lambda n: calls.append(n) or n)
        assert [cached(1), cached(1), cached(2)] == [1, 1, 2] and calls == [1, 2]
        variables = [tf.Variable(1.0)]
        assert refs_to_vars(vars_to_refs(variables))[0] is variables[0] and len({*vars_to_refs(variables)}) == 1"""
    sandbox.run("--horovod", "-np", 2, "-H", "localhost:2", "--bind-to", "none", PYTHONS["tensorflow"], "-c", code,
                env=environment()).expect(0)


@pytest.mark.tensorflow
def test_a_result_that_tensorflow_does_not_take_ends_the_rank(sandbox: Sandbox) -> None:
    """Otherwise the step ends with OutOfRangeError, which Keras takes for the end of the data."""
    code = """if True:
        import tensorflow as tf
        import horovod.tensorflow.keras as hvd
        hvd.init()
        def refuse(queue, value): raise MemoryError("no room")
        tf.queue.FIFOQueue.enqueue = refuse
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
        model.fit(tf.ones((8, 2)), tf.ones((8, 1)), batch_size=2, verbose=0)
        print("trained")"""
    done = sandbox.run("--horovod", "-np", 2, "-H", "localhost:2", "--bind-to", "none", PYTHONS["tensorflow"], "-c", code,
                       env=environment() | {"TMPDIR": str(sandbox.files)})  # autograph leaves files if it is ended
    assert done.code == 1 and "trained" not in done.out_text, done
    assert "hvd: TensorFlow could not take the result of a collective: MemoryError('no room')" in done.err_text


def test_horovodrun_runs_hvdrun_with_the_module_horovod(sandbox: Sandbox) -> None:
    code = "import horovod, os, sys; print(os.environ['HOROVOD_SIZE'], os.path.dirname(horovod.__file__), sys.argv[1:])"
    # horovodrun allows more ranks than cores. Options after the program belong to the program.
    done = sandbox.run("-np", 3, "--gloo", PYTHON, "-c", code, "--verbose", tool=HVDRUN.with_name("horovodrun"),
                       env=environment()).expect(0)
    assert sorted(done.out_lines) == [f"[{rank}] 3 {BUILD}/share/hvdrun/horovod/horovod ['--verbose']" for rank in range(3)]
    assert "--gloo has no effect" in done.err_text


@pytest.mark.tensorflow
def test_horovod_tensorflow_and_keras_have_every_public_name_of_hvd(sandbox: Sandbox) -> None:
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
            for public in set(ours.__all__) - {"callbacks", "elastic"}:  # modules of their own
                assert getattr(ours, public) is getattr(theirs, public), (name, public)
            assert theirs.elastic.run is ours.elastic.run, name"""
    run_code(sandbox, code, python=PYTHONS["tensorflow"]).expect(0)


def test_helpers_of_horovod_common_util_work(sandbox: Sandbox) -> None:
    run_code(sandbox, """if True:
        import os
        from horovod.common.util import (check_extension, env, extension_available, get_ext_suffix,
                                         get_extension_full_path, get_average_backwards_compatibility_fun, is_iterable,
                                         is_version_greater_equal_than, num_rank_is_power_2, split_list)
        assert is_version_greater_equal_than("2.15.0rc1", "2.4.0") and not is_version_greater_equal_than("1.9", "2.0.0")
        import hvd
        reduction = get_average_backwards_compatibility_fun(hvd)
        assert (reduction(None, None), reduction(hvd.Max, None)) == (hvd.Average, hvd.Max)
        assert reduction(None, False) == hvd.Sum
        check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __name__)
        assert get_ext_suffix().endswith(".so")
        for call in (lambda: check_extension("horovod.mxnet", "", ""), lambda: get_extension_full_path("", "mpi_lib")):
            try:
                call()
                raise AssertionError("no ImportError")
            except ImportError:
                pass
        assert split_list([1, 2, 3, 4, 5], 3) == [[1, 2], [3, 4], [5]]
        assert split_list([1], 2) == [[1], []]
        assert [size for size in range(10) if num_rank_is_power_2(size)] == [1, 2, 4, 8]
        assert is_iterable("ab") and not is_iterable(3)
        assert extension_available("torch") and not extension_available("mxnet")
        os.environ["A"] = "before"
        with env(A="1", B="2", C=None):
            assert (os.environ["A"], os.environ["B"]) == ("1", "2") and "C" not in os.environ
        assert os.environ["A"] == "before" and "B" not in os.environ""").expect(0)


def test_only_rank_0_warns_about_variables_without_effect(sandbox: Sandbox) -> None:
    done = run_ranks(sandbox, "-c", "import horovod, horovod.common.util", HOROVOD_AUTOTUNE_WARMUP_SAMPLES="1",
                     HOROVOD_HIERARCHICAL_ALLREDUCE="1", HOROVOD_TORUS_ALLREDUCE="0", HOROVOD_CYCLE_TIME="(None,)",
                     HOROVOD_FUSION_THRESHOLD="1000", HOROVOD_ELASTIC="", PYTHONPATH="").expect(0)
    said = re.findall(r"^(?:\[(\d)\] )?.*UserWarning: (HOROVOD_\w+) has no effect: .+$", done.err_text, re.MULTILINE)
    assert said == [("0", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"), ("0", "HOROVOD_HIERARCHICAL_ALLREDUCE")], done


def test_variables_that_hvdrun_sets_give_no_warning(sandbox: Sandbox) -> None:
    assert b"has no effect" not in run_ranks(sandbox, "-c", "import horovod").expect(0).err


@pytest.mark.parametrize("level, verbose", [("debug", "1"), ("WARNING", "None"), ("", "None")])
def test_horovod_log_level_sets_hvd_verbose(sandbox: Sandbox, level: str, verbose: str) -> None:
    done = run_code(sandbox, "import horovod, os; print(os.environ.get('HVD_VERBOSE'))", HOROVOD_LOG_LEVEL=level)
    assert done.expect(0).out_text == f"{verbose}\n"


def test_the_page_lists_all_variables_without_effect() -> None:
    tree = ast.parse((MODULES / "horovod/_environment.py").read_text())
    [table] = [node.value for node in tree.body
               if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_WITHOUT_EFFECT"]
    names = {f"`HOROVOD_{ast.literal_eval(name)}`" for name in table.keys}
    text = (TOP / "docs/reference/environment.md").read_text()
    assert not [name for name in sorted(names) if name not in text]
