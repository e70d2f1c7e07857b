"""hvd.Adasum of hvd.torch and hvd.numpy agrees with a reference in float64."""

from __future__ import annotations

from typing import Any

import hvd.numpy as hvn
import hvd.torch as hvd
import numpy as np
import torch
from _adasum import adasum
from _expect import raises

FRAMEWORK = "torch"
SIZES = (1, 2, 4)


def of_rank(rank: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


def expected(shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    return adasum([of_rank(rank, shape).to(dtype).double().numpy() for rank in range(hvd.size())])


def case_adasum_agrees_with_the_reference() -> None:
    rounding = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
    for dtype, tolerance in rounding.items():
        for shape in ((1,), (3,), (7, 5), (300, 50)):
            own = of_rank(hvd.rank(), shape).to(dtype)
            got = hvd.allreduce(own, name=f"{dtype} {shape}", op=hvd.Adasum)
            np.testing.assert_allclose(got.double().numpy(), expected(shape, dtype), rtol=tolerance, atol=tolerance)


def case_each_tensor_of_a_group_is_reduced_separately() -> None:
    shapes = ((3,), (7, 5), (300, 50), (2,))
    own = [of_rank(hvd.rank(), shape) for shape in shapes]
    several = [hvd.allreduce_async(tensor, name=f"fused {i}", op=hvd.Adasum) for i, tensor in enumerate(own)]
    for results in (hvd.grouped_allreduce(own, name="group", op=hvd.Adasum), [hvd.synchronize(one) for one in several],
                    [torch.from_numpy(array) for array in
                     hvn.grouped_allreduce([tensor.numpy() for tensor in own], name="arrays", op=hvd.Adasum)]):
        for got, shape in zip(results, shapes):
            np.testing.assert_allclose(got.numpy(), expected(shape, torch.float64), rtol=1e-12)


def case_the_optimizer_reduces_the_change_of_a_step() -> None:
    def layer_and_optimizer() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(7)
        layer = torch.nn.Linear(4, 3, dtype=torch.float64)
        return layer, torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def backward(layer: torch.nn.Linear, rank: int) -> None:
        layer.zero_grad()
        layer(of_rank(rank, (6, 4))).square().sum().backward()

    layer, optimizer = layer_and_optimizer()
    optimizer = hvd.DistributedOptimizer(optimizer, layer.named_parameters(), op=hvd.Adasum)
    ranks = [layer_and_optimizer() for _ in range(hvd.size())]
    for _ in range(3):
        backward(layer, hvd.rank())
        optimizer.step()
        before = [parameter.detach().clone() for parameter in ranks[0][0].parameters()]
        for rank, (own, step) in enumerate(ranks):
            backward(own, rank)
            step.step()
        for index, old in enumerate(before):
            after = [list(own.parameters())[index] for own, _ in ranks]
            new = old + torch.from_numpy(adasum([(one.detach() - old).numpy() for one in after]))
            for one in after:
                one.data.copy_(new)
            np.testing.assert_allclose(list(layer.parameters())[index].detach().numpy(), new.numpy(), rtol=1e-9)
    with raises(AssertionError, "Adasum"):
        optimizer.skip_synchronize()
