"""Writes the results of functions of horovod.torch as lines to compare: horovod_conformance.py FOLDER, on every rank.

A function case_NAME() is a case. Its line in FOLDER/rank<R> is `NAME: ` and its value, or the classes of the exception that
it raised. The cases run in one job, in their order, on Horovod and on hvd. So each call has a name where Horovod would
number calls, and up to join() all ranks make the same number of calls.

Cases that end or hang Horovod are left out: a process set with unknown ranks ends its processes, and different collectives
with the same name wait for ever. Adasum is left out because Horovod lacks it with Gloo.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import horovod.torch as hvd

KINDS = {"AssertionError": AssertionError, "HorovodInternalError": hvd.HorovodInternalError,
         "NotImplementedError": NotImplementedError, "RuntimeError": RuntimeError, "TypeError": TypeError,
         "ValueError": ValueError}
SMALL_INTEGERS = (torch.uint8, torch.int8, torch.int16)
FLOATS = (torch.float16, torch.float32, torch.float64)
REDUCED = (torch.int32, torch.int64, *FLOATS)  # the types that Horovod reduces; for smaller ones it only has the other collectives
MOVED = SMALL_INTEGERS + REDUCED


def text_of(value: Any) -> str:
    """Returns equal texts for equal values. Floating-point numbers have 5 digits, at most 4 of them after the point."""
    if isinstance(value, torch.Tensor):
        shape = "x".join(map(str, value.shape))
        kind = str(value.dtype).replace("torch.", "")
        return f"{kind}[{shape}]({text_of(value.detach().to_dense().tolist())})"
    if isinstance(value, float):
        return f"{round(value, 4) + 0.0:.5g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text_of(entry)}" for key, entry in sorted(value.items())) + "}"
    return str(value)


def line_of(case: Any) -> str:
    try:
        return text_of(case())
    except Exception as error:
        kinds = [name for name, kind in KINDS.items() if isinstance(error, kind)]
        return "raises " + (", ".join(kinds) or type(error).__name__)


def own(shape: tuple[int, ...] = (3,), dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns small numbers that differ between ranks."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) + 1 + 2 * hvd.rank()).reshape(shape).to(dtype)


def weights(tensor: torch.Tensor) -> torch.Tensor:
    """Returns factors for a result before its sum, so that gradients are not constant."""
    return (torch.arange(tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape) + 1) * (hvd.rank() + 1)


def gradient(function: Any, shape: tuple[int, ...] = (3,)) -> torch.Tensor:
    """Returns the gradient of one tensor through a function of it."""
    tensor = own(shape).requires_grad_()
    result = function(tensor)
    (result * weights(result)).sum().backward()
    return tensor.grad


def gradients(function: Any, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Returns the gradients of several tensors through a function of their list."""
    tensors = [own(shape).requires_grad_() for shape in shapes]
    sum((result * weights(result)).sum() for result in function(tensors)).backward()
    return [tensor.grad for tensor in tensors]


def my_set() -> hvd.ProcessSet:
    """Returns the process set of rank 0, or that of the other ranks; the global set if there is one rank."""
    if hvd.size() == 1:
        return hvd.global_process_set
    return FIRST if hvd.rank() == 0 else OTHERS


# ---- the job ------------------------------------------------------------------------------------


def case_ranks() -> Any:
    return [hvd.is_initialized(), hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(),
            hvd.cross_size()]


def case_init_again() -> Any:
    hvd.init()
    return hvd.size()


def case_operations() -> Any:
    return [int(op) for op in (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product)]


# ---- allreduce ----------------------------------------------------------------------------------


def case_allreduce() -> Any:
    return hvd.allreduce(own(), name="average")


def case_allreduce_operations() -> Any:
    return [hvd.allreduce(own(), name=f"op {index}", op=op)
            for index, op in enumerate((hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product))]


def case_allreduce_types() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"type {dtype}", op=hvd.Sum) for dtype in REDUCED]


def case_allreduce_types_min_max_product() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"{index} of {dtype}", op=op) for dtype in REDUCED
            for index, op in enumerate((hvd.Min, hvd.Max, hvd.Product))]


def case_allreduce_small_integers() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"type {dtype}", op=hvd.Sum) for dtype in SMALL_INTEGERS]


def case_average_of_integers() -> Any:
    return [hvd.allreduce(torch.tensor([7, -7, 0, 100]) * (hvd.rank() + 1), name="integers' average"),
            hvd.allreduce(torch.tensor([1, 2, -1, -2]) * (hvd.rank() % 2), name="truncated")]


def case_average_of_types() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"average of {dtype}") for dtype in REDUCED]


def case_allreduce_bool() -> Any:
    return hvd.allreduce(torch.tensor([hvd.rank() == 0, True, False]), name="bool", op=hvd.Sum)


def case_average_argument() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [hvd.allreduce(own(), average=average, name=f"average {average}") for average in (True, False)]


def case_average_argument_and_op() -> Any:
    return hvd.allreduce(own(), average=True, op=hvd.Sum)


def case_allreduce_in_place() -> Any:
    tensor = own()
    result = hvd.allreduce_(tensor, name="in place", op=hvd.Sum)
    return [result is tensor, tensor]


def case_allreduce_in_background() -> Any:
    tensor = own()
    handle = hvd.allreduce_async(tensor, name="background", op=hvd.Max)
    result = hvd.synchronize(handle)
    return [result, tensor]


def case_allreduce_in_place_in_background() -> Any:
    tensor = own()
    handle = hvd.allreduce_async_(tensor, name="background in place", op=hvd.Min)
    result = hvd.synchronize(handle)
    return [result is tensor, tensor]


def case_many_in_background() -> Any:
    order = range(20) if hvd.rank() % 2 else reversed(range(20))
    handles = {index: hvd.allreduce_async(own() + index, name=f"many {index}", op=hvd.Sum) for index in order}
    return [hvd.synchronize(handles[index])[0].item() for index in range(20)]


def case_poll() -> Any:
    handle = hvd.allreduce_async(own(), name="polled", op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    return [hvd.poll(handle), hvd.synchronize(handle)]


def case_factors() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"factors {dtype} {index}", op=op, prescale_factor=0.5,
                          postscale_factor=4.0)
            for dtype in FLOATS for index, op in enumerate((hvd.Average, hvd.Sum))]


def case_factors_of_integers() -> Any:
    return hvd.allreduce(4 * own(dtype=torch.int64), name="integers' factors", op=hvd.Sum, prescale_factor=0.5,
                         postscale_factor=3.0)


def case_factors_of_max() -> Any:
    return hvd.allreduce(own(), name="factors of max", op=hvd.Max, prescale_factor=2.0, postscale_factor=0.5)


def case_compression() -> Any:
    return [hvd.allreduce(own(dtype=dtype), name=f"compressed {dtype}", op=hvd.Sum, compression=compression)
            for dtype in (torch.float32, torch.float64, torch.int32)
            for compression in (hvd.Compression.none, hvd.Compression.fp16)]


def case_shapes() -> Any:
    return [hvd.allreduce(own(shape), name=f"shape {shape}", op=hvd.Sum) for shape in ((), (1,), (2, 3), (2, 1, 2))]


def case_without_elements() -> Any:
    return hvd.allreduce(torch.ones(0), name="nothing", op=hvd.Sum)


def case_allreduce_bfloat16() -> Any:
    return hvd.allreduce(own(dtype=torch.bfloat16), name="bfloat16", op=hvd.Sum)


def case_allreduce_not_contiguous() -> Any:
    return hvd.allreduce(own((2, 3)).t(), name="transposed", op=hvd.Sum)


def case_synchronize_twice() -> Any:
    handle = hvd.allreduce_async(own(), name="synchronized twice", op=hvd.Sum)
    return [hvd.synchronize(handle), hvd.synchronize(handle)]


def case_allreduce_in_place_of_a_parameter() -> Any:
    parameter = torch.nn.Parameter(own())
    return hvd.allreduce_(parameter, name="parameter", op=hvd.Sum).detach()


def case_broadcast_in_place_of_a_parameter() -> Any:
    parameter = torch.nn.Parameter(own())
    return [hvd.broadcast_(parameter, 0, name="broadcast parameter") is parameter, parameter]


def case_without_names() -> Any:
    return [hvd.allreduce(own() * factor, op=hvd.Sum) for factor in (1, 2, 3)]


# ---- groups of allreduces -----------------------------------------------------------------------


def case_grouped_allreduce() -> Any:
    results = hvd.grouped_allreduce([own(), own((2, 2)), own(())], name="group")
    return [isinstance(results, list), results]


def case_grouped_allreduce_operations() -> Any:
    return [hvd.grouped_allreduce([own(), own((2,))], name=f"group's op {index}", op=op)
            for index, op in enumerate((hvd.Sum, hvd.Min, hvd.Max, hvd.Product))]


def case_grouped_allreduce_factors() -> Any:
    return hvd.grouped_allreduce([own(), own((2,))], name="group's factors", op=hvd.Sum, prescale_factor=2.0,
                                 postscale_factor=0.25, compression=hvd.Compression.fp16)


def case_grouped_allreduce_in_place() -> Any:
    tensors = [own(), own((2, 2))]
    results = hvd.grouped_allreduce_(tensors, name="group in place", op=hvd.Sum)
    return [[result is tensor for result, tensor in zip(results, tensors)], tensors]


def case_grouped_allreduce_in_background() -> Any:
    tensors = [own(), own((2, 2))]
    results = hvd.synchronize(hvd.grouped_allreduce_async(tensors, name="group in background", op=hvd.Sum))
    in_place = hvd.synchronize(hvd.grouped_allreduce_async_(tensors, name="group in background, in place"))
    return [list(results), list(in_place)]


def case_grouped_allreduce_types() -> Any:
    return hvd.grouped_allreduce([own(), own(dtype=torch.float64)], name="group of types", op=hvd.Sum)


# ---- sparse -------------------------------------------------------------------------------------


def sparse() -> torch.Tensor:
    rank = hvd.rank()
    return torch.sparse_coo_tensor([[0, rank % 3 + 1], [rank % 2, 1]], [1.0 + rank, 2.0], (5, 2))


def case_sparse_allreduce() -> Any:
    results = [hvd.sparse_allreduce_async(sparse(), name=f"sparse {op}", op=op)() for op in (hvd.Sum, hvd.Average)]
    return [[result.is_sparse, list(result.shape), result] for result in results]


def case_sparse_allreduce_max() -> Any:
    return hvd.sparse_allreduce_async(sparse(), name="sparse max", op=hvd.Max)()


# ---- allgather ----------------------------------------------------------------------------------


def case_allgather() -> Any:
    return hvd.allgather(own((2, 2)), name="gather")


def case_allgather_types() -> Any:
    return [hvd.allgather(own(dtype=dtype), name=f"gather {dtype}") for dtype in MOVED]


def case_allgather_bool() -> Any:
    return hvd.allgather(torch.tensor([hvd.rank() == 0, True]), name="gather bool")


def case_allgather_uneven() -> Any:
    return hvd.allgather(own((hvd.rank() + 1, 2)), name="gather uneven")


def case_allgather_of_none() -> Any:
    return hvd.allgather(own((hvd.rank(), 2)), name="gather some")


def case_allgather_in_background() -> Any:
    return hvd.synchronize(hvd.allgather_async(own(), name="gather in background"))


def case_grouped_allgather() -> Any:
    results = hvd.grouped_allgather([own((hvd.rank() + 1,)), own((2, 2))], name="gather group")
    return list(results)


def case_grouped_allgather_in_background() -> Any:
    return list(hvd.synchronize(hvd.grouped_allgather_async([own(), own((1, 2))], name="gather group in background")))


# ---- broadcast ----------------------------------------------------------------------------------


def case_broadcast() -> Any:
    tensor = own()
    return [[hvd.broadcast(tensor, root, name=f"broadcast {root}") for root in range(hvd.size())], tensor]


def case_broadcast_types() -> Any:
    return [hvd.broadcast(own(dtype=dtype), hvd.size() - 1, name=f"broadcast {dtype}") for dtype in MOVED]


def case_broadcast_bool() -> Any:
    return hvd.broadcast(torch.tensor([hvd.rank() == 0, True]), 0, name="broadcast bool")


def case_broadcast_in_place() -> Any:
    tensor = own((2, 2))
    return [hvd.broadcast_(tensor, hvd.size() - 1, name="broadcast in place") is tensor, tensor]


def case_broadcast_in_background() -> Any:
    tensor = own()
    result = hvd.synchronize(hvd.broadcast_async(tensor, 0, name="broadcast in background"))
    hvd.synchronize(hvd.broadcast_async_(tensor, hvd.size() - 1, name="broadcast in background, in place"))
    return [result, tensor]


# ---- alltoall -----------------------------------------------------------------------------------


def uneven_splits() -> list[int]:
    """Rank r sends r + place rows to each place."""
    return [hvd.rank() + place for place in range(hvd.size())]


def case_alltoall() -> Any:
    return hvd.alltoall(own((2 * hvd.size(), 2)), name="exchange")


def case_alltoall_types() -> Any:
    return [hvd.alltoall(own((hvd.size(),), dtype), name=f"exchange {dtype}") for dtype in MOVED]


def case_alltoall_splits() -> Any:
    splits = uneven_splits()
    return [list(hvd.alltoall(own((sum(splits), 2)), given, name=f"exchange splits {index}"))
            for index, given in enumerate((splits, torch.tensor(splits, dtype=torch.int32)))]


def case_alltoall_in_background() -> Any:
    splits = uneven_splits()
    with_splits = hvd.synchronize(hvd.alltoall_async(own((sum(splits),)), splits, name="exchange in background"))
    without = hvd.synchronize(hvd.alltoall_async(own((hvd.size(),)), name="exchange evenly in background"))
    return [list(with_splits), list(without)]


# ---- reducescatter ------------------------------------------------------------------------------


def case_reducescatter() -> Any:
    return hvd.reducescatter(own((2 * hvd.size(), 2)), name="share")


def case_reducescatter_sum_uneven() -> Any:
    return hvd.reducescatter(own((2 * hvd.size() + 1,)), name="uneven share", op=hvd.Sum)


def case_reducescatter_fewer_rows_than_ranks() -> Any:
    return hvd.reducescatter(own((1, 2)), name="small share", op=hvd.Sum)


def case_reducescatter_types() -> Any:
    return [hvd.reducescatter(own((hvd.size(),), dtype), name=f"share {dtype}", op=hvd.Sum)
            for dtype in REDUCED]


def case_reducescatter_small_integers() -> Any:
    return [hvd.reducescatter(own((hvd.size(),), dtype), name=f"share {dtype}", op=hvd.Sum)
            for dtype in SMALL_INTEGERS]


def case_reducescatter_factors() -> Any:
    return hvd.reducescatter(own((hvd.size(),)), name="share's factors", op=hvd.Sum, prescale_factor=0.5,
                             postscale_factor=3.0, compression=hvd.Compression.fp16)


def case_reducescatter_max() -> Any:
    return hvd.reducescatter(own((hvd.size(),)), name="share of max", op=hvd.Max)


def case_reducescatter_in_background() -> Any:
    return hvd.synchronize(hvd.reducescatter_async(own((hvd.size(),)), name="share in background", op=hvd.Sum))


def case_grouped_reducescatter() -> Any:
    tensors = [own((hvd.size(),)), own((hvd.size() + 1, 2))]
    waited = hvd.grouped_reducescatter(tensors, name="shares", op=hvd.Sum)
    handle = hvd.grouped_reducescatter_async(tensors, name="shares in background")
    return [list(waited), list(hvd.synchronize(handle))]


# ---- gradients ----------------------------------------------------------------------------------


def case_gradient_of_allreduce() -> Any:
    return [gradient(lambda x, op=op: hvd.allreduce(x, op=op)) for op in (hvd.Average, hvd.Sum)]


def case_gradient_of_allreduce_with_factors() -> Any:
    return gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0))


def case_gradient_of_compressed_allreduce() -> Any:
    return gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16))


def case_gradient_of_grouped_allreduce() -> Any:
    return gradients(lambda tensors: hvd.grouped_allreduce(tensors, op=hvd.Sum), (3,), (2, 2))


def case_gradient_of_allgather() -> Any:
    return gradient(hvd.allgather, (hvd.rank() + 1, 2))


def case_gradient_of_grouped_allgather() -> Any:
    return gradients(hvd.grouped_allgather, (2,), (1, 2))


def case_gradient_of_grouped_allgather_uneven() -> Any:
    return gradients(hvd.grouped_allgather, (hvd.rank() + 1,), (1, 2))


def case_gradient_of_broadcast() -> Any:
    return [gradient(lambda x, root=root: hvd.broadcast(x, root)) for root in (0, hvd.size() - 1)]


def case_gradient_of_alltoall() -> Any:
    splits = uneven_splits()
    return gradient(lambda x: hvd.alltoall(x, splits)[0], (sum(splits), 2))


def case_gradient_of_alltoall_without_splits() -> Any:
    return gradient(hvd.alltoall, (2 * hvd.size(),))


def case_gradient_of_reducescatter() -> Any:
    return [gradient(lambda x, op=op: hvd.reducescatter(x, op=op), (hvd.size() + 1, 2))
            for op in (hvd.Average, hvd.Sum)]


def case_gradient_of_reducescatter_with_factors() -> Any:
    return gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
                    (hvd.size(),))


def case_gradient_of_grouped_reducescatter() -> Any:
    return gradients(lambda tensors: hvd.grouped_reducescatter(tensors, op=hvd.Sum), (hvd.size(),), (hvd.size(), 2))


def case_gradient_of_max() -> Any:
    return gradient(lambda x: hvd.allreduce(x, op=hvd.Max))


def case_gradient_twice() -> Any:
    tensor = own().requires_grad_()
    [first] = torch.autograd.grad(hvd.allreduce(tensor, op=hvd.Sum).pow(3).sum(), tensor, create_graph=True)
    return torch.autograd.grad((first * weights(first)).sum(), tensor)


# ---- process sets -------------------------------------------------------------------------------


def case_sets() -> Any:
    some = my_set()
    return [some.included(), some.rank(), some.size(), some.ranks]


def case_set_of_others() -> Any:
    return [FIRST.ranks, FIRST.included(), OTHERS.ranks, OTHERS.included()] if hvd.size() > 1 else "none"


def case_global_set() -> Any:
    everyone = hvd.global_process_set
    return [everyone.process_set_id, everyone.included(), everyone.rank(), everyone.size(), everyone.ranks]


def case_reductions_on_sets() -> Any:
    some = my_set()
    tensor = own((some.size() + 1,))
    return [hvd.allreduce(tensor, name="set: allreduce", process_set=some),
            hvd.allreduce_(own(), name="set: in place", op=hvd.Sum, process_set=some),
            hvd.grouped_allreduce([tensor, own()], name="set: group", op=hvd.Sum, process_set=some),
            hvd.reducescatter(tensor, name="set: share", op=hvd.Sum, process_set=some),
            list(hvd.grouped_reducescatter([tensor], name="set: shares", process_set=some)),
            hvd.sparse_allreduce_async(sparse(), name="set: sparse", op=hvd.Average, process_set=some)()]


def case_rows_on_sets() -> Any:
    some = my_set()
    splits = [hvd.rank() + 1] * some.size()
    return [hvd.allgather(own((hvd.rank() + 1,)), name="set: gather", process_set=some),
            list(hvd.grouped_allgather([own()], name="set: gathers", process_set=some)),
            hvd.alltoall(own((some.size(),)), name="set: exchange", process_set=some),
            list(hvd.alltoall(own((sum(splits),)), splits, name="set: exchange splits", process_set=some))]


def case_broadcasts_on_sets() -> Any:
    some = my_set()
    root = some.ranks[-1]
    return [hvd.broadcast(own(), root, name="set: broadcast", process_set=some),
            hvd.broadcast_(own(), root, name="set: broadcast in place", process_set=some),
            hvd.broadcast_object({"rank": hvd.rank()}, root, name="set: object", process_set=some)]


def case_gradients_on_sets() -> Any:
    some = my_set()
    return [gradient(lambda x: hvd.allreduce(x, name="set: forward", process_set=some)),
            gradient(lambda x: hvd.allgather(x, process_set=some), (hvd.rank() + 1,)),
            gradient(lambda x: hvd.broadcast(x, some.ranks[0], process_set=some)),
            gradient(lambda x: hvd.alltoall(x, process_set=some), (some.size(),)),
            gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum, process_set=some), (some.size(),))]


def case_barriers() -> Any:
    return [hvd.barrier(), hvd.barrier(process_set=my_set())]


def case_set_added_and_removed() -> Any:
    if hvd.size() < 3:
        return "all sets are there already"
    some = hvd.add_process_set([hvd.size() - 1, 0])
    before = [some.ranks, some.process_set_id is not None]
    return [before, hvd.remove_process_set(some), some.process_set_id, hvd.remove_process_set(some)]


def case_global_set_is_not_removed() -> Any:
    return hvd.remove_process_set(hvd.global_process_set)


def case_set_with_the_ranks_of_another() -> Any:
    some = hvd.add_process_set(list(range(hvd.size())))
    hvd.remove_process_set(some)
    return "added"


def case_set_of_what_is_no_rank() -> Any:
    return hvd.ProcessSet(["one"])


def case_set_that_is_not_known() -> Any:
    some = hvd.ProcessSet([0])
    return [some.process_set_id, some.rank(), some.size(), some.included()]


def case_allreduce_on_a_set_that_is_not_known() -> Any:
    return hvd.allreduce(own(), name="unknown set", process_set=hvd.ProcessSet([0]))


# ---- parameters, state and objects --------------------------------------------------------------


def a_model() -> torch.nn.Module:
    """Returns a model whose weights differ between ranks."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.shape)
                            * (index + 1 + hvd.rank()))
    return model


def a_common_model() -> torch.nn.Module:
    model = a_model()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model


def weights_of(model: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.detach() for parameter in model.parameters()]


def case_broadcast_parameters() -> Any:
    found = []
    for root in (0, hvd.size() - 1):
        model = a_model()
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        found.append(weights_of(model))
    return found


def case_broadcast_named_parameters() -> Any:
    model = a_model()
    hvd.broadcast_parameters(list(model.named_parameters()), root_rank=0)
    return weights_of(model)


def case_broadcast_parameters_of_something_else() -> Any:
    return hvd.broadcast_parameters(torch.ones(2), root_rank=0)


OPTIMIZERS = {
    "SGD": lambda parameters, factor: torch.optim.SGD(parameters, lr=0.1 * factor, momentum=0.5 + 0.1 * factor),
    "Adam": lambda parameters, factor: torch.optim.Adam(parameters, lr=0.1 * factor, betas=(0.8, 0.9)),
    "Adagrad": lambda parameters, factor: torch.optim.Adagrad(parameters, lr=0.1 * factor),
}


def steps_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2, passes: int = 1) -> None:
    """Trains for some steps; each rank has its own inputs."""
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(passes):
            inputs = torch.linspace(-1, 1, 8).reshape(4, 2) * (hvd.rank() + 1) + 0.25 * step + part
            (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()


def case_broadcast_optimizer_state() -> Any:
    found = []
    for make in OPTIMIZERS.values():
        model = a_model()
        optimizer = make(model.parameters(), hvd.rank() + 1)
        steps_of(model, optimizer)
        hvd.broadcast_optimizer_state(optimizer, root_rank=hvd.size() - 1)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer.zero_grad()
        sum(parameter.sum() for parameter in model.parameters()).backward()
        optimizer.step()
        found.append([optimizer.param_groups[0]["lr"], weights_of(model)])
    return found


def case_broadcast_optimizer_state_of_lbfgs() -> Any:
    return hvd.broadcast_optimizer_state(torch.optim.LBFGS(a_model().parameters()), root_rank=0)


def case_broadcast_object() -> Any:
    mine = {"rank": hvd.rank(), "list": [1.5, "two", None]}
    return [hvd.broadcast_object(mine, root, name=f"object {root}") for root in range(hvd.size())]


def case_allgather_object() -> Any:
    return hvd.allgather_object({"rank": hvd.rank(), "text": "x" * hvd.rank()}, name="objects")


# ---- DistributedOptimizer -----------------------------------------------------------------------


def trained(passes: int = 1, **options: Any) -> list[torch.Tensor]:
    """Returns the weights after some steps."""
    model = a_common_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                                         named_parameters=model.named_parameters(), backward_passes_per_step=passes,
                                         **options)
    steps_of(model, optimizer, passes=passes)
    return weights_of(model)


def case_optimizer() -> Any:
    return trained()


def case_optimizer_sum() -> Any:
    return trained(op=hvd.Sum)


def case_optimizer_compression() -> Any:
    return [[round(number, 2) for number in tensor.flatten().tolist()]
            for tensor in trained(compression=hvd.Compression.fp16)]


def case_optimizer_backward_passes() -> Any:
    return trained(passes=3)


def case_optimizer_predivide() -> Any:
    return trained(gradient_predivide_factor=2.0)


def case_optimizer_groups() -> Any:
    return trained(groups=2)


def case_optimizer_groups_of_parameters() -> Any:
    model = a_common_model()
    parameters = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(parameters, lr=0.1), model.named_parameters(),
                                         groups=[parameters[:2], parameters[2:3]])
    steps_of(model, optimizer)
    return weights_of(model)


def case_optimizer_on_sets() -> Any:
    return trained(process_set=my_set())


def case_optimizer_without_names() -> Any:
    model = a_common_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05))
    steps_of(model, optimizer)
    return [isinstance(optimizer, torch.optim.SGD), weights_of(model)]


def an_optimizer(**options: Any) -> tuple[torch.nn.Module, Any]:
    model = a_common_model()
    return model, hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters(),
                                           **options)


def case_optimizer_clipped() -> Any:
    model, optimizer = an_optimizer()
    model(own((2, 2))).sum().backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
    return weights_of(model)


def case_optimizer_set_backward_passes() -> Any:
    model, optimizer = an_optimizer()
    optimizer.set_backward_passes_per_step(2)
    steps_of(model, optimizer, passes=2)
    return weights_of(model)


def case_optimizer_unused_parameter() -> Any:
    model = a_common_model()
    unused = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*model.parameters(), unused], lr=0.1),
                                         [*model.named_parameters(), ("unused", unused)])
    loss = model(own((2, 2))).sum()
    if hvd.rank() == 0:
        loss = loss + unused.sum()
    loss.backward()
    optimizer.step()
    return [weights_of(model), unused.detach(), unused.grad]


def embedding(sparse_as_dense: bool) -> Any:
    table = torch.nn.Embedding(4, 2, sparse=True)
    with torch.no_grad():
        table.weight.copy_(torch.arange(8.0).reshape(4, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.5), table.named_parameters(),
                                         sparse_as_dense=sparse_as_dense)
    for _ in range(2):
        optimizer.zero_grad()
        table(torch.tensor([hvd.rank() % 4, 3])).pow(2).sum().backward()
        optimizer.step()
    return table.weight.detach()


def case_optimizer_sparse() -> Any:
    return embedding(False)


def case_optimizer_sparse_as_dense() -> Any:
    return embedding(True)


def case_optimizer_zero_grad_too_early() -> Any:
    model, optimizer = an_optimizer()
    model(own((2, 2))).sum().backward()
    try:
        return optimizer.zero_grad()
    finally:
        optimizer.step()


def case_optimizer_backward_too_often() -> Any:
    model, optimizer = an_optimizer()
    model(own((2, 2))).sum().backward()
    try:
        return model(own((2, 2))).sum().backward()
    finally:
        optimizer.step()


def case_optimizer_names_twice() -> Any:
    model = a_model()
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                    [("same", parameter) for parameter in model.parameters()])


def case_optimizer_names_missing() -> Any:
    model = a_model()
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), list(model.named_parameters())[1:])


def case_optimizer_names_that_are_none() -> Any:
    model = a_model()
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), list(model.parameters()))


def case_optimizer_predivide_of_sum() -> Any:
    return an_optimizer(op=hvd.Sum, gradient_predivide_factor=2.0)


def case_optimizer_no_passes() -> Any:
    return an_optimizer(backward_passes_per_step=0)


def case_optimizer_no_groups() -> Any:
    return an_optimizer(groups=0)


def case_optimizer_groups_of_no_tensors() -> Any:
    return an_optimizer(groups=[["weight"]])


def case_optimizer_parameter_in_two_groups() -> Any:
    parameter = torch.nn.Parameter(torch.ones(2))
    return hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), [("parameter", parameter)],
                                    groups=[[parameter], [parameter]])


def case_sync_batch_norm() -> Any:
    layer = hvd.SyncBatchNorm(2, momentum=0.5)
    inputs = own((3, 2)).requires_grad_()
    result = layer(inputs)
    (result * weights(result)).sum().backward()
    return [result, inputs.grad, layer.running_mean, layer.running_var]


# ---- errors -------------------------------------------------------------------------------------


def case_type_that_there_is_not() -> Any:
    return hvd.allreduce(torch.ones(2, dtype=torch.complex64), name="complex")


def case_mismatch_of_shapes() -> Any:
    return hvd.allreduce(torch.ones(hvd.rank() + 1), name="other shape")


def case_mismatch_of_dimensions() -> Any:
    return hvd.allreduce(torch.ones((2, 3) if hvd.rank() else 6), name="other dimensions")


def case_mismatch_of_types() -> Any:
    return hvd.allreduce(own(dtype=FLOATS[1 + hvd.rank() % 2]), name="other type")


def case_mismatch_of_operations() -> Any:
    return hvd.allreduce(own(), name="other op", op=hvd.Max if hvd.rank() else hvd.Min)


def case_mismatch_of_factors() -> Any:
    return hvd.allreduce(own(), name="other factor", op=hvd.Sum, prescale_factor=1.0 + hvd.rank())


def case_mismatch_of_roots() -> Any:
    return hvd.broadcast(own(), hvd.rank(), name="other root")


def case_mismatch_of_broadcast_shapes() -> Any:
    return hvd.broadcast(torch.ones(hvd.rank() + 1), 0, name="broadcast of other shape")


def case_mismatch_of_rows() -> Any:
    return hvd.allgather(torch.ones(2, hvd.rank() + 1), name="other rows")


def case_mismatch_of_gathered_types() -> Any:
    return hvd.allgather(own(dtype=FLOATS[1 + hvd.rank() % 2]), name="gather other type")


def case_mismatch_of_reducescatter_shapes() -> Any:
    return hvd.reducescatter(torch.ones(hvd.size() + hvd.rank()), name="share other shape")


def case_mismatch_of_alltoall_types() -> Any:
    return hvd.alltoall(own((hvd.size(),), FLOATS[1 + hvd.rank() % 2]), name="exchange other type")


def case_mismatch_of_a_group() -> Any:
    return hvd.grouped_allreduce([own(), torch.ones(hvd.rank() + 1)], name="other group")


def case_next_call_works() -> Any:
    return hvd.allreduce(own(), name="next", op=hvd.Sum)


def case_root_that_there_is_not() -> Any:
    return hvd.broadcast(own(), hvd.size(), name="no root")


def case_allgather_without_dimensions() -> Any:
    return hvd.allgather(torch.tensor(1.0), name="no rows")


def case_alltoall_splits_too_many() -> Any:
    return hvd.alltoall(own((hvd.size() + 1,)), [1] * (hvd.size() + 1), name="splits too many")


def case_alltoall_splits_beyond_the_rows() -> Any:
    return hvd.alltoall(own((hvd.size(),)), [2] * hvd.size(), name="splits beyond")


def case_alltoall_rows_that_do_not_divide() -> Any:
    return hvd.alltoall(own((2 * hvd.size() + 1,)), name="rows that do not divide")


def case_alltoall_splits_of_fewer_rows() -> Any:
    return list(hvd.alltoall(own((hvd.size() + 2,)), [1] * hvd.size(), name="splits of fewer rows"))


def case_alltoall_splits_of_floats() -> Any:
    return hvd.alltoall(own((hvd.size(),)), torch.ones(hvd.size()), name="splits of floats")


def case_alltoall_splits_of_long_integers() -> Any:
    splits = torch.ones(hvd.size(), dtype=torch.int64)
    return list(hvd.alltoall(own((hvd.size(),)), splits, name="splits of long integers"))


def case_reducescatter_without_dimensions() -> Any:
    return hvd.reducescatter(torch.tensor(1.0), name="no share")


def case_no_tensor() -> Any:
    return hvd.grouped_allreduce([], name="no tensors")


def case_name_in_flight() -> Any:
    """Rank 0 makes its second call before the others have made the first."""
    if hvd.size() == 1:
        return "nothing stays in flight"
    handles = [hvd.allreduce_async(own(), name="twice", op=hvd.Sum)] if hvd.rank() == 0 else []
    try:
        if hvd.rank() == 0:
            hvd.synchronize(hvd.allreduce_async(own(), name="twice", op=hvd.Sum))
        return "one call"
    finally:
        hvd.barrier()
        if hvd.rank() > 0:
            hvd.synchronize(hvd.allreduce_async(own(), name="twice", op=hvd.Sum))
        for handle in handles:
            hvd.synchronize(handle)


# ---- the end ------------------------------------------------------------------------------------


def case_join() -> Any:
    """Rank r has r + 1 batches, so the last rank has the last batch alone."""
    sums = [hvd.allreduce(own(), name=f"batch {batch}", op=hvd.Sum) for batch in range(hvd.rank() + 1)]
    return [sums, hvd.join()]


def case_average_with_joined_ranks() -> Any:
    averages = [hvd.allreduce(own(), name=f"average batch {batch}") for batch in range(hvd.rank() + 1)]
    return [averages, hvd.join()]


def case_shutdown() -> Any:
    hvd.shutdown()
    return hvd.is_initialized()


def case_allreduce_after_shutdown() -> Any:
    return hvd.allreduce(own(), name="too late")


def case_rank_after_shutdown() -> Any:
    return hvd.rank()


def main() -> None:
    folder = Path(sys.argv[1])
    cases = [(name, case) for name, case in globals().items() if name.startswith("case_")]
    with open(folder / f"rank{hvd.rank()}", "w", buffering=1) as lines:
        for name, case in cases:
            lines.write(f"{name.replace('case_', '', 1)}: {line_of(case)}\n")


hvd.init(process_sets="dynamic")
if hvd.size() > 1:
    FIRST = hvd.add_process_set([0])
    OTHERS = hvd.add_process_set(range(1, hvd.size()))
main()
