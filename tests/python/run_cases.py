"""Runs the cases of one module on this rank: run_cases.py MODULE.py FOLDER (see rank_cases.py).

Writes FOLDER/rank<R>.jsonl, one line per case as soon as it has ended. Between cases the ranks wait for each other.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path

import hvd
from hvd import _collectives


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(source.parent))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hvd.init()
    rank = hvd.rank()
    cases = [(name, case) for name, case in vars(module).items() if name.startswith("case_")]
    with open(folder / f"rank{rank}.jsonl", "w", buffering=1) as results:
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


if __name__ == "__main__":
    main()
