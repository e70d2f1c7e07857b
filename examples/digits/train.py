"""Handwritten digits with torch, on any number of ranks: docs/train/one-gpu-to-many.md explains it step by step.

    hvdrun -np 4 --max-restarts 3 python3 train.py --checkpoints run

The losses are the same at every number of ranks, except for the order of additions, and after every restart.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hvd
import hvd.numpy
from hvd.checkpoint import Checkpoints
from hvd.torch.sampler import DistributedSampler

TRAINING = 1437  # images of the 1797; the others are for validation


def read_digits(path: Path) -> tuple[TensorDataset, TensorDataset]:
    """Reads the file on rank 0, and returns training and validation data on all ranks."""
    rows = hvd.on_rank0(lambda: np.loadtxt(path, delimiter=","))
    images, labels = torch.tensor(rows[:, :64] / 16, dtype=torch.float32), torch.tensor(rows[:, 64]).long()
    return TensorDataset(images[:TRAINING], labels[:TRAINING]), TensorDataset(images[TRAINING:], labels[TRAINING:])


def sum_over_ranks(tensors: list[torch.Tensor]) -> None:
    """Sums tensors in host memory over the ranks, in place."""
    handles = [hvd.numpy.allreduce_async_(tensor.numpy(), f"tensor {index}", hvd.Sum)
               for index, tensor in enumerate(tensors)]
    for handle in handles:
        handle.wait()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor,
               batch_size: int) -> torch.Tensor:
    """Makes one step. Returns loss, hits and number of samples, summed over the samples of all ranks."""
    outputs = model(images)
    loss = nn.functional.cross_entropy(outputs, labels, reduction="sum")
    optimizer.zero_grad()
    (loss / batch_size).backward()
    sums = torch.tensor([loss.item(), (outputs.argmax(1) == labels).sum().item(), len(labels)])
    sum_over_ranks([*(parameter.grad for parameter in model.parameters()), sums])
    optimizer.step()
    return sums


def validate(model: nn.Module, dataset: TensorDataset) -> dict[str, float]:
    """Evaluates this rank's part of the data, and returns the averages over all ranks."""
    images, labels = dataset[hvd.data.Shard(len(dataset), batch=len(dataset), shuffle=False)[0]]
    with torch.no_grad():
        outputs = model(images)
        metrics = {"loss": nn.functional.cross_entropy(outputs, labels).item(),
                   "accuracy": (outputs.argmax(1) == labels).float().mean().item()}
    return hvd.average_metrics(metrics, len(labels))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "data/digits.csv.gz")
    parser.add_argument("--checkpoints", default="checkpoints")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="samples of a step, over all ranks")
    parser.add_argument("--patience", type=int, default=5, help="epochs without a better loss before the end; 0: all")
    options = parser.parse_args()

    hvd.init()
    hvd.watch_signal(signal.SIGTERM)
    torch.manual_seed(1)  # the same weights on all ranks
    training, validation = read_digits(options.data)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    early = hvd.EarlyStopping("min", patience=options.patience)
    sampler = DistributedSampler(training, options.batch, seed=1, remainder="uneven")
    loader = DataLoader(training, sampler=sampler, batch_size=sampler.local_batch)
    steps, sums = 0, torch.zeros(3)

    with Checkpoints(options.checkpoints, best="min") as checkpoints:
        def save(metric: float | None = None) -> None:
            checkpoints.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps,
                              "sums": sums, "early": early.state_dict()}, steps, metric)

        if loaded := checkpoints.load():
            model.load_state_dict(loaded["model"])
            optimizer.load_state_dict(loaded["optimizer"])
            early.load_state_dict(loaded["early"])
            steps, sums = loaded["steps"], loaded["sums"]
            hvd.print0(f"continuing from step {steps}")

        for epoch in range(steps // sampler.steps, options.epochs):
            hvd.set_epoch(epoch)
            first_step = steps % sampler.steps
            sampler.set_epoch(epoch, first_step)
            for step, (images, labels) in enumerate(loader, first_step):
                sums += train_step(model, optimizer, images, labels, sampler.batch_size(step))
                steps += 1
                hvd.set_step(steps)
                hvd.add_samples(len(labels))
                # 60 s are what the last checkpoint may take. At an epoch's end its own one comes first.
                if step + 1 < sampler.steps and (stop := hvd.agree_stop(steps, seconds_needed=60)):
                    save()
                    checkpoints.wait()
                    hvd.print0(f"stopped after step {steps}: {stop.text}")
                    return
            metrics = validate(model, validation)
            for name, value in metrics.items():
                hvd.set_metric(name, value)
            hvd.print0(f"epoch {epoch + 1} loss {sums[0] / sums[2]:.6f} train accuracy {100 * sums[1] / sums[2]:.1f} % "
                       f"validation loss {metrics['loss']:.6f} accuracy {100 * metrics['accuracy']:.1f} %")
            sums.zero_()
            best, enough = early.update(metrics["loss"])
            save(metrics["loss"])
            if enough:
                hvd.print0(f"no better for {options.patience} epochs")
                break
        hvd.set_epoch(options.epochs)


if __name__ == "__main__":
    main()
