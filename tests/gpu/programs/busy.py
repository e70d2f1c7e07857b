"""Computes for 5 s on the GPU, with 4 GiB of its memory."""

from __future__ import annotations

import time

import torch

from common import DEVICE, synchronize

held = torch.ones(1 << 30, device=DEVICE)
factor = torch.randn(4096, 4096, device=DEVICE)
end = time.monotonic() + 5
while time.monotonic() < end:
    for _ in range(20):
        factor @ factor
    synchronize()
