"""For cases of methods with local steps: simulates the training in one process with a model for each rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _folder import shared_folder
from _training import Make, equal, network, train
from hvd import errors
from hvd.checkpoint import Checkpoints

Vector = torch.Tensor  # all parameters of a model as one vector


def vector_of(model: nn.Module) -> Vector:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def put(model: nn.Module, vector: Vector) -> None:
    nn.utils.vector_to_parameters(vector.clone(), model.parameters())


def simulated(make: Make, steps: int, every: int, exchange: Callable[[list[Vector], int], list[Vector]]) -> nn.Module:
    """Trains a model for each rank, and calls exchange(vectors, number) after each period. Returns this rank's model."""
    models = [network() for _ in range(hvd.size())]
    optimizers = [make(model) for model in models]
    for step in range(steps):
        for rank, (model, optimizer) in enumerate(zip(models, optimizers)):
            train(model, optimizer, range(step, step + 1), rank)
        if (step + 1) % every == 0:
            for model, vector in zip(models, exchange([vector_of(model) for model in models], step // every)):
                put(model, vector)
    return models[hvd.rank()]


def average(vectors: Sequence[Vector]) -> Vector:
    return torch.stack(list(vectors)).mean(0)


class InBackground:
    """An exchange whose averages arrive one period late: the result is the average plus the rank's changes since."""

    def __init__(self, apply: Callable[[Vector], Vector]) -> None:
        """apply: takes the average change of a period, returns the new common parameters."""
        self._apply = apply
        self._begin = [vector_of(network())] * hvd.size()  # at the begin of the current period
        self._changes: list[Vector] = []  # of the previous period

    def __call__(self, vectors: list[Vector], number: int) -> list[Vector]:
        changes = [vector - begin for vector, begin in zip(vectors, self._begin)]
        if self._changes:
            common = self._apply(average(self._changes))
            vectors = [common + change for change in changes]
        self._begin, self._changes = vectors, changes
        return vectors


def check_continues_from_a_checkpoint(wrap: Callable[[nn.Module], Any], before: int, after: int) -> None:
    """Checks that training continues on each rank as if uninterrupted, also within a period."""
    model = network()
    optimizer = wrap(model)
    train(model, optimizer, range(before))
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        checkpoints.save({"model": model.state_dict(), "optimizer": optimizer.full_state_dict()}, before)
        checkpoints.wait()
        loaded = checkpoints.load()
    assert loaded is not None
    train(model, optimizer, range(before, before + after))
    again = network(seed=9)
    continued = wrap(again)
    again.load_state_dict(loaded["model"])
    continued.load_state_dict(loaded["optimizer"])
    train(again, continued, range(before, before + after))
    equal(again, model)


def check_errors_of_different_ranks(wrap: Callable[..., Any], method: str) -> None:
    """Checks errors of wrap(model, **options) if options or models differ between ranks."""
    if hvd.size() == 1:
        with raises(ValueError, f"{method}: every is 0"):
            wrap(network(), every=0)
        return
    last = hvd.size() - 1
    with raises(errors.MismatchError, f"{method}: every differs", f"4 on rank {last}"):
        wrap(network(), every=4 if hvd.rank() == last else 8)
    for every, words in ((0, "every is 0"), (2.5, "whole number"), (-3, "every is -3")):
        with raises(ValueError, f"{method}: every", words, f"on rank {last}"):
            wrap(network(), every=every if hvd.rank() == last else 8)
    model = network()
    if hvd.rank() == 0:
        model.add_module("head", nn.Linear(2, 2).double())
    with raises(errors.MismatchError, f"only rank 0 of {hvd.size()} has the parameter head.weight"):
        wrap(model, every=2)
    model = network()
    if hvd.rank() == last:
        model[4] = nn.Linear(4, 3).double()
    with raises(errors.MismatchError, "the parameter 4.weight differs", "[3, 4]", f"on rank {last}"):
        wrap(model, every=2)


def check_errors_of_other_states(wrap: Callable[..., Any], method: str) -> None:
    model = network()
    optimizer = wrap(model, every=3)
    train(model, optimizer, range(4))
    full = optimizer.full_state_dict()
    with raises(ValueError, f"{method}: the state was saved with every = 3", "every = 2"):
        wrap(model, every=2).load_state_dict(full)
    smaller = nn.Linear(2, 2).double()
    with raises(ValueError, f"{method}: the state was saved with parameters = 6", "parameters = 2"):
        wrap(smaller, every=3).load_state_dict(full)
    other = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    with raises(ValueError, "shape [7, 5] instead of [7, 6]"):
        wrap(other, every=3).load_state_dict(full)
