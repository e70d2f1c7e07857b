"""hvd.torch.ParameterServer: rank 0 has the parameters, and the staleness between ranks is bounded."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _folder import shared_folder
from _periodic import vector_of
from _training import (adam, adamw, check_equal_on_all_ranks, batch_of_all, equal, loss_of, momentum, near, network, part_of, sgd,
                       train, trained_alone, two_groups)
from hvd import errors
from hvd.checkpoint import Checkpoints
from hvd.schedule import Clocks

STEPS = 6


def served(model: nn.Module, make: Any = momentum, staleness: Any = 0) -> Any:
    return hvd.ParameterServer(make(model), staleness=staleness, named_parameters=model.named_parameters())


def case_staleness_0_gives_the_synchronous_result() -> None:
    for make in (sgd, momentum, adam, adamw, two_groups):
        model, other = network(), network()
        train(model, served(model, make), range(STEPS))
        train(other, hvd.DistributedOptimizer(make(other), other.named_parameters()), range(STEPS))
        near(model, other, 1e-12)
        near(model, trained_alone(make, STEPS))
        check_equal_on_all_ranks(model)


def case_float32_parameters_are_trained() -> None:
    model, other = network(torch.float32), network(torch.float32)
    train(model, served(model, momentum), range(20))
    train(other, hvd.DistributedOptimizer(momentum(other), other.named_parameters()), range(20))
    near(model, other, 1e-6)


def case_all_ranks_start_from_the_parameters_of_rank_0() -> None:
    for make in (lambda model: served(model, sgd), lambda model: hvd.DiLoCo(sgd(model), every=1)):
        model, expected = network(seed=hvd.rank() + 1), network(seed=1)
        optimizer = make(model)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        equal(model, expected)


def case_with_staleness_each_gradient_makes_a_step() -> None:
    """The gradients do not depend on the parameters, so with plain SGD their order does not matter."""
    torch.manual_seed(3)
    layer = nn.Linear(3, 2).double()
    start = layer.weight.detach().clone()
    optimizer = served(layer, sgd, 2)
    for step in range(5):
        optimizer.zero_grad()
        (layer(torch.full((1, 3), hvd.rank() + 1.0 + step).double())).sum().backward()
        optimizer.step()
    optimizer.synchronize()
    size = hvd.size()
    total = sum(rank + 1.0 + step for rank in range(size) for step in range(5))
    assert torch.allclose(layer.weight, start - 0.1 * total / size, atol=1e-12)
    check_equal_on_all_ranks(layer)


def case_training_with_staleness_reduces_the_loss() -> None:
    model = network()
    before = loss_of(model, *batch_of_all(0)).item()
    optimizer = served(model, sgd, 3)
    for _ in range(40):
        train(model, optimizer, range(1))
    optimizer.synchronize()
    assert loss_of(model, *batch_of_all(0)).item() < 0.8 * before
    check_equal_on_all_ranks(model)


def case_a_rank_may_be_ahead_by_at_most_the_staleness() -> None:
    """The last rank makes all permitted steps while the others make none. Its next step waits for theirs."""
    if hvd.size() == 1:
        return
    staleness, last = 2, hvd.size() - 1
    model = network()
    optimizer = served(model, sgd, staleness)
    train(model, optimizer, range(1))
    if hvd.rank() == last:
        train(model, optimizer, range(staleness))
    hvd.broadcast(torch.zeros(1), last, "ahead")
    if hvd.rank() == last:
        train(model, optimizer, range(1))
    elif hvd.rank() == 0:
        clocks = optimizer._server.clocks
        with clocks.changed:
            assert clocks.changed.wait_for(lambda: clocks.steps[last] == staleness + 2, timeout=60)
            assert not clocks.may_continue(last), clocks.steps
    if hvd.rank() != last:
        train(model, optimizer, range(1))
    optimizer.synchronize()
    check_equal_on_all_ranks(model)


def case_a_rank_with_less_data_does_not_block_the_others() -> None:
    for staleness in (0, 1):
        model = network()
        optimizer = served(model, sgd, staleness)
        last = hvd.size() - 1
        train(model, optimizer, range(2 if hvd.rank() == last else 6))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)
        if staleness == 0 and hvd.size() > 1:
            expected = network()
            for step in range(6):
                parts = [[part_of(tensor, rank, hvd.size()) for tensor in batch_of_all(step)] for rank in range(hvd.size())]
                present = parts if step < 2 else parts[:last]
                expected.zero_grad()
                (sum(loss_of(expected, *part) for part in present) / hvd.size()).backward()
                with torch.no_grad():
                    for parameter in expected.parameters():
                        parameter -= 0.1 * parameter.grad
            near(model, expected, 1e-12)
        train(model, optimizer, range(6, 8))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def case_clocks_bound_the_staleness() -> None:
    clocks = Clocks(3, 1)
    with clocks.changed:
        clocks.advance(0)
        assert clocks.may_continue(0) and clocks.may_continue(1)
        clocks.advance(0)
        assert not clocks.may_continue(0)
        clocks.rest(1)
        assert not clocks.may_continue(0), "worker 0 may continue although it is two steps ahead of worker 2"
        clocks.advance(2)
        assert clocks.may_continue(0)
        clocks.rest(2)
        assert clocks.rounds == 0
        clocks.rest(0)
        assert clocks.rounds == 1 and clocks.steps == [2, 2, 2] and not any(clocks.resting)


def case_the_server_uses_the_learning_rate_of_rank_0() -> None:
    model, other = network(), network()
    optimizer = served(model, two_groups)
    plain = hvd.DistributedOptimizer(two_groups(other), other.named_parameters())
    for step in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1) if hvd.rank() == 0 else 7.0
        for group in plain.param_groups:
            group["lr"] = 0.1 / (step + 1)
        train(model, optimizer, range(step, step + 1))
        train(other, plain, range(step, step + 1))
    near(model, other, 1e-12)


def case_frozen_parameters_missing_gradients_types_and_closures_work() -> None:
    torch.manual_seed(4)
    model = nn.ModuleDict({"narrow": nn.Linear(3, 3), "wide": nn.Linear(3, 3).double(), "frozen": nn.Linear(3, 3)})
    model["frozen"].requires_grad_(False)
    other = copy.deepcopy(model)
    optimizer = served(model, adam)
    plain = hvd.DistributedOptimizer(adam(other), other.named_parameters())
    for network_, optimizer_ in ((model, optimizer), (other, plain)):
        for _ in range(3):
            def closure() -> torch.Tensor:
                optimizer_.zero_grad()
                loss = network_["narrow"](torch.ones(1, 3)).sum()
                if hvd.rank() == 0:
                    loss = loss + network_["wide"](torch.ones(1, 3).double()).sum().float()
                loss.backward()
                return loss

            assert optimizer_.step(closure) is not None
    near(model, other)
    model["frozen"].requires_grad_(True)
    with raises(ValueError, "added, frozen or thawed"):
        optimizer.step()


def case_a_state_continues_through_a_checkpoint_and_in_the_plain_optimizer() -> None:
    model = network()
    optimizer = served(model, adam)
    train(model, optimizer, range(3))
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        state = optimizer.full_state_dict()
        checkpoints.save({"model": model.state_dict(), "optimizer": state}, 3)
        checkpoints.wait()
        loaded = checkpoints.load()
    assert loaded is not None
    train(model, optimizer, range(3, 6))
    again = network(seed=9)
    continued = served(again, adam)
    again.load_state_dict(loaded["model"])
    continued.load_state_dict(loaded["optimizer"])
    train(again, continued, range(3, 6))
    equal(again, model)
    # Also right after the first step, once all are synchronized.
    continued.synchronize()
    again.load_state_dict(loaded["model"])
    continued.load_state_dict(loaded["optimizer"])
    train(again, continued, range(3, 6))
    equal(again, model)
    alone = network(seed=9)
    plain = adam(alone)
    alone.load_state_dict(loaded["model"])
    plain.load_state_dict(loaded["optimizer"])
    train(alone, plain, range(3, 6), 0, 1)
    near(model, alone)


def case_only_rank_0_has_optimizer_state() -> None:
    model = network()
    optimizer = served(model, adam)
    train(model, optimizer, range(1))
    if hvd.size() == 1:
        assert optimizer.state_dict()["state"]
        return
    assert not optimizer.state and (hvd.rank() == 0) == (optimizer._server is not None)
    with raises(RuntimeError, "full_state_dict()"):
        optimizer.state_dict()
    with raises(TypeError, "full_state_dict()"):
        copy.deepcopy(optimizer)


def case_invalid_arguments_are_errors() -> None:
    last = hvd.size() - 1
    for staleness, words in ((-1, "staleness is -1, but must be at least 0"), (0.5, "whole number")):
        with raises(ValueError, words, f"on rank {last}"):
            served(network(), sgd, staleness if hvd.rank() == last else 1)
    model = network()
    full = served(model, sgd, 1).full_state_dict()
    with raises(ValueError, "staleness = 1", "staleness = 2"):
        served(model, sgd, 2).load_state_dict(full)
    with raises(ValueError, "method = LocalSGD"):
        served(model).load_state_dict(hvd.LocalSGD(sgd(model), every=2).full_state_dict())
    if hvd.size() > 1:
        with raises(errors.MismatchError, "ParameterServer: staleness differs", f"3 on rank {last}"):
            served(network(), sgd, 3 if hvd.rank() == last else 0)
        if hvd.rank() == 0:
            model.add_module("head", nn.Linear(2, 2).double())
        with raises(errors.MismatchError, f"only rank 0 of {hvd.size()} has the parameter head.weight"):
            served(model)
    assert vector_of(model).isfinite().all()
