"""A convolutional network that learns an image folder, in PyTorch: from one GPU to many.

    hvdrun -np 2 python3 torch_cnn.py --data images --epochs 6

Without hvdrun it is a program for one GPU. A folder that is not there is made from digits (make_images.py).
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import hvd.torch
import numpy as np
import torch
import torch.nn.functional as F
from hvd.torch.sampler import DistributedSampler
from make_images import make_images
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset


class ImageFolder(Dataset):
    """FOLDER/<class>/*.png as (1, 32, 32) pixels of 0 to 1, and the class's number."""

    def __init__(self, folder: Path) -> None:
        classes = sorted(path.name for path in folder.iterdir())
        self.files = [(file, label) for label, name in enumerate(classes) for file in sorted((folder / name).iterdir())]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        file, label = self.files[index]
        with Image.open(file) as image:
            return torch.from_numpy(np.asarray(image, np.float32)[None] / 255), label


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 10))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> dict[str, float]:
    """Returns loss and accuracy over the test images of all ranks."""
    loss, hits = 0.0, 0
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            outputs, labels = model(images.to(device)), labels.to(device)
            loss += F.cross_entropy(outputs, labels, reduction="sum").item()
            hits += int((outputs.argmax(1) == labels).sum())
    samples = len(loader.dataset)
    # Average: every rank has tested its own images; the weight is their number.
    return hvd.average_metrics({"loss": loss / samples, "accuracy": hits / samples}, weight=samples)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small CNN on an image folder, on one GPU or many.")
    parser.add_argument("--data", type=Path, default=Path("images"), help="FOLDER/train/<class>/*.png, FOLDER/test")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8, help="of each rank")
    parser.add_argument("--lr", type=float, default=0.02, help="for one rank")
    parser.add_argument("--scaling", default="linear", help="of the rate with ranks: linear, sqrt, two-thirds, none")
    parser.add_argument("--divide", action="store_true", help="divide the batch among the ranks, and keep the rate")
    parser.add_argument("--checkpoints", type=Path, help="a folder to save into after each epoch, and to go on from")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()

    # Init: from here on each process knows its rank.
    hvd.init()
    torch.manual_seed(args.seed)

    # Pin: one GPU to each process.
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_device())
        torch.cuda.set_device(device)

    # One process of each host makes the data; the others wait for it.
    if hvd.local_rank() == 0:
        make_images(args.data)
    hvd.torch.barrier()

    # Shard: all images are shuffled, each step's are divided among the ranks.
    train = ImageFolder(args.data / "train")
    batch = args.batch if args.divide else args.batch * hvd.size()  # of all ranks together
    sampler = DistributedSampler(train, batch, seed=args.seed)
    loader = DataLoader(train, sampler=sampler, batch_size=sampler.local_batch)
    test = ImageFolder(args.data / "test")
    test_loader = DataLoader(Subset(test, range(hvd.rank(), len(test), hvd.size())), batch_size=100)

    # Scale: if N ranks use N times as many images per step, the rate rises, over one epoch.
    top_rate = hvd.scale_rate(args.lr, scaling="none" if args.divide else args.scaling)
    warmup_steps, all_steps = len(loader), len(loader) * args.epochs

    def rate(step: int) -> float:
        return hvd.warmup(args.lr, top_rate, step, warmup_steps) * (1 + math.cos(math.pi * step / all_steps)) / 2

    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)

    # Continue from the newest checkpoint, the same one on all ranks. Only rank 0 writes checkpoints.
    checkpoints = hvd.checkpoint.Checkpoints(args.checkpoints) if args.checkpoints else None
    first_epoch = 0
    if checkpoints and (loaded := checkpoints.load()):
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        first_epoch = loaded["epoch"]
        hvd.print0(f"continuing after epoch {first_epoch}")

    # Wrap: step() averages the gradients of all ranks.
    optimizer = hvd.torch.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    # Broadcast: all ranks begin with rank 0's weights.
    hvd.torch.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.torch.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(first_epoch, args.epochs):
        hvd.progress(epoch=epoch, epochs=args.epochs)  # for hvdrun's last lines, its report and hvdrun scale
        sampler.set_epoch(epoch)
        start = time.perf_counter()
        for step, (images, labels) in enumerate(loader, epoch * len(loader)):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            train_step(model, optimizer, images.to(device), labels.to(device))
            hvd.progress(step=step + 1, samples=len(labels))
        seconds = time.perf_counter() - start

        metrics = evaluate(model, test_loader, device)
        for name, value in metrics.items():
            hvd.set_metric(name, value)
        # Rank 0 only: the figures are the same on all ranks.
        hvd.print0(f"epoch {epoch + 1}: {seconds:.2f} s, {len(train) / seconds:.0f} images/s, "
                   f"test loss {metrics['loss']:.4f}, test accuracy {100 * metrics['accuracy']:.1f} %")
        if checkpoints:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            checkpoints.save(state, step=(epoch + 1) * len(loader))
    hvd.progress(epoch=args.epochs)
    if checkpoints:
        checkpoints.wait()  # the last one is on the disk
        checkpoints.close()
    hvd.shutdown()


if __name__ == "__main__":
    main()
