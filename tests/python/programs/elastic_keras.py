"""Trains with Keras in generations: elastic_keras.py HOW STEPS [MEMBER:STEP ...]. A member kills itself in its step.

loop: a tf.function with a DistributedGradientTape. fit: model.fit() with a DistributedOptimizer and Horovod's callbacks;
every rank has the whole batch. LocalSGD, DiLoCo, Gossip: hvd's methods of these names. Rank 0 prints the loss over all samples in the end.
"""

from __future__ import annotations

import os
import signal
import sys

import hvd.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from hvd.data import Shard
from hvd.tensorflow import DistributedGradientTape

HOW, STEPS = sys.argv[1], int(sys.argv[2])
DEATHS = {tuple(map(int, word.split(":"))) for word in sys.argv[3:]}
SAMPLES, BATCH = 60, 12
PER_EPOCH = SAMPLES // BATCH


def die_in(step: int) -> None:
    if (hvd.elastic.member(), step) in DEATHS:
        os.kill(os.getpid(), signal.SIGKILL)


hvd.init()
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.keras.utils.set_random_seed(hvd.rank())  # only the first sync makes the ranks' models alike
draw = np.random.default_rng(7)
images = draw.standard_normal((SAMPLES, 8, 8, 1)).astype("float32")
labels = draw.integers(10, size=SAMPLES)
model = tf.keras.Sequential([tf.keras.Input((8, 8, 1)), tf.keras.layers.Conv2D(4, 3, activation="relu"),
                             tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
error_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
optimizer = tf.keras.optimizers.Adam(1e-2, epsilon=1e-3)


@tf.function(reduce_retracing=True, autograph=False)  # autograph leaves files of killed processes
def train_step(inputs: tf.Tensor, expected: tf.Tensor, batch: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        loss = error_of(expected, model(inputs, training=True)) / tf.cast(batch, tf.float32)
    tape = DistributedGradientTape(tape, op=hvd.Sum)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


@hvd.elastic.run
def loop(state: hvd.elastic.KerasState) -> None:
    while state.step < STEPS:
        epoch, step = divmod(state.step, PER_EPOCH)
        shard = Shard(SAMPLES, BATCH, epoch, seed=1)
        die_in(state.step)
        train_step(images[shard[step]], labels[shard[step]], shard.batch_size(step))
        state.step += 1
        state.commit()


class Die(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        die_in(state.epoch * PER_EPOCH + batch)


@hvd.elastic.run
def fit(state: hvd.elastic.KerasState) -> None:
    model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0, epochs=STEPS // PER_EPOCH - state.epoch,
              callbacks=[Die(), hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
                         hvd.elastic.CommitStateCallback(state, batches_per_commit=PER_EPOCH)])


if HOW in ("LocalSGD", "DiLoCo", "Gossip"):
    optimizer = getattr(hvd, HOW)(optimizer, every=2)
if HOW == "fit":
    optimizer = hvd.DistributedOptimizer(optimizer)
    mean = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, mean, jit_compile=False)
state = hvd.elastic.KerasState(model, optimizer, step=0, epoch=0, batch=0)
(fit if HOW == "fit" else loop)(state)
if hvd.rank() == 0:
    loss = float(error_of(labels, model(images))) / SAMPLES
    print(f"loss {loss:.9g} size {hvd.size()} generation {hvd.elastic.generation()}", flush=True)
