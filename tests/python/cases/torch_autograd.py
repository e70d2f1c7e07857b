"""hvd.torch: gradients of each collective."""

from __future__ import annotations

from collections.abc import Callable

import torch

import hvd.torch as hvd
from _expect import raises


def leaf(*shape: int) -> torch.Tensor:
    return torch.ones(shape, requires_grad=True)


def weights(*shape: int) -> torch.Tensor:
    """Returns the weights of elements in this rank's loss: those of rank 0 times rank + 1."""
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) + 1.0) * (hvd.rank() + 1)


def total() -> int:
    """Returns the sum of the ranks' factors."""
    return sum(range(1, hvd.size() + 1))


def base(*shape: int) -> torch.Tensor:
    return weights(*shape) / (hvd.rank() + 1)


def gradient(function: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    output = function(tensor)
    assert output.requires_grad
    (output * weights(*output.shape)).sum().backward()
    assert tensor.grad is not None
    return tensor.grad


def same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.shape == expected.shape and torch.allclose(got, expected), f"{got}, expected {expected}"


def case_allreduce() -> None:
    same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), leaf(2, 3)), base(2, 3) * total())
    same(gradient(hvd.allreduce, leaf(2, 3)), base(2, 3) * total() / hvd.size())
    same(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25), leaf(3)),
         base(3) * total() / 2)
    same(gradient(lambda x: hvd.allreduce(x, average=False), leaf(3)), base(3) * total())


def case_gradients_pass_through_operations_before_the_collective() -> None:
    tensor = leaf(3)
    hvd.allreduce(tensor * tensor * 2, op=hvd.Sum).sum().backward()
    same(tensor.grad, torch.full((3,), 4.0 * hvd.size()))


def case_second_gradients_are_right() -> None:
    tensor = leaf(2)
    first, = torch.autograd.grad(hvd.allreduce(tensor ** 3, op=hvd.Sum).sum(), tensor, create_graph=True)
    second, = torch.autograd.grad(first.sum(), tensor)
    same(first.detach(), torch.full((2,), 3.0 * hvd.size()))
    same(second, torch.full((2,), 6.0 * hvd.size()))


def case_results_without_need_for_gradients_do_not_require_them() -> None:
    assert not hvd.allreduce(torch.ones(2)).requires_grad
    with torch.no_grad():
        assert not hvd.allreduce(leaf(2)).requires_grad
    assert not hvd.synchronize(hvd.allreduce_async(leaf(2))).requires_grad


def case_grouped_allreduce() -> None:
    first, second, whole = leaf(2), torch.ones(3, dtype=torch.float64, requires_grad=True), torch.ones(2).int()
    still = torch.ones(2)
    outputs = hvd.grouped_allreduce([first, second, whole, still], op=hvd.Sum)
    assert outputs[2].tolist() == [hvd.size()] * 2 and not outputs[2].requires_grad
    ((outputs[0] * weights(2)).sum() + (outputs[1] * weights(3)).sum()).backward()
    same(first.grad, base(2) * total())
    same(second.grad, base(3).double() * total())
    assert still.grad is None


def case_gradients_work_if_one_result_of_a_group_is_used() -> None:
    tensors = [leaf(2), leaf(3)]
    hvd.grouped_allreduce(tensors, op=hvd.Sum)[0].sum().backward()
    same(tensors[0].grad, torch.full((2,), float(hvd.size())))
    same(tensors[1].grad, torch.zeros(3))


def case_allgather() -> None:
    begin, count = sum(range(1, hvd.rank() + 1)), hvd.rank() + 1
    same(gradient(hvd.allgather, leaf(count, 2)), base(total(), 2)[begin : begin + count] * total() / hvd.size())


def case_grouped_allgather() -> None:
    begin, count = sum(range(1, hvd.rank() + 1)), hvd.rank() + 1
    tensors = [leaf(count), leaf(1, 2)]
    outputs = hvd.grouped_allgather(tensors)
    sum((output * weights(*output.shape)).sum() for output in outputs).backward()
    same(tensors[0].grad, base(total())[begin : begin + count] * total() / hvd.size())
    same(tensors[1].grad, base(hvd.size(), 2)[hvd.rank()][None] * total() / hvd.size())


def case_broadcast() -> None:
    for root in range(hvd.size()):
        expected = base(3) * total() / hvd.size() if hvd.rank() == root else torch.zeros(3)
        same(gradient(lambda x: hvd.broadcast(x, root), leaf(3)), expected)


def case_alltoall() -> None:
    same(gradient(hvd.alltoall, leaf(hvd.size())), torch.tensor([float((hvd.rank() + 1) * (to + 1))
                                                                 for to in range(hvd.size())]))
    rows_for_rank = [to + 1 for to in range(hvd.size())]
    tensor = leaf(sum(rows_for_rank), 2)
    output, received = hvd.alltoall(tensor, rows_for_rank)
    assert output.requires_grad and not received.requires_grad
    (output * (hvd.rank() + 1)).sum().backward()
    same(tensor.grad[:, 0], torch.tensor([to + 1.0 for to in range(hvd.size()) for _ in range(to + 1)]))


def case_reducescatter() -> None:
    rows = 2 * hvd.size() + 1
    shares = [2 + (rank == 0) for rank in range(hvd.size())]
    gathered = torch.cat([(torch.arange(share) + 1.0) * (rank + 1) for rank, share in enumerate(shares)])
    same(gradient(hvd.reducescatter, leaf(rows)), gathered)
    same(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum), leaf(rows)), gathered * hvd.size())
    same(gradient(lambda x: hvd.reducescatter(x, prescale_factor=2.0, postscale_factor=3.0), leaf(rows)), gathered * 6)
    tensors = [leaf(rows), leaf(hvd.size())]
    outputs = hvd.grouped_reducescatter(tensors, op=hvd.Sum)
    sum((output * weights(*output.shape)).sum() for output in outputs).backward()
    same(tensors[0].grad, gathered * hvd.size())
    same(tensors[1].grad, (torch.arange(hvd.size()) + 1.0) * hvd.size())


def case_backward_does_not_change_the_given_gradient() -> None:
    given = torch.ones(1)
    tensor = leaf(hvd.size())
    hvd.reducescatter(tensor, op=hvd.Sum).backward(given)
    same(given, torch.ones(1))


def case_gradients_of_min_max_and_product_are_errors() -> None:
    for op in (hvd.Min, hvd.Max, hvd.Product):
        output = hvd.allreduce(leaf(2), op=op)
        with raises(hvd.HorovodInternalError, "gradient"):
            output.sum().backward()


def case_collectives_in_place_of_a_leaf_need_no_grad() -> None:
    for call in (hvd.allreduce_, hvd.allreduce_async_, lambda x: hvd.grouped_allreduce_([x]),
                 lambda x: hvd.grouped_allreduce_async_([torch.ones(1), x])):
        with raises(RuntimeError, "leaf", "no_grad"):
            call(leaf(2))
    tensor = leaf(2)
    with torch.no_grad():
        hvd.allreduce_(tensor, op=hvd.Sum)
    assert tensor.tolist() == [hvd.size()] * 2 and tensor.requires_grad
    hvd.allreduce_(tensor.data, op=hvd.Sum)
    assert tensor.tolist() == [hvd.size() ** 2] * 2


def case_a_loss_on_gathered_outputs_gives_the_gradient_of_own_rows() -> None:
    """Contrastive learning has such a loss."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    batch = torch.randn(2 * hvd.size(), 3)
    own = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    hvd.allgather(layer(batch[own])).pow(2).sum().backward()
    gathered = hvd.allreduce(layer.weight.grad, op=hvd.Sum)
    layer.zero_grad()
    layer(batch).pow(2).sum().backward()
    assert torch.allclose(gathered, layer.weight.grad, rtol=1e-4), f"{gathered}, expected {layer.weight.grad}"
