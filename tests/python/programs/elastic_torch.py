"""Trains a CNN in generations: elastic_torch.py HOW STEPS [MEMBER:STEP:POINT ...]. A member kills itself at its point of its step.

HOW: plain; passes, with two calls of backward() a step; clip, with clip_grad_norm_() of the reduced gradients; scaled, with
them and a GradScaler for CPUs, whose scale changes every third step;
LocalSGD and Gossip, hvd's methods of these names.

Points: step, backward, optimizer, commit (before the copy), committed, and sync, of the newest rank after the loss before.
Rank 0 prints the loss over all samples after the last step, and the members that are left.
"""

from __future__ import annotations

import os
import signal
import sys

import hvd.torch as hvd
import torch
from hvd.data import Shard
from torch.nn import functional

SAMPLES, BATCH = 60, 12
HOW, STEPS = sys.argv[1], int(sys.argv[2])
DEATHS = {(int(member), int(step), point) for member, step, point in (word.split(":") for word in sys.argv[3:])}


def die_at(step: int, point: str) -> None:
    if (hvd.elastic.member(), step, point) in DEATHS:
        os.kill(os.getpid(), signal.SIGKILL)


class State(hvd.elastic.TorchState):
    def save(self) -> None:
        if hasattr(self, "step") and self.step:
            die_at(self.step - 1, "commit")
        super().save()

    def sync(self) -> None:
        if hvd.elastic.generation() > 1:
            self._handlers["model"].sync()
            die_at(self.step, "sync")
        super().sync()


hvd.init()
torch.set_num_threads(1)
torch.manual_seed(hvd.rank())  # only the first sync makes the ranks' models alike
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4).eval(), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(4 * 36, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
generator = torch.Generator().manual_seed(7)
images = torch.randn(SAMPLES, 1, 8, 8, generator=generator)
labels = torch.randint(10, (SAMPLES,), generator=generator)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)
if HOW in ("LocalSGD", "Gossip"):
    optimizer = getattr(hvd, HOW)(optimizer, every=2)
else:
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), op=hvd.Sum,
                                         backward_passes_per_step=2 if HOW == "passes" else 1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.8)
model[4].weight.register_hook(lambda gradient: die_at(state.step, "backward"))
scaler = torch.amp.GradScaler("cpu", init_scale=8, growth_interval=3) if HOW == "scaled" else None
state = State(model, optimizer, schedule=schedule, step=0, seen=[], **({"scaler": scaler} if scaler else {}))


@hvd.elastic.run
def train(state: State) -> None:
    while state.step < STEPS:
        die_at(state.step, "step")
        epoch, step = divmod(state.step, SAMPLES // BATCH)
        shard = Shard(SAMPLES, BATCH, epoch, seed=1)
        mine = torch.as_tensor(shard[step])
        optimizer.zero_grad()
        for part in mine.tensor_split(2) if HOW == "passes" else [mine]:
            loss = functional.cross_entropy(model(images[part]), labels[part], reduction="sum") / shard.batch_size(step)
            (scaler.scale(loss) if scaler else loss).backward()
        die_at(state.step, "optimizer")
        if scaler:
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
        elif HOW == "clip":
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
        schedule.step()
        state.step += 1
        state.seen.append(step)
        state.commit()
        die_at(state.step - 1, "committed")


train(state)
assert not scaler or scaler.get_scale() == 8 * 2 ** (STEPS // 3), scaler.get_scale()
assert state.seen == [step % 5 for step in range(STEPS)], state.seen
if hvd.rank() == 0:
    with torch.no_grad():
        print(f"loss {functional.cross_entropy(model(images), labels).item():.9g} size {hvd.size()} generation "
              f"{hvd.elastic.generation()}", flush=True)
