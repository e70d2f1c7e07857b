"""Rank 1 dies in the third step of a ParameterServer. Each other rank prints its error."""

from __future__ import annotations

import os
import signal

import torch
from torch import nn

import hvd.torch as hvd

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from hvdrun: the others end by themselves after they have printed
hvd.init()
model = nn.Linear(2, 2)
optimizer = hvd.ParameterServer(torch.optim.SGD(model.parameters(), lr=0.1))
try:
    for step in range(5):
        if step == 2 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
except hvd.HorovodInternalError as error:
    print("step", step, type(error).__name__, flush=True)
hvd.shutdown()
