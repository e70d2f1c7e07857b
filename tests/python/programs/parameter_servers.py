"""Checks a parameter server on each of several hosts: prints the names of the checks that pass, or raises."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from hvd import errors, job

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cases"))
from _expect import raises, run_checks  # noqa: E402
from _training import check_equal_on_all_ranks, momentum, near, network, sgd, train, two_groups  # noqa: E402


def served(model: nn.Module, make: Any = momentum, **options: Any) -> Any:
    return hvd.ParameterServer(make(model), named_parameters=model.named_parameters(), per_host=True, **options)


def check_staleness_0_gives_the_synchronous_result() -> None:
    for make in (sgd, momentum, two_groups):
        model, other = network(), network()
        optimizer = served(model, make)
        train(model, optimizer, range(4))
        train(other, hvd.DistributedOptimizer(make(other), other.named_parameters()), range(4))
        near(model, other, 1e-10)
        optimizer.synchronize()
        near(model, other, 1e-10)
        check_equal_on_all_ranks(model)


def check_servers_average_after_each_period_and_at_the_end() -> None:
    """The gradients of a host are its index + 1, so the expected parameters of its server are known."""
    hosts = hvd.allgather_object(job.node_rank())
    mean = sum(host + 1 for host in hosts) / len(hosts)
    for staleness in (0, 2):
        layer = nn.Linear(1, 1, bias=False).double()
        nn.init.zeros_(layer.weight)
        optimizer = served(layer, lambda model: torch.optim.SGD(model.parameters(), lr=1.0), staleness=staleness, every=3)

        def step() -> None:
            layer.weight.grad = torch.full_like(layer.weight, -float(job.node_rank() + 1))
            optimizer.step()

        for _ in range(3):
            step()
        assert staleness or abs(layer.weight.item() - 3 * mean) < 1e-12, layer.weight.item()
        if job.node_rank() == 1:  # host 0 does not change its parameters after the average
            step()
            step()
        optimizer.synchronize()
        assert abs(layer.weight.item() - (3 * mean + 4)) < 1e-12, layer.weight.item()


def check_a_host_without_more_data_does_not_block_the_others() -> None:
    for staleness in (0, 3):
        model = network()
        optimizer = served(model, sgd, staleness=staleness, every=2)
        train(model, optimizer, range(1 + 7 * hvd.rank()))
        optimizer.synchronize()
        check_equal_on_all_ranks(model)


def check_a_loaded_state_continues() -> None:
    model, again = network(), network(seed=9)
    optimizer = served(model, sgd)
    train(model, optimizer, range(3))
    state, weights = optimizer.full_state_dict(), {key: value.clone() for key, value in model.state_dict().items()}
    train(model, optimizer, range(3, 6))
    continued = served(again, sgd)
    again.load_state_dict(weights)
    continued.load_state_dict(state)
    train(again, continued, range(3, 6))
    near(again, model, 1e-12)
    with raises(ValueError, "saved with per_host = True", "per_host = False"):
        hvd.ParameterServer(sgd(model)).load_state_dict(state)
    assert (job.local_rank() == 0) == (optimizer._server is not None)


def check_errors() -> None:
    last = hvd.rank() == hvd.size() - 1
    with raises(ValueError, "every is for a server on each host"):
        hvd.ParameterServer(sgd(network()), every=2)
    with raises(ValueError, "every is 0, but must be at least 1"):
        served(network(), sgd, every=0 if last else 1)
    with raises(errors.MismatchError, "per_host differs"):
        hvd.ParameterServer(sgd(network()), per_host=last)


hvd.init()
run_checks(globals())
hvd.shutdown()
