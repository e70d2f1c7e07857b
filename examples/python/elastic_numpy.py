#!/usr/bin/env python3
"""Trains a softmax regression with numpy, and continues when ranks are lost.

    hvdrun --min-np 1 -np 3 --replace auto python3 elastic_numpy.py --pause 0.05

What must outlive a rank is in an ObjectState: here the weights and the number of steps.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import hvd
import hvd.numpy
from hvd.data import Shard

SAMPLES, BATCH, STEPS_PER_EPOCH = 1200, 60, 20


def main() -> None:
    parser = argparse.ArgumentParser(description="trains a softmax regression, and continues when ranks are lost")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step, to have time to kill a rank")
    options = parser.parse_args()

    hvd.init()
    random = np.random.default_rng(1)  # the same data everywhere: each rank takes its part of each batch
    inputs = random.normal(size=(SAMPLES, 20))
    labels = (inputs @ random.normal(size=(20, 3))).argmax(1)
    print(f"rank {hvd.rank()} is process {os.getpid()}", flush=True)

    @hvd.elastic.run
    def train(state: hvd.elastic.ObjectState) -> None:
        while state.step < options.epochs * STEPS_PER_EPOCH:
            epoch, step = divmod(state.step, STEPS_PER_EPOCH)
            shard = Shard(SAMPLES, BATCH, epoch, seed=1)
            mine = shard[step]
            scores = np.exp(inputs[mine] @ state.weights)
            chances = scores / scores.sum(1, keepdims=True)
            loss = -np.log(chances[np.arange(len(mine)), labels[mine]]).sum()
            gradient = inputs[mine].T @ (chances - np.eye(3)[labels[mine]])
            # One call for all that is summed up, and divided by the samples of the whole batch.
            sums = hvd.numpy.allreduce(np.append(gradient, loss), "sums", hvd.Sum) / shard.batch_size(step)
            state.weights = state.weights - 0.5 * sums[:-1].reshape(20, 3)
            state.step += 1
            state.commit()  # what a lost rank cannot take away
            if step + 1 == STEPS_PER_EPOCH:
                hvd.print0(f"epoch {epoch + 1} loss {sums[-1]:.5f} with {hvd.size()} ranks")
            time.sleep(options.pause)

    train(hvd.elastic.ObjectState(step=0, weights=np.zeros((20, 3))))
    hvd.shutdown()


if __name__ == "__main__":
    main()
