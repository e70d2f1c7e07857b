"""If one rank fails before a collective on torch tensors, the others get an error that names it; see one_rank_fails.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

import hvd.torch as hvd
from _expect import raises
from hvd import errors

FRAMEWORK = "torch"
SIZES = (2,)
CULPRIT = 1


def is_culprit() -> bool:
    return hvd.rank() == CULPRIT


def check(call: Callable[[], Any], own: type[Exception], text: str, culprit: int = CULPRIT) -> None:
    if hvd.rank() == culprit:
        with raises(own):
            call()
    else:
        with raises(errors.InvalidArgumentError, f"rank {culprit}: {text}"):
            call()


def case_a_tensor_of_an_unsupported_type_is_an_error_on_all_ranks() -> None:
    good = torch.ones(2)
    one = torch.ones(2, dtype=torch.complex64) if is_culprit() else good
    for name in (None, "tensor"):
        calls: list[Callable[[], Any]] = [
            lambda: hvd.allreduce(one, name=name), lambda: hvd.grouped_allreduce([one, good], name=name),
            lambda: hvd.broadcast(one, 0, name), lambda: hvd.allgather(one, name),
            lambda: hvd.grouped_allgather([one, good], name), lambda: hvd.alltoall(one, name=name),
            lambda: hvd.reducescatter(one, name), lambda: hvd.grouped_reducescatter([one, good], name)]
        for call in calls:
            check(call, ValueError, "InvalidArgumentError: hvd: tensors of torch.complex64 are not supported")
        assert hvd.allreduce(good, name=name)[0] == 1


def case_a_dense_tensor_among_sparse_ones_is_an_error_on_all_ranks() -> None:
    dense = torch.ones(2)
    tensor = dense if is_culprit() else dense.to_sparse()
    check(lambda: hvd.sparse_allreduce_async(tensor, "sparse", hvd.Sum).wait(), ValueError, "InvalidArgumentError: ")


def case_a_compression_that_fails_is_an_error_on_all_ranks() -> None:
    tensor: Any = "x" if is_culprit() else torch.ones(2)
    check(lambda: hvd.allreduce(tensor, compression=hvd.Compression.fp16), TypeError, "AttributeError: ")


def case_a_bad_value_among_parameters_is_an_error_on_all_ranks() -> None:
    wrong: list[Any] = ["x", torch.ones(2).to_sparse()]
    for entry in wrong:
        params = {"a": torch.ones(2), "b": entry if is_culprit() else torch.ones(2), "c": torch.ones(2)}
        check(lambda: hvd.broadcast_parameters(params), ValueError, "")


def case_an_optimizer_state_that_cannot_be_broadcast_is_an_error_on_all_ranks() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if hvd.rank() == 0:
        optimizer.param_groups[0]["lock"] = threading.Lock()
    check(lambda: hvd.broadcast_optimizer_state(optimizer, 0), TypeError, "TypeError: cannot pickle", 0)
    optimizer.param_groups[0].pop("lock", None)
    other = torch.optim.LBFGS(model.parameters()) if is_culprit() else optimizer
    check(lambda: hvd.broadcast_optimizer_state(other, 0), ValueError, "ValueError: hvd: the state of torch.optim.LBFGS")
    hvd.broadcast_optimizer_state(optimizer, 0)


class Refusing(hvd.Compression.none):  # type: ignore[misc, name-defined]
    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if is_culprit() and tensor.dim() == 2:
            raise ValueError("not this one")
        return tensor, None


def case_a_gradient_that_cannot_be_compressed_is_an_error_on_all_ranks() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         named_parameters=model.named_parameters(), compression=Refusing)

    def step() -> None:
        try:
            model(torch.ones(1, 2)).sum().backward()
        finally:
            optimizer.step()  # called also after an error in backward()

    check(step, ValueError, "ValueError: not this one")
