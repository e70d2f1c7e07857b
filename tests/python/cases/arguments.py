"""Wrong arguments and unknown names: hvd's exceptions name the function, the argument, what was given and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import torch

import hvd.data
import hvd.numpy
import hvd.torch as h
from _expect import raises

FRAMEWORK = "torch"
SIZES = (2,)
GATE_SIZE = 2

MODULES = {"h": h, "hvd": hvd, "numpy": numpy, "torch": torch}

# A call, its exception, and the text of that on each rank.
WRONG = [
    ("h.allreduce(torch.ones(2), op='sum')", TypeError,
     "hvd.torch.allreduce: op is 'sum', not one of hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product or None; "
     "write hvd.Sum"),
    ("h.allreduce(torch.ones(2), prescale_factor='2')", TypeError, "hvd.torch.allreduce: prescale_factor is '2', not a number"),
    ("h.broadcast(torch.ones(2), root_rank='0')", TypeError, "hvd.torch.broadcast: root_rank is '0', not a whole number"),
    ("h.allreduce(torch.ones(2), process_set=[0])", TypeError, "hvd.torch.allreduce: process_set is [0], not an hvd.ProcessSet"),
    ("h.DistributedOptimizer(torch.nn.Linear(2, 2))", TypeError,
     "hvd.torch.DistributedOptimizer: optimizer is an object of the class torch.nn.modules.linear.Linear, not a "
     "torch.optim.Optimizer"),
    ("hvd.set_metric('loss', 'low')", TypeError, "hvd.set_metric: value is 'low', not a number"),
    ("hvd.set_metric(5, 1.0)", TypeError, "hvd.set_metric: name is 5, not a text"),
    ("hvd.average_metrics({'accuracy': 1.0, 'loss': 'bad'})", ValueError,
     "hvd.average_metrics: metrics['loss']: could not convert string to float: 'bad'"),
    ("hvd.average_metrics([1.0, 'bad'])", ValueError,
     "hvd.average_metrics: metrics[1]: could not convert string to float: 'bad'"),
    ("hvd.average_metrics({1: 0.5})", TypeError, "hvd.average_metrics: the name of a metric is 1, not a text"),
    ("hvd.warmup(0.1, 1.0, 'a', 5)", TypeError, "hvd.warmup: step is 'a', not a whole number"),
    ("hvd.run(print, np=0)", ValueError, "hvd.run: np is 0, not a number of ranks, 1 or more"),
    ("hvd.run(print, np='2')", TypeError, "hvd.run: np is '2', not a number of ranks, 1 or more"),
    ("hvd.run(print, np=True)", TypeError, "hvd.run: np is True, not a number of ranks, 1 or more"),
    ("hvd.elastic.run(5)", TypeError, "hvd.elastic.run: func is 5, not a function"),
    ("hvd.elastic.run_fn(5, print)", TypeError, "hvd.elastic.run_fn: func is 5, not a function"),
    ("h.DistributedSampler([1, 2], num_replicas=2, rank=0, shuffle=True)", TypeError,
     "hvd.torch.DistributedSampler(): got an unexpected keyword argument 'num_replicas'; did you mean size? "
     "Its arguments: dataset, batch, shuffle, seed, remainder, rank, size"),
    ("h.broadcast(torch.ones(1), src=0)", TypeError,
     "hvd.torch.broadcast(): got an unexpected keyword argument 'src'; did you mean root_rank? "
     "Its arguments: tensor, root_rank, name, process_set"),
    ("hvd.average_metrics(loss=1.0)", TypeError,
     "hvd.average_metrics(): got an unexpected keyword argument 'loss'; its arguments: metrics, weight, name"),
    ("h.DistributedSampler([1, 2])", TypeError, "hvd.torch.DistributedSampler(): missing a required argument: 'batch'"),
    ("hvd.data.Source.folder(5)", TypeError, "hvd.data.Source.folder: path is 5, not a text or a path"),
]

# A name, and words of the exception.
UNKNOWN: list[tuple[Any, str, str]] = [
    (hvd, "allreduce", "hvd.torch, hvd.tensorflow, hvd.keras and hvd.numpy; for PyTorch: import hvd.torch as hvd"),
    (hvd, "DistributedOptimizer", "it is in hvd.torch, hvd.tensorflow and hvd.keras"),
    (hvd, "print1", "did you mean print0?"),
    (h, "DistributedGradientTape", "it is in hvd.tensorflow: import hvd.tensorflow as hvd"),
    (h, "alreduce", "did you mean allreduce?"),
    (hvd.numpy, "sparse_allreduce_async", "it is in hvd.torch"),
    (hvd, "all_gather", "did you mean allgather? It is in hvd.torch, hvd.tensorflow, hvd.keras and hvd.numpy; for PyTorch: import "
     "hvd.torch as hvd"),
    (hvd, "broadcast_params", "did you mean broadcast_parameters? It is in hvd.torch; for PyTorch: import hvd.torch as hvd"),
    (hvd, "broadcast_variable", "did you mean broadcast_variables? It is in hvd.tensorflow and hvd.keras: import hvd.tensorflow as hvd"),
    (h, "broadcast_variables", "did you mean broadcast_parameters? broadcast_variables is in hvd.tensorflow and hvd.keras"),
    (h, "SyncBatchNormalization", "did you mean SyncBatchNorm? SyncBatchNormalization is in hvd.tensorflow and hvd.keras"),
    (h, "numpy", "it is a module of hvd: import hvd.numpy"),
    (hvd.numpy, "elastics", "did you mean hvd.elastic?"),
    (hvd, "Shard", "it is hvd.data.Shard"),
    (h, "TorchState", "it is hvd.torch.elastic.TorchState"),
    (hvd, "PeerErorr", "did you mean hvd.errors.PeerError?"),
]

# What is meant, and names by which a program may ask a module for it.
MEANT: list[tuple[Any, str, str]] = [
    (hvd, "rank", "get_rank Get_rank getRank RANK ranks world_rank global_rank process_index rnak"),
    (hvd, "size", "world_size WORLD_SIZE worldsize get_world_size Get_size num_replicas_in_sync process_count wrold_size"),
    (hvd, "local_rank", "localrank LOCAL_RANK get_local_rank loacl_rank"),
    (hvd, "local_size", "local_world_size nproc_per_node"),
    (hvd, "node_count", "num_nodes nnodes"),
    (hvd, "rank() == 0", "is_main_process is_master is_rank_0"),
    (hvd, "init", "Init init_process_group inti"),
    (hvd, "is_initialized", "is_initialised Is_initialized initialized"),
    (hvd, "shutdown", "finalize Finalize destroy_process_group shutdwon"),
    (hvd, "ProcessSet", "ProcessGroup process_set processset"),
    (hvd, "add_process_set", "new_group new_process_group"),
    (hvd, "global_process_set", "COMM_WORLD"),
    (hvd, "average_metrics", "metric_average average_metric"),
    (hvd, "allgather_object", "all_gather_object gather_object"),
    (hvd, "broadcast_object", "broadcast_object_list bcast_obj"),
    (hvd, "Average", "AVG mean average"),
    (hvd, "EarlyStopping", "early_stopping EarlyStop"),
    (hvd, "torch", "pytorch torhc"),
    (hvd, "allreduce", "all_reduce Allreduce AllReduce alreduce psum reduce"),
    (hvd, "reducescatter", "reduce_scatter reduce_scatter_tensor Reduce_scatter"),
    (hvd, "barrier", "barier Barrier monitored_barrier"),
    (hvd, "DistributedOptimizer", "DistributedDataParallel DDP MirroredStrategy allreduce_grads average_gradients"),
    (h, "rank", "get_rank"),
    (h, "size", "world_size"),
    (h, "DistributedOptimizer", "DistributedDataParallel DDP allreduce_grads DistributedOptimiser"),
    (h, "DistributedOptimizer(backward_passes_per_step=N)", "no_sync"),
    (h, "DistributedOptimizer(shard=True)", "FSDP FullyShardedDataParallel ZeroRedundancyOptimizer"),
    (h, "broadcast_parameters", "broadcast_params brodcast_params broadcast_model broadcastParameters"),
    (h, "broadcast_optimizer_state", "broadcast_optimizer"),
    (h, "allgather", "all_gather all_gather_into_tensor Allgatherv allgather_tensors"),
    (h, "allreduce_", "all_reduce_"),
    (h, "allreduce_async", "allreduceasync async_allreduce Iallreduce"),
    (h, "grouped_allreduce", "all_reduce_coalesced group_allreduce"),
    (h, "SyncBatchNorm", "convert_sync_batchnorm SyncBatchNormalisation"),
    (hvd.numpy, "allreduce", "all_reduce"),
]

# Names of which none is near.
NOT_NEAR = "send recv scatter foo seed train loss config clip_grad_norm"


def case_the_exception_says_what_to_write() -> None:
    for call, kind, text in WRONG:
        with raises(kind):
            try:
                eval(call, dict(MODULES))
            except kind as error:
                assert str(error) == text, f"{call}: {error}"
                raise


def case_errors_of_the_library_name_what_python_has() -> None:
    sources = "".join(path.read_text() for path in Path(hvd.__file__).parent.rglob("*.py"))
    called = {name for name in re.findall(r"(?:check|number)\((?:_?lib\.)?(hvd_\w+)", sources) if name != "hvd_alloc"}
    assert len(called) > 60
    for name in sorted(called):
        text = str(hvd.errors.of_status(1, f"{name}: 1"))
        thing: Any = hvd
        for part in text.removeprefix("hvd.").removesuffix("(): 1").split("."):
            thing = getattr(thing if hasattr(thing, part) or thing is not hvd else h, part)


def case_the_other_ranks_learn_what_was_wrong() -> None:
    kind, words = (TypeError, "hvd.torch.allreduce: ") if hvd.rank() == 1 else (ValueError, "rank 1: ")
    with raises(kind, words, "op is 'sum', not one of hvd.Average"):
        h.allreduce(torch.ones(2), op="sum" if hvd.rank() == 1 else h.Sum)


def case_an_unknown_name_says_where_it_is() -> None:
    for module, name, words in UNKNOWN:
        with raises(AttributeError, f"module '{module.__name__}' has no attribute '{name}'", words):
            getattr(module, name)


def case_the_name_that_is_meant_is_found_by_its_words() -> None:
    for module, meant, names in MEANT:
        for name in names.split():
            with raises(AttributeError, f"module '{module.__name__}' has no attribute '{name}'; did you mean {meant}?"):
                getattr(module, name)
    for name in NOT_NEAR.split():
        try:
            getattr(hvd, name)
        except AttributeError as error:
            assert str(error) == f"module 'hvd' has no attribute '{name}'", error


def case_an_unknown_operation_or_type_says_which_is_meant() -> None:
    for kind, name, words in ((hvd.ReduceOp, "SUM", "did you mean Sum?"), (hvd.ReduceOp, "AVG", "did you mean Average?"),
                              (hvd.ReduceOp, "BAND", "it has Average, Sum, Adasum, Min, Max, Product"),
                              (hvd.DataType, "Float32", "did you mean float32?")):
        with raises(AttributeError, f"hvd.{kind.__name__} has no {name}; {words}"):
            getattr(kind, name)
    assert hvd.ReduceOp.Sum is hvd.ReduceOp["Sum"] is hvd.Sum and not hasattr(hvd.ReduceOp, "__fields__")


def case_names_are_found_where_one_looks_for_them() -> None:
    assert h.local_batch(6) == 3 and h.data is hvd.data and h.print0
    assert hvd.numpy.agree_stop(1).text == "" and hvd.numpy.rank() == hvd.rank()
    assert "numpy" in dir(hvd) and "torch" in dir(hvd)
