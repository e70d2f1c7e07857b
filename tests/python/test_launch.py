"""hvd.run() and horovod.run() run a function on ranks, from a script, a module or a program without a file."""

from __future__ import annotations

import signal

import pytest

from harness import BUILD, HVDRUN, PYTHON, TOP, Done, Running, Sandbox, alive, python_environment, wait_until

PATHS = f"{TOP}/python/hvd-horovod/src:{TOP}/python"


def environment(**changes: str) -> dict[str, str]:
    return python_environment({"PATH": f"{HVDRUN.parent}:/usr/bin:/bin", "PYTHONPATH": PATHS, **changes})


def run_script(sandbox: Sandbox, code: str, **changes: str) -> Done:
    (sandbox.files / "train.py").write_text(code)
    return sandbox.run(sandbox.files / "train.py", tool=PYTHON, env=environment(**changes))


def run_at_a_prompt(sandbox: Sandbox, code: str, **changes: str) -> Done:
    """Runs a program without a file, like a notebook's."""
    return sandbox.run("-", tool=PYTHON, stdin=code.encode(), env=environment(**changes))


def a_cloudpickle(sandbox: Sandbox) -> str:
    """Makes a minimal cloudpickle, which pickles functions without references as code; returns its folder."""
    folder = sandbox.files / "cloudpickle"
    folder.mkdir()
    (folder / "cloudpickle.py").write_text("""if True:
        import io, marshal, pickle, types
        def make(code): return types.FunctionType(marshal.loads(code), {"__builtins__": __builtins__})
        class Pickler(pickle.Pickler):
            def reducer_override(self, thing):
                if isinstance(thing, types.FunctionType) and thing.__module__ == "__main__":
                    return make, (marshal.dumps(thing.__code__),)
                return NotImplemented
        def dumps(thing):
            file = io.BytesIO()
            Pickler(file).dump(thing)
            return file.getvalue()
        loads = pickle.loads""")
    return str(folder)


def test_run_returns_the_results_in_the_order_of_ranks(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import sys
        import hvd
        class Result:
            def __init__(self, *values): self.values = values
        def train(factor, more):
            import numpy
            import hvd.numpy
            hvd.init()
            print("in rank", hvd.rank())
            print("not ended", end="")
            total = hvd.numpy.allreduce(numpy.ones(1) * factor, op=hvd.Sum)
            return Result(hvd.rank(), hvd.size(), float(total[0]), more, "x" * (10000 * hvd.rank()), sys.argv[1:])
        if __name__ == "__main__":
            import numpy
            results = hvd.run(train, (3,), {"more": "m"}, np=numpy.int64(2), env={"MINE": "1"})
            print([(result.values[:4], len(result.values[4])) for result in results])""").expect(0)
    assert sorted(done.out_lines[:-1]) == ["[0] in rank 0", "[0] not ended", "[1] in rank 1", "[1] not ended"]
    assert done.out_lines[-1] == "[((0, 2, 6.0, 'm'), 0), ((1, 2, 6.0, 'm'), 10000)]"


def test_run_takes_functions_of_modules_environment_and_options(sandbox: Sandbox) -> None:
    (sandbox.files / "folder").mkdir()
    (sandbox.files / "folder/mine.py").write_text(
        "import os\ndef look(): return os.environ['HVD_RANK'], os.environ['MINE'], os.environ['HVD_NODE_COUNT']\n")
    done = run_at_a_prompt(sandbox, """if True:
        import sys
        sys.path.append("folder")
        import hvd, mine
        print(hvd.run(mine.look, np=2, hosts=["localhost:2"], env={"MINE": "yes"},
                      options=["--output-filename", "out"]))""").expect(0)
    assert done.out_lines == ["[('0', 'yes', '1'), ('1', 'yes', '1')]"]
    assert (sandbox.files / "out/rank.0001/stdout").exists()


def test_run_leaves_no_descriptor_open(sandbox: Sandbox) -> None:
    done = run_at_a_prompt(sandbox, """if True:
        import gc, os, hvd, warnings
        warnings.simplefilter("error")
        before = set(os.listdir("/proc/self/fd"))
        hvd.run(os.getpid, np=1)
        gc.collect()
        print(set(os.listdir("/proc/self/fd")) - before)""").expect(0)
    assert done.out_lines == ["set()"] and "ResourceWarning" not in done.err_text, done


def test_a_restarted_job_calls_the_function_again(sandbox: Sandbox) -> None:
    (sandbox.files / "mine.py").write_text("""if True:
        import os, sys
        def attempt(text):
            if os.environ["HVD_RANK"] + os.environ["HVD_RESTART_COUNT"] == "10":
                sys.exit(3)
            return os.environ["HVD_RESTART_COUNT"], len(text)
    """)
    done = run_at_a_prompt(sandbox, """if True:
        import hvd, mine
        print(hvd.run(mine.attempt, ("x" * 20_000_000,), np=2, options=["--max-restarts", "2"]))""").expect(0)
    assert done.out_lines == ["[('1', 20000000), ('1', 20000000)]"]


def test_run_with_another_interpreter_keeps_that_ones_modules(sandbox: Sandbox) -> None:
    (sandbox.files / "mine.py").write_text(
        "import sys\ndef look(): return sys.prefix, len(sys.path) == len({*sys.path})\n")
    place = sandbox.files / "venv"
    sandbox.run("-m", "venv", "--without-pip", place, tool=PYTHON).expect(0)
    done = run_at_a_prompt(sandbox, f"""if True:
        import hvd, mine
        print(hvd.run(mine.look, np=1, executable={str(place / "bin/python")!r}))""").expect(0)
    assert done.out_lines == [f"[('{place}', True)]"]


@pytest.mark.parametrize("call, message", [
    ('hvd.run("train.py", np=2)', "the first argument is 'train.py', not a function"),
    ("hvd.run(print, 5, np=2)", "hvd.run: args is 5, not a list or tuple"),
    ('hvd.run(print, "ab", np=2)', "hvd.run: args is 'ab', not a list or tuple"),
    ('hvd.run(print, np=2, options="-v")', "hvd.run: options is '-v', not a list or tuple of words"),
    ('hvd.slurm.submit("train.py -x", np=2)', "the program is 'train.py -x', not a list of its words: ['train.py', '-x']"),
    ("hvd.slurm.map(print, 3)", "hvd.slurm.map: the second argument is 3, not a list or tuple of items"),
    ('hvd.slurm.map(print, "ab")', "hvd.slurm.map: the second argument is 'ab', not a list or tuple of items"),
    ('hvd.slurm.submit(["train.py"], options="-v")', "hvd.slurm.submit: options is '-v', not a list or tuple"),
])
def test_arguments_of_a_wrong_type_are_named_before_a_job_starts(sandbox: Sandbox, call: str, message: str) -> None:
    done = run_script(sandbox, f"import hvd, hvd.slurm\n{call}\n").expect(1)
    assert f"TypeError: {call[:call.index('(')]}: " in done.err_text and message in done.err_text


def test_a_machine_without_slurm_is_named(sandbox: Sandbox) -> None:
    done = run_script(sandbox, "import os, hvd.slurm\nos.environ['PATH'] = '/nowhere'\nhvd.slurm.submit(['true'], nodes=1)\n").expect(1)
    assert "RunError: hvd.slurm: there is no SLURM here: PATH has no sbatch" in done.err_text, done


def test_horovod_run_accepts_its_own_arguments(sandbox: Sandbox) -> None:
    code = """if True:
        import horovod
        def train(a, b=0):
            import horovod.torch as hvd
            hvd.init()
            return hvd.rank(), hvd.size(), a, b
        if __name__ == "__main__":
            print(horovod.run(train, (1,), {{"b": 2}}, {arguments}))"""
    three = "[(0, 3, 1, 2), (1, 3, 1, 2), (2, 3, 1, 2)]"
    for arguments in ("num_proc=3, use_gloo=True, verbose=2", "np=3, hosts='localhost:3', network_interfaces=['lo']"):
        assert run_script(sandbox, code.format(arguments=arguments)).expect(0).out_lines == [three]
    done = run_script(sandbox, code.format(arguments="np=2, mpi_args='--mca x y'")).expect(1)
    assert "hvd.launch.RunError: hvdrun: error: --mpi-args is an option of horovodrun that hvdrun does not have: " in (
        done.err_text)


def test_run_raises_the_exception_of_a_rank_with_traceback_and_report(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import hvd, time
        def train():
            hvd.init()
            if hvd.rank() == 1:
                raise ValueError("bad batch")
            hvd.broadcast_object(1, root_rank=1)
        if __name__ == "__main__":
            try:
                hvd.run(train, np=2)
            except ValueError as error:
                assert isinstance(error, hvd.RunError) and repr(error.__cause__) == "ValueError('bad batch')"
                print(error.rank, error.exit_code, error.report["first_failure"])
                assert error.traceback.endswith("ValueError: bad batch\\n") and "in train" in error.traceback
                assert "rank 1 on " in str(error) and "ValueError: bad batch" in str(error)""").expect(0)
    assert done.out_lines == ["1 1 1"]


def test_run_raises_the_type_of_each_exception_or_its_nearest_base_class(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import hvd, sys, threading
        class BadConfig(ValueError):
            def __init__(self, path, line):
                super().__init__(f"{path}:{line}")
                self.path = path
        class Locked(OSError):
            def __init__(self): super().__init__(5, "has a lock")
            lock = property(lambda self: self.args)
        def own_constructor(): raise BadConfig("conf.yaml", 3)
        def a_lock():
            error = ValueError("has a lock", threading.Lock())
            error.lock, error.more = threading.Lock(), 1
            raise error
        def a_local_class():
            class Local(KeyError): pass
            raise Local("x")
        def a_file(): open("/nowhere/file")
        def a_file_of_its_own(): raise Locked()
        def ends(): sys.exit(3)
        def ends_well(): sys.exit(0)
        def group():
            if sys.version_info < (3, 11): raise ValueError("two")
            raise ExceptionGroup("two", [ValueError(1), BadConfig("a", 1), KeyError(threading.Lock())])
        def caught(func, kind):
            try:
                hvd.run(func, np=1)
            except kind as error:
                assert isinstance(error, hvd.RunError) and error.__cause__ is not None
                print(func.__name__, [kind.__name__ for kind in type(error).__mro__][3], error.exit_code)
                return error
        if __name__ == "__main__":
            error = caught(own_constructor, BadConfig)
            assert (error.path, error.__cause__.args) == ("conf.yaml", ("conf.yaml:3",))
            error = caught(a_lock, ValueError)
            assert error.more == 1 and not hasattr(error, "lock") and error.__cause__.args[0] == "has a lock"
            assert caught(a_local_class, KeyError).__cause__.args == ("x",)
            assert caught(a_file, FileNotFoundError).errno == 2
            assert caught(a_file_of_its_own, Locked).errno == 5
            for func in (ends, ends_well):
                error = caught(func, hvd.RunError)
                assert not isinstance(error, SystemExit) and type(error.__cause__) is SystemExit
            if sys.version_info >= (3, 11):
                kinds = [type(each) for each in caught(group, ExceptionGroup).exceptions]
                assert kinds == [ValueError, BadConfig, KeyError]""").expect(0)
    assert [line for line in done.out_lines if not line.startswith("group")] == [
        "own_constructor BadConfig 1", "a_lock ValueError 1", "a_local_class KeyError 1", "a_file FileNotFoundError 1",
        "a_file_of_its_own Locked 1", "ends BaseException 3", "ends_well BaseException 0"]


def test_run_of_an_elastic_job_returns_none_for_a_lost_rank(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import os, signal
        import hvd
        def train():
            hvd.init()
            @hvd.elastic.run
            def loop(state):
                while state.step < 6:
                    if hvd.elastic.member() == 1 and state.step == 3:
                        os.kill(os.getpid(), signal.SIGKILL)
                    state.step += 1
                    state.commit()
                return state.step, hvd.size()
            return loop(hvd.elastic.ObjectState(step=0))
        if __name__ == "__main__":
            print(hvd.run(train, np=3, options=["--min-np", "2"]))""").expect(0)
    assert done.out_lines == ["[(6, 2), None, (6, 2)]"] and "rank 1 " in done.err_text, done


@pytest.mark.parametrize("code, words", [
    ("hvd.run(lambda: 1, np=1)", "TypeError: hvd.run: cannot send the function to the ranks: "),
    ("hvd.run(train, np=1)", "defined at a prompt or in a notebook; install cloudpickle, or put it into a module: "),
    ("hvd.run(print, np=1, options=['--nope'])", "hvdrun: error: unknown option --nope"),
    ("hvd.run(os._exit, (0,), np=1)", "RunError: ranks ended without a result: all"),
    ("hvd.run(threading.Lock, np=1)", "cannot send back what the function returned: "),
    ("hvd.run(bytes, (257 << 20,), np=1)", "the result of rank 0 has 258 MiB when pickled; at most 256 MiB can be sent back"),
    ("hvd.run(len, (bytes(257 << 20),), np=1)", "the function and its arguments have 258 MiB when pickled; at most 256 MiB"),
])
def test_run_raises_an_error_with_the_reason(sandbox: Sandbox, code: str, words: str) -> None:
    preface = "import hvd, os, threading\ndef train(): return 1\n"
    assert words in run_at_a_prompt(sandbox, preface + code).expect(1).err_text


def test_run_without_hvdrun_is_an_error(sandbox: Sandbox) -> None:
    library = sandbox.files / "libhvd.so.0"  # a copy without hvdrun beside it
    library.write_bytes((BUILD / "lib/libhvd.so.0").read_bytes())
    done = run_at_a_prompt(sandbox, "import hvd, os; os.environ['PATH'] = '/nowhere'; hvd.run(print, np=1)",
                           HVD_LIBRARY=str(library))
    assert "hvdrun is neither on PATH nor beside Python or libhvd" in done.expect(1).err_text


def test_run_uses_cloudpickle_if_it_is_installed(sandbox: Sandbox) -> None:
    done = run_at_a_prompt(sandbox, """if True:
        import hvd
        def train(): return 41 + 1
        print(hvd.run(train, np=2), hvd.run(lambda: "l", np=1))""", PYTHONPATH=f"{PATHS}:{a_cloudpickle(sandbox)}")
    assert done.expect(0).out_lines == ["[42, 42] ['l']"]


def test_no_rank_runs_a_script_whose_function_cloudpickle_sends(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import hvd
        print("top level", flush=True)
        def train(): return 41 + 1
        print(hvd.run(train, np=2))""", PYTHONPATH=f"{PATHS}:{a_cloudpickle(sandbox)}")
    assert done.expect(0).out_lines == ["top level", "[42, 42]"]


def test_a_function_that_cloudpickle_cannot_send_is_imported(sandbox: Sandbox) -> None:
    folder = sandbox.files / "refusing"
    folder.mkdir()
    (folder / "cloudpickle.py").write_text("import pickle\ndef dumps(thing):\n"
                                           "    if type(thing) is tuple: raise TypeError('cannot pickle a lock')\n"
                                           "    return pickle.dumps(thing)\n")
    script = "import hvd\ndef train(): return 42\n"
    done = run_script(sandbox, f"{script}if __name__ == '__main__':\n    print(hvd.run(train, np=1))",
                      PYTHONPATH=f"{PATHS}:{folder}")
    assert done.expect(0).out_lines == ["[42]"]
    done = run_script(sandbox, f"{script}print(hvd.run(train, np=1))", PYTHONPATH=f"{PATHS}:{folder}")
    assert done.expect(1).err_text.splitlines()[-1].endswith("cannot send the function to the ranks: cannot pickle a lock")


def test_a_function_that_uses_too_much_data_of_its_script_is_imported(sandbox: Sandbox) -> None:
    folder = sandbox.files / "generous"
    folder.mkdir()
    (folder / "cloudpickle.py").write_text("import pickle\ndef dumps(thing):\n"
                                           "    return pickle.dumps(thing if type(thing) is not tuple else bytes(257 << 20))\n")
    done = run_script(sandbox, "import hvd\ndef train(): return 42\nif __name__ == '__main__':\n    print(hvd.run(train, np=1))",
                      PYTHONPATH=f"{PATHS}:{folder}")
    assert done.expect(0).out_lines == ["[42]"]


def test_a_script_without_a_guard_needs_cloudpickle(sandbox: Sandbox) -> None:
    script = "import hvd\nprint('top level')\ndef train(): pass\n"
    done = run_script(sandbox, f"{script}hvd.run(train, np=1)\n").expect(1)
    assert done.out_lines == ["top level"]
    assert ('TypeError: hvd.run: cannot send the function to the ranks: something of it was defined in a script without '
            'if __name__ == "__main__":; install cloudpickle, or put it into a module: ') in done.err_text
    done = run_script(sandbox, f"{script}hvd.run(train, np=1)\nif __name__ == '__main__': pass\n").expect(1)
    assert ('RuntimeError: hvd.run() is called in a program that a rank imports for its function: put the call under '
            'if __name__ == "__main__":, or install cloudpickle (') in done.err_text


WAITING = """if True:
    import hvd, os, signal, time
    def train():
        print("begun", os.getpid(), flush=True)
        signal.pause()
    if __name__ == "__main__":
        try:
            hvd.run(train, np=2)
        except KeyboardInterrupt:
            print("interrupted", flush=True)"""


def ranks_of(out: bytes) -> list[int]:
    return [int(line.split()[-1]) for line in out.decode().splitlines() if " begun " in line]


def start_waiting(sandbox: Sandbox) -> Running:
    script = sandbox.files / "train.py"
    script.write_text(WAITING)
    job = sandbox.start(script, tool=PYTHON, env=environment())
    wait_until(lambda: len(ranks_of(job.out)) == 2, "both ranks to begin")
    return job


def test_ctrl_c_during_run_ends_the_job(sandbox: Sandbox) -> None:
    job = start_waiting(sandbox)
    job.signal(signal.SIGINT)
    done = job.wait().expect(0)  # checks that no process is left
    assert done.out_lines[-1] == "interrupted" and "interrupted: stopping 2 ranks" in done.err_text


def test_forced_colours_are_not_in_results_and_errors_of_run(sandbox: Sandbox) -> None:
    """A notebook's kernel sets FORCE_COLOR for its programs."""
    variables = {**environment(), "FORCE_COLOR": "1"}
    script = sandbox.files / "train.py"
    script.write_text("import hvd\ndef train(): return 7\ndef fail(): raise ValueError('bad batch')\n"
                      "if __name__ == '__main__':\n"
                      "    print(hvd.run(train, np=2), flush=True)\n"
                      "    try: hvd.run(fail, np=2)\n"
                      "    except hvd.launch.RunError as error: print(repr(str(error)), flush=True)\n")
    done = sandbox.run(script, tool=PYTHON, env=variables).expect(0)
    assert done.out_lines[0] == "[7, 7]" and "ValueError: bad batch" in done.out_lines[-1] and "x1b" not in done.out_text, done
    assert "\x1b[1;31merror:" in done.err_text


def test_ctrl_c_raises_keyboard_interrupt_in_the_function_of_run(sandbox: Sandbox) -> None:
    script = sandbox.files / "train.py"
    script.write_text(WAITING.replace("        signal.pause()\n", """        try:
            signal.pause()
        finally:
            print("saved", flush=True)
"""))
    job = sandbox.start(script, tool=PYTHON, env=environment())
    wait_until(lambda: len(ranks_of(job.out)) == 2, "both ranks to begin")
    job.signal(signal.SIGINT)
    done = job.wait().expect(0)
    assert sorted(line.split()[-1] for line in done.out_lines[-3:]) == ["interrupted", "saved", "saved"], done


def test_the_job_ends_after_a_kill_of_runs_caller(sandbox: Sandbox) -> None:
    job = start_waiting(sandbox)
    ranks = ranks_of(job.out)
    job.signal(signal.SIGKILL)
    job.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in ranks), "the end of the ranks")
    wait_until(lambda: not sandbox.processes(), "the end of hvdrun")


def test_a_pickled_error_keeps_its_type_and_its_cause(sandbox: Sandbox) -> None:
    done = run_script(sandbox, """if True:
        import hvd, pickle
        def fail():
            raise ValueError("bad batch")
        if __name__ == "__main__":
            try:
                hvd.run(fail, np=2)
            except ValueError as error:
                again = pickle.loads(pickle.dumps(error))
                print(isinstance(again, hvd.RunError), isinstance(again, ValueError), repr(again.__cause__), again.exit_code)
                print(again._render_traceback_())""").expect(0)
    lines = done.out_lines
    assert lines[0] == "True True ValueError('bad batch') 1", done
    assert lines[1].startswith("['RunError(ValueError): rank ") and lines[1].count("failed") == 1, done


@pytest.mark.parametrize("call, where", [
    ("hvd.run(print, (1, {'model': [lock]}), np=1)", "(in args[1]['model'][0])"),
    ("hvd.run(print, kwargs={'end': lock}, np=1)", "(in kwargs['end'])"),
    ("hvd.run(outer(), np=1)", "(in the variable inner_lock, which inner uses)"),
])
def test_what_cannot_be_pickled_is_named(sandbox: Sandbox, call: str, where: str) -> None:
    done = run_script(sandbox, f"""if True:
        import hvd, threading
        lock = threading.Lock()
        def outer():
            inner_lock = threading.Lock()
            def inner():
                return inner_lock
            return inner
        if __name__ == "__main__":
            {call}""").expect(1)
    assert "hvd.run: cannot send the function to the ranks: " in done.err_text and where in done.err_text, done
