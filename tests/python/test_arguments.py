"""Wrong arguments and unknown names in processes without a launcher. Those of ranks are in cases/arguments.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import PYTHON, Sandbox, python_environment

PROGRAMS = Path(__file__).resolve().parent / "programs"
LIMIT = 240.0  # seconds; a process that takes longer hangs

NAMES = """if True:
    import inspect, sys, hvd
    inspect.getmembers(hvd)
    print([name for name in ("numpy", "torch", "tensorflow", "keras") if name in sys.modules])
    print([name for name in ("annotations", "launch", "objects", "job", "types") if name in dir(hvd)])
    try:
        hvd.rank()
    except hvd.errors.NotInitializedError as error:
        print(error)
    hvd.init()
    print(hvd.numpy.allreduce([2.0]), "numpy" in dir(hvd))
    hvd.print1"""


def run(sandbox: Sandbox, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, *map(str, arguments)], env={"PATH": "/usr/bin:/bin", **python_environment()}, cwd=sandbox.files,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT)


def test_nonsense_for_any_public_function_is_an_exception_that_helps(sandbox: Sandbox) -> None:
    done = run(sandbox, PROGRAMS / "nonsense.py", "hvd", "hvd.torch", "hvd.numpy", "hvd.data", "hvd.io", "hvd.checkpoint", "hvd.elastic",
               "hvd.torch.elastic")
    assert done.returncode == 0 and done.stdout.count("walked ") == 8, done.stdout + done.stderr


def test_names_before_any_framework_is_imported(sandbox: Sandbox) -> None:
    done = run(sandbox, "-c", NAMES)
    assert done.stdout.splitlines() == ["[]", "[]", "hvd.rank(): called before hvd.init() or after hvd.shutdown()", "[2.] True"], done
    assert done.stderr.splitlines()[-1] == "AttributeError: module 'hvd' has no attribute 'print1'; did you mean print0?", done
