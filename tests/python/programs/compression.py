"""Checks compressed allreduces between hosts: prints the names of the checks that pass, or raises."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from hvd import errors, sent_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cases"))
from _expect import raises  # noqa: E402

COUNT = 40_000
WIRE = {hvd.Compression.wire_fp16: 2**-11, hvd.Compression.wire_bf16: 2**-8, hvd.Compression.wire_int8: 1 / 254}


def values_of(rank: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns a rank's values, between -1 and 1."""
    return (torch.rand(COUNT, generator=torch.Generator().manual_seed(rank)) * 2 - 1).to(kind)


def of_all() -> torch.Tensor:
    return torch.stack([values_of(rank).double() for rank in range(hvd.size())])


def same_everywhere(tensor: torch.Tensor, name: str) -> None:
    assert torch.equal(tensor, hvd.broadcast(tensor, 0, f"same {name}")), name


def check_allreduce() -> None:
    tensor = values_of(hvd.rank())
    for compression, precision in WIRE.items():
        before = sent_bytes()
        got = hvd.allreduce(tensor, op=hvd.Average, name=compression.__name__, compression=compression)
        sent = sent_bytes() - before
        assert sent < 4 * COUNT * 0.51 * 2 * (hvd.size() - 1) / hvd.size(), sent
        off = (got.double() - of_all().mean(0)).abs().max().item()
        assert precision / 50 < off < 2 * precision * 1.01, f"{compression.__name__}: off by {off}"
        same_everywhere(got, compression.__name__)
        several = hvd.grouped_allreduce([tensor, tensor[:100]], op=hvd.Sum, name=f"{compression.__name__} group",
                                        compression=compression)
        assert (several[0].double() - of_all().sum(0)).abs().max() < 2 * precision * hvd.size() * 1.01


def check_gradient() -> None:
    tensor = values_of(hvd.rank()).requires_grad_()
    hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.wire_fp16).sum().backward()
    assert torch.equal(tensor.grad, torch.full((COUNT,), float(hvd.size())))


def check_error_feedback() -> None:
    rounds, expected = 40, of_all().sum(0)
    for name, kept in (("kept", True), (None, False)):
        mean = sum(hvd.allreduce(values_of(hvd.rank()), op=hvd.Sum, name=name, compression=hvd.Compression.wire_int8).double()
                   for _ in range(rounds)) / rounds
        assert ((mean - expected).abs().max().item() < 4 * hvd.size() / 254 / rounds) == kept, name


def check_errors() -> None:
    tensor = values_of(0)
    if hvd.rank() == 1:
        tensor[7] = float("inf")
    with raises(errors.InvalidArgumentError, "rank 1: compression in int8 is for finite numbers: element 7 is"):
        hvd.allreduce(tensor, name="inf", compression=hvd.Compression.wire_int8)
    with raises(errors.InvalidArgumentError, "compression in int8 is for floating point types, not for int32"):
        hvd.allreduce(tensor.isinf().int(), op=hvd.Sum, name="int", compression=hvd.Compression.wire_int8)
    with raises(errors.MismatchError, "the compression is"):
        own = hvd.Compression.wire_int8 if hvd.rank() == 0 else hvd.Compression.wire_fp16
        hvd.allreduce(values_of(0), name="other", compression=own)
    with raises(ValueError, "not for reducescatter"):
        hvd.reducescatter(values_of(0), compression=hvd.Compression.wire_bf16)
    with raises(ValueError, "not for shard=True"):
        model = nn.Linear(2, 2)
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1), compression=hvd.Compression.wire_int8, shard=True)
    with raises(errors.MismatchError, "compression"):
        own = hvd.Compression.none if hvd.rank() == 0 else hvd.Compression.wire_fp16
        hvd.DiLoCo(torch.optim.SGD(model.parameters(), lr=1), every=2, compression=own)


def trained(make: Callable[[nn.Module], Any]) -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(100, 300), nn.Tanh(), nn.Linear(300, 10))
    optimizer = make(model)
    for step in range(16):
        generator = torch.Generator().manual_seed(step * hvd.size() + hvd.rank())
        inputs = torch.randn(8, 100, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs[:, :10]).backward()
        optimizer.step()
    return model


def check_training() -> None:
    """Parameters after training must be equal on all ranks, and near those without compression but not equal to them."""

    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.5)

    methods: dict[str, Callable[..., Any]] = {
        "DistributedOptimizer": lambda model, compression: hvd.DistributedOptimizer(
            sgd(model), model.named_parameters(), compression),
        "in groups": lambda model, compression: hvd.DistributedOptimizer(
            sgd(model), model.named_parameters(), compression, groups=1),
        "LocalSGD": lambda model, compression: hvd.LocalSGD(sgd(model), every=4, compression=compression),
        "LocalSGD of one step": lambda model, compression: hvd.LocalSGD(sgd(model), every=1, compression=compression),
        "DiLoCo": lambda model, compression: hvd.DiLoCo(sgd(model), every=4, compression=compression),
        "DiLoCo, float16": lambda model, compression: hvd.DiLoCo(
            sgd(model), every=4, compression=hvd.Compression.fp16 if compression is not hvd.Compression.none else compression),
    }
    for name, method in methods.items():
        expected = nn.utils.parameters_to_vector(trained(lambda model: method(model, hvd.Compression.none)).parameters())
        begun = nn.utils.parameters_to_vector(trained(lambda model: torch.optim.SGD(model.parameters(), lr=0.0)).parameters())
        learned = (expected - begun).abs().max().item()
        for compression in WIRE:
            got = nn.utils.parameters_to_vector(trained(lambda model: method(model, compression)).parameters()).detach()
            off = (got - expected).abs().max().item()
            assert 0 < off < 0.1 * learned, f"{name} with {compression.__name__}: off by {off} of {learned}"
            same_everywhere(got, f"{name} {compression.__name__}")


hvd.init()
for check in (check_allreduce, check_gradient, check_error_feedback, check_errors, check_training):
    check()
    print(check.__name__, flush=True)
hvd.shutdown()
