"""A data set for cases, in a module that a spawned worker can import."""

from __future__ import annotations

from torch.utils.data import Dataset


class Numbers(Dataset):
    """Sample i is i. `kept` is sent to the workers with the data set."""

    def __init__(self, count: int, kept: object = None) -> None:
        self.count = count
        self.kept = kept

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index
