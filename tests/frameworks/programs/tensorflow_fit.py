"""Trains with the fit of Keras 2 and MultiWorkerMirroredStrategy. Keras 3 does not support it: use TF_USE_LEGACY_KERAS=1 and tf_keras."""
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, size = strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss=lambda _, prediction: prediction)
rows = tf.data.Dataset.from_tensor_slices(([[0.0], [1.0]], [[0.0], [0.0]])).batch(2)  # one for each rank
model.fit(rows, epochs=1, verbose=0)
print(f"tensorflow {tf.__version__}: rank {rank} of {size}, weight {model.get_weights()[0].item()}")
