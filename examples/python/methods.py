"""Trains a network on handwritten digits with each method of hvd, and prints one table.

    hvdrun -np 4 python3 methods.py
    hvdrun -np 2 -H n1:1,n2:1 python3 methods.py --model cnn --epochs 6 --batch 32 --plot losses.svg

The methods differ in one line of the program: how the optimizer of torch is wrapped. docs/train/methods.md explains
which method to choose when.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvd.torch
import numpy as np
import torch
import torch.nn.functional as F
from hvd.torch.sampler import DistributedSampler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TRAINING = 1437  # images of the 1797; the others are for the test
WINDOW = 16  # steps: losses and accuracies of the training are averages over these
COLORS = ("#000000", "#999999", "#1f77b4", "#17becf", "#d62728", "#ff9896", "#2ca02c", "#9467bd", "#8c564b")


@dataclass
class Method:
    name: str
    wrap: Callable[[torch.optim.Optimizer], Any]
    ranks_differ: bool = True  # until they synchronize


def calm(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Returns an outer optimizer for DiLoCo: the default is for longer trainings, and makes large steps."""
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.5, nesterov=True)


def make_methods(every: int) -> list[Method]:
    return [
        Method("DistributedOptimizer", hvd.torch.DistributedOptimizer, ranks_differ=False),
        Method("…, shard", lambda optimizer: hvd.torch.DistributedOptimizer(optimizer, shard=True),
               ranks_differ=False),
        Method(f"LocalSGD, every {every}", lambda optimizer: hvd.torch.LocalSGD(optimizer, every=every)),
        Method("…, background", lambda optimizer: hvd.torch.LocalSGD(optimizer, every=every, background=True)),
        Method(f"DiLoCo, every {4 * every}", lambda optimizer: hvd.torch.DiLoCo(optimizer, calm, every=4 * every)),
        Method("…, background",
               lambda optimizer: hvd.torch.DiLoCo(optimizer, calm, every=4 * every, background=True)),
        Method("Gossip, every 1", lambda optimizer: hvd.torch.Gossip(optimizer, every=1)),
        Method("ParameterServer, staleness 0", lambda optimizer: hvd.torch.ParameterServer(optimizer, staleness=0)),
        Method("…, staleness 4", lambda optimizer: hvd.torch.ParameterServer(optimizer, staleness=4)),
    ]


def read_digits(path: Path) -> tuple[TensorDataset, TensorDataset]:
    """Reads the file on rank 0, and returns training and test data on all ranks."""
    rows = hvd.on_rank0(lambda: np.loadtxt(path, delimiter=","))
    images, labels = torch.tensor(rows[:, :64] / 16, dtype=torch.float32), torch.tensor(rows[:, 64]).long()
    return TensorDataset(images[:TRAINING], labels[:TRAINING]), TensorDataset(images[TRAINING:], labels[TRAINING:])


def make_model(options: argparse.Namespace) -> nn.Module:
    torch.manual_seed(1)  # the same weights on all ranks
    if options.model == "mlp":
        return nn.Sequential(nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, 10))
    return nn.Sequential(  # 10 million parameters
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1408), nn.ReLU(),
        nn.Linear(1408, 10))


@dataclass
class Run:
    """A training with one method: figures of all ranks."""
    name: str
    accuracy: float            # of the test data at the end, in percent
    sent: int                  # bytes, of the rank that sends most
    seconds: float             # of the slowest rank
    ends: list[float]          # of each step, in seconds, on the slowest rank
    losses: list[float]        # of each step, averaged over the ranks and the last steps
    accuracies: list[float]    # the same of the training data, in percent

    def seconds_to(self, accuracy: float) -> float | None:
        """Returns when the training had this accuracy."""
        return next((end for end, now in zip(self.ends, self.accuracies) if now >= accuracy), None)


def smooth(ranks: Sequence[list[float]]) -> list[float]:
    """Returns the average over the ranks, and over WINDOW steps."""
    means = [statistics.fmean(step) for step in zip(*ranks)]
    return [statistics.fmean(means[max(0, step + 1 - WINDOW):step + 1]) for step in range(len(means))]


def ticks(most: float) -> list[float]:
    """Returns 0 and its multiples of 1, 2 or 5 times a power of ten up to `most`: 4 to 10 in all."""
    power = 10.0 ** np.floor(np.log10(most))
    step = next(power * part for part in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if most < 10 * power * part)
    return [round(step * number, 10) for number in range(int(most / step) + 1)]


def plot(runs: list[Run], path: Path) -> None:
    """Writes the losses over time as an SVG file."""
    width, height, left, top = 760, 400, 50, 30
    longest, highest = max(run.ends[-1] for run in runs), max(run.losses[0] for run in runs)

    def at(seconds: float, loss: float) -> tuple[float, float]:
        return left + width * seconds / longest, top + height * (1 - loss / highest)

    def text(x: float, y: float, words: str, anchor: str = "start", color: str = "#000000") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{words}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{top + height + 50}" '
             'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>',
             f'<path d="M{left} {top}V{top + height}H{left + width}" stroke="#000000" fill="none"/>']
    parts += [text(at(value, 0)[0], top + height + 18, f"{value:g}", "middle") for value in ticks(longest)]
    parts += [text(left - 6, at(0, value)[1] + 4, f"{value:g}", "end") for value in ticks(highest)]
    parts += [text(left + width / 2, top + height + 40, "seconds", "middle"), text(left, top - 8, "loss", "middle")]
    family = ""
    for number, run in enumerate(runs):
        family = family if run.name.startswith("…") else run.name.split(",")[0]
        points = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in zip(run.ends, run.losses))
        color = COLORS[number % len(COLORS)]
        parts += [f'<polyline points="{points}" stroke="{color}" stroke-width="2" fill="none"/>',
                  text(left + width - 250, top + 20 + 18 * number, run.name.replace("…", family), color=color)]
    path.write_text("\n".join([*parts, "</svg>", ""]))


def accuracy_of(model: nn.Module, data: TensorDataset) -> float:
    """Returns the accuracy on all data, as an average over the parts of the ranks."""
    images, labels = data[hvd.data.Shard(len(data), batch=len(data), shuffle=False)[0]]
    with torch.no_grad():
        hits = (model(images).argmax(1) == labels).float().mean().item()
    return hvd.average_metrics({"accuracy": hits}, len(labels))["accuracy"]


def train(method: Method, data: TensorDataset, test: TensorDataset, options: argparse.Namespace) -> Run:
    model = make_model(options)
    optimizer = method.wrap(torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9))
    sampler = DistributedSampler(data, options.batch * hvd.size(), seed=1)
    loader = DataLoader(data, sampler=sampler, batch_size=sampler.local_batch)
    ends, losses, accuracies = [], [], []
    before, start = hvd.sent_bytes(), time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = F.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()
            ends.append(time.perf_counter() - start)
            losses.append(loss.item())
            accuracies.append(100 * (outputs.argmax(1) == labels).float().mean().item())
    if method.ranks_differ:
        optimizer.synchronize()  # from here on all ranks have the same parameters
    seconds, sent = time.perf_counter() - start, hvd.sent_bytes() - before
    figures = zip(*hvd.allgather_object((sent, seconds, ends, losses, accuracies), name="figures"))
    all_sent, all_seconds, all_ends, all_losses, all_accuracies = figures
    return Run(method.name, 100 * accuracy_of(model, test), max(all_sent), max(all_seconds),
               [max(step) for step in zip(*all_ends)], smooth(all_losses), smooth(all_accuracies))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "data/digits.csv.gz")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16, help="samples of a step of each rank")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=8,
                        help="steps of a period of LocalSGD; of DiLoCo four times as many")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp", help="the cnn has 10 million parameters")
    parser.add_argument("--width", type=int, default=256, help="of the mlp's hidden layer")
    parser.add_argument("--target", type=float, default=90.0,
                        help="accuracy of the training data, in percent, for the last column")
    parser.add_argument("--plot", type=Path, help="an SVG file for the losses over time")
    parser.add_argument("--methods", help="numbers of the methods, such as 0,2: only these")
    options = parser.parse_args()

    hvd.init()
    data, test = read_digits(options.data)
    methods = make_methods(options.every)
    if options.methods:
        methods = [methods[int(number)] for number in options.methods.split(",")]
    runs = [train(method, data, test, options) for method in methods]
    hvd.print0(f"{'method':<29} accuracy  steps      sent     time  to {options.target:g} %")
    for run in runs:
        reached = run.seconds_to(options.target)
        hvd.print0(f"{run.name:<29} {run.accuracy:6.1f} %  {len(run.ends):5} {run.sent / 1e6:6.1f} MB {run.seconds:6.2f} s "
                   + ("       -" if reached is None else f"{reached:6.2f} s"))
    if options.plot and hvd.rank() == 0:
        plot(runs, options.plot)
    hvd.shutdown()


if __name__ == "__main__":
    main()
