"""Runs JAX until the same program in another job runs at the same time. Arguments: a folder, this job's number, the other job's number."""
import sys
import time
from pathlib import Path

import jax
from jax.experimental import multihost_utils

folder, own, other = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize()
(folder / f"{own}.{jax.process_index()}").touch()
while not (folder / f"{other}.{jax.process_index()}").exists():
    time.sleep(0.05)
jobs = multihost_utils.process_allgather(jax.numpy.array(own)).tolist()
print(f"jax {jax.__version__}: rank {jax.process_index()} of {jax.process_count()}, gathered {jobs}")
jax.distributed.shutdown()
