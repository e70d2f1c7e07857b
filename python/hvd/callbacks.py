"""Callbacks that report a training's progress to hvdrun (hvd.progress), for the training loops of other packages.

    trainer = lightning.Trainer(callbacks=[hvd.callbacks.for_lightning()])
    trainer = transformers.Trainer(…, callbacks=[hvd.callbacks.for_transformers()])
    model.fit(…, callbacks=[hvd.callbacks.for_keras(batch_size=64)])

Works with and without hvd.init(). Without hvdrun the callbacks do nothing. A package is imported only by its function.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from typing import Any, Optional

from .status import progress, samples_in

__all__ = ["for_keras", "for_lightning", "for_transformers"]

_SECONDS_BETWEEN_LOSSES = 0.2  # reading the loss waits for the GPU


def for_lightning() -> Any:
    """Returns a callback for the Trainer of Lightning: the package lightning, or pytorch_lightning.

    It reports epochs, steps of the optimizer, the samples of each batch (the length of its first tensor) and the loss.
    """
    loaded = [name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules]
    return _combined(_OfLightning, _first_of([*loaded, "lightning.pytorch", "pytorch_lightning"]).Callback)


def for_transformers() -> Any:
    """Returns a callback for the Trainer of transformers. It reports epochs, steps, samples and the loss that is logged."""
    return _combined(_OfTransformers, importlib.import_module("transformers").TrainerCallback)


def for_keras(batch_size: Optional[int] = None) -> Any:
    """Returns a callback for model.fit() of Keras 3, on any backend. batch_size: as of hvd.keras' ProgressCallback."""
    return _combined(OfFit, importlib.import_module("keras").callbacks.Callback, batch_size)


def _combined(own: type, base: type, *args: Any) -> Any:
    return type("ProgressCallback", (own, base), {"__doc__": own.__doc__})(*args)


def _first_of(names: list[str]) -> Any:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return importlib.import_module(names[-1])


class _Loss:
    """Says when to read the loss."""

    def __init__(self) -> None:
        self._next = 0.0

    def read(self, loss: Any) -> Optional[float]:
        """Returns the loss now and then, otherwise None."""
        if loss is None or (now := time.monotonic()) < self._next:
            return None
        self._next = now + _SECONDS_BETWEEN_LOSSES
        return float(loss)


def _at_least(part: int, whole: Any) -> Optional[int]:
    """Returns the number of all, which may be an estimate or unknown (None, -1, infinity)."""
    if whole is None or whole <= 0 or math.isinf(whole):
        return None
    return max(part, math.ceil(whole))


class OfFit:
    """Reports the progress of model.fit() to hvdrun, for its status line and its report (hvd.progress).

    batch_size: the samples in each batch of this rank; None: hvdrun shows no samples per second, because Keras does not
    say how many there are.
    """

    params: dict[str, Any]  # Keras sets it

    def __init__(self, batch_size: Optional[int] = None) -> None:
        super().__init__()
        self._supports_tf_logs = True  # Keras need not copy the metrics of each batch
        self._batch_size = batch_size
        self._step = 0
        self._epoch = 0
        self._loss = _Loss()

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self._epoch = epoch
        epochs, length = self.params.get("epochs"), self.params.get("steps")
        steps = self._step + length * (epochs - epoch) if epochs and length else None
        progress(step=self._step, steps=steps, epoch=epoch, epochs=epochs)

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, Any]] = None) -> None:
        self._step += 1
        progress(step=self._step, samples=self._batch_size, loss=self._loss.read((logs or {}).get("loss")))

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, Any]] = None) -> None:
        if logs and "loss" in logs:
            progress(loss=float(logs["loss"]))

    def on_train_end(self, logs: Optional[dict[str, Any]] = None) -> None:
        progress(epoch=self._epoch + 1)


class _OfLightning:
    """Reports the progress of Trainer.fit() to hvdrun."""

    def __init__(self) -> None:
        super().__init__()
        self._loss = _Loss()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        epoch, step = trainer.current_epoch, trainer.global_step
        progress(step=step, steps=_at_least(step, trainer.estimated_stepping_batches), epoch=epoch,
                 epochs=_at_least(epoch, trainer.max_epochs))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        progress(step=trainer.global_step, samples=samples_in(batch), loss=self._loss.read(loss))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        progress(epoch=trainer.current_epoch)


class _OfTransformers:
    """Reports the progress of Trainer.train() to hvdrun."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        progress(step=state.global_step, steps=_at_least(state.global_step, state.max_steps))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        epoch = round(state.epoch or 0)
        progress(epoch=epoch, epochs=_at_least(epoch, state.num_train_epochs))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        progress(step=state.global_step, samples=args.train_batch_size * args.gradient_accumulation_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None, **others: Any) -> None:
        if logs and "loss" in logs:
            progress(loss=float(logs["loss"]))

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        progress(epoch=math.ceil(state.epoch or 0))
