"""Gathers the ranks with Accelerate, which gets the settings that `accelerate launch` would give it."""
import accelerate
import torch

accelerator = accelerate.Accelerator(cpu=True)
ranks = accelerator.gather(torch.tensor([accelerator.process_index])).tolist()
print(f"accelerate {accelerate.__version__}: rank {accelerator.process_index} of {accelerator.num_processes}, "
      f"gathered {ranks}, {accelerator.mixed_precision}")
accelerator.end_training()
