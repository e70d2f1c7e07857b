"""Calls every function of hvd.torch that needs hvd.init() before it; prints those whose error does not name it."""

from __future__ import annotations

import torch

import hvd.torch as hvd

tensor = torch.ones(2)
calls = {
    "rank": hvd.rank, "size": hvd.size, "local_rank": hvd.local_rank, "local_size": hvd.local_size,
    "cross_rank": hvd.cross_rank, "cross_size": hvd.cross_size, "is_homogeneous": hvd.is_homogeneous,
    "allreduce": lambda: hvd.allreduce(tensor), "allreduce_": lambda: hvd.allreduce_(tensor),
    "allreduce_async": lambda: hvd.allreduce_async(tensor), "allreduce_async_": lambda: hvd.allreduce_async_(tensor),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([tensor]), "allgather": lambda: hvd.allgather(tensor),
    "grouped_allgather": lambda: hvd.grouped_allgather([tensor]), "broadcast": lambda: hvd.broadcast(tensor, 0),
    "broadcast_": lambda: hvd.broadcast_(tensor, 0), "alltoall": lambda: hvd.alltoall(tensor),
    "reducescatter": lambda: hvd.reducescatter(tensor),
    "grouped_reducescatter": lambda: hvd.grouped_reducescatter([tensor]),
    "sparse_allreduce_async": lambda: hvd.sparse_allreduce_async(tensor.to_sparse(), "sparse", hvd.Sum),
    "barrier": hvd.barrier, "join": hvd.join, "add_process_set": lambda: hvd.add_process_set([0]),
    "broadcast_object": lambda: hvd.broadcast_object(1), "allgather_object": lambda: hvd.allgather_object(1),
    "start_timeline": lambda: hvd.start_timeline("timeline.json"), "stop_timeline": hvd.stop_timeline,
}
for name, call in calls.items():
    try:
        call()
        print(f"{name}: nothing was raised")
    except hvd.HorovodInternalError as error:
        if not (isinstance(error, ValueError) and "hvd.init()" in str(error)):
            print(f"{name}: {type(error).__name__}: {error}")
assert not hvd.is_initialized()
hvd.shutdown()
