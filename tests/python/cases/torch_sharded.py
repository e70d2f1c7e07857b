"""DistributedOptimizer(shard=True) gives the losses of the unsharded optimizer, with 1/N of its state on each rank."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _folder import shared_folder
from _training import (adam, adamw, check_equal_on_all_ranks, batch_of_all, equal, loss_of, momentum, near, network, part_of,
                       sgd, train, trained_alone, two_groups)
from hvd import errors
from hvd.checkpoint import Checkpoints

STEPS = 5


def sharded(model: nn.Module, make: Any, **options: Any) -> Any:
    return hvd.DistributedOptimizer(make(model), model.named_parameters(), shard=True, **options)


def own(tensor: torch.Tensor) -> torch.Tensor:
    return part_of(tensor, hvd.rank(), hvd.size())


def several_ranks() -> bool:
    return hvd.size() > 1


def case_every_optimizer_gives_the_unsharded_parameters() -> None:
    for make in (sgd, momentum, adam, adamw, two_groups):
        model, plain = network(), network()
        optimizer = sharded(model, make)
        unsharded = hvd.DistributedOptimizer(make(plain), plain.named_parameters())
        train(model, optimizer, range(STEPS))
        train(plain, unsharded, range(STEPS))
        near(model, plain, 1e-9)
        near(model, trained_alone(make, STEPS))
        check_equal_on_all_ranks(model)


def case_losses_in_float32_equal_the_unsharded_ones() -> None:
    for make in (momentum, adam):
        losses: list[list[float]] = []
        for shard in (False, True):
            model = network(torch.float32)
            optimizer = hvd.DistributedOptimizer(make(model), model.named_parameters(), shard=shard)
            losses.append([])
            for step in range(20):
                train(model, optimizer, range(step, step + 1))
                losses[-1].append(loss_of(model, *batch_of_all(0, torch.float32)).item())
        assert max(abs(a - b) for a, b in zip(*losses)) <= 1e-6, losses


def elements_of_state(state: Any) -> int:
    return sum(value.numel() for entry in state.values() for value in entry.values()
               if isinstance(value, torch.Tensor) and value.dim() > 0)


def case_each_rank_has_its_part_of_the_state() -> None:
    model = network()
    optimizer = sharded(model, adam)
    train(model, optimizer, range(1))
    state = optimizer._inner.state if several_ranks() else optimizer.state
    elements = sum(parameter.numel() for parameter in model.parameters())
    share = elements // hvd.size() + (1 if hvd.rank() < elements % hvd.size() else 0)
    assert elements_of_state(state) == 2 * share, "not two moments of Adam for each of this rank's elements"
    if several_ranks():
        assert not optimizer.state


def case_parameters_with_fewer_elements_than_ranks_are_trained() -> None:
    """Some ranks then have no elements of a bucket."""
    torch.manual_seed(3)
    model = nn.Linear(1, 1).double()
    optimizer = sharded(model, adam, groups=2)
    inputs = torch.arange(6.0).double().view(6, 1)
    optimizer.zero_grad()
    model(own(inputs)).square().mean().backward()
    optimizer.step()
    check_equal_on_all_ranks(model)
    full = optimizer.full_state_dict()
    assert [sorted(full["state"][n]) for n in (0, 1)] == [["exp_avg", "exp_avg_sq", "step"]] * 2
    assert full["state"][0]["exp_avg"].shape == (1, 1) and full["state"][1]["exp_avg"].shape == (1,)


def case_parameters_of_several_types_and_layouts_are_trained() -> None:
    torch.manual_seed(4)
    model = nn.ModuleDict({"narrow": nn.Linear(3, 3), "wide": nn.Linear(3, 3).double(),
                           "image": nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)})
    plain = copy.deepcopy(model)
    optimizer = sharded(model, momentum)
    unsharded = hvd.DistributedOptimizer(momentum(plain), plain.named_parameters())
    images = torch.randn(6, 3, 5, 5, generator=torch.Generator().manual_seed(7))
    for _ in range(3):
        for network_, optimizer_ in ((model, optimizer), (plain, unsharded)):
            optimizer_.zero_grad()
            (network_["narrow"](own(images[:, :, 0, 0])).square().mean()
             + network_["wide"](own(images[:, :, 1, 1]).double()).square().mean().float()
             + network_["image"](own(images)).square().mean()).backward()
            optimizer_.step()
    near(model, plain)
    assert model["image"].weight.is_contiguous(memory_format=torch.channels_last)


def case_gradients_of_several_passes_are_reduced_once_per_step() -> None:
    model = network()
    optimizer = sharded(model, adam, backward_passes_per_step=2)
    for step in range(STEPS):
        inputs, targets = (own(tensor).chunk(2) for tensor in batch_of_all(step))
        optimizer.zero_grad()
        for index in range(2):
            (loss_of(model, inputs[index], targets[index]) / 2).backward()
        optimizer.step()
    near(model, trained_alone(adam, STEPS))


def case_parameters_can_be_frozen_and_unfrozen() -> None:
    models = [network(), network()]
    for model in models:
        model[2].weight.requires_grad_(False)
    optimizers = [sharded(models[0], adam), hvd.DistributedOptimizer(adam(models[1]), models[1].named_parameters())]
    before = models[0][2].weight.clone()
    for model, optimizer in zip(models, optimizers):
        train(model, optimizer, range(2))
    assert torch.equal(models[0][2].weight, before)
    for model, optimizer in zip(models, optimizers):
        model[2].weight.requires_grad_(True)
        train(model, optimizer, range(2, 4))
    assert not torch.equal(models[0][2].weight, before)
    for model, optimizer in zip(models, optimizers):
        model[0].weight.requires_grad_(False)
        model[0].weight.grad = None
        train(model, optimizer, range(4, 6))
    near(*models)


def case_parameters_can_be_added_later() -> None:
    models = [network(), network()]
    optimizers = []
    for model, shard in zip(models, (True, False)):
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model[0].parameters(), lr=0.01), shard=shard)
        train(model, optimizer, range(2))
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.02})
        train(model, optimizer, range(2, 4))
        optimizers.append(optimizer)
    near(*models)


def case_changed_learning_rates_are_used() -> None:
    models = [network(), network()]
    for model, shard in zip(models, (True, False)):
        optimizer = hvd.DistributedOptimizer(two_groups(model), model.named_parameters(), shard=shard)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        for step in range(4):
            train(model, optimizer, range(step, step + 1))
            scheduler.step()
        assert [group["lr"] for group in optimizer.param_groups] == [0.1 / 16, 0.02 / 16]
    near(*models)


def case_clip_grad_norm_of_the_optimizer_equals_torchs() -> None:
    for norm_type in (2.0, float("inf")):
        model, plain = network(), network()
        optimizer, alone = sharded(model, momentum), momentum(plain)
        for step in range(STEPS):
            inputs, targets = batch_of_all(step)
            optimizer.zero_grad()
            loss_of(model, own(inputs), own(targets)).backward()
            optimizer.synchronize()
            norm = optimizer.clip_grad_norm_(0.1, norm_type)
            with optimizer.skip_synchronize():
                optimizer.step()
            alone.zero_grad()
            loss_of(plain, inputs, targets).backward()
            expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.1, norm_type)
            alone.step()
            assert abs(norm.item() - expected.item()) < 1e-9 and expected.item() > 0.1
        near(model, plain)


def case_clipping_with_torchs_function_is_an_error() -> None:
    if not several_ranks():
        return
    model = network()
    optimizer = sharded(model, sgd)
    inputs, targets = batch_of_all(0)
    loss_of(model, own(inputs), own(targets)).backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    with raises(AssertionError, "clip_grad_norm_() of the optimizer"), optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()


def case_steps_with_closures_work() -> None:
    model = network()
    optimizer = sharded(model, momentum)
    for step in range(STEPS):
        inputs, targets = batch_of_all(step)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, own(inputs), own(targets))
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    near(model, trained_alone(momentum, STEPS))


def case_training_works_with_compression_and_groups() -> None:
    for options, tolerance in (({"compression": hvd.Compression.fp16}, 2e-3), ({"groups": 3}, 1e-6),
                               ({"gradient_predivide_factor": 4.0}, 1e-6)):
        model = network(torch.float32)
        train(model, sharded(model, momentum, **options), range(STEPS))
        near(model, trained_alone(momentum, STEPS, torch.float32), tolerance)
        check_equal_on_all_ranks(model)


def case_sparse_gradients_are_reduced_as_dense_ones() -> None:
    torch.manual_seed(5)
    layer = nn.Embedding(7, 3, sparse=True).double()
    plain = copy.deepcopy(layer)
    optimizer, alone = sharded(layer, sgd, sparse_as_dense=True), sgd(plain)
    words = torch.arange(6)
    layer(own(words)).square().mean().backward()
    optimizer.step()
    plain(words).square().mean().backward()
    alone.step()
    near(layer, plain)
    if several_ranks():
        other = nn.Embedding(7, 3, sparse=True).double()
        refused = sharded(other, sgd)
        with raises(ValueError, "sparse_as_dense"):
            other(own(words)).square().mean().backward()
            refused.step()


def case_training_works_on_a_process_set() -> None:
    if hvd.size() < 3:
        return
    ranks = hvd.add_process_set([0, 2])
    model = network()
    optimizer = sharded(model, adam, process_set=ranks)
    if ranks.included():
        train(model, optimizer, range(STEPS), ranks.rank(), 2)
        near(model, trained_alone(adam, STEPS))
    else:
        train(model, optimizer, range(STEPS), 0, 1)
        equal(model, trained_alone(adam, STEPS))
    hvd.remove_process_set(ranks)


# ---- State ----------------------------------------------------------------------------------------


def case_the_full_state_equals_the_plain_optimizers() -> None:
    for make in (momentum, adam, two_groups):
        model, plain = network(), network()
        optimizer, alone = sharded(model, make), make(plain)
        train(model, optimizer, range(STEPS))
        train(plain, alone, range(STEPS), 0, 1)
        full, expected = optimizer.full_state_dict(), alone.state_dict()
        assert full["param_groups"] == expected["param_groups"]
        assert list(full["state"]) == list(expected["state"])
        for number, state in expected["state"].items():
            assert list(full["state"][number]) == list(state)
            for key, value in state.items():
                got = full["state"][number][key]
                assert torch.allclose(got, value, atol=1e-9) if isinstance(value, torch.Tensor) else got == value, key


def case_a_checkpoint_continues_with_another_number_of_ranks() -> None:
    """All ranks save; each then continues alone with the plain optimizer. A state of one rank continues on all."""
    with shared_folder() as folder:
        model = network()
        optimizer = sharded(model, adam)
        train(model, optimizer, range(3))
        with Checkpoints(folder / "of all") as checkpoints:
            checkpoints.save({"model": model.state_dict(), "optimizer": optimizer.full_state_dict()}, 3)
            checkpoints.wait()
            loaded = checkpoints.load()
        assert loaded is not None
        alone = network(seed=9)
        alone.load_state_dict(loaded["model"])
        plain = adam(alone)
        plain.load_state_dict(loaded["optimizer"])
        train(alone, plain, range(3, 6), 0, 1)
        train(model, optimizer, range(3, 6))
        near(model, alone)

        with Checkpoints(folder / "of one") as checkpoints:
            checkpoints.save({"model": alone.state_dict(), "optimizer": plain.state_dict()}, 6)
            checkpoints.wait()
            loaded = checkpoints.load()
        assert loaded is not None
        again = network(seed=9)
        again.load_state_dict(loaded["model"])
        optimizer = sharded(again, adam)
        optimizer.load_state_dict(loaded["optimizer"])
        train(again, optimizer, range(6, 9))
        train(alone, plain, range(6, 9), 0, 1)
        near(again, alone)


def case_the_state_from_before_wrapping_is_kept() -> None:
    model, plain = network(), network()
    before = adam(model)
    train(model, before, range(2), 0, 1)
    optimizer = hvd.DistributedOptimizer(before, model.named_parameters(), shard=True)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(model, optimizer, range(2, 5))
    alone = adam(plain)
    train(plain, alone, range(5), 0, 1)
    near(model, plain)


def case_adagrads_state_from_its_constructor_is_sharded() -> None:
    def adagrad(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.5)

    model = network()
    train(model, sharded(model, adagrad), range(STEPS))
    near(model, trained_alone(adagrad, STEPS))


def case_state_dict_of_a_part_is_an_error() -> None:
    model = network()
    optimizer = sharded(model, adam)
    train(model, optimizer, range(1))
    if several_ranks():
        with raises(RuntimeError, "full_state_dict()"):
            optimizer.state_dict()
        with raises(TypeError, "full_state_dict()"):
            copy.deepcopy(optimizer)
    else:
        assert optimizer.state_dict()["state"]


# ---- Bad input --------------------------------------------------------------------------------------


def case_invalid_arguments_are_errors() -> None:
    model = network()
    with raises(ValueError, "Adasum"):
        sharded(model, sgd, op=hvd.Adasum)
    with raises(ValueError, "LBFGS"):
        hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters()), shard=True)
    with raises(ValueError, "DistributedOptimizer(shard=True) already"):
        hvd.DistributedOptimizer(sharded(model, sgd))


def case_a_state_of_another_model_is_an_error() -> None:
    if not several_ranks():
        return
    model = network()
    optimizer = sharded(model, adam)
    other = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    plain = adam(other)
    other(torch.ones(1, 6).double()).sum().backward()
    plain.step()
    with raises(ValueError, "exp_avg", "[7, 6]", "[7, 5]", "another model"):
        optimizer.load_state_dict(plain.state_dict())


def case_different_settings_of_ranks_are_an_error() -> None:
    if not several_ranks():
        return
    model = network()
    last = hvd.size() - 1
    with raises(errors.MismatchError, "backward_passes_per_step differs", f"2 on rank {last}"):
        sharded(model, sgd, backward_passes_per_step=2 if hvd.rank() == last else 1)
    with raises(errors.MismatchError, "the optimizer's class differs", f"Adam on rank {last}"):
        sharded(model, adam if hvd.rank() == last else sgd)
    if hvd.rank() == 0:
        model.add_module("head", nn.Linear(2, 2).double())
    with raises(errors.MismatchError, f"only rank 0 of {hvd.size()} has the parameter head.weight"):
        sharded(model, sgd)
    train(model := network(), sharded(model, sgd), range(1))
    check_equal_on_all_ranks(model)
