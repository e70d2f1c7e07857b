"""A program of JAX that ends only when another one, in another job, runs beside it. Arguments: a folder, its name, the other's."""
import sys
import time
from pathlib import Path

import jax

folder, own, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
jax.distributed.initialize()
(folder / f"{own}.{jax.process_index()}").touch()
while not (folder / f"{other}.{jax.process_index()}").exists():
    time.sleep(0.05)
print(f"jax {jax.__version__}: rank {jax.process_index()} of {jax.process_count()}, beside {other}")
jax.distributed.shutdown()
