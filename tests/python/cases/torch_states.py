"""Training with each optimizer of hvd.torch does not change states that the program has loaded or fetched."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _training import equal, momentum, network, train


def keeping(kind: type[torch.optim.Optimizer]) -> Any:
    """Returns the class with a load_state_dict() that does not copy tensors, like PyTorch 2's."""
    class Keeping(kind):  # type: ignore[misc, valid-type]
        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            super().load_state_dict(state_dict)
            parameters = [tensor for group in self.param_groups for tensor in group["params"]]
            for number, values in state_dict["state"].items():
                self.state[parameters[number]] = dict(values)
    return Keeping


Adam, SGD = keeping(torch.optim.Adam), keeping(torch.optim.SGD)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return Adam(model.parameters(), lr=0.01)


def outer(tensors: list[torch.Tensor]) -> torch.optim.Optimizer:
    return SGD(tensors, lr=0.7, momentum=0.9, nesterov=True)


MADE: dict[str, Callable[[nn.Module], Any]] = {
    "DistributedOptimizer": lambda model: hvd.DistributedOptimizer(adam(model), model.named_parameters()),
    "shard": lambda model: hvd.DistributedOptimizer(adam(model), model.named_parameters(), shard=True),
    "LocalSGD": lambda model: hvd.LocalSGD(adam(model), every=2),
    "LocalSGD in the background": lambda model: hvd.LocalSGD(adam(model), every=2, background=True),
    "DiLoCo": lambda model: hvd.DiLoCo(adam(model), outer=outer, every=2),
    "DiLoCo in the background": lambda model: hvd.DiLoCo(adam(model), outer=outer, every=2, background=True),
    "Gossip": lambda model: hvd.Gossip(adam(model), every=2),
    "ParameterServer": lambda model: hvd.ParameterServer(adam(model)),
}


def full_state_of(optimizer: Any) -> dict[str, Any]:
    return optimizer.full_state_dict() if hasattr(optimizer, "full_state_dict") else optimizer.state_dict()


def differences(one: Any, other: Any, path: str = "state") -> list[str]:
    """Returns the paths of the values in which two states differ."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [path]
    if isinstance(one, dict):
        return [found for key in one for found in differences(one[key], other[key], f"{path}[{key!r}]")]
    if isinstance(one, (list, tuple)):
        return [found for index, pair in enumerate(zip(one, other)) for found in differences(*pair, f"{path}[{index}]")]
    return [] if one == other else [path]


def case_training_does_not_change_a_loaded_state() -> None:
    for name, make in MADE.items():
        model = network()
        optimizer = make(model)
        train(model, optimizer, range(5))
        state = full_state_of(optimizer)
        before = copy.deepcopy(state)
        weights = copy.deepcopy(model.state_dict())
        results = []
        for _ in range(2):
            again = network(seed=9)
            continued = make(again)
            again.load_state_dict(weights)
            continued.load_state_dict(state)
            train(again, continued, range(5, 9))
            results.append(again)
        assert not differences(state, before), f"{name}: {differences(state, before)}"
        equal(*results)


def case_a_loaded_state_is_copied_at_each_load() -> None:
    """Also if the server or a sharded optimizer already has a state."""
    for name in ("shard", "ParameterServer"):
        model = network()
        optimizer = MADE[name](model)
        train(model, optimizer, range(3))
        state = full_state_of(optimizer)
        before = copy.deepcopy(state)
        optimizer.load_state_dict(state)
        train(model, optimizer, range(3, 6))
        assert not differences(state, before), f"{name}: {differences(state, before)}"


def case_training_does_not_change_a_full_state() -> None:
    for name, make in MADE.items():
        model = network()
        optimizer = make(model)
        if not hasattr(optimizer, "full_state_dict"):
            continue
        train(model, optimizer, range(5))
        state = optimizer.full_state_dict()
        before = copy.deepcopy(state)
        train(model, optimizer, range(5, 9))
        assert not differences(state, before), f"{name}: {differences(state, before)}"


def case_a_full_state_has_copies_for_frozen_parameters() -> None:
    """Frozen parameters are not sharded and may have an earlier state."""
    model = network()
    plain = momentum(model)
    train(model, plain, range(2), 0, 1)
    model[0].weight.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters(), shard=True)
    buffer = optimizer.state[model[0].weight]["momentum_buffer"]
    state = optimizer.full_state_dict()
    before = copy.deepcopy(state)
    buffer.add_(1)
    assert not differences(state, before), differences(state, before)
