"""Rank 1 dies while the others wait for it in hvd.torch. Each of these prints whether its error names rank 1."""

from __future__ import annotations

import os
import signal

import torch

import hvd
import hvd.torch as hvt

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from hvdrun: the others end by themselves after they have printed
hvt.init()
if hvt.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
for call in (lambda: hvt.allreduce_(torch.ones(2), name="gradients"), lambda: hvt.allgather(torch.ones(2)),
             hvt.barrier):
    try:
        call()
    except hvd.errors.PeerError as error:
        print("error names rank 1:", "rank 1" in str(error), flush=True)
