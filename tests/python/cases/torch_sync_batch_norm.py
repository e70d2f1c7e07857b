"""hvd.torch.SyncBatchNorm equals torch's BatchNorm on the batches of all ranks together."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises

# Numbers of samples of the ranks: all different, one rank with a single sample, one without samples.
ROWS = ([2, 5, 3], [4, 1, 6], [3, 0, 2], [1, 2, 0])


def parts(shape: tuple[int, ...], rows: list[int], offset: float = 0.0,
          kind: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Returns each rank's batch of samples with the shape (C, ...)."""
    generator = torch.Generator().manual_seed(sum(rows))
    return [(torch.randn(count, *shape, generator=generator, dtype=torch.float64) + offset).to(kind)
            for count in rows[: hvd.size()]]


def compare(plain: nn.Module, shape: tuple[int, ...], steps: int = 3, offset: float = 0.0, tolerance: float = 1e-10,
            kind: torch.dtype = torch.float64, **options: Any) -> None:
    """Compares outputs, gradients and running statistics for some batches in training and one in eval()."""
    synchronized = hvd.SyncBatchNorm(shape[0], **options).to(kind)
    plain = plain.to(kind)
    if plain.affine:
        with torch.no_grad():
            for module in (plain, synchronized):
                module.weight.copy_(torch.linspace(0.5, 2, shape[0]))
                module.bias.copy_(torch.linspace(-1, 1, shape[0]))
    rank = hvd.rank()

    def close(got: torch.Tensor, expected: torch.Tensor, what: str) -> None:
        assert got.dtype == expected.dtype and got.shape == expected.shape, (what, got.dtype, got.shape)
        assert torch.allclose(got, expected, rtol=tolerance, atol=tolerance), \
            f"{what} differs by {(got - expected).abs().max().item()}"

    for step in range(steps + 1):
        if step == steps:
            plain.eval()
            synchronized.eval()
        batches = parts(shape, ROWS[step % len(ROWS)], offset, kind)
        own = batches[rank].clone().requires_grad_()
        whole = torch.cat(batches).requires_grad_()
        begin = sum(len(batch) for batch in batches[:rank])
        for module in (plain, synchronized):
            module.zero_grad()
        output, expected = synchronized(own), plain(whole)
        close(output, expected[begin : begin + len(own)], "output")
        weights = torch.sin(torch.arange(expected.numel(), dtype=torch.float64)).view(expected.shape).to(kind)
        (output * weights[begin : begin + len(own)]).sum().backward()
        (expected * weights).sum().backward()
        close(own.grad, whole.grad[begin : begin + len(own)], "gradient of the input")
        if plain.affine:
            for name in ("weight", "bias"):
                total = hvd.allreduce(getattr(synchronized, name).grad, op=hvd.Sum, name=f"gradient of {name}")
                close(total, getattr(plain, name).grad, f"gradient of {name}")
        if plain.track_running_stats:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                close(getattr(synchronized, name), getattr(plain, name), name)


def case_vectors_are_normalized_like_torch() -> None:
    compare(nn.BatchNorm1d(4), (4,))


def case_sequences_are_normalized_like_torch() -> None:
    compare(nn.BatchNorm1d(3), (3, 5))


def case_images_are_normalized_like_torch() -> None:
    compare(nn.BatchNorm2d(3), (3, 4, 5))


def case_volumes_are_normalized_like_torch() -> None:
    compare(nn.BatchNorm3d(2), (2, 2, 3, 2))


def case_eps_and_momentum_are_used() -> None:
    compare(nn.BatchNorm2d(3, eps=0.1, momentum=0.5), (3, 2, 2), eps=0.1, momentum=0.5)


def case_momentum_none_gives_a_cumulative_average() -> None:
    compare(nn.BatchNorm1d(4, momentum=None), (4,), momentum=None)


def case_affine_false_works() -> None:
    compare(nn.BatchNorm2d(3, affine=False), (3, 2, 2), affine=False)


def case_track_running_stats_false_works() -> None:
    compare(nn.BatchNorm2d(3, track_running_stats=False), (3, 2, 2), track_running_stats=False)


def case_float32() -> None:
    compare(nn.BatchNorm2d(3), (3, 4, 4), tolerance=2e-5, kind=torch.float32)


def case_values_far_from_zero_are_normalized_exactly() -> None:
    compare(nn.BatchNorm1d(2), (2, 50), offset=1e6, tolerance=1e-7)
    module = hvd.SyncBatchNorm(1)
    own = parts((1, 1000), [4, 4, 4], 3000.0, torch.float32)
    output = module(own[hvd.rank()])
    exact = torch.cat(own).double()
    expected = (own[hvd.rank()].double() - exact.mean()) / (exact.var(unbiased=False) + module.eps).sqrt()
    assert torch.allclose(output.double(), expected, atol=1e-2), (output.double() - expected).abs().max()


def case_bfloat16() -> None:
    own = parts((3, 4), [4, 4, 4], 0.0, torch.bfloat16)
    module = hvd.SyncBatchNorm(3)
    inputs = own[hvd.rank()].clone().requires_grad_()
    output = module(inputs)
    output.sum().backward()
    assert output.dtype == torch.bfloat16 and inputs.grad.dtype == torch.bfloat16
    expected = nn.BatchNorm1d(3)(torch.cat(own).float()).chunk(hvd.size())[hvd.rank()]
    assert torch.allclose(output.float(), expected, atol=0.05)


def case_channels_last() -> None:
    own = parts((3, 4, 5), [2, 3, 4])
    whole = nn.BatchNorm2d(3).double()(torch.cat(own))
    output = hvd.SyncBatchNorm(3).double()(own[hvd.rank()].to(memory_format=torch.channels_last))
    begin = sum(len(batch) for batch in own[: hvd.rank()])
    assert torch.allclose(output, whole[begin : begin + len(own[hvd.rank()])])


def case_training_equals_training_in_one_process() -> None:
    torch.manual_seed(3)
    plain = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3), nn.BatchNorm1d(3)).double()
    model = copy.deepcopy(plain)
    for index in (1, 4):
        model[index] = hvd.SyncBatchNorm(model[index].num_features).double()
    alone = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                         model.named_parameters(), op=hvd.Sum)
    for step in range(4):
        batches = parts((4,), [3 + step, 2, 4])
        count = sum(map(len, batches))
        optimizer.zero_grad()
        (model(batches[hvd.rank()]).cos().sum() / count).backward()
        optimizer.step()
        alone.zero_grad()
        (plain(torch.cat(batches)).cos().sum() / count).backward()
        alone.step()
    for (name, one), other in zip(model.state_dict().items(), plain.state_dict().values()):
        assert torch.allclose(one, other, rtol=1e-8, atol=1e-10), name


def case_eval_needs_no_other_rank() -> None:
    module = hvd.SyncBatchNorm(2).eval()
    if hvd.rank() == 0:  # the other ranks do not call it
        assert module(torch.ones(3, 2)).shape == (3, 2)


def case_statistics_of_a_process_set_are_used() -> None:
    last = hvd.size() - 1
    some = hvd.add_process_set([last])
    own = parts((2,), [4, 3, 5])[hvd.rank()]
    module = hvd.SyncBatchNorm(2, process_set=some).double()
    if some.included():
        assert torch.allclose(module(own), nn.BatchNorm1d(2).double()(own))
    assert hvd.remove_process_set(some)


def case_a_single_value_per_channel_is_an_error() -> None:
    module = hvd.SyncBatchNorm(2)
    with raises(ValueError, "value"):
        module(torch.ones(1 if hvd.rank() == 0 else 0, 2))
    if hvd.size() > 1:
        with raises(ValueError, "have 0"):
            module(torch.ones(0, 2))


def case_invalid_inputs_are_errors() -> None:
    module = hvd.SyncBatchNorm(3)
    with raises(ValueError, "3 channels", "(5,)"):
        module(torch.ones(5))
    with raises(ValueError, "3 channels", "(2, 4)"):
        module(torch.ones(2, 4))
