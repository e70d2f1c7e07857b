"""Elastic training with model.fit() (hvdrun --min-np M): KerasState, run(), and callbacks, under Horovod's names.

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state):
        model.fit(data, epochs=epochs - state.epoch, callbacks=[
            hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.CommitStateCallback(state)])

    train(state)
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from ...elastic import State
from ..elastic import (HorovodInternalError, HostsUpdatedInterrupt, HostUpdateResult, ObjectState,
                       TensorFlowKerasState, generation, init, is_elastic, is_newcomer, member, newest, reform, run, run_fn,
                       shutdown)

__all__ = ["CommitStateCallback", "HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "KerasState",
           "ObjectState", "State", "TensorFlowKerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback",
           "generation", "init", "is_elastic", "is_newcomer", "member", "newest", "reform", "run", "run_fn", "shutdown"]

Logs = Optional[dict[str, Any]]


class KerasState(TensorFlowKerasState):
    """A state with a model, its optimizer, and further attributes; those that the callbacks use are batch and epoch."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)


class CommitStateCallback(tf.keras.callbacks.Callback):
    """Commits the state after every `batches_per_commit` batches, and at the end of each epoch.

    Put it after the callbacks that change the state.
    """

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        self.batches_remaining = self.batches_per_commit  # alike on all ranks after a reset

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.commit()


class UpdateBatchStateCallback(tf.keras.callbacks.Callback):
    """Sets state.batch to the index of the last batch that has ended, and to 0 at the end of an epoch.

    In the first epoch after a reset, Keras's progress bar shows only as many steps as are left.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: Optional[int] = None

    def on_train_begin(self, logs: Logs = None) -> None:
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self.params.get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):
    """Sets state.epoch to the number of epochs that have ended, over all calls of model.fit()."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.epoch = self.initial_epoch + epoch + 1  # Keras begins with 0 in each call
