"""Saves checkpoints for ever (saver.py FOLDER), or loads one and prints its step (saver.py FOLDER check)."""

from __future__ import annotations

import itertools
import sys

import numpy as np

import hvd
from hvd.checkpoint import Checkpoints, Loaded

SHAPE = (4, 1 << 18)  # 8 MiB


def check(loaded: Loaded) -> int:
    """Checks that the state is that of one step; returns the step."""
    assert loaded["step"] == loaded.step and (loaded["weights"] == loaded.step).all(), "the state is a mix of several steps"
    return loaded.step


def main() -> None:
    hvd.init()
    with Checkpoints(sys.argv[1], keep_last=2) as checkpoints:
        loaded = checkpoints.load()
        if "check" in sys.argv:
            hvd.print0("loaded", check(loaded) if loaded else None)
            return
        for step in itertools.count(check(loaded) + 1 if loaded else 1):
            checkpoints.save({"weights": np.full(SHAPE, float(step)), "step": step}, step)
            hvd.print0("durable", step - 1)  # a save waits for the previous one


if __name__ == "__main__":
    main()
