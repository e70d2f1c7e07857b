"""Trains one epoch with Lightning's Trainer, which detects the launcher by itself."""
import os

import torch
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = lightning.Trainer(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_epochs=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Model()
trainer.fit(model, DataLoader(TensorDataset(torch.arange(8.0).reshape(8, 1)), batch_size=2))
weight = trainer.strategy.reduce(model.layer.weight.detach(), reduce_op="mean").item()
assert abs(weight - model.layer.weight.item()) < 1e-6, "the ranks have different weights"
print(f"lightning {lightning.__version__}: rank {trainer.global_rank} of {trainer.world_size}, "
      f"{trainer.global_step} steps")
