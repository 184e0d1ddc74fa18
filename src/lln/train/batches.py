"""Batches of examples, gathered on the training device; each depends on the number of its update alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.core.seeding import subseed
from lln.data.series import Dataset
from lln.data.stream import Pairs, pair_batches

Array = NDArray[np.floating[Any]]
Convert = Callable[[Pairs], tuple[Array, Array]]
"""Pairs of states -> features (P, F) and targets (P, n)."""
Triple = tuple[Tensor, Tensor, Tensor | None]
"""Features (S, B, F), targets (S, B, n) and weights (S, B)."""

BLOCK_ROWS = 1 << 16
_BLOCK_NUMBERS = 1 << 24


class EpochBatches:
    """Rows of tensors, every row once in an epoch; the last batch of an epoch takes what is left.

    The order of an epoch is the next draw of one generator for each seed, so epochs must be visited in order.

    Args:
        tensors: (P, ...) each.
        size: rows in one batch.
        seeds: one order for each.
    """

    def __init__(self, tensors: Sequence[Tensor], size: int, seeds: Sequence[int]) -> None:
        self.tensors, self.size = tuple(tensors), size
        self.each = -(-len(tensors[0]) // size)
        self._generators = [torch.Generator().manual_seed(subseed(seed, "batches")) for seed in seeds]
        self._order = torch.empty(len(seeds), 0, dtype=torch.long)

    def __call__(self, update: int) -> list[Tensor]:
        """The rows of update number `update` for every seed, (S, B, ...)."""
        index = update % self.each
        if index == 0:
            count = len(self.tensors[0])
            drawn = [torch.randperm(count, generator=generator) for generator in self._generators]
            self._order = torch.stack(drawn).to(self.tensors[0].device)
        chosen = self._order[:, index * self.size : (index + 1) * self.size]
        return [tensor[chosen] for tensor in self.tensors]

    def one(self, update: int) -> list[Tensor]:
        """The rows of a single seed, (B, ...)."""
        return [tensor[0] for tensor in self(update)]


class Order:
    """Which examples an update sees: every one once in an epoch, in an order drawn from seed and epoch.

    Args:
        count: number of examples.
        size: examples in one batch; the last batch of an epoch takes what is left.
        seeds: one order for each.
        device: where the indices are needed.
    """

    def __init__(self, count: int, size: int, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.count, self.size, self.seeds, self.device = count, size, seeds, device
        self.each = -(-count // size)
        self._known: tuple[int, Tensor] | None = None

    def __call__(self, update: int) -> Tensor:
        """Indices of the examples of update number `update`, (S, B)."""
        epoch, index = divmod(update, self.each)
        if self._known is None or self._known[0] != epoch:
            self._known = (epoch, _orders(self.count, epoch, self.seeds, self.device))
        return self._known[1][:, index * self.size : (index + 1) * self.size]


class InMemoryBatches:
    """Pairs of features and targets in memory.

    Args:
        features: (P, F).
        targets: (P, n).
        weights: (P,), or None.
        device: where they are kept.
    """

    def __init__(self, features: Array, targets: Array, weights: Array | None, device: str) -> None:
        self.features = torch.from_numpy(features).to(device, torch.float32)
        self.targets = torch.from_numpy(targets).to(device, torch.float32)
        self.weights = None if weights is None else torch.from_numpy(weights / weights.mean()).to(device, torch.float32)
        self._order: tuple[tuple[int, tuple[int, ...]], Tensor] | None = None

    def __len__(self) -> int:
        return len(self.features)

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> Triple:
        """The pairs of one update: every pair once in an epoch, in one order for each seed."""
        size = min(size, len(self))
        each = len(self) // size
        epoch, position = divmod(update, each)
        key = (epoch, tuple(seeds))
        if self._order is None or self._order[0] != key:
            self._order = (key, _orders(len(self), epoch, seeds, self.features.device))
        chosen = self._order[1][:, position * size : (position + 1) * size]
        weights = None if self.weights is None else self.weights[chosen]
        return self.features[chosen], self.targets[chosen], weights

    def some(self, rows: int) -> Triple:
        """At most so many pairs, evenly spaced: (P, F), (P, n) and (P,)."""
        if len(self) <= rows:
            return self.features, self.targets, self.weights
        chosen = torch.linspace(0, len(self) - 1, rows, dtype=torch.float64).round().long().to(self.features.device)
        return self.features[chosen], self.targets[chosen], None if self.weights is None else self.weights[chosen]


class StreamedBatches:
    """Pairs of features and targets on disk, one block of them in memory at a time.

    Args:
        dataset: source of the pairs.
        history: states in the window of a pair.
        width: number of features, which sets the size of a block.
        convert: turns pairs of states into features and targets.
        device: where a block is kept.
        seed: of the order of blocks.
    """

    def __init__(self, dataset: Dataset, history: int, width: int, convert: Convert, device: str, seed: int) -> None:
        self.dataset, self.history, self.convert, self.device, self.seed = dataset, history, convert, device, seed
        self.rows = max(1024, min(BLOCK_ROWS, _BLOCK_NUMBERS // width))
        self.pairs = dataset.transitions(history)
        self._at: tuple[int, int] = (-1, -1)
        self._blocks: Iterator[Pairs] = iter(())
        self._block: InMemoryBatches | None = None

    def __len__(self) -> int:
        return self.pairs

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> Triple:
        """The pairs of one update; all members see the same block, each in its own order."""
        whole, rest = divmod(self.pairs, self.rows)
        each = max(1, self.rows // size)
        last = max(1, rest // size) if rest else 0
        total = whole * each + last
        epoch, inside = divmod(update, total)
        block, position = divmod(inside, each)
        return self._get(epoch, block).batch(position, size, [subseed(s, epoch, block) for s in seeds])

    def some(self, rows: int) -> Triple:
        """At most so many pairs, from one block."""
        return self._get(0, 0).some(rows)

    def _get(self, epoch: int, block: int) -> InMemoryBatches:
        if self._at == (epoch, block) and self._block is not None:
            return self._block
        if self._at[0] != epoch or self._at[1] > block:
            self._blocks = pair_batches(
                self.dataset, self.history, rows=self.rows, shuffle=subseed(self.seed, "blocks", epoch) >> 32
            )
            self._at = (epoch, -1)
        while self._at[1] < block:
            part = next(self._blocks)
            self._at = (epoch, self._at[1] + 1)
        self._block = InMemoryBatches(*self.convert(part), part.weights, self.device)
        return self._block


Batches = InMemoryBatches | StreamedBatches


def _orders(count: int, epoch: int, seeds: Sequence[int], device: torch.device | str) -> Tensor:
    drawn = [torch.randperm(count, generator=torch.Generator().manual_seed(subseed(s, "order", epoch))) for s in seeds]
    return torch.stack(drawn).to(device)
