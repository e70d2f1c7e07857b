"""hvd.torch.DiLoCo: an outer optimizer applies the average change of all ranks after each period."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _periodic import (InBackground, average, check_continues_from_a_checkpoint, check_errors_of_different_ranks,
                       check_errors_of_other_states, simulated, vector_of)
from _training import adam, adamw, check_equal_on_all_ranks, momentum, near, network, sgd, train

STEPS = 9


def gentle(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.6, nesterov=True)


def identity(parameters: Any) -> torch.optim.Optimizer:
    """Returns an outer optimizer with which DiLoCo is LocalSGD."""
    return torch.optim.SGD(parameters, lr=1.0)


def diloco(model: nn.Module, make: Any = adamw, every: Any = 3, **options: Any) -> Any:
    return hvd.DiLoCo(make(model), every=every, named_parameters=model.named_parameters(), **options)


class Nesterov:
    """A reference of the paper's outer step on a vector of all parameters."""

    def __init__(self, rate: float = 0.7, momentum: float = 0.9) -> None:
        self.rate = rate
        self.momentum = momentum
        self.common = vector_of(network())
        self.velocity = torch.zeros_like(self.common)

    def __call__(self, change: torch.Tensor) -> torch.Tensor:
        self.velocity = self.momentum * self.velocity - change
        self.common = self.common - self.rate * (self.momentum * self.velocity - change)
        return self.common


def case_the_outer_step_is_nesterov_momentum_of_the_average_change() -> None:
    for make, every in ((adamw, 3), (momentum, 2), (sgd, 1)):
        model = network()
        train(model, diloco(model, make, every), range(STEPS))
        outer = Nesterov()
        near(model, simulated(make, STEPS, every, lambda vectors, _: [
            outer(average([vector - outer.common for vector in vectors]))] * hvd.size()), 1e-10)
        check_equal_on_all_ranks(model) if STEPS % every == 0 else None


def case_background_averages_are_applied_one_period_late() -> None:
    for outer, rule in ((gentle, Nesterov(0.5, 0.6)), (identity, Nesterov(1.0, 0.0))):
        model = network()
        train(model, diloco(model, adamw, 3, outer=outer, background=True), range(12))
        near(model, simulated(adamw, 12, 3, InBackground(rule)), 1e-10)


def case_an_outer_rate_of_one_gives_local_sgd() -> None:
    for background in (False, True):
        models = [network(), network()]
        optimizers = [diloco(models[0], momentum, 2, outer=identity, background=background),
                      hvd.LocalSGD(momentum(models[1]), every=2, background=background)]
        for model, optimizer in zip(models, optimizers):
            train(model, optimizer, range(STEPS))
        near(*models, tolerance=1e-12)


def case_all_ranks_start_from_the_parameters_of_rank_0() -> None:
    model = network(seed=hvd.rank() + 1)
    train(model, diloco(model, every=2), range(2))
    check_equal_on_all_ranks(model)


def case_synchronize_ends_a_period_early() -> None:
    for background in (False, True):
        model = network()
        optimizer = diloco(model, every=4, outer=gentle, background=background)
        train(model, optimizer, range(6))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)
        train(model, optimizer, range(6, 10))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def case_a_joined_rank_is_left_out_of_the_average() -> None:
    if hvd.size() == 1:
        return
    last = hvd.size() - 1
    model = network()
    train(model, diloco(model, sgd, 2), range(2 if hvd.rank() == last else 6))
    assert hvd.join() != last
    if hvd.rank() != last:
        outer = Nesterov()

        def exchange(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
            present = vectors if number == 0 else vectors[:last]
            return [outer(average([vector - outer.common for vector in present]))] * hvd.size()

        near(model, simulated(sgd, 6, 2, exchange), 1e-10)


def case_parameters_can_be_unfrozen_and_added_later() -> None:
    for background in (False, True):
        model = network()
        model[2].weight.requires_grad_(False)
        optimizer = diloco(model, every=2, outer=gentle, background=background)
        train(model, optimizer, range(3))
        model[2].weight.requires_grad_(True)
        before = model[2].weight.clone()
        train(model, optimizer, range(3, 8))
        optimizer.synchronize()
        assert not torch.equal(model[2].weight, before)
        check_equal_on_all_ranks(model)


def case_a_restart_continues_within_a_period() -> None:
    for background in (False, True):
        for before in (1, 3, 5, 8):
            check_continues_from_a_checkpoint(lambda model: diloco(model, adam, 3, outer=gentle, background=background), before, 7)


def case_a_state_of_another_number_of_ranks_can_be_loaded() -> None:
    for background in (False, True):
        model = network()
        optimizer = diloco(model, momentum, 3, outer=gentle, background=background)
        train(model, optimizer, range(7))
        full = optimizer.full_state_dict()
        full["hvd"]["ranks"] *= 2
        again = network(seed=9)
        continued = diloco(again, momentum, 3, outer=gentle, background=background)
        continued.load_state_dict(full)
        for state in (optimizer, continued):
            state.synchronize()
        near(again, model, 1e-12)  # both have the same average change
        check_equal_on_all_ranks(again)


def case_different_settings_of_ranks_are_an_error() -> None:
    check_errors_of_different_ranks(lambda model, every: diloco(model, every=every), "DiLoCo")
    if hvd.size() > 1:
        with raises(ValueError, "DiLoCo: outer differs", "lr=0.5", "on rank 0"):
            diloco(network(), outer=gentle if hvd.rank() == 0 else identity)
    with raises(ValueError, "DiLoCo: outer must return an optimizer of torch"):
        diloco(network(), outer=list)
    with raises(ValueError, "DiLoCo: outer does not make an optimizer"):
        diloco(network(), outer=0.7)


def case_loading_a_state_with_other_settings_is_an_error() -> None:
    check_errors_of_other_states(lambda model, every: diloco(model, every=every), "DiLoCo")
    model = network()
    full = diloco(model, every=3).full_state_dict()
    with raises(ValueError, "outer = SGD(", "lr=0.7", "lr=0.5"):
        diloco(model, every=3, outer=gentle).load_state_dict(full)
