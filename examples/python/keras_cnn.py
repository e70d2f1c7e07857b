"""A convolutional network that learns an image folder, in Keras: from one GPU to many.

    hvdrun -np 2 python3 keras_cnn.py --data images --epochs 6 --input shard

Without hvdrun it is a program for one GPU. A folder that is not there is made from digits (make_images.py). Runs with
Keras 3 and with Keras 2.15.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hvd
import hvd.tensorflow.keras as hvk
import numpy as np
import tensorflow as tf
from make_images import make_images
from PIL import Image
from tensorflow import keras
from tensorflow.keras import layers


def generate_batches(files: list[Path], batch: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The generator way: yields batches without end, all images in another order in each pass."""
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(files))
        for begin in range(0, len(files) - batch + 1, batch):
            chosen = [files[index] for index in order[begin : begin + batch]]
            images = np.stack([np.asarray(Image.open(file), np.float32)[..., None] / 255 for file in chosen])
            yield images, np.array([int(file.parent.name) for file in chosen])


def read_image(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns pixels (32, 32, 1) from 0 to 1, and the label, which is the name of the image's folder."""
    image = tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), channels=1), (32, 32, 1))
    return tf.cast(image, tf.float32) / 255, tf.strings.to_number(tf.strings.split(path, "/")[-2], tf.int32)


def shard_batches(files: list[Path], batch: int, steps: int, seed: int) -> tf.data.Dataset:
    """The shard way: this rank's part of all images, which are in another order in each pass."""
    paths = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    # Shuffle, with one seed for all ranks; then shard; then batch. All ranks have as many images.
    paths = paths.shuffle(len(files), seed=seed).take(steps * batch * hvd.size()).shard(hvd.size(), hvd.rank())
    return paths.map(read_image).batch(batch).prefetch(2)


def make_model() -> keras.Model:
    return keras.Sequential([
        layers.Input((32, 32, 1)),
        layers.Conv2D(16, 5, strides=2, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(10, activation="softmax")])


class Report(keras.callbacks.Callback):
    """Prints an epoch's figures, and reports them to hvdrun, for its report and for hvdrun scale."""

    def __init__(self, images: int) -> None:
        super().__init__()
        self.images = images  # in an epoch, of all ranks together

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        hvd.progress(epoch=epoch, epochs=self.params["epochs"])
        self.start = time.perf_counter()

    def on_test_begin(self, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self.start

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        hvd.progress(samples=self.images // hvd.size())
        hvd.set_metric("loss", logs["val_loss"])
        hvd.set_metric("accuracy", logs["val_accuracy"])
        # Rank 0 only: the figures are the same on all ranks.
        hvd.print0(f"epoch {epoch + 1}: {self.seconds:.2f} s, {self.images / self.seconds:.0f} images/s, "
                   f"test loss {logs['val_loss']:.4f}, test accuracy {100 * logs['val_accuracy']:.1f} %")

    def on_train_end(self, logs: Any = None) -> None:
        hvd.progress(epoch=self.params["epochs"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small CNN on an image folder, on one GPU or many.")
    parser.add_argument("--data", type=Path, default=Path("images"), help="FOLDER/train/<digit>/*.png, FOLDER/test")
    parser.add_argument("--input", choices=["generator", "shard"], default="shard")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8, help="of each rank")
    parser.add_argument("--lr", type=float, default=0.02, help="for one rank")
    parser.add_argument("--checkpoints", type=Path, help="a folder to save the model into after each epoch")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()

    # Init: from here on each process knows its rank.
    hvd.init()
    keras.utils.set_random_seed(args.seed)

    # Pin: one GPU to each process.
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_device()], "GPU")

    # One process of each host makes the data; the others wait for it.
    if hvd.local_rank() == 0:
        make_images(args.data)
    hvk.barrier()

    # Shard: each rank makes its part of an epoch's steps.
    files = sorted(args.data.glob("train/*/*.png"))
    steps = len(files) // args.batch // hvd.size()
    if args.input == "generator":
        train = generate_batches(files, args.batch, seed=args.seed + hvd.rank())  # another order on each rank
    else:
        train = shard_batches(files, args.batch, steps, args.seed)
    test_files = sorted(args.data.glob("test/*/*.png"))[hvd.rank() :: hvd.size()]
    test = tf.data.Dataset.from_tensor_slices([str(file) for file in test_files]).map(read_image).batch(100)

    # Scale and wrap: N ranks use N times as many images per step, so the rate rises; the gradients are averaged.
    rate = args.lr * hvd.size()
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
    model = make_model()
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)

    callbacks = [
        # Broadcast: all ranks begin with rank 0's weights.
        hvk.callbacks.BroadcastGlobalVariablesCallback(0),
        # Average: the metrics of all ranks' test images; before the callbacks that read them.
        hvk.callbacks.MetricAverageCallback(),
        # The rate of one rank at first, that of all after an epoch, and less in each one after it.
        hvk.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=1, steps_per_epoch=steps),
        hvk.callbacks.LearningRateScheduleCallback(
            rate, lambda epoch: (1 + math.cos(math.pi * epoch / args.epochs)) / 2, start_epoch=1),
        Report(images=steps * args.batch * hvd.size()),
    ]
    # Rank 0 only: one process writes the checkpoints.
    if args.checkpoints and hvd.rank() == 0:
        args.checkpoints.mkdir(parents=True, exist_ok=True)
        callbacks.append(keras.callbacks.ModelCheckpoint(str(args.checkpoints / "epoch-{epoch:03}.keras")))

    model.fit(train, steps_per_epoch=steps if args.input == "generator" else None, epochs=args.epochs,
              validation_data=test, callbacks=callbacks, verbose=0, shuffle=False)  # `train` is in its order
    hvd.shutdown()


if __name__ == "__main__":
    main()
