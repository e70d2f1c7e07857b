"""hvd.torch.DistributedOptimizer: training on N ranks equals training in one process with the batches of all ranks."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from hvd import errors

BATCH = 12  # of all ranks together; divisible by 1, 2 and 3

Make = Callable[[Any], torch.optim.Optimizer]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def network(kind: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2)).to(kind)


def batch_of_all(step: int, kind: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return (torch.randn(BATCH, 5, generator=generator, dtype=torch.float64).to(kind),
            torch.randn(BATCH, 2, generator=generator, dtype=torch.float64).to(kind))


def own(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this rank's part of a batch."""
    return tensor.chunk(hvd.size())[hvd.rank()]


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(model(inputs), targets)


def trained_alone(make: Make, steps: int = 4, kind: torch.dtype = torch.float64) -> nn.Module:
    model = network(kind)
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, *batch_of_all(step, kind)).backward()
        optimizer.step()
    return model


def trained_by_all(make: Make, steps: int = 4, kind: torch.dtype = torch.float64, named: bool = True,
                   **options: Any) -> nn.Module:
    model = network(kind)
    names = model.named_parameters() if named else None
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), names, **options)
    for step in range(steps):
        inputs, targets = batch_of_all(step, kind)
        optimizer.zero_grad()
        loss_of(model, own(inputs), own(targets)).backward()
        optimizer.step()
    return model


def same(got: nn.Module, expected: nn.Module, tolerance: float = 1e-6) -> None:
    for (name, one), other in zip(got.named_parameters(), expected.parameters()):
        assert torch.allclose(one, other, rtol=tolerance, atol=tolerance), \
            f"{name} differs by {(one - other).abs().max().item()}"


def check_equal_on_all_ranks(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        theirs = hvd.broadcast(parameter.detach(), 0, f"alike {name}")
        assert torch.equal(parameter.detach(), theirs), f"{name} differs between rank {hvd.rank()} and rank 0"


def small(groups: Any = None, **options: Any) -> tuple[nn.Linear, Any]:
    """Returns a layer and its optimizer."""
    torch.manual_seed(2)
    layer = nn.Linear(3, 2)
    return layer, hvd.DistributedOptimizer(sgd(layer.parameters()), layer.named_parameters(), groups=groups, **options)


def several_ranks() -> bool:
    """Returns whether there are several ranks: a single one reduces nothing and checks nothing."""
    return hvd.size() > 1


# ---- Training -----------------------------------------------------------------------------------


def case_sgd() -> None:
    same(trained_by_all(sgd), trained_alone(sgd))


def case_momentum_and_weight_decay() -> None:
    model = trained_by_all(momentum)
    same(model, trained_alone(momentum))
    check_equal_on_all_ranks(model)


def case_adam() -> None:
    def adam(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=0.01)

    same(trained_by_all(adam), trained_alone(adam))


def case_float32() -> None:
    same(trained_by_all(momentum, kind=torch.float32), trained_alone(momentum, kind=torch.float32))


def case_training_works_without_named_parameters() -> None:
    same(trained_by_all(momentum, named=False), trained_alone(momentum))


def case_training_works_with_a_number_of_groups() -> None:
    for groups in (1, 2, 4, 50):
        same(trained_by_all(momentum, groups=groups), trained_alone(momentum))


def case_the_argument_num_groups_is_deprecated() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        same(trained_by_all(sgd, num_groups=2), trained_alone(sgd))
    [entry] = caught
    assert entry.category is DeprecationWarning, entry
    assert str(entry.message).startswith("Parameter `num_groups` has been replaced by `groups`"), entry


def case_training_works_with_lists_of_parameters_as_groups() -> None:
    model = network()
    parameters = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(momentum(parameters), model.named_parameters(),
                                         groups=[[parameters[4], parameters[0]], [parameters[1], torch.zeros(1)]])
    for step in range(4):
        inputs, targets = batch_of_all(step)
        optimizer.zero_grad()
        loss_of(model, own(inputs), own(targets)).backward()
        optimizer.step()
    same(model, trained_alone(momentum))


def case_training_works_with_a_group_of_several_types() -> None:
    torch.manual_seed(3)
    single, double = nn.Linear(2, 2), nn.Linear(2, 2).double()
    parameters = [*single.parameters(), *double.parameters()]
    optimizer = hvd.DistributedOptimizer(sgd(parameters), groups=1, op=hvd.Sum)
    (single(torch.ones(1, 2)).sum() + double(torch.ones(1, 2).double()).sum()).backward()
    optimizer.synchronize()
    for parameter in parameters:
        assert torch.equal(parameter.grad, torch.full_like(parameter, hvd.size()))


def case_training_works_with_each_compression() -> None:
    for compression, tolerance in ((hvd.Compression.none, 1e-6), (hvd.Compression.fp16, 2e-3),
                                   (hvd.Compression.bf16, 2e-2)):
        for groups in (None, 2):
            model = trained_by_all(momentum, kind=torch.float32, compression=compression, groups=groups)
            same(model, trained_alone(momentum, kind=torch.float32), tolerance)
            check_equal_on_all_ranks(model)


def case_training_works_with_compressors_of_the_program() -> None:
    whole = torch.tensor([1, 2**20 + 1])
    for compressor, kind in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)):
        sent, context = compressor.compress(torch.tensor([1.5, 2.0], dtype=torch.float64))
        assert sent.dtype == kind
        back = compressor.decompress(sent, context)
        assert back.dtype == torch.float64 and back.tolist() == [1.5, 2.0]
        sent, context = compressor.compress(whole)
        assert sent is whole and torch.equal(compressor.decompress(sent, context), whole)
    assert hvd.Compression.none.compress(whole)[0] is whole


def case_training_works_with_a_predivide_factor() -> None:
    same(trained_by_all(momentum, gradient_predivide_factor=4.0), trained_alone(momentum))
    same(trained_by_all(momentum, gradient_predivide_factor=0.5, groups=2), trained_alone(momentum))


def case_op_sum_max_and_min_reduce_gradients_accordingly() -> None:
    for op, factor in ((hvd.Sum, sum(range(1, hvd.size() + 1))), (hvd.Max, hvd.size()), (hvd.Min, 1)):
        layer, optimizer = small(op=op)
        ((hvd.rank() + 1) * layer(torch.ones(1, 3))).sum().backward()
        optimizer.synchronize()
        assert torch.equal(layer.weight.grad, torch.full((2, 3), float(factor))), (op, layer.weight.grad)


def case_gradients_of_several_passes_are_reduced_once_per_step() -> None:
    for groups in (None, 2):
        model = network()
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(),
                                             backward_passes_per_step=2, groups=groups)
        assert optimizer.backward_passes_per_step == 2
        for step in range(3):
            inputs, targets = (own(tensor).chunk(2) for tensor in batch_of_all(step))
            optimizer.zero_grad()
            for part in range(2):
                (loss_of(model, inputs[part], targets[part]) / 2).backward()
            optimizer.step()
        same(model, trained_alone(sgd, steps=3))


def case_synchronize_before_all_passes_reduces_the_gradients_so_far() -> None:
    layer, optimizer = small(backward_passes_per_step=3, op=hvd.Sum)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size())))
    optimizer.set_backward_passes_per_step(1)
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    with raises(ValueError, "backward_passes_per_step"):
        optimizer.set_backward_passes_per_step(0)


def case_gradients_may_become_ready_in_different_orders() -> None:
    for groups in (None, 3):
        torch.manual_seed(4)
        layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6)).double()
        plain = copy.deepcopy(layers)
        optimizer = hvd.DistributedOptimizer(momentum(layers.parameters()), layers.named_parameters(), groups=groups)
        alone = momentum(plain.parameters())
        for step in range(5):
            turn = (hvd.rank() * 2 + step) % len(layers)
            order = [*layers][turn:] + [*layers][:turn]
            if hvd.rank() % 2:
                order.reverse()
            inputs = torch.arange(3 * BATCH, dtype=torch.float64).view(BATCH, 3) / (10 + step)
            optimizer.zero_grad()
            sum(layer(own(inputs)).square().mean() for layer in order).backward()
            optimizer.step()
            alone.zero_grad()
            sum(layer(inputs).square().mean() for layer in plain).backward()
            alone.step()
        same(layers, plain)
        check_equal_on_all_ranks(layers)


def case_reductions_start_before_backward_ends() -> None:
    layer, optimizer = small()
    seen = []
    first = nn.Linear(3, 3)
    inputs = first(torch.ones(1, 3))
    inputs.register_hook(lambda _: seen.append(optimizer._reducer.in_flight()))
    layer(inputs).sum().backward()
    assert seen == [several_ranks()], seen
    optimizer.step()


def case_gradients_missing_on_some_ranks_count_as_zeros() -> None:
    for groups in (None, 1, 2):
        torch.manual_seed(5)
        both, other = nn.Linear(2, 2), nn.Linear(2, 2)
        parameters = [*both.parameters(), *other.parameters()]
        optimizer = hvd.DistributedOptimizer(sgd(parameters), groups=groups)
        for _ in range(2):
            for parameter in parameters:
                parameter.grad = None
            loss = both(torch.ones(1, 2)).sum()
            if hvd.rank() == hvd.size() - 1:
                loss = loss + other(torch.ones(1, 2)).sum()
            loss.backward()
            optimizer.synchronize()
            assert torch.allclose(both.weight.grad, torch.ones(2, 2))
            assert torch.allclose(other.weight.grad, torch.full((2, 2), 1 / hvd.size())), other.weight.grad
            with optimizer.skip_synchronize():
                optimizer.step()


def case_a_rank_without_gradients_takes_part() -> None:
    layer, optimizer = small(op=hvd.Sum)
    if hvd.rank() == 0:
        layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    assert torch.equal(layer.weight.grad, torch.ones(2, 3))


def case_parameters_can_be_frozen_and_unfrozen() -> None:
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad_(False)
    before = layer.weight.clone()
    optimizer = hvd.DistributedOptimizer(sgd(layer.parameters()), layer.named_parameters(), op=hvd.Sum)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert layer.weight.grad is None and torch.equal(layer.weight, before)
    for _ in range(2):
        layer.weight.requires_grad_(True)
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.synchronize()
        assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size())))
        assert torch.equal(layer.bias.grad, torch.full((2,), float(hvd.size())))
    layer.weight.requires_grad_(False)
    layer.weight.grad = None
    layer.bias.grad = None
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    assert layer.weight.grad is None and layer.bias.grad is not None


def case_a_noncontiguous_parameter_is_trained() -> None:
    convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(sgd(convolution.parameters()), convolution.named_parameters(), op=hvd.Sum)
    images = torch.arange(75.0).view(1, 3, 5, 5).to(memory_format=torch.channels_last) / 75
    expected = hvd.size() * torch.autograd.grad(convolution(images).square().sum(), convolution.weight)[0]
    convolution(images).square().sum().backward()
    optimizer.synchronize()
    assert convolution.weight.grad.stride() == convolution.weight.stride()
    assert torch.allclose(convolution.weight.grad, expected)


# ---- Sparse gradients ---------------------------------------------------------------------------


def embedding(sparse: bool) -> nn.Embedding:
    torch.manual_seed(6)
    return nn.Embedding(10, 3, sparse=sparse)


def rows_of_rank(rank: int) -> torch.Tensor:
    return torch.tensor([rank, rank + 1, rank + 1, 7])


def dense_gradient_of_all() -> torch.Tensor:
    """Returns the average of all ranks' gradients."""
    table = embedding(False)
    for rank in range(hvd.size()):
        table(rows_of_rank(rank)).square().sum().backward()
    return table.weight.grad / hvd.size()


def case_sparse_gradients_are_reduced() -> None:
    for options in ({}, {"sparse_as_dense": True}, {"sparse_as_dense": True, "groups": 1}):
        table = embedding(True)
        optimizer = hvd.DistributedOptimizer(sgd(table.parameters()), table.named_parameters(), **options)
        for _ in range(2):
            optimizer.zero_grad()
            table(rows_of_rank(hvd.rank())).square().sum().backward()
            optimizer.synchronize()
            assert table.weight.grad.is_sparse
            assert torch.allclose(table.weight.grad.to_dense(), dense_gradient_of_all()), options


def case_sparse_adam_is_trained() -> None:
    for as_dense in (False, True):
        table, alone = embedding(True), embedding(True)
        optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters()), table.named_parameters(),
                                             op=hvd.Sum, sparse_as_dense=as_dense)
        plain = torch.optim.SparseAdam(alone.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            table(rows_of_rank(hvd.rank())).square().sum().backward()
            optimizer.step()
            plain.zero_grad()
            sum(alone(rows_of_rank(rank)).square().sum() for rank in range(hvd.size())).backward()
            plain.step()
        same(table, alone)


def case_sparse_gradients_missing_on_some_ranks_count_as_empty() -> None:
    table = embedding(True)
    optimizer = hvd.DistributedOptimizer(sgd(table.parameters()), table.named_parameters(), op=hvd.Sum)
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    table.weight.grad = None  # from now on the optimizer knows that it is sparse
    if hvd.rank() == 0:
        table(torch.tensor([2])).sum().backward()
    optimizer.synchronize()
    assert table.weight.grad.to_dense()[2].tolist() == [1.0] * 3 and table.weight.grad.to_dense().sum() == 3


def case_a_sparse_gradient_in_a_group_is_reduced() -> None:
    table = embedding(True)
    layer = nn.Linear(3, 1)
    parameters = [*table.parameters(), *layer.parameters()]
    optimizer = hvd.DistributedOptimizer(sgd(parameters), groups=1)
    if several_ranks():
        with raises(ValueError, "noname.0.0", "sparse_as_dense"):
            layer(table(torch.tensor([1]))).sum().backward()
            optimizer.step()


# ---- Use with clipping, scaling, closures and schedulers ----------------------------------------


def case_gradients_can_be_clipped_between_synchronize_and_step() -> None:
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), model.named_parameters())
    plain = momentum(alone.parameters())
    for step in range(3):
        inputs, targets = batch_of_all(step)
        optimizer.zero_grad()
        loss_of(model, own(inputs), own(targets)).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with optimizer.skip_synchronize():
            optimizer.step()
        plain.zero_grad()
        loss_of(alone, inputs, targets).backward()
        nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
        plain.step()
    same(model, alone)


def case_scaled_losses_as_for_mixed_precision_are_trained() -> None:
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    plain = sgd(alone.parameters())
    for step in range(3):
        inputs, targets = batch_of_all(step)
        optimizer.zero_grad()
        (loss_of(model, own(inputs), own(targets)) * 1024).backward()
        optimizer.synchronize()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad /= 1024
        if step == 1:  # a scaler that finds an infinity does not call step()
            continue
        with optimizer.skip_synchronize():
            optimizer.step()
        plain.zero_grad()
        loss_of(alone, inputs, targets).backward()
        plain.step()
    same(model, alone)


def case_zero_grad_works_with_and_without_set_to_none() -> None:
    for to_none in (True, False):
        layer, optimizer = small(op=hvd.Sum)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=to_none)
            layer(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size())))


def case_synchronize_keeps_the_gradient_tensor() -> None:
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        layer, optimizer = small(compression=compression)
        layer(torch.ones(1, 3)).sum().backward()
        gradient = layer.weight.grad
        optimizer.synchronize()
        assert layer.weight.grad is gradient


def case_step_with_a_closure_works() -> None:
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(momentum(model.parameters()), model.named_parameters())
    plain = momentum(alone.parameters())
    for step in range(3):
        inputs, targets = batch_of_all(step)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, own(inputs), own(targets))
            loss.backward()
            return loss

        if step < 2:
            assert optimizer.step(closure) is not None
        else:
            with optimizer.skip_synchronize():
                if several_ranks():
                    with raises(AssertionError, "synchronize() before"):
                        optimizer.step(closure)
                    optimizer.synchronize()
                optimizer.step(lambda: (closure(), optimizer.synchronize())[0])
        plain.zero_grad()
        loss_of(alone, inputs, targets).backward()
        plain.step()
    same(model, alone)


def case_a_learning_rate_scheduler_works() -> None:
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    plain = sgd(alone.parameters())
    schedules = [torch.optim.lr_scheduler.StepLR(one, 1, 0.5) for one in (optimizer, plain)]
    for step in range(3):
        inputs, targets = batch_of_all(step)
        optimizer.zero_grad()
        loss_of(model, own(inputs), own(targets)).backward()
        optimizer.step()
        plain.zero_grad()
        loss_of(alone, inputs, targets).backward()
        plain.step()
        for schedule in schedules:
            schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.0125
    same(model, alone)


def case_the_optimizer_works_if_made_after_the_scheduler() -> None:
    layer = nn.Linear(3, 2)
    plain = sgd(layer.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(plain, layer.named_parameters(), op=hvd.Sum)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size()))), "step() of the plain optimizer was called"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plain optimizer's step() was not called
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


def case_the_distributed_optimizer_keeps_class_options_and_state() -> None:
    layer = nn.Linear(3, 2)
    plain = torch.optim.Adam(layer.parameters(), lr=0.25)
    layer(torch.ones(1, 3)).sum().backward()
    plain.step()
    optimizer = hvd.DistributedOptimizer(plain, layer.named_parameters())
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
    assert optimizer.defaults["lr"] == 0.25 and "lr: 0.25" in repr(optimizer)
    assert optimizer.state[layer.weight] is plain.state[layer.weight], "the earlier state is lost"


def case_training_continues_from_a_state_dict() -> None:
    def train(model: nn.Module, optimizer: Any, steps: range) -> None:
        for step in steps:
            inputs, targets = batch_of_all(step)
            optimizer.zero_grad()
            loss_of(model, own(inputs), own(targets)).backward()
            optimizer.step()

    def made() -> tuple[nn.Module, Any]:
        model = network()
        return model, hvd.DistributedOptimizer(momentum(model.parameters()), model.named_parameters())

    model, optimizer = made()
    train(model, optimizer, range(2))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, range(2, 4))
    again, restored = made()
    again.load_state_dict(saved[0])
    restored.load_state_dict(saved[1])
    train(again, restored, range(2, 4))
    same(again, model)
    same(again, trained_alone(momentum))


def case_load_state_dict_works_after_backward() -> None:
    layer, optimizer = small()
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    optimizer.load_state_dict(optimizer.state_dict())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()


def case_a_pickled_or_copied_optimizer_is_the_plain_one() -> None:
    layer = nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(layer.parameters(), lr=0.5), layer.named_parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saved = io.BytesIO()
    torch.save(optimizer, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    for plain in (loaded, pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        assert type(plain) is torch.optim.Adam and plain.param_groups[0]["lr"] == 0.5
        assert len(plain.state) == 2
        plain.step()


def case_parameters_added_later_are_reduced() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    both = nn.ModuleList([first, second])
    for names in (None, both.named_parameters()):
        optimizer = hvd.DistributedOptimizer(sgd(first.parameters()), names, op=hvd.Sum)
        optimizer.add_param_group({"params": list(second.parameters())})
        for parameter in both.parameters():
            parameter.grad = None
        second(torch.ones(1, 2)).sum().backward()
        optimizer.synchronize()
        assert torch.equal(second.weight.grad, torch.full((2, 2), float(hvd.size())))
        optimizer.load_state_dict(optimizer.state_dict())
        third = nn.Parameter(torch.zeros(2))
        if names is None:
            optimizer.add_param_group({"params": [third]})
            (third * 2).sum().backward()
            optimizer.synchronize()
            assert torch.equal(third.grad, torch.full((2,), 2.0 * hvd.size()))
        del optimizer
    optimizer = hvd.DistributedOptimizer(sgd(first.parameters()), first.named_parameters())
    with raises(ValueError, "named_parameters", "(2, 2)"):
        optimizer.add_param_group({"params": list(second.parameters())})


def case_a_deleted_optimizer_leaves_no_hooks() -> None:
    layer = nn.Linear(3, 2)
    gc.disable()  # the hooks must go with the last reference, without the garbage collector
    try:
        for _ in range(3):
            optimizer = hvd.DistributedOptimizer(sgd(layer.parameters()), layer.named_parameters(), op=hvd.Sum)
            optimizer.zero_grad(set_to_none=True)
            layer(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size())))
    finally:
        gc.enable()


def case_training_works_on_a_process_set() -> None:
    last = hvd.size() - 1
    members = [rank for rank in range(hvd.size()) if rank != 1] if hvd.size() > 2 else [last]
    some = hvd.add_process_set(members)
    for options in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}):
        layer, optimizer = small(op=hvd.Sum, process_set=some, **options)
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            expected = len(members) if hvd.rank() in members else 1
            assert torch.equal(layer.weight.grad, torch.full((2, 3), float(expected)))
    assert hvd.remove_process_set(some)


def case_a_joined_rank_contributes_zeros() -> None:
    layer, optimizer = small(op=hvd.Sum)
    for step in range(3):
        if hvd.rank() > 0 and step == 2:
            break
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size() if step < 2 else 1)))
    hvd.join()


# ---- Mistakes -----------------------------------------------------------------------------------


def case_invalid_names_of_parameters_are_errors() -> None:
    layer = nn.Linear(3, 2)
    weight, bias = layer.parameters()

    def named(*names: Any) -> None:
        hvd.DistributedOptimizer(sgd(layer.parameters()), names)

    with raises(ValueError, "tuples"):
        named(weight, bias)
    with raises(ValueError, "tuples"):
        named((weight, "weight"), (bias, "bias"))
    with raises(ValueError, "several of w"):
        named(("w", weight), ("w", bias))
    with raises(ValueError, "1 of the optimizer's parameters", "(2,)"):
        named(("w", weight))


def case_invalid_arguments_are_errors() -> None:
    layer = nn.Linear(3, 2)

    def make(**options: Any) -> None:
        hvd.DistributedOptimizer(sgd(layer.parameters()), **options)

    with raises(TypeError, "process_set"):
        make(process_set=0)
    with raises(errors.NotInitializedError, "not known yet"):
        make(process_set=hvd.ProcessSet([0]))
    with raises(ValueError, "gradient_predivide_factor", "Sum"):
        make(op=hvd.Sum, gradient_predivide_factor=2.0)
    with raises(ValueError, "backward_passes_per_step"):
        make(backward_passes_per_step=0)
    with raises(ValueError, "groups"):
        make(groups=0)
    with raises(ValueError, "groups"):
        make(groups="all")
    with raises(ValueError, "torch.Tensor"):
        make(groups=[["weight"]])
    with raises(ValueError, "more than once"):
        make(groups=[[layer.weight], [layer.weight]])
    with raises(ValueError, "already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd(layer.parameters())))


def case_zero_grad_before_step_is_an_error() -> None:
    layer, optimizer = small()
    layer(torch.ones(1, 3)).sum().backward()
    if several_ranks():
        with raises(AssertionError, "zero_grad"):
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def case_more_passes_than_announced_are_an_error() -> None:
    layer, optimizer = small()
    layer(torch.ones(1, 3)).sum().backward()
    if several_ranks():
        with raises(AssertionError, "allreduce.", "backward_passes_per_step=1"):
            layer(torch.ones(1, 3)).sum().backward()
        with raises(AssertionError, "changed while"):
            optimizer.synchronize()
    optimizer.step()


def case_changing_a_gradient_during_its_reduction_is_an_error() -> None:
    layer, optimizer = small()
    for options in ({}, {"compression": hvd.Compression.fp16}, {"groups": 1}):
        layer, optimizer = small(**options)
        layer(torch.ones(1, 3)).sum().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 0.1)
        if several_ranks():
            with raises(AssertionError, "allreduce.weight", "synchronize() first"):
                optimizer.step()
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()


def case_step_in_skip_synchronize_before_synchronize_is_an_error() -> None:
    layer, optimizer = small()
    layer(torch.ones(1, 3)).sum().backward()
    with optimizer.skip_synchronize():
        if several_ranks():
            with raises(AssertionError, "synchronize() before"):
                optimizer.step()
            with raises(AssertionError, "set_backward_passes_per_step"):
                optimizer.set_backward_passes_per_step(2)
        optimizer.synchronize()
        optimizer.step()


def case_step_after_synchronize_without_skip_is_a_warning() -> None:
    layer, optimizer = small()
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    [warning] = caught
    assert str(warning.message).startswith("optimizer.step() called without optimizer.skip_synchronize()"), warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()


def case_backward_with_create_graph_is_an_error() -> None:
    layer, optimizer = small()
    if several_ranks():
        with raises(AssertionError, "create_graph"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer(torch.ones(1, 3)).square().sum().backward(create_graph=True)
        for parameter in layer.parameters():
            parameter.grad = None


def case_different_shapes_of_parameters_are_an_error() -> None:
    if not several_ranks():
        return
    layer = nn.Linear(3 if hvd.rank() == 0 else 4, 2)
    optimizer = hvd.DistributedOptimizer(sgd(layer.parameters()), layer.named_parameters())
    layer(torch.ones(1, layer.in_features)).sum().backward()
    with raises(errors.MismatchError, "allreduce.weight", "rank 0"):
        optimizer.step()
    layer, optimizer = small(op=hvd.Sum)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight.grad, torch.full((2, 3), float(hvd.size()))), "the next step failed"
