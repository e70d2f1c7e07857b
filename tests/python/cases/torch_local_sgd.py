"""hvd.torch.LocalSGD: each rank trains separately, and the ranks average their parameters after each period."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _periodic import (InBackground, average, check_continues_from_a_checkpoint, check_errors_of_different_ranks,
                       check_errors_of_other_states, simulated, vector_of)
from _training import (adam, adamw, check_equal_on_all_ranks, batch_of_all, equal, loss_of, momentum, near, network, part_of, sgd,
                       train, trained_alone, two_groups)

STEPS = 9


def local(model: nn.Module, make: Any = momentum, every: Any = 4, **options: Any) -> Any:
    return hvd.LocalSGD(make(model), every=every, named_parameters=model.named_parameters(), **options)


def case_parameters_are_averaged_after_each_period() -> None:
    for make in (sgd, momentum, adam, adamw, two_groups):
        for every in (2, 4):
            model = network()
            train(model, local(model, make, every), range(STEPS))
            near(model, simulated(make, STEPS, every, lambda vectors, _: [average(vectors)] * hvd.size()), 1e-12)


def case_background_averages_are_applied_one_period_late() -> None:
    for make in (momentum, adam):
        for every in (1, 3):
            model = network()
            train(model, local(model, make, every, background=True), range(STEPS))
            common = [vector_of(network())]

            def apply(change: torch.Tensor) -> torch.Tensor:
                common[0] = common[0] + change
                return common[0]

            near(model, simulated(make, STEPS, every, InBackground(apply)), 1e-12)


def case_a_period_of_one_step_gives_the_bits_of_distributed_optimizer() -> None:
    for make in (sgd, momentum, adam, adamw, two_groups):
        for kind in (torch.float32, torch.float64):
            model, other = network(kind), network(kind)
            train(model, local(model, make, 1), range(STEPS))
            train(other, hvd.DistributedOptimizer(make(other), other.named_parameters()), range(STEPS))
            equal(model, other)
            check_equal_on_all_ranks(model)


def case_averaging_parameters_equals_averaging_gradients_for_sgd_but_not_adam() -> None:
    """Therefore every=1 averages gradients. The results differ only by rounding if the step is linear in the gradient."""
    for make, linear in ((sgd, True), (momentum, True), (two_groups, True), (adam, False)):
        expected = network()
        train(expected, local(expected, make, 1), range(STEPS))
        got = simulated(make, STEPS, 1, lambda vectors, _: [average(vectors)] * hvd.size())
        difference = (vector_of(got) - vector_of(expected)).abs().max().item()
        if linear or hvd.size() == 1:
            assert difference < 1e-12, difference
        else:
            assert difference > 1e-4, difference


def case_steps_with_closures_work() -> None:
    for every in (1, 3):
        model, other = network(), network()
        optimizer, plain = local(model, momentum, every), local(other, momentum, every)
        for step in range(STEPS):
            inputs, targets = (part_of(tensor, hvd.rank(), hvd.size()) for tensor in batch_of_all(step))

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, inputs, targets)
                loss.backward()
                return loss

            assert optimizer.step(closure).item() > 0
        train(other, plain, range(STEPS))
        equal(model, other)


def case_synchronize_ends_a_period_early() -> None:
    for background in (False, True):
        model = network()
        optimizer = local(model, every=4, background=background)
        train(model, optimizer, range(6))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)
        train(model, optimizer, range(6, 9))
        if hvd.size() > 1:
            theirs = hvd.broadcast(vector_of(model), 0, "theirs")
            assert hvd.rank() == 0 or not torch.equal(theirs, vector_of(model)), "parameters were exchanged within a period"


def case_ranks_do_not_wait_for_each_other_within_a_period() -> None:
    """Rank 0 makes all steps of a period except the last before another rank makes its first."""
    for background, ahead in ((False, 3), (True, 7)):
        model = network()
        optimizer = local(model, every=4, background=background)
        if hvd.rank() == 0:
            train(model, optimizer, range(ahead))
        hvd.broadcast(torch.zeros(1), 0, f"rank 0 is ahead by {ahead}")
        train(model, optimizer, range(ahead if hvd.rank() == 0 else 0, 8))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def case_a_joined_rank_is_left_out_of_the_average() -> None:
    if hvd.size() == 1:
        return
    last = hvd.size() - 1

    def averages(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
        """Includes the last rank only in the first average."""
        return [average(vectors if number == 0 else vectors[:last])] * hvd.size()

    for background in (False, True):
        sent: list[list[torch.Tensor]] = []

        def late(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
            if sent:
                vectors = [vector + mean - before for vector, mean, before
                           in zip(vectors, averages(sent[-1], number - 1), sent[-1])]
            sent.append(vectors)
            return vectors

        model = network()
        optimizer = local(model, sgd, 2, background=background)
        train(model, optimizer, range(2 if hvd.rank() == last else 6))
        assert hvd.join() != last
        if hvd.rank() != last:
            near(model, simulated(sgd, 6, 2, late if background else averages), 1e-12)


def case_frozen_parameters_are_exchanged_once_unfrozen() -> None:
    for background in (False, True):
        model = network()
        model[2].weight.requires_grad_(False)
        optimizer = local(model, every=2, background=background)
        train(model, optimizer, range(3))
        model[2].weight.requires_grad_(True)
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2).double())]})
        train(model, optimizer, range(3, 8))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def case_schedulers_and_several_types_work() -> None:
    torch.manual_seed(4)
    model = nn.ModuleDict({"narrow": nn.Linear(3, 3), "short": nn.Linear(3, 3).to(torch.bfloat16)})
    optimizer = hvd.LocalSGD(torch.optim.SGD(model.parameters(), lr=0.5), every=2)
    assert isinstance(optimizer, torch.optim.SGD)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, float(hvd.rank()))
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.125
    check_equal_on_all_ranks(model)
    again = copy.deepcopy(optimizer)
    assert type(again) is torch.optim.SGD, "a copy is not the plain optimizer"


def case_a_restart_continues_within_a_period() -> None:
    for make, background in ((momentum, False), (adam, False), (adam, True)):
        for before in (1, 3, 5):
            check_continues_from_a_checkpoint(lambda model: local(model, make, 3, background=background), before, 5)
    check_continues_from_a_checkpoint(lambda model: local(model, momentum, 1), 2, 3)


def case_a_state_of_another_number_of_ranks_can_be_loaded() -> None:
    for background in (False, True):
        model = network()
        optimizer = local(model, momentum, 3, background=background)
        train(model, optimizer, range(4))
        full = optimizer.full_state_dict()
        ranks = full["hvd"]["ranks"]
        full["hvd"]["ranks"] = [*ranks, *ranks]  # twice as many ranks, with the same average
        again = network(seed=9)
        continued = local(again, momentum, 3, background=background)
        continued.load_state_dict(full)
        expected = [torch.stack(list(values)).mean(0) for values in zip(*(entry["parameters"] for entry in ranks))]
        for parameter, value in zip(again.parameters(), expected):
            assert torch.allclose(parameter, value, atol=1e-12)
        train(again, continued, range(4, 9))
        continued.synchronize()
        check_equal_on_all_ranks(again)


def case_plain_states_and_the_state_of_rank_0_can_be_loaded() -> None:
    model = network()
    optimizer = local(model, adam, 3)
    train(model, optimizer, range(4))
    plain = adam(network())
    plain.load_state_dict(optimizer.state_dict())
    again = network()
    continued = local(again, adam, 3)
    continued.load_state_dict(plain.state_dict())
    train(again, continued, range(3))
    check_equal_on_all_ranks(again)
    state = hvd.broadcast_object(optimizer.state_dict(), name="state of rank 0")
    continued.load_state_dict(state)
    train(again, continued, range(2))
    check_equal_on_all_ranks(again)


def case_with_one_rank_it_equals_the_plain_optimizer() -> None:
    if hvd.size() == 1:
        model = network()
        train(model, local(model, adam, 2), range(STEPS))
        equal(model, trained_alone(adam, STEPS))


def case_different_settings_of_ranks_are_an_error() -> None:
    check_errors_of_different_ranks(local_momentum, "LocalSGD")
    if hvd.size() > 1:
        with raises(ValueError, "background differs", "True on rank 0"):
            local(network(), background=hvd.rank() == 0)


def local_momentum(model: nn.Module, every: Any) -> Any:
    return local(model, momentum, every)


def case_loading_a_state_with_other_settings_is_an_error() -> None:
    check_errors_of_other_states(local_momentum, "LocalSGD")
    model = network()
    full = local(model, every=3).full_state_dict()
    with raises(ValueError, "background = False", "background = True"):
        local(model, every=3, background=True).load_state_dict(full)
    with raises(ValueError, "method = LocalSGD", "method = DiLoCo"):
        hvd.DiLoCo(momentum(model), every=3).load_state_dict(full)


def case_wrapping_an_optimizer_twice_is_an_error() -> None:
    model = network()
    with raises(ValueError, "LocalSGD already"):
        hvd.DistributedOptimizer(local(model))
