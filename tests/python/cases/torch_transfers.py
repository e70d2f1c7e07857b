"""Steps of hvd.torch do not make the CPU wait for a GPU: they read no values of tensors on the device.

The tensors here are on the CPU. The mode below records the calls that would wait if they were on a GPU.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import hvd.torch as hvd
from _training import batch_of_all, loss_of, momentum, network, part_of, train
from hvd.torch import periodic

READS = {"__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__", "cpu", "is_nonzero", "item", "nonzero",
         "numpy", "tolist"}


class Reads(TorchFunctionMode):
    """Records the names of calls that read values of tensors on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        to_cpu = name == "to" and "cpu" in (argument for argument in (*args[1:], *(kwargs or {}).values()) if isinstance(argument, str))
        if name in READS or to_cpu:
            self.calls.append(name)
        return function(*args, **(kwargs or {}))


def backward(model: nn.Module) -> None:
    inputs, targets = (part_of(tensor, hvd.rank(), hvd.size()) for tensor in batch_of_all(0))
    loss_of(model, inputs, targets).backward()


def case_the_mode_records_reads() -> None:
    tensor = torch.ones(2)
    for read in (lambda: tensor[0].item(), lambda: float(tensor[0]), lambda: bool(tensor[0]), tensor.cpu, tensor.tolist,
                 lambda: tensor.to("cpu"), lambda: tensor.to(device="cpu")):
        with Reads() as reads:
            read()
        assert reads.calls


def case_sync_batch_norm_reads_no_values() -> None:
    for average in (0.1, None):
        layer = hvd.SyncBatchNorm(3, momentum=average).double()
        inputs = torch.arange(12.0 + 6 * hvd.rank(), dtype=torch.float64).view(-1, 3).requires_grad_()
        with Reads() as reads:
            layer(inputs).square().sum().backward()
        # With one rank, torch's batch normalization is called, which reads a number.
        assert reads.calls == (["__float__"] if hvd.size() == 1 and average is None else []), reads.calls


def case_clipping_of_a_sharded_optimizer_reads_no_values() -> None:
    if hvd.size() == 1:
        return  # with one rank, torch's function is called
    model = network()
    optimizer = hvd.DistributedOptimizer(momentum(model), model.named_parameters(), shard=True)
    for kind in (2.0, float("inf")):
        backward(model)
        optimizer.synchronize()
        with Reads() as reads:
            norm = optimizer.clip_grad_norm_(1e-3, kind)
            with optimizer.skip_synchronize():
                optimizer.step()
        assert reads.calls == [] and norm.item() > 1e-3, reads.calls
        optimizer.zero_grad()


def case_clipping_with_a_nan_norm_changes_no_gradient() -> None:
    if hvd.size() == 1:
        return
    model = network()
    optimizer = hvd.DistributedOptimizer(momentum(model), model.named_parameters(), shard=True)
    backward(model)
    optimizer.synchronize()
    gradients = [piece.tensor.grad for piece in optimizer._reducer.pieces()]
    if hvd.rank() == 0:
        gradients[0][0] = float("nan")
    before = [gradient.clone() for gradient in gradients]
    assert optimizer.clip_grad_norm_(1e-3).isnan()
    for gradient, expected in zip(gradients, before):
        assert torch.equal(gradient.nan_to_num(7.0), expected.nan_to_num(7.0))
    with optimizer.skip_synchronize():
        optimizer.step()


def case_optimizer_steps_read_no_values() -> None:
    for options in ({}, {"shard": True}, {"op": hvd.Sum, "groups": 2}, {"compression": hvd.Compression.fp16}):
        model = network(torch.float32)
        optimizer = hvd.DistributedOptimizer(momentum(model), model.named_parameters(), **options)
        train(model, optimizer, range(1))
        with Reads() as reads:
            train(model, optimizer, range(1, 3))
        assert reads.calls == [], (options, reads.calls)


def case_an_average_of_parameters_reads_no_values_of_the_device() -> None:
    """It reads the number of ranks that have not joined, which is in host memory."""
    present = []
    with mock.patch.object(periodic, "allreduce_async", lambda tensor, **_: present.append(tensor)), \
            mock.patch.object(periodic, "grouped_allreduce_async", lambda tensors, **_: None):
        periodic.mean_of([torch.empty(2, device="meta")], "mean")
    assert [tensor.device.type for tensor in present] == ["cpu"]
