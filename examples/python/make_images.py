"""Makes an image folder to train on: make_images.py FOLDER

FOLDER/train/<digit>/NNNN.png (1,437 images) and FOLDER/test/<digit>/NNNN.png (360, every fifth) from the handwritten
digits in examples/data, enlarged from 8x8 to 32x32 grey pixels. The same files every time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image

DIGITS = Path(__file__).resolve().parent.parent / "data/digits.csv.gz"
SIDE = 32
DARKEST = 16  # of a pixel in DIGITS, which is 8 pixels wide


def make_images(folder: Path) -> None:
    """Makes the folder, which appears when it is complete. Does nothing if it exists, or another process is faster."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        write_images(unfinished)
        unfinished.chmod(0o755)
        os.rename(unfinished, folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def write_images(folder: Path) -> None:
    with gzip.open(DIGITS, "rt") as rows:
        for number, row in enumerate(rows):
            *pixels, label = (int(value) for value in row.split(","))
            place = folder / ("test" if number % 5 == 0 else "train") / str(label)
            place.mkdir(parents=True, exist_ok=True)
            image = Image.frombytes("L", (8, 8), bytes(pixel * 255 // DARKEST for pixel in pixels))
            image.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(place / f"{number:04}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes an image folder from the handwritten digits.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    make_images(folder)
    for part in ("train", "test"):
        print(f"{folder / part}: {len(list((folder / part).glob('*/*.png')))} images")


if __name__ == "__main__":
    main()
