"""For cases of training methods: a small network, batches of all ranks together, and training in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd

BATCH = 12  # of all ranks together; divisible by 1, 2 and 3

Make = Callable[[nn.Module], torch.optim.Optimizer]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


def two_groups(model: nn.Module) -> torch.optim.Optimizer:
    """Returns an optimizer with two parameter groups: different learning rates, the second without weight decay."""
    parameters = list(model.parameters())
    return torch.optim.SGD([{"params": parameters[0::2]}, {"params": parameters[1::2], "lr": 0.02, "weight_decay": 0.0}],
                           lr=0.1, momentum=0.8, weight_decay=0.01)


def network(kind: torch.dtype = torch.float64, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2)).to(kind)


def batch_of_all(step: int, kind: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(BATCH, 5, generator=generator, dtype=torch.float64).to(kind),
            torch.randn(BATCH, 2, generator=generator, dtype=torch.float64).to(kind))


def part_of(tensor: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    return tensor.chunk(size)[rank]


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(inputs), targets)


def train(model: nn.Module, optimizer: Any, steps: range, rank: int | None = None, size: int | None = None) -> None:
    """Makes steps with the part of each batch of this rank or of `rank`."""
    rank, size = hvd.rank() if rank is None else rank, size or hvd.size()
    kind = next(model.parameters()).dtype
    for step in steps:
        inputs, targets = (part_of(tensor, rank, size) for tensor in batch_of_all(step, kind))
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def trained_alone(make: Make, steps: int, kind: torch.dtype = torch.float64) -> nn.Module:
    """Returns a model trained in one process with the whole batches."""
    model = network(kind)
    train(model, make(model), range(steps), 0, 1)
    return model


def parameters_of_all(model: nn.Module, name: str) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yields name, this rank's value and rank 0's value of each parameter."""
    for key, parameter in model.named_parameters():
        yield key, parameter.detach(), hvd.broadcast(parameter.detach(), 0, f"{name} {key}")


def check_equal_on_all_ranks(model: nn.Module) -> None:
    for key, own, theirs in parameters_of_all(model, "alike"):
        assert torch.equal(own, theirs), f"{key} on rank {hvd.rank()} differs from rank 0's by {(own - theirs).abs().max()}"


def near(got: nn.Module, expected: nn.Module, tolerance: float = 1e-6) -> None:
    for (name, one), other in zip(got.named_parameters(), expected.parameters()):
        assert torch.allclose(one, other, rtol=tolerance, atol=tolerance), \
            f"{name} differs by {(one - other).abs().max().item()}"


def equal(got: nn.Module, expected: nn.Module) -> None:
    for (name, one), other in zip(got.named_parameters(), expected.parameters()):
        assert torch.equal(one, other), f"{name} differs by {(one - other).abs().max().item()}"
