#!/usr/bin/python3
"""Records Horovod's results of programs/horovod_conformance.py: horovod_results.py PYTHON writes horovod_results.json.

PYTHON is an interpreter with Horovod and Gloo. In a virtual environment, this command installs them:
`HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 pip install --no-build-isolation horovod==0.28.1`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from harness import Sandbox  # noqa: E402

PROGRAM = FOLDER / "programs/horovod_conformance.py"
RESULTS = FOLDER / "horovod_results.json"
SIZES = (1, 2, 3)

Lines = dict[str, dict[str, str]]  # by rank ("0"), by case


def results_folder(sandbox: Sandbox) -> Path:
    folder = sandbox.files / "results"
    folder.mkdir()
    return folder


def lines_in(folder: Path, ranks: int) -> Lines:
    """Returns the lines that the ranks have written there."""
    return {str(rank): dict(line.split(": ", 1) for line in (folder / f"rank{rank}").read_text().splitlines())
            for rank in range(ranks)}


def run_horovod(sandbox: Sandbox, python: str, ranks: int) -> Lines:
    folder = results_folder(sandbox)
    sandbox.run("-m", "horovod.runner.launch", "--gloo", "-np", ranks, python, PROGRAM, folder, tool=python,
                env={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", "HOROVOD_LOG_LEVEL": "fatal"}).expect(0)
    return lines_in(folder, ranks)


def read_results() -> dict[int, Lines]:
    """Returns the recorded lines by number of ranks."""
    return {int(ranks): lines for ranks, lines in json.loads(RESULTS.read_text())["results"].items()}


def versions_of(python: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder))
        code = "import horovod, torch; print(horovod.__version__, torch.__version__)"
        horovod, torch = sandbox.run("-c", code, tool=python).expect(0).out_text.split()
        sandbox.close()
    return {"horovod": horovod, "torch": torch}


def main() -> None:
    python = sys.argv[1]
    results = {}
    for ranks in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            sandbox = Sandbox(Path(folder))
            results[ranks] = run_horovod(sandbox, python, ranks)
            sandbox.close()
    RESULTS.write_text(json.dumps({**versions_of(python), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
