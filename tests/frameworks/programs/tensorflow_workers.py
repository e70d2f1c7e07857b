"""Sums ones with TensorFlow's MultiWorkerMirroredStrategy, which reads TF_CONFIG."""
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver


@tf.function
def total():
    each = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
    return strategy.reduce("mean", each, axis=None)


print(f"tensorflow {tf.__version__}: rank {resolver.task_id} of {strategy.num_replicas_in_sync}, sum {total().numpy()}")
