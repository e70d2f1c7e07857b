"""Checks of probe.py for training: optimizers, batch norms, state and checkpoints.

Each check compares training on the GPUs with one process on the CPU, or with the same ranks on CPUs, in float64."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import hvd.torch as hvt
from common import CUDA, DEVICE, flat_parameters, relative_error
from hvd.checkpoint import Checkpoints
from probe_checks import Check, Outcome

MakeOptimizer = Callable[[nn.Module], Any]
CPU = torch.device("cpu")
STEPS = 4
ROWS = 4  # each rank's in each step
EXACT = 1e-11


class Net(nn.Module):
    """A network with an embedding, whose gradients may be sparse, and the given normalization layer."""

    def __init__(self, sparse: bool, norm: nn.Module) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8, sparse=sparse)
        self.convolution = nn.Conv1d(8, 16, 3, padding=1)
        self.norm = norm
        self.head = nn.Linear(16 * 6, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.convolution(self.table(words).transpose(1, 2))
        return self.head(torch.tanh(self.norm(hidden)).flatten(1))


@dataclass(frozen=True)
class Training:
    """A few steps of training."""

    make_optimizer: MakeOptimizer
    sparse: bool = False
    norm: Callable[[], nn.Module] = nn.Identity
    passes: int = 1  # backward passes in each step
    finish: Callable[[Any], None] = lambda optimizer: None

    def run(self, device: torch.device, whole_batch: bool = False) -> torch.Tensor:
        """Trains on this rank's part of each batch or on the whole batch. Returns the parameters."""
        torch.manual_seed(7)
        model = Net(self.sparse, self.norm()).double().to(device)
        optimizer = self.make_optimizer(model)
        mine = slice(None) if whole_batch else slice(ROWS * hvt.rank(), ROWS * (hvt.rank() + 1))
        for step in range(STEPS):
            generator = torch.Generator().manual_seed(step)
            words = torch.randint(0, 50, (ROWS * hvt.size(), 6), generator=generator)[mine].to(device)
            classes = torch.randint(0, 5, (ROWS * hvt.size(),), generator=generator)[mine].to(device)
            optimizer.zero_grad()
            for _ in range(self.passes):
                (nn.functional.cross_entropy(model(words), classes) / self.passes).backward()
            optimizer.step()
        self.finish(optimizer)
        return flat_parameters(model)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def distributed_sgd(model: nn.Module) -> Any:
    return hvt.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())


def against_one_process(sparse: bool = False, norm: Callable[[], nn.Module] = nn.Identity,
                        norm_alone: Callable[[], nn.Module] = nn.Identity) -> Check:
    """Returns a check that compares the ranks on the device with one process on the CPU that has the whole batch."""
    def check() -> Outcome:
        got = Training(distributed_sgd, sparse, norm).run(DEVICE)
        error = relative_error(got, Training(sgd, sparse, norm_alone).run(CPU, whole_batch=True))
        return error < EXACT, error
    return check


def against_cpus(make_optimizer: MakeOptimizer, finish: Callable[[Any], None] = lambda optimizer: None, passes: int = 1,
                 limit: float = EXACT) -> Check:
    """Returns a check that compares the ranks on the device with the ranks on CPUs."""
    def check() -> Outcome:
        training = Training(make_optimizer, passes=passes, finish=finish)
        error = relative_error(training.run(DEVICE), training.run(CPU))
        return error < limit, error
    return check


def synchronize_optimizer(optimizer: Any) -> None:
    optimizer.synchronize()


def sharded_adamw(model: nn.Module) -> Any:
    return hvt.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.01), shard=True)


def grouped_sgd(model: nn.Module) -> Any:
    return hvt.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), groups=2, backward_passes_per_step=2,
                                    gradient_predivide_factor=2.0)


def with_grad_scaler() -> Outcome:
    """Checks that all ranks skip the same steps when the scaled gradients overflow."""
    if not hasattr(torch.amp, "GradScaler"):
        return None, f"left out: torch {torch.__version__} has no GradScaler for CPUs"
    torch.manual_seed(7)
    model = nn.Linear(64, 64).to(DEVICE)
    optimizer = hvt.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**40)
    start = model.weight.detach().clone()
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast(DEVICE.type, torch.float16 if CUDA else torch.bfloat16):
            loss = model(torch.randn(8, 64, device=DEVICE)).square().mean()
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    scales = hvt.allgather_object(scaler.get_scale(), name="scales")
    weights = hvt.allgather(model.weight.detach().reshape(1, -1), name="weights")
    return len(set(scales)) == 1 and bool((weights == weights[0]).all()) and not torch.equal(start, model.weight), scales[0]


def trained_with_adam() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Returns a model that differs on each rank, and its optimizer, after one step."""
    torch.manual_seed(hvt.rank())
    model = nn.Linear(33, 17).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 33, device=DEVICE)).sum().backward()
    optimizer.step()
    return model, optimizer


def broadcast_state() -> Outcome:
    model, optimizer = trained_with_adam()
    hvt.broadcast_parameters(model.state_dict(), root_rank=0)
    hvt.broadcast_optimizer_state(optimizer, root_rank=0)
    tensors = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    states = hvt.allgather_object([(value.device.type, value.double().sum().item()) for value in tensors], name="state")
    weights = hvt.allgather(model.weight.detach().reshape(1, -1), name="broadcast weights")
    return all(state == states[0] for state in states) and bool((weights == weights[0]).all()), states[0]


def checkpoint() -> Outcome:
    model, _ = trained_with_adam()
    hvt.broadcast_parameters(model.state_dict(), root_rank=0)
    saved = model.weight.detach().clone()
    folder = hvt.broadcast_object(tempfile.mkdtemp() if hvt.rank() == 0 else None, root_rank=0, name="folder")
    with Checkpoints(folder + "/checkpoints") as checkpoints:
        state = {"model": model.state_dict(), "step": 3}
        checkpoints.save(state, step=3)
        checkpoints.wait()
        with torch.no_grad():
            model.weight.zero_()
        checkpoints.load(state)
    hvt.barrier()
    if hvt.rank() == 0:
        shutil.rmtree(folder)
    return torch.equal(model.weight, saved), None


def forked_workers() -> Outcome:
    """Runs a DataLoader whose processes are forked from one that uses the GPU."""
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=CUDA)
    own = torch.stack([batch.to(DEVICE, non_blocking=True).sum() for (batch,) in loader]).sum()
    return hvt.allreduce(own, op=hvt.Sum, name="loader").item() == 2016 * hvt.size(), None


def checks() -> dict[str, Check]:
    return {
        "DistributedOptimizer = one process": against_one_process(),
        "SyncBatchNorm = one process": against_one_process(norm=lambda: hvt.SyncBatchNorm(16), norm_alone=lambda: nn.BatchNorm1d(16)),
        "sparse gradients = one process": against_one_process(sparse=True),
        "shard, AdamW = CPUs": against_cpus(sharded_adamw),
        "groups, two passes, predivide = CPUs": against_cpus(grouped_sgd, passes=2),
        "fp16 = CPUs": against_cpus(lambda model: hvt.DistributedOptimizer(sgd(model), compression=hvt.Compression.fp16), limit=1e-3),
        "Adasum = CPUs": against_cpus(lambda model: hvt.DistributedOptimizer(sgd(model), op=hvt.Adasum), limit=1e-9),
        "LocalSGD = CPUs": against_cpus(lambda model: hvt.LocalSGD(sgd(model), every=2), synchronize_optimizer),
        "LocalSGD in the background = CPUs": against_cpus(lambda model: hvt.LocalSGD(sgd(model), every=2, background=True),
                                                          synchronize_optimizer),
        "DiLoCo = CPUs": against_cpus(lambda model: hvt.DiLoCo(sgd(model), every=2), synchronize_optimizer),
        "Gossip = CPUs": against_cpus(lambda model: hvt.Gossip(sgd(model), every=1), synchronize_optimizer),
        "ParameterServer = CPUs": against_cpus(lambda model: hvt.ParameterServer(sgd(model), staleness=0), synchronize_optimizer),
        "GradScaler": with_grad_scaler,
        "broadcast of parameters and state": broadcast_state,
        "checkpoint": checkpoint,
        "DataLoader's processes, pinned": forked_workers,
    }
