"""hvd.torch.Gossip: each rank trains separately, and averages its parameters with one other rank after each period."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _periodic import check_continues_from_a_checkpoint, check_errors_of_different_ranks, check_errors_of_other_states, simulated, vector_of
from _training import adam, check_equal_on_all_ranks, momentum, near, network, sgd, train
from hvd.process_sets import process_set_ids
from hvd.schedule import hops, pairs, partner

SIZES = (1, 2, 3, 4)
GATE_SIZE = 3


def gossip(model: nn.Module, make: Any = momentum, every: Any = 1, **options: Any) -> Any:
    return hvd.Gossip(make(model), every=every, named_parameters=model.named_parameters(), **options)


def exchanged(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    partners = [partner(rank, len(vectors), number) for rank in range(len(vectors))]
    return [vector if other is None else (vector + vectors[other]) / 2 for vector, other in zip(vectors, partners)]


def case_pairs_average_their_parameters_after_each_period() -> None:
    for make, every in ((momentum, 1), (adam, 1), (momentum, 3)):
        model = network()
        train(model, gossip(model, make, every), range(10))
        near(model, simulated(make, 10, every, exchanged), 1e-12)


def case_background_averages_are_applied_one_period_late() -> None:
    sent: list[list[torch.Tensor]] = []

    def late(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
        if sent:
            vectors = [vector + mean - before for vector, mean, before
                       in zip(vectors, exchanged(sent[-1], number - 1), sent[-1])]
        sent.append(vectors)
        return vectors

    model = network()
    train(model, gossip(model, momentum, 2, background=True), range(10))
    near(model, simulated(momentum, 10, 2, late), 1e-12)


def case_exchanges_without_steps_converge_to_the_average_of_all() -> None:
    model = network(seed=hvd.rank())
    expected = hvd.allreduce(vector_of(model), name="expected")
    optimizer = gossip(model, sgd)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rounds = 1 if hvd.size() in (1, 2, 4) else 12
    for _ in range(rounds * max(1, len(hops(hvd.size())))):
        optimizer.step()
    tolerance = 1e-12 if rounds == 1 else 1e-3
    assert torch.allclose(vector_of(model), expected, atol=tolerance, rtol=0), (vector_of(model) - expected).abs().max()


def case_synchronize_averages_all_ranks() -> None:
    model = network()
    optimizer = gossip(model, every=2)
    train(model, optimizer, range(5))
    expected = hvd.allreduce(vector_of(model), name="expected")
    optimizer.synchronize()
    assert torch.allclose(vector_of(model), expected, atol=1e-12)
    check_equal_on_all_ranks(model)


def case_a_rank_waits_for_its_partner_only() -> None:
    """The last rank makes no step while the pairs without it exchange."""
    size = hvd.size()
    model = network()
    optimizer = gossip(model)
    first = partner(size - 1, size, 0)
    if hvd.rank() not in (size - 1, first):
        train(model, optimizer, range(1))
    for rank in range(size):
        if rank not in (size - 1, first):
            hvd.broadcast(torch.zeros(1), rank, f"rank {rank} has exchanged")
    if hvd.rank() in (size - 1, first):
        train(model, optimizer, range(1))
    optimizer.synchronize()
    check_equal_on_all_ranks(model)


def case_a_joined_partner_is_left_out() -> None:
    if hvd.size() == 1:
        return
    last = hvd.size() - 1

    def without_the_last(vectors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
        after = exchanged(vectors, number)
        if number == 0:
            return after
        return [vector if partner(rank, len(vectors), number) == last else changed
                for rank, (vector, changed) in enumerate(zip(vectors, after))]

    model = network()
    train(model, gossip(model), range(1 if hvd.rank() == last else 6))
    hvd.join()
    if hvd.rank() != last:
        near(model, simulated(momentum, 6, 1, without_the_last), 1e-12)


def case_two_optimizers_share_the_process_sets() -> None:
    gossip(network())
    before = process_set_ids()
    gossip(network())
    assert process_set_ids() == before and len(before) <= 1 + len(pairs(hvd.size()))


def case_the_schedule_pairs_each_rank_with_one_other() -> None:
    for size in range(1, 18):
        rounds = len(hops(size))
        shares = torch.eye(size, dtype=torch.float64)
        for exchange in range(rounds):
            partners = [partner(rank, size, exchange) for rank in range(size)]
            for rank, other in enumerate(partners):
                assert other is None or partners[other] == rank != other, "the partner of a rank has another partner"
            assert size & (size - 1) or None not in partners or size == 1, "a rank has no partner"
            shares = torch.stack(exchanged(list(shares), exchange))
        if size & (size - 1) == 0:
            assert torch.equal(shares, torch.full((size, size), 1 / size, dtype=torch.float64)), "the result is not the average of all"
    assert pairs(4) == [(0, 1), (0, 2), (1, 3), (2, 3)] and pairs(1) == []


def case_a_restart_continues_within_a_period() -> None:
    for background in (False, True):
        for before in (1, 4, 5):
            check_continues_from_a_checkpoint(lambda model: gossip(model, adam, 2, background=background), before, 5)


def case_invalid_arguments_are_errors() -> None:
    check_errors_of_different_ranks(lambda model, every: gossip(model, every=every), "Gossip")
    check_errors_of_other_states(lambda model, every: gossip(model, every=every), "Gossip")
