"""Calls jax.distributed.initialize() without arguments: JAX finds the coordinator and its rank by itself."""
import jax
from jax.experimental import multihost_utils

jax.distributed.initialize()
ranks = multihost_utils.process_allgather(jax.numpy.array(jax.process_index())).tolist()
print(f"jax {jax.__version__}: rank {jax.process_index()} of {jax.process_count()}, gathered {ranks}, "
      f"{jax.device_count()} devices")
jax.distributed.shutdown()
