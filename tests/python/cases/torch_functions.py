"""hvd.torch.broadcast_parameters and broadcast_optimizer_state give all ranks the root's parameters and state."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def alike(one: Any, other: Any) -> bool:
    """Returns whether two nested values are equal, also in the tensors inside."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return (isinstance(other, dict) and one.keys() == other.keys()
                and all(alike(one[key], other[key]) for key in one))
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 1) -> None:
    """Trains with the same data on each rank."""
    for step in range(steps):
        optimizer.zero_grad()
        inputs = torch.arange(12).view(4, 3).to(next(model.parameters())) / (step + 1)
        model(inputs).square().sum().backward()
        optimizer.step()


# ---- Parameters ---------------------------------------------------------------------------------


def case_parameters_of_a_model_are_broadcast_in_place() -> None:
    for root in range(hvd.size()):
        for params_of in (lambda model: model.state_dict(), lambda model: model.named_parameters(),
                          lambda model: list(model.named_parameters()), lambda model: model.parameters()):
            model, expected = network(hvd.rank()), network(root)
            model[1].num_batches_tracked += hvd.rank()
            expected[1].num_batches_tracked += root
            before = [parameter.data_ptr() for parameter in model.parameters()]
            hvd.broadcast_parameters(params_of(model), root)
            assert all(map(torch.equal, model.parameters(), expected.parameters()))
            assert [parameter.data_ptr() for parameter in model.parameters()] == before, "parameters were not written in place"
            assert all(parameter.requires_grad for parameter in model.parameters())
    model = network(hvd.rank())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert alike(dict(model.state_dict()), dict(network(0).state_dict()))


def case_tensors_of_every_type_are_broadcast() -> None:
    def tensors(rank: int) -> dict[str, torch.Tensor]:
        made = {str(kind): (torch.arange(6) % 3 + rank).to(kind)
                for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int8,
                             torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128)}
        return {**made, "scalar": torch.tensor(float(rank)), "empty": torch.zeros(0, 3)}

    for root in range(hvd.size()):
        own = tensors(hvd.rank())
        hvd.broadcast_parameters(own, root)
        assert alike(own, tensors(root))


def case_noncontiguous_tensors_are_broadcast() -> None:
    whole = torch.full((6, 4), float(hvd.rank()))
    part = whole[::2, 1:3]
    hvd.broadcast_parameters({"part": part, "turned": torch.eye(3).t() * hvd.rank()}, hvd.size() - 1)
    expected = torch.full((6, 4), float(hvd.rank()))
    expected[::2, 1:3] = hvd.size() - 1
    assert torch.equal(whole, expected)


def case_parameters_are_broadcast_on_a_process_set() -> None:
    last = hvd.size() - 1
    some = hvd.add_process_set([last])
    if some.included():
        tensor = torch.ones(2)
        hvd.broadcast_parameters([("tensor", tensor)], last, some)
        assert tensor.tolist() == [1, 1]
    assert hvd.remove_process_set(some)


def case_broadcasting_values_that_are_no_parameters_is_an_error() -> None:
    for wrong in (None, 5, "weights", torch.zeros(2), nn.Linear(1, 1), [("name", 5)], {"name": None}, [(1, 2, 3)]):
        with raises(ValueError, "broadcast_parameters"):
            hvd.broadcast_parameters(wrong, 0)


# ---- An optimizer's state -----------------------------------------------------------------------


MAKERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, amsgrad=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "Adadelta": lambda parameters: torch.optim.Adadelta(parameters),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.1, centered=True, momentum=0.9),
    "Rprop": lambda parameters: torch.optim.Rprop(parameters),
    "ASGD": lambda parameters: torch.optim.ASGD(parameters),
}


def case_state_that_only_the_root_has_is_broadcast() -> None:
    for name, make in MAKERS.items():
        for root in {0, hvd.size() - 1}:
            model = network()
            optimizer = make(model.parameters())
            reference = network()
            expected = make(reference.parameters())
            train(reference, expected, 3)
            if hvd.rank() == root:
                train(model, optimizer, 3)
            hvd.broadcast_parameters(model.state_dict(), root)
            hvd.broadcast_optimizer_state(optimizer, root)
            assert alike(optimizer.state_dict(), expected.state_dict()), name
            train(model, optimizer, 2)
            train(reference, expected, 2)
            assert all(map(torch.equal, model.parameters(), reference.parameters())), name


def case_state_that_all_have_is_written_in_place() -> None:
    model = network()
    optimizer = MAKERS["Adam"](model.parameters())
    train(model, optimizer, hvd.rank() + 1)
    weight = model[0].weight
    averages = optimizer.state[weight]["exp_avg"]
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.state[weight]["exp_avg"] is averages
    assert float(optimizer.state[weight]["step"]) == 1


def case_state_that_the_root_lacks_is_removed() -> None:
    model = network()
    optimizer = MAKERS["Adam"](model.parameters())
    if hvd.rank() > 0:
        train(model, optimizer)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert not optimizer.state and isinstance(optimizer.state[model[0].weight], dict)


def case_missing_gradients_of_an_optimizer_without_state_become_zeros() -> None:
    model = nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].bias.requires_grad_(False)
    kept = model[2].bias.grad = torch.ones(2)
    optimizer = MAKERS["momentum"](model.parameters())
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert model[1].weight.grad.tolist() == [[0, 0], [0, 0]] and model[1].bias.grad is None
    assert model[0].weight.grad.is_sparse and model[2].bias.grad is kept
    table = nn.Embedding(4, 2, sparse=True)
    hvd.broadcast_optimizer_state(torch.optim.SparseAdam(list(table.parameters())), 0)
    assert table.weight.grad.is_sparse
    trained = network()
    optimizer = MAKERS["momentum"](trained.parameters())
    train(trained, optimizer)
    trained.zero_grad(set_to_none=True)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert trained[0].weight.grad is None


def case_options_of_each_parameter_group_are_broadcast() -> None:
    model = network()
    optimizer = torch.optim.Adam([{"params": model[0].parameters(), "lr": 0.5 + hvd.rank()},
                                  {"params": model[2].parameters(), "betas": (0.5, 0.5 + 0.1 * hvd.rank())}], lr=0.1)
    if hvd.rank() == 0:
        optimizer.param_groups[1]["initial_lr"] = 0.3
    hvd.broadcast_optimizer_state(optimizer, 0)
    first, second = optimizer.param_groups
    assert first["lr"] == 0.5 and second["betas"] == (0.5, 0.5) and second["initial_lr"] == 0.3
    assert first["params"][0] is model[0].weight


def case_nested_state_of_any_type_is_broadcast() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank = hvd.rank()

    def state(number: int) -> dict[str, Any]:
        return {"none": None, "count": number, "name": f"rank {number}", "pair": (torch.tensor(number), number),
                "nested": {"list": [torch.full((2,), number), 1.5]}, "empty": torch.zeros(0),
                "flag": torch.tensor(number > 0)}

    if rank != 1:  # rank 1 has no state
        optimizer.state[model.weight] = state(rank)
        optimizer.state["of all"] = {"history": [torch.tensor([float(rank)])]}
    root = hvd.size() - 1 if hvd.size() != 2 else 0
    hvd.broadcast_optimizer_state(optimizer, root)
    assert alike(optimizer.state[model.weight], state(root)), optimizer.state
    assert optimizer.state["of all"]["history"][0].item() == root
    assert model.bias not in optimizer.state


def case_the_state_of_a_distributed_optimizer_is_broadcast() -> None:
    model, alone = network(hvd.rank()).double(), network(0).double()
    plain, expected = MAKERS["momentum"](model.parameters()), MAKERS["momentum"](alone.parameters())
    if hvd.rank() == 0:
        train(model, plain, 2)
    model.zero_grad()
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0, model=model)
    train(model, optimizer, 2)
    for _ in range(2):
        train(alone, expected, 2)
    assert all(map(torch.allclose, model.parameters(), alone.parameters()))


def case_an_optimizer_with_other_shapes_is_an_error() -> None:
    model = nn.Linear(2, 2 if hvd.rank() == 0 else 3)
    optimizer = MAKERS["SGD"](model.parameters())
    if hvd.size() > 1:
        with raises(ValueError, "rank 1 has", "[[(3, 2), (3,)]]", "[[(2, 2), (2,)]]"):
            hvd.broadcast_optimizer_state(optimizer, 0)
    same = MAKERS["SGD"](nn.Linear(2, 2).parameters())
    hvd.broadcast_optimizer_state(same, 0)


def case_broadcasting_the_state_of_lbfgs_is_an_error() -> None:
    with raises(ValueError, "LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(nn.Linear(2, 2).parameters()), 0)


def case_equal_states_are_unchanged_by_a_broadcast() -> None:
    model = network()
    optimizer = MAKERS["Adam"](model.parameters())
    train(model, optimizer, 2)
    state = copy.deepcopy(optimizer.state_dict())
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert alike(optimizer.state_dict(), state)
