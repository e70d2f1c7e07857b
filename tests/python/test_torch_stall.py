"""If a rank does not make its optimizer's step, the others get an error with the waiting tensors and the missing rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import PYTHON, Sandbox, python_environment

# The last rank makes no step until the others have written down their error.
PROGRAM = """
import sys, time
from pathlib import Path
import torch
import hvd.torch as hvd

folder, groups = Path(sys.argv[1]), int(sys.argv[2]) or None
hvd.init()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                     groups=groups)
hvd.barrier()  # so that no rank is late because it has started late
others = [folder / f"rank{rank}.txt" for rank in range(hvd.size() - 1)]
if hvd.rank() == hvd.size() - 1:
    while not all(file.exists() for file in others):
        time.sleep(0.01)
else:
    model(torch.ones(1, 3)).sum().backward()
    try:
        optimizer.step()
        text = "nothing was raised"
    except hvd.HorovodInternalError as error:
        text = f"{type(error).__name__}: {error}"
    partial = folder / f"rank{hvd.rank()}.part"
    partial.write_text(text)
    partial.rename(others[hvd.rank()])
"""


@pytest.mark.parametrize("ranks, groups, waiting", [
    pytest.param(2, 0, ["allreduce.1.bias", "allreduce.1.weight", "allreduce.0.bias", "allreduce.0.weight"]),
    pytest.param(3, 2, ["allreduce.0.weight and 1 more", "allreduce.1.weight and 1 more"], marks=pytest.mark.slow),
], ids=["each parameter", "groups"])
def test_a_missing_optimizer_step_of_a_rank_is_a_stall_error_on_the_others(sandbox: Sandbox, tmp_path: Path, ranks: int, groups: int,
                                                                           waiting: list[str]) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = sandbox.run("-np", ranks, "--bind-to", "none", "-H", f"localhost:{ranks}", PYTHON, program, tmp_path, groups,
                       env=python_environment({"HVD_STALL_CHECK_TIME_SECONDS": "1",
                                               "HVD_STALL_SHUTDOWN_TIME_SECONDS": "3"}))
    texts = [(tmp_path / f"rank{rank}.txt").read_text() for rank in range(ranks - 1)]
    for text in texts:
        assert f"rank {ranks - 1}" in text and any(name in text for name in waiting), f"{text}\n{done}"
    assert any(f'allreduce "{name}' in done.err_text for name in waiting), f"no warning: {done}"
