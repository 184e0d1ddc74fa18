"""Batches of features and residuals, the same ones whenever a training is taken up again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lln.core.seeding import subseed
from lln.data.series import Dataset
from lln.data.stream import Pairs, pair_batches
from lln.step.frame import Array, Frame

BLOCK_ROWS = 1 << 16
_BLOCK_NUMBERS = 1 << 24


class Batch(Protocol):
    """What training asks for."""

    def __call__(self, update: int, size: int, seeds: Sequence[int]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Features (S, B, F), residuals (S, B, n) and weights (S, B) of update number `update`."""


def residuals(frame: Frame, batch: Pairs) -> tuple[Array, Array]:
    """Features (P, F), and what the linear part leaves of the increments, in units of the gain, (P, n)."""
    features = frame.feature_rows(batch.window, batch.inputs)
    rest = batch.increments / frame.scale - features @ frame.matrix.T - frame.offset
    return features, rest / np.where(frame.gain > 0, frame.gain, 1.0)


class Rows:
    """Pairs in memory.

    Args:
        features: (P, F).
        targets: (P, n).
        weights: (P,), or None.
        device: where they shall be.
    """

    def __init__(self, features: Array, targets: Array, weights: Array | None, device: str) -> None:
        self.features = torch.from_numpy(features).to(device, torch.float32)
        self.targets = torch.from_numpy(targets).to(device, torch.float32)
        self.weights = None if weights is None else torch.from_numpy(weights / weights.mean()).to(device, torch.float32)
        self._order: tuple[tuple[int, tuple[int, ...]], Tensor] | None = None

    def __len__(self) -> int:
        return len(self.features)

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The pairs of one update: every pair once in an epoch, in an order of each seed's own."""
        size = min(size, len(self))
        each = len(self) // size
        epoch, position = divmod(update, each)
        key = (epoch, tuple(seeds))
        if self._order is None or self._order[0] != key:
            self._order = (key, _orders(len(self), epoch, seeds, self.features.device))
        chosen = self._order[1][:, position * size : (position + 1) * size]
        weights = None if self.weights is None else self.weights[chosen]
        return self.features[chosen], self.targets[chosen], weights

    def some(self, rows: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """At most so many pairs, evenly chosen."""
        if len(self) <= rows:
            return self.features, self.targets, self.weights
        chosen = torch.linspace(0, len(self) - 1, rows, dtype=torch.float64).round().long().to(self.features.device)
        return self.features[chosen], self.targets[chosen], None if self.weights is None else self.weights[chosen]


class Stream:
    """Pairs on the disk, a block of them in memory at a time.

    Args:
        dataset: where they are.
        frame: what turns them into features and residuals.
        device: where a block shall be.
        seed: of the order of blocks.
    """

    def __init__(self, dataset: Dataset, frame: Frame, device: str, seed: int) -> None:
        self.dataset, self.frame, self.device, self.seed = dataset, frame, device, seed
        self.rows = max(1024, min(BLOCK_ROWS, _BLOCK_NUMBERS // frame.features))
        self.pairs = dataset.transitions(frame.history)
        self._at: tuple[int, int] = (-1, -1)
        self._blocks: Iterator[Pairs] = iter(())
        self._block: Rows | None = None

    def __len__(self) -> int:
        return self.pairs

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> tuple[Tensor, Tensor, Tensor | None]:
        """The pairs of one update; all members look at the same block, each in an order of its own."""
        whole, rest = divmod(self.pairs, self.rows)
        each = max(1, self.rows // size)
        last = max(1, rest // size) if rest else 0
        total = whole * each + last
        epoch, inside = divmod(update, total)
        block, position = divmod(inside, each)
        return self._get(epoch, block).batch(position, size, [subseed(s, epoch, block) for s in seeds])

    def some(self, rows: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """At most so many pairs, from one block."""
        return self._get(0, 0).some(rows)

    def _get(self, epoch: int, block: int) -> Rows:
        if self._at == (epoch, block) and self._block is not None:
            return self._block
        if self._at[0] != epoch or self._at[1] > block:
            self._blocks = pair_batches(
                self.dataset, self.frame.history, rows=self.rows, shuffle=subseed(self.seed, "blocks", epoch) >> 32
            )
            self._at = (epoch, -1)
        while self._at[1] < block:
            part = next(self._blocks)
            self._at = (epoch, self._at[1] + 1)
        self._block = Rows(*residuals(self.frame, part), part.weights, self.device)
        return self._block


def _orders(count: int, epoch: int, seeds: Sequence[int], device: torch.device) -> Tensor:
    drawn = [torch.randperm(count, generator=torch.Generator().manual_seed(subseed(s, "order", epoch))) for s in seeds]
    return torch.stack(drawn).to(device)
