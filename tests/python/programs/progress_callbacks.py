"""Trains a little with the loop of another package, whose callback reports the progress: progress_callbacks.py HOW.

HOW: lightning, transformers, keras. Six steps in two epochs, with four samples in each batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from typing import Any

warnings.filterwarnings("ignore")
os.environ.setdefault("KERAS_BACKEND", "torch")

import hvd.callbacks


def lightning() -> None:
    import torch
    from lightning import pytorch as pl
    from torch.utils.data import DataLoader, TensorDataset

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    trainer = pl.Trainer(accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False, callbacks=[hvd.callbacks.for_lightning()])
    trainer.fit(Model(), DataLoader(TensorDataset(torch.ones(12, 1)), batch_size=4))


def transformers() -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8))
    samples = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, num_train_epochs=2, per_device_train_batch_size=4, report_to="none", logging_steps=1,
                                      save_strategy="no", disable_tqdm=True, use_cpu=True)
        Trainer(model, arguments, train_dataset=samples, callbacks=[hvd.callbacks.for_transformers()]).train()


def keras() -> None:
    import keras as package
    import numpy as np

    model = package.Sequential([package.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(np.ones((12, 1)), np.ones((12, 1)), batch_size=4, epochs=2, verbose=0,
              callbacks=[hvd.callbacks.for_keras(batch_size=4)])


{"lightning": lightning, "transformers": transformers, "keras": keras}[sys.argv[1]]()
