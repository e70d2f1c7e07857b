"""Sums ones with MultiWorkerMirroredStrategy, which reads SLURM's variables instead of TF_CONFIG."""
import os

import tensorflow as tf

# The resolver derives the number of workers from the GPUs. Here it gets a number: without one it would run nvidia-smi.
resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
    gpus_per_node=int(os.environ.get("SLURM_NTASKS_PER_NODE", "1")), gpus_per_task=1, auto_set_gpu=False)
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


@tf.function
def total():
    each = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
    return strategy.reduce("mean", each, axis=None)


print(f"tensorflow {tf.__version__}: rank {resolver.task_id} of {strategy.num_replicas_in_sync}, sum {total().numpy()}")
