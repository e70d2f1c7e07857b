"""States of hvd.torch.elastic, at fixed size: what they save, restore and synchronise."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import hvd.torch as hvd
from _expect import raises
from _training import batch_of_all, loss_of, network, part_of, train
from hvd.data import Shard
from hvd.torch.elastic.state import StateHandler

FRAMEWORK = "torch"


def trained(**others: Any) -> tuple[nn.Module, Any, Any]:
    """Returns a model and an optimizer after two steps, and their state."""
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, **others)
    train(model, optimizer, range(2))
    state.commit()
    return model, optimizer, state


def numbers(thing: Any) -> list[Any]:
    """Returns all tensors of a state dict as lists."""
    if isinstance(thing, torch.Tensor):
        return [thing.tolist()]
    entries = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    return [number for entry in entries for number in numbers(entry)]


def case_restore_takes_model_and_optimizer_back_to_the_commit() -> None:
    model, optimizer, state = trained(step=3, losses=[1.0])
    before = numbers(model.state_dict()), numbers(optimizer.state_dict())
    train(model, optimizer, range(2, 4))
    state.step = 4
    state.losses.append(0.5)
    optimizer.param_groups[0]["lr"] = 0.5
    assert numbers(model.state_dict()) != before[0]
    state.restore()
    assert (numbers(model.state_dict()), numbers(optimizer.state_dict())) == before
    assert optimizer.param_groups[0]["lr"] == 0.01 and state.step == 3 and state.losses == [1.0]
    state.losses.append(0.25)  # a copy of the commit's
    state.restore()
    assert state.losses == [1.0]


def case_nothing_of_an_interrupted_step_is_left() -> None:
    """The loss comes between backward() and step(). The program clears gradients after step(), not before backward()."""
    model, optimizer, state = trained()
    train(model, optimizer, range(2, 3))
    expected = numbers(model.state_dict())
    state.restore()
    backward(model, 5)
    state.restore()
    assert not optimizer._reducer.pending
    backward(model, 2)
    optimizer.step()
    optimizer.zero_grad()
    assert numbers(model.state_dict()) == expected


def backward(model: nn.Module, step: int) -> None:
    inputs, targets = (part_of(tensor, hvd.rank(), hvd.size()) for tensor in batch_of_all(step))
    loss_of(model, inputs, targets).backward()


def case_a_later_commit_allocates_nothing() -> None:
    model, optimizer, state = trained()
    copies = [handler._copy for handler in state._handlers.values()]
    places = [tensor.data_ptr() for copy in copies for tensor in tensors(copy)]
    train(model, optimizer, range(2, 3))
    state.commit()
    copies = [handler._copy for handler in state._handlers.values()]
    assert places == [tensor.data_ptr() for copy in copies for tensor in tensors(copy)]
    assert numbers(copies[0]) == numbers(model.state_dict())


def tensors(thing: Any) -> list[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        return [thing]
    entries = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    return [tensor for entry in entries for tensor in tensors(entry)]


def case_sync_gives_the_state_of_rank_0_in_the_first_generation() -> None:
    torch.manual_seed(hvd.rank())
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + hvd.rank()), momentum=0.9)
    model(torch.ones(3)).sum().backward()
    if hvd.rank() == 0:
        optimizer.step()
    state = hvd.elastic.TorchState(model, optimizer, batch=20 + hvd.rank())
    state.sync()
    found = hvd.allgather_object([numbers(model.state_dict()), numbers(optimizer.state_dict()),
                                  optimizer.param_groups[0]["lr"], state.batch])
    assert all(theirs == found[0] for theirs in found) and found[0][2:] == [0.1, 20] and len(found[0][1]) == 2
    with torch.no_grad():
        model.weight.zero_()
    state.restore()  # sync() is a commit
    assert numbers(model.state_dict()) == found[0][0]


def case_schedulers_and_scalers_are_changed_in_place() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    scaler = torch.cuda.amp.GradScaler(enabled=False)
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler, scaler=scaler)
    optimizer.step()
    scheduler.step()
    state.commit()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    state.restore()
    assert state.scheduler is scheduler and scheduler.last_epoch == 1 and optimizer.param_groups[0]["lr"] == 0.5
    state.sync()
    assert state.scheduler is scheduler and scheduler.optimizer is optimizer and state.scaler is scaler


def case_another_model_takes_the_place_of_an_attribute() -> None:
    state = hvd.elastic.TorchState(nn.Linear(2, 2))
    other = nn.Linear(3, 1)
    state.model = other
    before = numbers(other.state_dict())
    with torch.no_grad():
        other.weight.zero_()
    state.restore()
    assert state.model is other and numbers(other.state_dict()) == before


def case_a_programs_handlers_are_used() -> None:
    class Counter:
        value = 0

    class CounterHandler(StateHandler):
        def save(self) -> None:
            self.saved = self.value.value

        def restore(self) -> None:
            self.value.value = self.saved

        def sync(self) -> None:
            self.value.value = hvd.broadcast_object(self.value.value, hvd.elastic.newest())

    earlier = hvd.elastic.get_handler_registry()
    hvd.elastic.set_handler_registry([(Counter, CounterHandler), *earlier])
    try:
        counter = Counter()
        state = hvd.elastic.TorchState(counter=counter)
        counter.value = 5 + hvd.rank()
        state.sync()
        assert counter.value == 5
        counter.value = 9
        state.restore()
        assert counter.value == 5 and state.counter is counter
    finally:
        hvd.elastic.set_handler_registry(earlier)


def case_a_sharded_optimizer_is_refused_with_advice() -> None:
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters(), shard=True)
    with raises(hvd.HorovodInternalError, "shard=True", "--max-restarts"):
        hvd.elastic.TorchState(model, optimizer)


def case_an_elastic_sampler_divides_what_is_left() -> None:
    sampler = hvd.elastic.ElasticSampler(range(8 * hvd.size() + 1), seed=3)
    state = hvd.elastic.TorchState(sampler=sampler)
    first = list(sampler)[:2]
    assert len(sampler) == 9 and len(list(sampler)) == 9
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    state.restore()
    state.sync()
    assert sampler.processed_num == 2 * hvd.size() and len(sampler) == 7
    seen = [index for part in hvd.allgather_object([*first, *sampler]) for index in part]
    assert set(seen) == set(range(8 * hvd.size() + 1))
    sampler.set_epoch(1)
    assert len(sampler) == 9 and list(sampler)[:2] != first


def case_a_distributed_sampler_and_a_shard_use_each_sample_once_after_a_reset() -> None:
    sampler = hvd.DistributedSampler(range(24), batch=6, seed=1, remainder="uneven")
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.set_epoch(2, first_step=1)
    state.commit()
    sampler.set_epoch(0)
    state.restore()
    state.on_reset()
    state.sync()
    found = [index for part in hvd.allgather_object(list(sampler)) for index in part]
    first = [index for part in hvd.allgather_object(list(Shard(24, 6, epoch=2, seed=1)[0])) for index in part]
    assert sorted(map(int, found + first)) == list(range(24))


def case_run_calls_the_function_once() -> None:
    calls = []

    @hvd.elastic.run
    def function(state: Any, factor: int, offset: int = 0) -> int:
        """Trains."""
        calls.append(state.step)
        return state.step * factor + offset

    assert function(hvd.elastic.TorchState(step=4), 10, offset=2) == 42 and calls == [4]
    assert function.__name__ == "function" and function.__doc__ == "Trains."


def case_run_fn_resets_in_any_job() -> None:
    done: list[Any] = []

    def function(state: Any) -> int:
        if len(done) == 0:
            state.step = 8
            raise hvd.HorovodInternalError
        if len(done) == 2:
            state.step = 9
            raise hvd.elastic.HostsUpdatedInterrupt
        return state.step

    state = hvd.elastic.TorchState(step=4)
    state.register_reset_callbacks([lambda: done.append(state.step)])
    assert hvd.elastic.run_fn(function, lambda: done.append("reset"))(state) == 9
    assert done == ["reset", 4, "reset", 9]
    with raises(hvd.HorovodInternalError):
        hvd.elastic.run(lambda state: _raise())(state)


def _raise() -> None:
    raise hvd.HorovodInternalError
