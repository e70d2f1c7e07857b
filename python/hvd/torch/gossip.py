"""Gossip: each rank takes its own steps; every few steps it averages its parameters with those of one other rank."""

from __future__ import annotations

from typing import Any, Optional

import torch

from .. import job
from .._periodic import Mean
from ..process_sets import ProcessSet, find_or_add
from ..schedule import pairs, partner
from ._wrapping import NamedParameters
from .local_sgd import AveragingOptimizer
from .periodic import Tensors, mean_of, periodic_optimizer


def Gossip(  # noqa: N802 (returns an instance of a class, as DistributedOptimizer)
        optimizer: torch.optim.Optimizer, every: int = 1, named_parameters: Optional[NamedParameters] = None,
        background: bool = False) -> Any:
    """Returns `optimizer` as one that averages its parameters with one other rank after each `every` steps. Collective.

    X. Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", arXiv:1710.06952, average in
    pairs; B. Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep Training", arXiv:2110.13363,
    choose the distance between partners: 1, 2, 4, ... below the number of ranks, one after the other. If the number of
    ranks is no power of two, some ranks pause in each exchange (hvd.schedule.partner). No rank has the average of all.

    every, named_parameters: as for LocalSGD. background: the pair's average is applied one period late, as by LocalSGD.

    Each pair is a process set, of which a rank needs about log2(ranks); the call makes them. Waiting: at an exchange a
    rank waits for its partner only, until that one has ended the same period, with background the one before. A rank in
    hvd.join() is not waited for; its partner keeps its own parameters in that exchange. The ranks' parameters stay
    different: synchronize(), on all ranks, sets them to the average of all.

    Buffers and errors: as for LocalSGD.
    """
    gossip = periodic_optimizer(_Gossip, optimizer, every, named_parameters, background, _sets={})
    for pair in pairs(job.size()):
        process_set = find_or_add(pair)
        if job.rank() in pair:
            gossip._sets[pair] = process_set
    return gossip


class _Gossip(AveragingOptimizer):
    METHOD = "Gossip"

    _sets: dict[tuple[int, int], ProcessSet]  # those of this rank's pairs

    def _mean_of(self, tensors: Tensors, exchange: int) -> Optional[Mean]:
        own = job.rank()
        other = partner(own, job.size(), exchange)
        return None if other is None else mean_of(tensors, self._name, self._sets[min(own, other), max(own, other)])
