"""Runs the cases of modules on this rank: run_cases.py FOLDER IMPORT MODULE.py … (see rank_cases.py).

Writes FOLDER/MODULE-<R>.jsonl, one line per case as soon as it has ended. Between cases the ranks wait for each other. Of
several modules each has a process of its own, which is forked when IMPORT ("-": none) has been imported once.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

import hvd
from hvd import _collectives


def run(source: Path, folder: Path) -> None:
    sys.path.insert(0, str(source.parent))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hvd.init()
    rank = hvd.rank()
    cases = [(name, case) for name, case in vars(module).items() if name.startswith("case_")]
    with open(folder / f"{source.stem}-{rank}.jsonl", "w", buffering=1) as results:
        for name, case in cases:
            text = ""
            try:
                case()
            except Exception:
                text = traceback.format_exc()
            results.write(json.dumps({"case": name, "text": text}) + "\n")
            number = _collectives.barrier(_collectives.options(f"after {name}", 0))
            hvd.Handle(number, lambda: None).wait()
    hvd.shutdown()


def run_in_child(source: Path, folder: Path) -> int:
    """Returns the exit code of the child, or 128 + the signal that ended it. The child leaves as a program does."""
    child = os.fork()
    if child == 0:
        run(source, folder)
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def main() -> None:
    folder, slow, sources = Path(sys.argv[1]), sys.argv[2], [Path(word) for word in sys.argv[3:]]
    if len(sources) == 1:
        return run(sources[0], folder)
    if slow != "-":
        importlib.import_module(f"hvd.{slow}")
    codes = [run_in_child(source, folder) for source in sources]
    sys.exit(next(filter(None, codes), 0))


if __name__ == "__main__":
    main()
