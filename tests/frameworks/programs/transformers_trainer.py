"""Trains two steps with the Trainer of transformers: a GPT-2 of two layers and random tokens."""
import os
import tempfile

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(int(os.environ["RANK"]))
tokens = torch.randint(0, 50, (16, 8))
rows = [{"input_ids": row, "labels": row} for row in tokens]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=8, n_embd=8, n_layer=2, n_head=2))
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(model, TrainingArguments(folder, use_cpu=True, max_steps=2, per_device_train_batch_size=2,
                                               save_strategy="no", report_to="none", disable_tqdm=True,
                                               logging_strategy="no"), train_dataset=rows)
    trainer.train()
rank, size = trainer.args.process_index, trainer.args.world_size
weight = next(model.parameters()).detach().sum()
mean = weight / size
torch.distributed.all_reduce(mean)
assert torch.isclose(weight, mean), "the ranks have different weights"
print(f"transformers {transformers.__version__}: rank {rank} of {size}, {trainer.state.global_step} steps")
torch.distributed.destroy_process_group()
