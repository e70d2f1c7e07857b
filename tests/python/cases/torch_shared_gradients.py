"""hvd.torch.DistributedOptimizer keeps large CPU gradients in shared memory, without any effect on results."""

from __future__ import annotations

import copy
import gc
import io
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd

BATCH = 12  # of all ranks together; divisible by 1, 2 and 3


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(40, 50), nn.Tanh(), nn.Linear(50, 40), nn.Tanh(), nn.Linear(40, 2)).double()


def batch(step: int, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    both = (torch.randn(BATCH, 40, generator=generator, dtype=torch.float64),
            torch.randn(BATCH, 2, generator=generator, dtype=torch.float64))
    return both if whole else tuple(one.chunk(hvd.size())[hvd.rank()] for one in both)  # type: ignore[return-value]


def backward(model: nn.Module, step: int, whole: bool = False) -> None:
    inputs, targets = batch(step, whole)
    nn.functional.mse_loss(model(inputs), targets).backward()


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def distributed(model: nn.Module, **options: Any) -> Any:
    return hvd.DistributedOptimizer(momentum(model), model.named_parameters(), **options)


def train(model: nn.Module, optimizer: Any, steps: range = range(4), set_to_none: bool = True, whole: bool = False,
          before_step: Callable[[], None] = lambda: None) -> None:
    for step in steps:
        optimizer.zero_grad(set_to_none=set_to_none)
        backward(model, step, whole)
        before_step()
        optimizer.step()


def train_alone(model: nn.Module, steps: int = 4, clip: bool = False) -> nn.Module:
    train(model, momentum(model), range(steps), whole=True,
          before_step=lambda: clipped(model) if clip else None)
    return model


def clipped(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def same(got: nn.Module, expected: nn.Module) -> None:
    for (name, one), other in zip(got.named_parameters(), expected.parameters()):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-6), f"{name} differs by {(one - other).abs().max().item()}"


def is_shared(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor is in shared memory."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return line.split()[1].endswith("s")
    raise AssertionError("the tensor's memory is not mapped")


def shared_names(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.grad is not None
            and is_shared(parameter.grad)}


LARGE = {"0.weight", "2.weight"}  # parameters of more than 4 KiB


def shares_large_ones(model: nn.Module) -> None:
    assert shared_names(model) == (LARGE if hvd.size() > 1 else set())


def case_large_gradients_are_shared_and_training_is_right() -> None:
    for set_to_none in (True, False):
        model = network()
        train(model, distributed(model), set_to_none=set_to_none, before_step=lambda: shares_large_ones(model))
        same(model, train_alone(network()))


def case_gradients_can_be_clipped_between_synchronize_and_step() -> None:
    model = network()
    optimizer = distributed(model)
    for step in range(4):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.synchronize()
        clipped(model)
        with optimizer.skip_synchronize():
            optimizer.step()
        shares_large_ones(model)
    same(model, train_alone(network(), clip=True))


def case_gradients_accumulate_over_two_backward_passes() -> None:
    model, other = network(), network()
    optimizer = distributed(model, backward_passes_per_step=2)
    alone = momentum(other)
    for step in range(3):
        optimizer.zero_grad()
        alone.zero_grad()
        for passes in range(2):
            backward(model, 2 * step + passes)
            backward(other, 2 * step + passes, whole=True)
        shares_large_ones(model)
        optimizer.step()
        alone.step()
    same(model, other)


def case_frozen_and_tied_parameters_are_trained() -> None:
    def tied() -> nn.Module:
        torch.manual_seed(2)
        layer = nn.Linear(40, 40).double()
        model = nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(40, 40).double(), nn.Linear(40, 2).double())
        model[4].weight.requires_grad_(False)
        return model

    model = tied()
    train(model, distributed(model))
    same(model, train_alone(tied()))


def case_a_gradient_that_the_program_has_kept_is_not_overwritten() -> None:
    model = network()
    optimizer = distributed(model)
    train(model, optimizer, range(1))
    kept = model[0].weight.grad
    part = model[2].weight.grad[3:5]
    before = kept.clone(), part.clone()
    optimizer.zero_grad(set_to_none=True)
    backward(model, 1)
    assert shared_names(model) == set()
    optimizer.step()
    assert torch.equal(kept, before[0]) and torch.equal(part, before[1])
    del kept, part
    optimizer.zero_grad(set_to_none=True)
    backward(model, 2)
    shares_large_ones(model)
    optimizer.step()
    same(model, train_alone(network(), steps=3))


def case_a_gradient_in_a_buffer_of_the_program_stays_there() -> None:
    model = network()
    flat = torch.zeros(sum(parameter.numel() for parameter in model.parameters()), dtype=torch.float64)
    offset = 0
    for parameter in model.parameters():
        parameter.grad = flat[offset:offset + parameter.numel()].view(parameter.shape)
        offset += parameter.numel()
    optimizer = distributed(model)
    backward(model, 0)
    optimizer.synchronize()
    reduced = flat.clone()
    assert torch.equal(reduced, torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()]))
    other = network()
    backward(other, 0, whole=True)
    assert torch.allclose(reduced, torch.cat([parameter.grad.reshape(-1) for parameter in other.parameters()]))
    with optimizer.skip_synchronize():
        optimizer.step()


def case_training_is_right_if_one_rank_does_not_share() -> None:
    model = network()
    for parameter in model.parameters():
        if hvd.rank() == 0:
            parameter.grad = torch.zeros_like(parameter)
    train(model, distributed(model), set_to_none=False)
    same(model, train_alone(network()))


def case_a_saved_gradient_has_only_its_own_bytes() -> None:
    model = network()
    train(model, distributed(model), range(1))
    gradient = model[0].weight.grad
    file = io.BytesIO()
    torch.save(gradient, file)
    assert file.tell() < 2 * gradient.numel() * gradient.element_size()
    copied = copy.deepcopy(gradient)
    gradient.zero_()
    assert not is_shared(copied) and copied.abs().sum() > 0
    file.seek(0)
    assert torch.equal(torch.load(file), copied)


def case_a_model_can_change_its_type() -> None:
    model = network()
    optimizer = distributed(model)
    train(model, optimizer, range(1))
    model.float()
    optimizer.zero_grad()
    inputs, targets = batch(1, whole=False)
    nn.functional.mse_loss(model(inputs.float()), targets.float()).backward()
    optimizer.step()
    other = train_alone(network(), steps=2).float()
    for one, expected in zip(model.parameters(), other.parameters()):
        assert torch.allclose(one, expected, rtol=1e-3, atol=1e-3)


def case_a_forked_child_that_deletes_the_optimizer_keeps_the_parents_gradients() -> None:
    model = network()
    optimizer = distributed(model)
    backward(model, 0)
    child = os.fork()
    if child == 0:
        try:
            model = optimizer = None  # type: ignore[assignment]
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    optimizer.step()
    train(model, optimizer, range(1, 2))
    same(model, train_alone(network(), steps=2))


def shared_memory_in_use() -> int:
    """Returns the resident bytes of this process's shared memory (proc(5))."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssShmem:"))


def case_the_memory_is_freed_with_its_last_tensor() -> None:
    gc.collect()
    hvd.barrier()
    before = shared_memory_in_use()
    layer = nn.Linear(1024, 1024)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters())
    layer(torch.ones(2, 1024)).sum().backward()
    optimizer.step()
    gradient = layer.weight.grad
    del optimizer, layer
    gc.collect()
    hvd.barrier()
    assert torch.equal(gradient, torch.full_like(gradient, 2.0))
    if hvd.size() > 1:
        assert shared_memory_in_use() >= before + gradient.numel() * gradient.element_size()
    hvd.barrier()
    del gradient
    gc.collect()
    hvd.barrier()
    assert shared_memory_in_use() < before + (1 << 20)


def mapped_buffers() -> int:
    """Returns how many shared buffers, of this rank and of others, the process has mapped (proc(5))."""
    with open("/proc/self/maps") as maps:
        return sum("/memfd:hvd" in line for line in maps)


def case_after_shutdown_and_init_gradients_are_shared_as_before() -> None:
    model = network()
    optimizer = distributed(model)
    train(model, optimizer, range(2))
    hvd.shutdown()
    hvd.init()
    own = mapped_buffers()
    train(model, optimizer, range(2, 4), before_step=lambda: shares_large_ones(model))
    assert mapped_buffers() == own + hvd.size() - 1
    same(model, train_alone(network()))
