"""Elastic training in PyTorch (hvdrun --min-np M): run(), TorchState, ElasticSampler, under Horovod's names.

    model, optimizer = ...                            # hvd.DistributedOptimizer
    state = hvd.elastic.TorchState(model, optimizer, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < steps:
            step(model, optimizer, state.step)
            state.step += 1
            state.commit()

    train(state)
"""

from __future__ import annotations

from ...elastic import (HorovodInternalError, HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, generation,
                        is_elastic, is_newcomer, member, newest, reform, run, run_fn)
from ...job import init, shutdown
from .sampler import ElasticSampler
from .state import StateHandler, TorchState, get_handler_registry, set_handler_registry

__all__ = ["ElasticSampler", "HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState",
           "State", "StateHandler", "TorchState", "generation", "get_handler_registry", "init", "is_elastic", "is_newcomer", "member",
           "newest", "reform", "run", "run_fn", "set_handler_registry", "shutdown"]
