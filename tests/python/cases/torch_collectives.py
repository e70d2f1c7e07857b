"""hvd.torch: results of each collective for every type and layout of tensors."""

from __future__ import annotations

import inspect
import os
import tempfile
import warnings

import torch

import hvd.torch as hvd
from _expect import raises

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS]
if hasattr(torch, "uint16"):
    TYPES.append(torch.uint16)
OPS = {
    "Average": lambda tensors: tensors.mean(0),
    "Sum": lambda tensors: tensors.sum(0),
    "Min": lambda tensors: tensors.amin(0),
    "Max": lambda tensors: tensors.amax(0),
    "Product": lambda tensors: tensors.prod(0),
}


def of_rank(rank: int, shape: tuple[int, ...], kind: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns a tensor that differs between ranks, whose sums and products are exact in all types."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) % 4).reshape(shape) + rank).to(kind)


def mine(shape: tuple[int, ...], kind: torch.dtype = torch.float32) -> torch.Tensor:
    return of_rank(hvd.rank(), shape, kind)


def of_all(shape: tuple[int, ...]) -> torch.Tensor:
    """Returns the tensors of all ranks, stacked, in float64."""
    return torch.stack([of_rank(rank, shape, torch.float64) for rank in range(hvd.size())])


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.shape == expected.shape, f"shape {list(got.shape)}, expected {list(expected.shape)}"
    assert torch.allclose(got.double(), expected.double()), f"{got}, expected {expected}"


def case_rank_size_and_host_are_right() -> None:
    assert hvd.is_initialized() and 0 <= hvd.rank() < hvd.size()
    assert hvd.local_rank() == hvd.rank() and hvd.local_size() == hvd.size(), "not all ranks are on one host"
    assert hvd.cross_rank() == 0 and hvd.cross_size() == 1 and hvd.is_homogeneous()
    hvd.init()
    assert hvd.is_initialized(), "a second init() has ended the session"


def case_the_built_functions_answer_as_in_horovod() -> None:
    assert hvd.gloo_built() and hvd.gloo_enabled() != hvd.mpi_enabled(), "programs assert that Gloo or MPI is available"
    assert not (hvd.ddl_built() or hvd.ccl_built() or hvd.rocm_built())
    assert not hvd.mpi_enabled() and isinstance(hvd.mpi_built(), bool)
    assert isinstance(hvd.nccl_built(), int) and isinstance(hvd.cuda_built(), bool)
    with raises(ValueError, "MPI"):
        hvd.mpi_threads_supported()


FACTORS = "op prescale_factor postscale_factor process_set"
SIGNATURES = {
    "allreduce": f"tensor average name compression {FACTORS}",
    "allreduce_": f"tensor average name {FACTORS}",
    "allreduce_async allreduce_async_": f"tensor average name {FACTORS} compression",
    "grouped_allreduce": f"tensors average name compression {FACTORS}",
    "grouped_allreduce_": f"tensors average name {FACTORS}",
    "grouped_allreduce_async grouped_allreduce_async_": f"tensors average name {FACTORS} compression",
    "sparse_allreduce_async": "tensor name op process_set",
    "allgather allgather_async": "tensor name process_set",
    "grouped_allgather grouped_allgather_async": "tensors name process_set",
    "broadcast broadcast_ broadcast_async broadcast_async_": "tensor root_rank name process_set",
    "alltoall alltoall_async": "tensor splits name process_set",
    "reducescatter": "tensor name compression op process_set prescale_factor postscale_factor",
    "reducescatter_async": "tensor name op process_set prescale_factor postscale_factor",
    "grouped_reducescatter": "tensors name compression op process_set prescale_factor postscale_factor",
    "grouped_reducescatter_async": "tensors name op process_set prescale_factor postscale_factor",
    "poll synchronize": "handle",
    "join": "device",
    "barrier": "process_set",
    "start_timeline": "file_path mark_cycles",
    "init": "comm process_sets",
    "broadcast_object": "obj root_rank name process_set",
    "allgather_object": "obj name process_set",
}


def case_arguments_have_horovods_names_and_order() -> None:
    for names, expected in SIGNATURES.items():
        for name in names.split():
            got = " ".join(inspect.signature(getattr(hvd, name)).parameters)
            assert got == expected, f"{name}({got}), expected {expected}"


def case_allreduce_works_with_every_type() -> None:
    for kind in TYPES:
        tensor = mine((3, 4), kind)
        got = hvd.allreduce(tensor, op=hvd.Sum, name=f"sum {kind}")
        assert got.dtype == kind
        same(got, of_all((3, 4)).sum(0))
        same(tensor, mine((3, 4), kind))
        assert hvd.allreduce_(tensor, op=hvd.Sum, name=f"sum {kind}") is tensor
        same(tensor, of_all((3, 4)).sum(0))


def case_allreduce_works_with_every_reduction() -> None:
    for name, expected in OPS.items():
        for kind in FLOATS[2:]:
            same(hvd.allreduce(mine((6,), kind), op=getattr(hvd, name)), expected(of_all((6,))).to(kind))
    same(hvd.allreduce(mine((6,))), of_all((6,)).mean(0).float())


def case_average_of_integers_is_truncated() -> None:
    same(hvd.allreduce(mine((5,), torch.int32), op=hvd.Average), of_all((5,)).mean(0).trunc())


def case_reductions_of_bool_are_or_and_and() -> None:
    own = torch.tensor([hvd.rank() == 0, True, False])
    assert hvd.allreduce(own, op=hvd.Sum).tolist() == [True, True, False]
    assert hvd.allreduce(own, op=hvd.Min).tolist() == [hvd.size() == 1, True, False]
    assert hvd.broadcast(own, 0).tolist() == [True, True, False]


def case_the_argument_average_is_deprecated() -> None:
    for average, expected in ((True, of_all((3,)).mean(0)), (False, of_all((3,)).sum(0))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            same(hvd.allreduce(mine((3,)), average), expected.float())
            hvd.synchronize(hvd.allreduce_async(mine((3,)), average=average))
            hvd.allreduce_(mine((3,)), average=average)
            hvd.grouped_allreduce([mine((3,))], average=average)
        assert [warning.category for warning in caught] == [DeprecationWarning] * 4
        assert all(str(warning.message).startswith("Parameter `average` has been replaced") for warning in caught)
    with raises(ValueError, "average"):
        hvd.allreduce(mine((3,)), average=True, op=hvd.Sum)
    with raises(ValueError, "average"):
        hvd.grouped_allreduce_([mine((3,))], average=False, op=hvd.Sum)


def case_allreduce_multiplies_by_its_factors() -> None:
    got = hvd.allreduce(mine((3,)), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    same(got, 2 * of_all((3,)).sum(0))
    got = hvd.allreduce_(mine((3,), torch.float16), op=hvd.Average, prescale_factor=2.0)
    same(got, (2 * of_all((3,)).mean(0)).half())
    assert not hvd.allreduce(mine((3,)) + 1, op=hvd.Sum, postscale_factor=0.0).any(), "the factor 0 was ignored"
    got = hvd.allreduce(torch.tensor([3, -3]), op=hvd.Sum, prescale_factor=0.5, postscale_factor=1.5)
    assert got.tolist() == [int(1.5 * hvd.size()), int(-1.5 * hvd.size())], "integers are not truncated after each factor"


def case_named_calls_in_different_orders_on_ranks_match() -> None:
    names = [f"tensor {number}" for number in range(20)]
    handles = {name: hvd.allreduce_async(torch.full((3,), float(index)), name=name, op=hvd.Sum)
               for index, name in sorted(enumerate(names), reverse=hvd.rank() % 2 == 1)}
    for index, name in enumerate(names):
        assert hvd.synchronize(handles[name]).tolist() == [index * hvd.size()] * 3
        assert hvd.poll(handles[name])
        assert hvd.synchronize(handles[name]).tolist() == [index * hvd.size()] * 3, "a second synchronize() gave another result"


def case_async_allreduce_in_place_writes_its_tensor() -> None:
    tensors = [mine((4,)) for _ in range(3)]
    handles = [hvd.allreduce_async_(tensor, name=f"place {index}", op=hvd.Sum) for index, tensor in enumerate(tensors)]
    for handle, tensor in zip(handles, tensors):
        assert hvd.synchronize(handle) is tensor
        same(tensor, of_all((4,)).sum(0))


def case_collectives_work_with_scalars_and_empty_tensors() -> None:
    scalar = hvd.allreduce(torch.tensor(2.0))
    assert scalar.shape == () and scalar.item() == 2.0
    assert hvd.broadcast_(torch.tensor(hvd.rank()), hvd.size() - 1).item() == hvd.size() - 1
    assert hvd.allreduce(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allreduce_(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.broadcast(torch.empty(2, 0), 0).shape == (2, 0)
    assert hvd.reducescatter(torch.empty(0, 3)).shape == (0, 3)


def case_allgather_works_with_empty_tensors() -> None:
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)
    assert hvd.allgather(torch.empty(2, 0)).shape == (2 * hvd.size(), 0)
    output, received = hvd.alltoall(torch.empty(0, 3), [0] * hvd.size())
    assert output.shape == (0, 3) and received.tolist() == [0] * hvd.size()


def case_allreduce_works_with_noncontiguous_tensors() -> None:
    whole = torch.zeros(4, 6)
    view = whole[::2, ::3]
    view += hvd.rank() + 1
    total = sum(range(1, hvd.size() + 1))
    assert hvd.allreduce_(view, op=hvd.Sum) is view
    assert (whole[::2, ::3] == total).all() and whole.sum() == 4 * total, "elements outside of the view were written"
    turned = mine((3, 4)).t()
    same(hvd.allreduce(turned, op=hvd.Sum), of_all((3, 4)).sum(0).t())
    assert hvd.broadcast_(turned, 0) is turned
    same(turned, of_all((3, 4))[0].t())
    expanded = torch.tensor([1.0]).expand(4)
    same(hvd.allreduce(expanded, op=hvd.Sum), torch.full((4,), float(hvd.size())))
    negated = torch.tensor([1 + 2j]).conj().imag
    assert hvd.allreduce(negated, op=hvd.Sum).tolist() == [-2.0 * hvd.size()], "a lazily negated view was read wrongly"
    group = [mine((3, 4)).t(), mine((2,))]
    same(hvd.grouped_allreduce_(group, op=hvd.Sum)[0], of_all((3, 4)).sum(0).t())


def case_row_collectives_work_with_noncontiguous_tensors() -> None:
    turned = mine((3, 4)).t()
    same(hvd.allgather(turned), torch.cat([part.t() for part in of_all((3, 4))]))
    own = torch.arange(2 * hvd.size() * 2).reshape(2, -1).t()
    same(hvd.alltoall(own), torch.cat([own[2 * hvd.rank() : 2 * hvd.rank() + 2]] * hvd.size()))


def case_grouped_allreduce_works() -> None:
    shapes = [(2,), (3, 3), (), (0, 2)]
    tensors = [mine(shape) for shape in shapes]
    for got in (hvd.grouped_allreduce(tensors, op=hvd.Sum), hvd.grouped_allreduce_(tensors, op=hvd.Sum, name="group")):
        assert isinstance(got, list)
        for result, shape in zip(got, shapes):
            same(result, of_all(shape).sum(0))
    for tensor, shape in zip(tensors, shapes):
        same(tensor, of_all(shape).sum(0))
    assert hvd.grouped_allreduce([]) == []


def case_grouped_allreduce_works_with_several_types() -> None:
    kinds = [torch.float32, torch.int64, torch.bfloat16, torch.float32]
    tensors = [mine((index + 1,), kind) for index, kind in enumerate(kinds)]
    handle = hvd.grouped_allreduce_async(tensors, name="types", op=hvd.Sum)
    for index, got in enumerate(hvd.synchronize(handle)):
        assert got.dtype == kinds[index]
        same(got, of_all((index + 1,)).sum(0))
    assert hvd.poll(handle)
    handle = hvd.grouped_allreduce_async_(tensors, name="types", op=hvd.Sum)
    for got, tensor in zip(hvd.synchronize(handle), tensors):
        assert got is tensor


def case_broadcast_works_from_each_root() -> None:
    for root in range(hvd.size()):
        own = mine((2, 2))
        same(hvd.broadcast(own, root), of_all((2, 2))[root])
        same(hvd.synchronize(hvd.broadcast_async(own, root, name="copy")), of_all((2, 2))[root])
        same(own, mine((2, 2)))
        assert hvd.synchronize(hvd.broadcast_async_(own, root, name="place")) is own
        same(own, of_all((2, 2))[root])
    parameter = torch.nn.Parameter(mine((3,)))
    hvd.broadcast_(parameter, 0)
    same(parameter.detach(), of_all((3,))[0])


def case_allgather_works_with_different_numbers_of_rows() -> None:
    for kind in TYPES:
        own = torch.full((hvd.rank() * 2, 3), hvd.rank(), dtype=kind)
        got = hvd.allgather(own, name=f"gather {kind}")
        assert got.dtype == kind
        same(got, torch.cat([torch.full((rank * 2, 3), rank) for rank in range(hvd.size())]))


def case_allgathers_can_be_awaited_in_opposite_orders() -> None:
    handles = [hvd.allgather_async(torch.full((hvd.rank() + 1,), index), name=f"gather {index}") for index in range(4)]
    for handle in handles if hvd.rank() % 2 == 0 else reversed(handles):
        assert len(hvd.synchronize(handle)) == sum(range(1, hvd.size() + 1))
        assert hvd.poll(handle)


def case_grouped_allgather_works() -> None:
    tensors = [torch.full((hvd.rank() + 1, 2), 1.0), torch.full((hvd.rank(),), 2)]
    rows = [sum(range(1, hvd.size() + 1)), sum(range(hvd.size()))]
    for got in (hvd.grouped_allgather(tensors), hvd.synchronize(hvd.grouped_allgather_async(tensors, name="group"))):
        assert isinstance(got, list) and [len(tensor) for tensor in got] == rows
        assert (got[0] == 1).all() and (got[1] == 2).all()


def case_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    own = torch.arange(size) + 10 * rank
    expected = [10 * other + rank for other in range(size)]
    assert hvd.alltoall(own).tolist() == expected
    output, received = hvd.synchronize(hvd.alltoall_async(own, name="even"))
    assert output.tolist() == expected and received.tolist() == [1] * size
    rows_for_rank = [to + 1 for to in range(size)]
    rows = torch.full((sum(rows_for_rank), 2), rank, dtype=torch.bfloat16)
    for splits in (rows_for_rank, torch.tensor(rows_for_rank, dtype=torch.int32), torch.tensor(rows_for_rank)):
        output, received = hvd.alltoall(rows, splits)
        assert received.tolist() == [rank + 1] * size and received.dtype == torch.int32
        assert output[:, 0].tolist() == [other for other in range(size) for _ in range(rank + 1)]
        assert output.dtype == torch.bfloat16


def case_reducescatter() -> None:
    rows = 2 * hvd.size() + 1
    begin = 2 * hvd.rank() + min(hvd.rank(), 1)
    end = begin + 2 + (hvd.rank() == 0)
    for name, expected in OPS.items():
        same(hvd.reducescatter(mine((rows, 2)), op=getattr(hvd, name)), expected(of_all((rows, 2)))[begin:end].float())
    same(hvd.reducescatter(mine((rows, 2))), of_all((rows, 2)).mean(0)[begin:end].float())
    handle = hvd.reducescatter_async(mine((rows,)), name="scaled", op=hvd.Sum, prescale_factor=2.0,
                                     postscale_factor=3.0)
    same(hvd.synchronize(handle), 6 * of_all((rows,)).sum(0)[begin:end])
    for tensors in (hvd.grouped_reducescatter([mine((rows,)), mine((rows, 2))], op=hvd.Sum),
                    hvd.synchronize(hvd.grouped_reducescatter_async([mine((rows,)), mine((rows, 2))], op=hvd.Sum))):
        assert isinstance(tensors, list)
        same(tensors[0], of_all((rows,)).sum(0)[begin:end])
        same(tensors[1], of_all((rows, 2)).sum(0)[begin:end])


def case_sparse_allreduce() -> None:
    rank, size = hvd.rank(), hvd.size()
    # One entry that all ranks have, and `rank` further ones.
    indices = torch.tensor([[0, *range(1, rank + 1)], [0] * (rank + 1)])
    own = torch.sparse_coo_tensor(indices, torch.full((rank + 1,), float(rank + 1)), (4, 2))
    dense = torch.stack([torch.tensor([[other + 1.0 if row <= other else 0.0, 0.0] for row in range(4)])
                         for other in range(size)])
    for op, expected in ((hvd.Sum, dense.sum(0)), (hvd.Average, dense.mean(0))):
        got = hvd.synchronize(hvd.sparse_allreduce_async(own, f"sparse {op}", op))
        assert got.is_sparse and got.shape == (4, 2)
        same(got.to_dense(), expected)
        same(hvd.sparse_allreduce_async(own, f"sparse {op}", op)().to_dense(), expected)
    nothing = torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (4, 2))
    got = hvd.synchronize(hvd.sparse_allreduce_async(own if rank == 0 else nothing, "some are empty", op=hvd.Sum))
    same(got.to_dense(), dense[0])


def case_barrier_and_join() -> None:
    hvd.barrier()
    for index in range(hvd.rank() + 1):
        got = hvd.allreduce(torch.ones(2), name=f"step {index}", op=hvd.Sum)
        assert got.tolist() == [hvd.size() - index] * 2, "joined ranks do not contribute zeros"
    assert hvd.join() == hvd.size() - 1
    for latest in range(hvd.size()):  # the last rank's join() returns once all others have joined
        if hvd.rank() == latest:
            hvd.allreduce(torch.ones(2), name="alone")
        assert hvd.join() == latest
    assert 0 <= hvd.join(device=0) < hvd.size()


def case_the_timeline_has_the_name_of_a_tensor() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "timeline.json")
        hvd.start_timeline(path)
        hvd.allreduce(torch.ones(3), name="a tensor on the timeline")
        hvd.stop_timeline()
        if hvd.rank() == 0:
            with open(path) as file:
                assert "a tensor on the timeline" in file.read()


def case_objects_are_broadcast_and_gathered() -> None:
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"rank": hvd.rank()}, root)["rank"] == root
    assert hvd.allgather_object("x" * hvd.rank()) == ["x" * rank for rank in range(hvd.size())]


class Halved:
    """A compressor of the program with the interface of hvd.Compression."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        return tensor.half(), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: torch.dtype) -> torch.Tensor:
        return tensor.to(context)


def case_allreduce_works_with_each_compression() -> None:
    got = hvd.allreduce(mine((3,)), compression=Halved, op=hvd.Sum)
    assert got.dtype == torch.float32
    same(got, of_all((3,)).sum(0))
    tensors = hvd.grouped_allreduce([mine((3,)), mine((2,), torch.float64)], compression=Halved, op=hvd.Sum)
    assert [tensor.dtype for tensor in tensors] == [torch.float32, torch.float64]
    rows = hvd.size()
    same(hvd.reducescatter(mine((rows,)), compression=Halved, op=hvd.Sum), of_all((rows,)).sum(0)[hvd.rank()][None])
    same(hvd.grouped_reducescatter([mine((rows,))], compression=Halved, op=hvd.Sum)[0],
         of_all((rows,)).sum(0)[hvd.rank()][None])


def case_several_threads_can_have_many_calls_in_flight() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def reduce(index: int) -> list[float]:
        return hvd.allreduce(torch.full((2,), float(index)), name=f"thread {index}", op=hvd.Sum).tolist()

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(reduce, range(12))) == [[index * hvd.size()] * 2 for index in range(12)]
