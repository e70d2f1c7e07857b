"""ResNet-50, or another network of keras.applications, on synthetic images: how fast is training on 1, 2, 4 GPUs?

    hvdrun -np 4 python3 resnet50.py --epochs 5 --batch_size 256 --model_name resnet50

Prints Keras's lines, and after each epoch its time and the images per second of all ranks together.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import hvd
import hvd.tensorflow.keras as hvk
import numpy as np
import tensorflow as tf
from tensorflow import keras

CLASSES = 10
MODELS = {model.__name__.lower(): model for model in (
    keras.applications.ResNet50, keras.applications.ResNet50V2, keras.applications.ResNet101V2,
    keras.applications.ResNet152V2, keras.applications.VGG16, keras.applications.MobileNetV2,
    keras.applications.DenseNet121, keras.applications.EfficientNetB0)}


def make_images(batch: int, side: int, seed: int) -> tf.data.Dataset:
    """One batch of random images and labels, again and again: nothing is read, and the GPU never waits for data."""
    random = np.random.default_rng(seed)
    images = random.random((batch, side, side, 3), np.float32)
    labels = random.integers(CLASSES, size=batch)
    return tf.data.Dataset.from_tensors((images, labels)).repeat().prefetch(2)


class EpochTime(keras.callbacks.Callback):
    """Prints an epoch's time and speed, and reports them to hvdrun, for its report and for hvdrun scale."""

    def __init__(self, images: int) -> None:
        super().__init__()
        self.images = images  # of a rank in an epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        hvd.progress(epoch=epoch, epochs=self.params["epochs"])
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seconds = time.perf_counter() - self.start
        hvd.progress(samples=self.images)
        # Rank 0 only: the figures are the same on all ranks.
        hvd.print0(f"epoch time: {seconds:.2f} s, images/sec: {self.images * hvd.size() / seconds:.2f}")

    def on_train_end(self, logs: Any = None) -> None:
        hvd.progress(epoch=self.params["epochs"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times the training of a network on synthetic images.")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=256, help="of each rank")
    parser.add_argument("--model_name", choices=sorted(MODELS), default="resnet50")
    parser.add_argument("--image_size", type=int, default=128, help="pixels, in both directions")
    parser.add_argument("--steps", type=int, default=196, help="of an epoch on one GPU; N ranks make an Nth each")
    parser.add_argument("--lr", type=float, default=0.01, help="for one rank")
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()

    # Init: from here on each process knows its rank.
    hvd.init()

    # Pin: one GPU to each process.
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_device()], "GPU")

    # Shard: each rank has images of its own, and makes its part of an epoch's steps.
    train = make_images(args.batch_size, args.image_size, seed=hvd.rank())
    steps = max(1, args.steps // hvd.size())

    # Scale and wrap: N ranks use N times as many images per step, so the rate rises; the gradients are averaged.
    model = MODELS[args.model_name](weights=None, classes=CLASSES, input_shape=(args.image_size, args.image_size, 3))
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(args.lr * hvd.size(), momentum=0.9))
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)

    callbacks = [
        # Broadcast: all ranks begin with rank 0's weights.
        hvk.callbacks.BroadcastGlobalVariablesCallback(0),
        # Average: the printed metrics are those of all ranks.
        hvk.callbacks.MetricAverageCallback(),
        EpochTime(images=steps * args.batch_size),
    ]
    start = time.perf_counter()
    model.fit(train, steps_per_epoch=steps, epochs=args.epochs, callbacks=callbacks, shuffle=False,
              verbose=2 if hvd.rank() == 0 else 0)  # rank 0 only
    hvd.print0(f"total time: {time.perf_counter() - start:.2f} s on {hvd.size()} ranks")
    hvd.shutdown()


if __name__ == "__main__":
    main()
