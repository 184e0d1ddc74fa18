"""Fields out of a dataset: units of channels, examples read when they are asked for, batches for the linear part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.stream import pair_batches
from lln.fit.closed.linear import wide_enough
from lln.fit.fields.grid import Grid
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array, Polynomial

_RESIDENT = {"cpu": 1 << 30, "cuda": 8 << 30}  # bytes of states that are held on a device
_MOST_ROWS = 2_000_000  # points that a linear fit looks at; more would not move it


def empty_frame(dataset: Dataset, grid: Grid, history: int, conserve: str) -> FieldFrame:
    """A frame with the units of `dataset` and nothing in it yet: no linear part, no gain."""
    channels, m = dataset.size // math.prod(grid.space), dataset.inputs
    sums = np.zeros((2, channels))
    changes = np.zeros((max(history - 1, 0), channels))
    known = np.zeros((2, m))
    low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
    count = 0
    for batch in pair_batches(dataset, history):
        fields = batch.window.reshape(len(batch), history, channels, -1)
        sums += np.stack([fields[:, -1].mean(axis=2).sum(axis=0), np.square(fields[:, -1]).mean(axis=2).sum(axis=0)])
        low, high = np.minimum(low, fields[:, -1].min(axis=(0, 2))), np.maximum(high, fields[:, -1].max(axis=(0, 2)))
        for j in range(1, history):
            changes[j - 1] += np.square(fields[:, -j] - fields[:, -j - 1]).mean(axis=2).sum(axis=0)
        if batch.inputs is not None:
            known += np.stack([batch.inputs.sum(axis=0), np.square(batch.inputs).sum(axis=0)])
        count += len(batch)
    mean, scale = _mean_and_scale(sums / count)
    wide_enough(high - low, np.sqrt(np.maximum(sums[1] / count - mean**2, 0.0)))
    input_mean, input_scale = _mean_and_scale(known / count)
    steps = np.sqrt(changes / count) / scale
    return FieldFrame(
        space=grid.space,
        boundary=grid.boundary,
        kernel=(1,) * len(grid.space),
        history=history,
        channel_mean=mean,
        channel_scale=scale,
        difference_scale=np.where(steps > 0, steps, 1.0),
        input_mean=input_mean,
        input_scale=input_scale,
        matrix=np.zeros((channels, channels * history + m)),
        offset=np.zeros(channels),
        gain=np.zeros(channels),
        conserve=conserve,
    )


def _mean_and_scale(moments: Array) -> tuple[Array, Array]:
    mean = moments[0]
    # Twelve digits: below that a spread is what rounding left of a constant.
    variance = np.where(moments[1] - mean**2 > 1e-12 * moments[1], moments[1] - mean**2, 0.0)
    return mean, np.where(variance > 0, np.sqrt(variance), 1.0)


def channel_range(dataset: Dataset, channels: int) -> tuple[Array, Array]:
    """Smallest and largest value of every channel, (C,) each."""
    low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
    for one in dataset.series:
        for _, block in one.blocks():
            fields = block.reshape(len(block), channels, -1)
            low = np.fmin(low, np.nanmin(fields, axis=(0, 2), initial=np.inf))
            high = np.fmax(high, np.nanmax(fields, axis=(0, 2), initial=-np.inf))
    return low, high


def linear_batches(dataset: Dataset, frame: FieldFrame) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Features, standardised increments and weights of pairs, as `PatchRegression.of` wants them."""
    points = math.prod(frame.space)
    total = dataset.transitions(frame.history) * points
    stride = max(1, -(-total // _MOST_ROWS))
    for batch in pair_batches(dataset, frame.history):
        chosen = slice(None, None, stride)
        features = torch.from_numpy(
            frame.feature_rows(batch.window[chosen], None if batch.inputs is None else batch.inputs[chosen])
        )
        change = frame.fields(batch.increments[chosen]) / torch.from_numpy(frame.channel_scale)
        weights = None if batch.weights is None else torch.from_numpy(batch.weights[chosen])
        yield features, change, weights


@dataclass(frozen=True, eq=False)
class FieldExamples:
    """Stretches of a dataset as fields: gathered on the device where all states fit, else read from disk on request.

    Attributes:
        dataset: source of the states.
        frame: shape of the fields.
        rows: states in one example.
        starts: trajectory and first row of each example.
        device: where they are needed.
    """

    dataset: Dataset
    frame: FieldFrame
    rows: int
    starts: tuple[tuple[int, int], ...]
    device: str = "cpu"

    @classmethod
    def of(cls, dataset: Dataset, frame: FieldFrame, steps: int, device: str = "cpu") -> FieldExamples:
        """Every stretch of H + `steps` states without a gap."""
        rows = frame.history + steps
        starts = tuple((i, k) for i, a, b in dataset.stretches(rows) for k in range(a, b - rows + 1))
        if not starts:
            raise InputError(f"{dataset.source}: no stretch of {rows} states without a gap; unroll fewer steps")
        return cls(dataset, frame, rows, starts, device)

    @property
    def shape(self) -> Sequence[int]:
        """(P, rows, *space, C)."""
        return (len(self.starts), self.rows, *self.frame.space, self.frame.channels)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """(B, rows, *space, C) in float64."""
        if self._states is not None:
            first = self._first[chosen.to(self._first.device)]
            return self._states[first.unsqueeze(1) + torch.arange(self.rows, device=first.device)]
        parts = [self.dataset.series[i].rows(k, k + self.rows) for i, k in self._chosen(chosen)]
        return self.frame.fields(np.stack(parts)).to(self.device)

    @cached_property
    def _states(self) -> Tensor | None:
        """Every state as a field on the device, (rows, *space, C); None where they do not fit."""
        if self.dataset.lazy or 8 * self.dataset.rows * self.frame.size > _RESIDENT[self.device.partition(":")[0]]:
            return None
        parts = [np.asarray(one.rows(0, len(one)), dtype=np.float64) for one in self.dataset.series]
        return self.frame.fields(np.concatenate(parts)).to(self.device)

    @cached_property
    def _first(self) -> Tensor:
        """Row of `_states` at which each example starts."""
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in self.dataset.series])])
        return torch.tensor([int(offsets[i]) + k for i, k in self.starts], device=self.device)

    def inputs(self) -> FieldInputs | None:
        """Known inputs of every step of the examples."""
        return FieldInputs(self) if self.dataset.inputs else None

    def weights(self) -> Tensor | None:
        """How much each example counts, (P,): as much as its lightest row."""
        if all(one.weights is None for one in self.dataset.series):
            return None
        found = []
        for i, k in self.starts:
            given = self.dataset.series[i].weights
            found.append(1.0 if given is None else float(given[k : k + self.rows].min()))
        return torch.tensor(found, dtype=torch.float64, device=self.device)

    def _chosen(self, chosen: Tensor) -> list[tuple[int, int]]:
        return [self.starts[index] for index in chosen.tolist()]


@dataclass(frozen=True, eq=False)
class FieldInputs:
    """The known inputs that belong to examples."""

    examples: FieldExamples

    @property
    def shape(self) -> Sequence[int]:
        """(P, steps, m)."""
        examples = self.examples
        return (len(examples), examples.rows - examples.frame.history, examples.dataset.inputs)

    def __getitem__(self, chosen: Tensor) -> Tensor:
        """(B, steps, m): the inputs at the state that each step leaves."""
        examples, parts = self.examples, []
        for i, k in examples._chosen(chosen):
            rows = examples.dataset.series[i].input_rows(k + examples.frame.history - 1, k + examples.rows - 1)
            parts.append(np.asarray(rows, dtype=np.float64))
        return torch.from_numpy(np.stack(parts)).to(examples.device)


def with_closed(
    frame: FieldFrame, kernel: tuple[int, ...], matrix: Array, offset: Array, polynomial: Polynomial | None = None
) -> FieldFrame:
    """The frame with these closed-form parts."""
    return replace(frame, kernel=kernel, matrix=matrix, offset=offset, polynomial=polynomial)


def spectral_radius(frame: FieldFrame, waves: int = 32) -> float:
    """How much the linear part can grow any wave in one step, in the long run; exact on rings, near it elsewhere."""
    d, c, history = len(frame.space), frame.channels, frame.history
    taps = frame.matrix.reshape(c, math.prod(frame.kernel), frame.features)[:, :, : c * history]
    offsets = np.stack(np.unravel_index(np.arange(math.prod(frame.kernel)), frame.kernel), axis=1)
    offsets = offsets - (np.array(frame.kernel) - 1) // 2
    angles = np.stack(np.meshgrid(*[2 * np.pi * np.arange(waves) / waves] * d, indexing="ij"), axis=-1).reshape(-1, d)
    symbol = np.einsum("wk,okc->woc", np.exp(1j * angles @ offsets.T), taps)
    # Coordinates: z_k, z_{k-1}, ...; a difference takes from one and gives to the next.
    step = np.zeros((len(angles), c * history, c * history), dtype=complex)
    step[:, :c, :c] = np.eye(c) + symbol[:, :, :c]
    for j in range(1, history):
        change = symbol[:, :, j * c : (j + 1) * c] / frame.difference_scale[j - 1]
        step[:, :c, (j - 1) * c : j * c] += change
        step[:, :c, j * c : (j + 1) * c] -= change
        step[:, j * c : (j + 1) * c, (j - 1) * c : j * c] = np.eye(c)
    return float(np.abs(np.linalg.eigvals(step)).max())
