"""Callbacks for model.fit()."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

import numpy as np
import tensorflow as tf

import hvd.numpy as hvn
from hvd import job
from hvd.callbacks import OfFit
from hvd.types import Average, Min

from ..functions import broadcast_variables
from ..gradients import key_of
from ..optimizer import is_distributed


class _Callback(tf.keras.callbacks.Callback):
    """The base of the callbacks. Switches XLA off before Keras makes the function of a step.

    Keras 3 compiles with XLA on a GPU by default, and XLA cannot compile collectives.
    """

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        if is_distributed(getattr(model, "optimizer", None)) and getattr(model, "jit_compile", False):
            warnings.warn("hvd: jit_compile is switched off for this model: XLA cannot compile the collectives")
            model.jit_compile = False
            model.train_function = None


class BroadcastGlobalVariablesCallback(_Callback):
    """Broadcasts the weights and the optimizer's state of `root_rank` to all ranks.

    Does so before the first step if all ranks' models are built by then, otherwise after it.
    local_variables: variables that are not broadcast. The state of random generators is not broadcast either.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Optional[Iterable[Any]] = None) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._device = device
        self._local: set[Any] = set()
        self._done = False
        for variable in [local_variables] if isinstance(local_variables, tf.Variable) else local_variables or []:
            self.register_local_var(variable)

    def register_local_var(self, variable: Any) -> None:
        """Excludes the variable from the broadcast."""
        self._local.add(key_of(variable))

    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        if self._done:
            return
        built = np.array([self._build()], np.uint8)
        if hvn.allreduce(built, "BroadcastGlobalVariablesCallback.built", Min)[0]:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if not self._done:
            self._broadcast()

    def _build(self) -> bool:
        """Builds the optimizer if possible. Returns whether the model and its optimizer have their variables."""
        if not self.model.built:
            return False
        build = getattr(self.model.optimizer, "build", None)
        if build is None:  # optimizers from before Keras 2.11 make their variables in the first step
            return self.model.optimizer is None
        if not getattr(self.model.optimizer, "built", False):
            build(self.model.trainable_variables)
        return True

    def _broadcast(self) -> None:
        variables = list(self.model.weights)
        if self.model.optimizer is not None:
            state = self.model.optimizer.variables
            variables += state() if callable(state) else state
        with tf.device(self._device):
            broadcast_variables([entry for entry in variables if key_of(entry) not in self._local], self._root_rank)
        self._done = True


class MetricAverageCallback(_Callback):
    """Averages the metrics over the ranks at the end of an epoch.

    List it before callbacks that read metrics, such as ReduceLROnPlateau. All ranks must have the same metrics.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if not logs:
            return
        names = sorted(logs)
        values = np.array([float(logs[name]) for name in names])
        averages = hvn.allreduce(values, "MetricAverageCallback", Average)
        logs.update(zip(names, averages.tolist()))


class ProgressCallback(OfFit, tf.keras.callbacks.Callback):
    __doc__ = OfFit.__doc__


class LearningRateScheduleCallback(_Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch) in the epochs start_epoch to end_epoch (exclusive).

    multiplier: a function of the epoch, or a number, which is raised to the power of epoch - start_epoch.
    staircase: sets the rate at the start of every epoch; otherwise before every batch, with fractions of an epoch.
    momentum_correction: when the learning rate changes, multiplies the velocities of an optimizer with momentum by
    new / old, as if the momentum were for that step (https://arxiv.org/abs/1706.02677).
    steps_per_epoch: needed if Keras does not know it; ValueError at the start of training if it is missing.
    """

    def __init__(self, initial_lr: float, multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
                 end_epoch: Optional[int] = None, staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("hvd: LearningRateScheduleCallback without initial_lr")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else _powers(multiplier, start_epoch)
        self._epoch = 0

    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(f"hvd: {type(self).__name__}: Keras does not know how many steps an epoch has; give "
                                 "steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if self._epoch < self.start_epoch or (self.end_epoch is not None and self._epoch >= self.end_epoch):
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            self._adjust(self._epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(self._epoch)

    def _adjust(self, epoch: float) -> None:
        old = self._rate()
        new = self.initial_lr * self.multiplier(epoch)
        self.model.optimizer.learning_rate = new
        if self.momentum_correction and old > 0:
            for velocity in _velocities(self.model.optimizer):
                velocity.assign(velocity * (new / old))

    def _rate(self) -> float:
        return float(tf.convert_to_tensor(self.model.optimizer.learning_rate))

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate()


def _powers(base: float, start_epoch: int) -> Callable[[float], float]:
    return lambda epoch: base ** (epoch - start_epoch)


def _velocities(optimizer: Any) -> list[Any]:
    """Returns the variables that SGD and RMSprop multiply by the momentum; none without momentum or before a step."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(optimizer, "momentum", None):
        return []
    if hasattr(optimizer, "get_slot_names"):
        return [variable for variable in optimizer.weights if "/momentum" in variable.name]
    return list(getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or [])


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from initial_lr / size() to initial_lr in the first `warmup_epochs` epochs.

    It changes with each batch. initial_lr is the rate for all ranks together.
    """

    def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
                 steps_per_epoch: Optional[int] = None, verbose: int = 0) -> None:
        super().__init__(initial_lr, self._share, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self._verbose = verbose

    def _share(self, epoch: float) -> float:
        assert self.steps_per_epoch is not None and self.end_epoch is not None
        size = job.size()
        # The last batch of the last epoch reaches the full rate.
        return ((epoch + 1 / self.steps_per_epoch) * (size - 1) / self.end_epoch + 1) / size

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self._verbose and self.end_epoch is not None and epoch == self.end_epoch - 1 and job.rank() == 0:
            print(f"\nEpoch {epoch + 1}: the learning rate is warmed up, {self._rate():g}.")


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):
    """keras.callbacks.ModelCheckpoint that saves the best model only, on rank 0.

    The attribute `filepath` may be set later, before model.fit(); ValueError at the start of training without it.
    """

    def __init__(self, monitor: str = "val_loss", verbose: int = 0, save_weights_only: bool = False, mode: str = "auto",
                 save_freq: Any = "epoch", filepath: Optional[str] = None) -> None:
        default = "best.weights.h5" if save_weights_only else "best.keras"
        super().__init__(filepath or default, monitor=monitor, verbose=verbose, save_best_only=True,
                         save_weights_only=save_weights_only, mode=mode, save_freq=save_freq)
        self.filepath = filepath

    def on_train_begin(self, logs: Optional[dict[str, Any]] = None) -> None:
        if self.filepath is None:
            raise ValueError("hvd: BestModelCheckpoint without filepath")
        super().on_train_begin(logs)

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if job.rank() == 0:
            super()._save_model(*args, **kwargs)
