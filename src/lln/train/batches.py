"""Batches of examples, gathered on the training device, and the loss of examples over several steps.

A batch depends on the number of its update alone. States in examples over several steps are any tensors: rows of
numbers or fields, in any units. A step is a function of the last H states and of known inputs that returns the next
state; the model behind it is trained, with gradients through the rollout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lln.data.series import Dataset
from lln.data.stream import Pairs, pair_batches
from lln.train.loop import Loss

Array = NDArray[np.floating[Any]]
Convert = Callable[[Pairs], tuple[Array, Array]]
"""Pairs of states -> features (P, F) and targets (P, n)."""
Triple = tuple[Tensor, Tensor, Tensor | None]
"""Features (S, B, F), targets (S, B, n) and weights (S, B)."""

StepFunction = Callable[[Sequence[Tensor], Tensor | None], Tensor]
"""H states, oldest first, and the inputs of the present or None -> the next state."""

BLOCK_ROWS = 1 << 16
_BLOCK_NUMBERS = 1 << 24


def subseed(seed: int, *path: str | int) -> int:
    """A 63-bit seed that depends on `seed` and every element of `path`, the same on every machine.

    >>> subseed(0, "batches") == subseed(0, "batches")
    True
    >>> subseed(0, "batches") == subseed(1, "batches")
    False
    """
    text = "\x1f".join([str(int(seed)), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class EpochBatches:
    """Rows of tensors (P, ...), `size` in a batch, every row once in an epoch; its last batch takes what is left.

    The order of an epoch is the next draw of one generator for each seed, so epochs must be visited in order.
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


class Orders:
    """Orders of `count` examples, drawn from seed and epoch; those of the last epoch are kept."""

    def __init__(self, count: int, device: torch.device | str) -> None:
        self.count, self.device = count, device
        self._known: tuple[tuple[int, tuple[int, ...]], Tensor] | None = None

    def __call__(self, epoch: int, seeds: Sequence[int]) -> Tensor:
        """The order of an epoch for every seed, (S, count)."""
        key = (epoch, tuple(seeds))
        if self._known is None or self._known[0] != key:
            drawn = [
                torch.randperm(self.count, generator=torch.Generator().manual_seed(subseed(seed, "order", epoch)))
                for seed in seeds
            ]
            self._known = (key, torch.stack(drawn).to(self.device))
        return self._known[1]


class InMemoryBatches:
    """Pairs of features (P, F) and targets (P, n) in memory, with weights (P,) or none."""

    def __init__(self, features: Array, targets: Array, weights: Array | None, device: str) -> None:
        self.features = torch.from_numpy(features).to(device, torch.float32)
        self.targets = torch.from_numpy(targets).to(device, torch.float32)
        self.weights = None if weights is None else torch.from_numpy(weights / weights.mean()).to(device, torch.float32)
        self._orders = Orders(len(features), device)

    def __len__(self) -> int:
        return len(self.features)

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> Triple:
        """The pairs of one update: every pair once in an epoch, in one order for each seed."""
        size = min(size, len(self))
        each = len(self) // size
        epoch, position = divmod(update, each)
        chosen = self._orders(epoch, seeds)[:, position * size : (position + 1) * size]
        weights = None if self.weights is None else self.weights[chosen]
        return self.features[chosen], self.targets[chosen], weights

    def some(self, rows: int) -> Triple:
        """At most `rows` pairs, evenly spaced: (P, F), (P, n) and (P,)."""
        if len(self) <= rows:
            return self.features, self.targets, self.weights
        chosen = torch.linspace(0, len(self) - 1, rows, dtype=torch.float64).round().long().to(self.features.device)
        return self.features[chosen], self.targets[chosen], None if self.weights is None else self.weights[chosen]


class StreamedBatches:
    """Pairs of features and targets on disk, one block of them in memory at a time.

    Args:
        dataset: source of the pairs, each with a window of `history` states.
        width: number of features, which sets the size of a block.
        convert: turns pairs of states into features and targets.
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
        epoch, inside = divmod(update, whole * each + (max(1, rest // size) if rest else 0))
        block, position = divmod(inside, each)
        return self._get(epoch, block).batch(position, size, [subseed(s, epoch, block) for s in seeds])

    def some(self, rows: int) -> Triple:
        """At most `rows` pairs, from one block."""
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


class Examples(Protocol):
    """A tensor, or an object that reads its rows on request."""

    def __len__(self) -> int:
        """Number of examples P."""

    def __getitem__(self, chosen: Tensor, /) -> Tensor:
        """The examples with these numbers, (B, ...)."""


def unrolled_loss(
    step: StepFunction, history: int, steps: int, *, scale: Tensor | float = 1.0, growing: bool = False
) -> Loss:
    """The mean squared error of rollouts as a function of a batch, one for each of S members.

    The batch is: states (S, B, H + steps, ...), with H = `history`; inputs (S, B, steps, m) or None; weights (S, B) or
    None.

    An error counts in units of `scale`, which broadcasts against a state; where it is `growing`, the unit grows with
    the number of steps, as errors of one sign do.
    """

    def loss(rows: Tensor, inputs: Tensor | None, weights: Tensor | None) -> Tensor:
        states = rows.unbind(2)
        known = None if inputs is None else inputs.unbind(2)
        window = list(states[:history])
        total = torch.zeros((), dtype=rows.dtype, device=rows.device)
        for k in range(steps):
            after = step(window, None if known is None else known[k])
            error = (after - states[history + k]) / (scale * (k + 1) if growing else scale)
            total = total + error.square().flatten(2).mean(dim=2)
            window = [*window[1:], after]
        each = total / steps
        if weights is None:
            return each.mean(dim=-1)
        return (each * weights).sum(dim=-1) / weights.sum(dim=-1)

    return loss


@dataclass(eq=False)
class UnrolledBatches:
    """Batches of examples for `unrolled_loss`; every example once in an epoch, the last batch takes what is left.

    Noise is added to the first H states alone: targets stay clean, so that the model learns to correct small errors.
    """

    examples: Examples  #: (P, H + steps, ...): H states to start from and the states that follow.
    history: int  #: H.
    size: int  #: examples in one batch.
    seeds: Sequence[int]  #: of orders and noise, one for each member.
    noise: float = 0.0  #: standard deviation of the noise, in the units of the states.
    inputs: Callable[[Tensor], Tensor] | None = None  #: numbers of examples (B,) -> their known inputs (B, steps, m).
    weights: Tensor | None = None  #: (P,).
    device: torch.device | str = "cpu"  #: of the orders.

    def __post_init__(self) -> None:
        """Count the batches of an epoch."""
        self.each = -(-len(self.examples) // self.size)
        self._orders = Orders(len(self.examples), self.device)

    def __call__(self, update: int) -> list[Tensor | None]:
        """States, inputs and weights of update number `update`, the members first."""
        epoch, index = divmod(update, self.each)
        chosen = self._orders(epoch, self.seeds)[:, index * self.size : (index + 1) * self.size]
        rows = self.examples[chosen.flatten()].unflatten(0, chosen.shape)
        if self.noise:
            start = rows[:, :, : self.history]
            drawn = [self._draw(part, seed, update) for part, seed in zip(start, self.seeds, strict=True)]
            rows = torch.cat((start + self.noise * torch.stack(drawn), rows[:, :, self.history :]), dim=2)
        known = None if self.inputs is None else self.inputs(chosen.flatten()).unflatten(0, chosen.shape)
        return [rows, known, None if self.weights is None else self.weights[chosen]]

    def _draw(self, like: Tensor, seed: int, update: int) -> Tensor:
        generator = torch.Generator(like.device).manual_seed(subseed(seed, "noise", update))
        return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Runs of consecutive pairs in memory, from which every member of an ensemble draws its own."""

    window: Tensor  #: the states before each pair, (P, H, n).
    after: Tensor  #: the state that follows each, (P, n).
    inputs: Tensor | None  #: known inputs of each pair, (P, m), or None.
    first: Tensor  #: pairs from which a run of `steps` continues without a gap.
    steps: int  #: length of a run.

    def batch(self, update: int, size: int, seeds: Sequence[int]) -> list[Tensor | None]:
        """States (S, B, H + steps, n), inputs (S, B, steps, m) and no weights, drawn from seed and update."""
        rows = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(subseed(seed, "stretch", update))
            rows.append(torch.randint(len(self.first), (size,), generator=generator))
        chosen = self.first[torch.stack(rows).to(self.first.device)]
        run = chosen.unsqueeze(-1) + torch.arange(self.steps, device=chosen.device)
        states = torch.cat((self.window[chosen], self.after[run]), dim=2)
        return [states, None if self.inputs is None else self.inputs[run], None]
