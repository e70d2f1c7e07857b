"""Trains a small CNN in a job with --min-np, in which member 1 is killed: elastic_kill.py FILE.

Each rank that is left prints, in ms: from the kill to the end of its next step, less the median of a step; of that, to its
error, to the next generation, and to the newest state. FILE is where the member that dies writes the time.
"""

import os
import signal
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional

import hvd.torch as hvd

STEPS, DEATH = 60, 30
FILE = Path(sys.argv[1])
reform = hvd.elastic.reform
marks: dict = {}
durations: list = []


def noting_reform() -> None:
    marks["error"] = time.monotonic()
    reform()
    marks["generation"] = time.monotonic()


hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 64),
                            torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
images, labels = torch.randn(8, 1, 8, 8), torch.randint(10, (8,))
state = hvd.elastic.TorchState(model, optimizer, step=0)
sys.modules["hvd.elastic"].reform = noting_reform


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    marks["state"] = time.monotonic()
    while state.step < STEPS:
        if hvd.elastic.member() == 1 and state.step == DEATH:
            FILE.write_text(repr(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        state.step += 1
        state.commit()
        durations.append(time.monotonic() - begin)
        if hvd.elastic.generation() > 1:
            marks.setdefault("step", time.monotonic())


train(state)
killed = float(FILE.read_text())
pause = marks["step"] - killed - statistics.median(durations)
print(*(1e3 * part for part in (pause, marks["error"] - killed, marks["generation"] - marks["error"],
                                marks["state"] - marks["generation"])), flush=True)
