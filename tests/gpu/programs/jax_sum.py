"""Calls jax.distributed.initialize() without arguments, and checks a sum over the ranks' devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from gpukit.results import record

jax.distributed.initialize()
ranks = jnp.atleast_1d(multihost_utils.process_allgather(jnp.array(jax.process_index()))).tolist()
product = jax.jit(lambda a: a @ a.T)(jnp.ones((512, 512)))
if jax.process_index() == 0:
    right = ranks == list(range(jax.process_count())) and float(product[0, 0]) == 512
    record(f"jax {jax.__version__}, {jax.process_count()} ranks on {jax.devices()[0].platform}", right, list(map(str, jax.devices())))
jax.distributed.shutdown()
