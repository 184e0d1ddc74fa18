"""Fields out of a dataset: units of channels, examples read when they are asked for, batches for the linear part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.data.stream import pair_batches
from lln.fit.closed.linear import wide_enough
from lln.models.convolution import Sides, sides
from lln.step.field_frame import FieldFrame
from lln.step.frame import Array

_ROWS = 200  # states that are looked at, spread over the data
_UNEVEN = 1e-6
_STILL = 1e-6
# A step across the seam of a ring is like any other step; half as much again allows for chance.
_SEAM = 1.5
# At a mirror the slope is zero, and the first difference is small against those inside.
_FLAT = 0.5
_CONSERVED = 1e-6


@dataclass(frozen=True)
class Grid:
    """The grid of a field."""

    space: tuple[int, ...]  #: points along each axis.
    spacing: tuple[float, ...]  #: distance of neighbours along each axis, in the units of the coordinates.
    boundary: Sides  #: what lies beyond each side.
    notes: tuple[str, ...] = ()  #: sentences for the user: what was found, and how to say otherwise.

    def in_words(self, names: Iterable[str]) -> str:
        """Boundaries and spacing along each direction."""
        each = zip(names, self.boundary, self.spacing, strict=True)
        words = ((name, " and ".join(dict.fromkeys(pair)), step) for name, pair, step in each)
        return "; ".join(f"{name}: {sides}, spacing {step:.4g}" for name, sides, step in words)

    def spaced(self, names: Iterable[str]) -> str:
        """The distance of neighbours along each direction, in words."""
        return " and ".join(f"{step:.4g} along {name}" for step, name in zip(self.spacing, names, strict=True))


def grid_of(dataset: Dataset, boundary: str | Sequence[str | Sequence[str]] = "auto") -> Grid:
    """Spacing from coordinates; boundaries as given, or detected in the data where they are "auto"."""
    if not dataset.space:
        raise InputError(f"{dataset.source}: its states have no grid; give grid=, or use a dense model")
    if len(dataset.space) > 3:
        raise InputError(f"{dataset.source}: a grid of {len(dataset.space)} dimensions; fields have 1, 2 or 3")
    notes: list[str] = []
    spacing = []
    for name, positions in dataset.coords.items():
        steps = np.diff(np.asarray(positions, dtype=np.float64))
        spacing.append(float(abs(steps.mean())) if len(steps) and steps.mean() else 1.0)
        if len(steps) and np.ptp(steps) > _UNEVEN * abs(steps).max():
            notes.append(f"the grid is uneven along {name!r}; it is treated as even")
    if boundary != "auto":
        return Grid(dataset.space, tuple(spacing), sides(boundary, len(dataset.space)), tuple(notes))
    states = _sample(dataset)
    found = tuple(_axis(states, axis) for axis in range(len(dataset.space)))
    named = [f"{name}: {' and '.join(dict.fromkeys(pair))}" for name, pair in zip(dataset.coords, found, strict=True)]
    notes.append(f"boundaries were detected in the data ({'; '.join(named)}); the option boundary overrides them")
    return Grid(dataset.space, tuple(spacing), found, tuple(notes))


def conserves(dataset: Dataset) -> bool:
    """Whether the mean over space of every channel stays what it was, along every trajectory."""
    points = int(np.prod(dataset.space))
    for index, first, last in dataset.stretches(2):
        rows = np.unique(np.linspace(first, last - 1, min(last - first, _ROWS)).astype(int))
        states = np.stack([dataset.series[index].rows(k, k + 1)[0] for k in rows]).astype(np.float64)
        fields = states.reshape(len(rows), -1, points)
        drift = np.abs(fields.mean(axis=2) - fields[0].mean(axis=1)).max(axis=0)
        size = np.sqrt(np.square(fields).mean(axis=(0, 2)))
        if (drift > _CONSERVED * size).any():
            return False
    return True


def _sample(dataset: Dataset) -> Array:
    """Pairs of neighbouring states spread over the data, (P, 2, C, *space)."""
    spans = dataset.stretches(2)
    each = max(1, _ROWS // max(1, len(spans)))
    starts = [
        (index, int(k))
        for index, first, last in spans[:_ROWS]
        for k in np.unique(np.linspace(first, last - 2, min(each, last - first - 1)).astype(int))
    ]
    pairs = [np.asarray(dataset.series[index].rows(k, k + 2), dtype=np.float64) for index, k in starts]
    if not pairs:
        raise InputError(f"{dataset.source}: no two neighbouring states without a gap; nothing can be learned")
    states = np.stack(pairs).reshape(len(pairs), 2, -1, *dataset.space)
    axes = tuple(a for a in range(states.ndim) if a != 2)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when pairs are made
        spread = states.std(axis=axes, keepdims=True)
    return np.asarray(states / np.where(spread > 0, spread, 1.0))


def _axis(states: Array, axis: int) -> tuple[str, str]:
    """The boundary condition of both sides of one axis."""
    along = np.moveaxis(states, 3 + axis, -1)
    if along.shape[-1] < 3:
        return "periodic", "periodic"
    steps = _size(np.diff(along[:, 0], axis=-1))
    seam = float(_size(along[:, 0, ..., :1] - along[:, 0, ..., -1:])[0])
    still = _size(along[:, 1] - along[:, 0])
    moves = float(np.median(still))
    held = [bool(still[end] <= _STILL * moves) for end in (0, -1)]
    if not any(held) and seam <= _SEAM * float(np.quantile(steps, 0.9)):
        return "periodic", "periodic"
    inside = float(np.median(steps))
    kinds = ["dirichlet" if fixed else "neumann" if step < _FLAT * inside else "replicate"
             for fixed, step in zip(held, (steps[0], steps[-1]), strict=True)]  # fmt: skip
    return kinds[0], kinds[1]


def _size(values: Array) -> Array:
    """Root mean square over everything but the last axis."""
    return np.asarray(np.sqrt(np.square(values).mean(axis=tuple(range(values.ndim - 1)))))


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


def standardised(static: Array | None, space: tuple[int, ...]) -> Array | None:
    """Fixed fields with their mean at zero and their spread at one, (*space, s)."""
    if static is None:
        return None
    values = np.asarray(static, dtype=np.float64)
    values = values[..., None] if values.shape == space else values
    if values.shape[:-1] != space or not np.isfinite(values).all():
        raise InputError(
            f"static fields must be finite and have shape ({', '.join(map(str, space))}, s), got {np.shape(static)}"
        )
    axes = tuple(range(len(space)))
    spread = values.std(axis=axes)
    return np.asarray((values - values.mean(axis=axes)) / np.where(spread > 0, spread, 1.0))


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
    """Features, standardised increments and weights of pairs, as `PatchRegression.of` takes them."""
    total = dataset.transitions(frame.history) * math.prod(frame.space)
    chosen = slice(None, None, max(1, -(-total // _MOST_ROWS)))
    for batch in pair_batches(dataset, frame.history):
        features = torch.from_numpy(
            frame.feature_rows(batch.window[chosen], None if batch.inputs is None else batch.inputs[chosen])
        )
        change = frame.fields(batch.increments[chosen]) / torch.from_numpy(frame.channel_scale)
        weights = None if batch.weights is None else torch.from_numpy(batch.weights[chosen])
        yield features, change, weights


@dataclass(frozen=True, eq=False)
class FieldExamples:
    """Stretches of a dataset as fields: gathered on the device where all states fit, else read from disk on request."""

    dataset: Dataset  #: source of the states.
    frame: FieldFrame  #: shape of the fields.
    rows: int  #: states in one example.
    starts: tuple[tuple[int, int], ...]  #: trajectory and first row of each example.
    device: str  #: where they are needed.

    @classmethod
    def of(cls, dataset: Dataset, frame: FieldFrame, steps: int, device: str) -> FieldExamples:
        """Every stretch of H + `steps` states without a gap."""
        rows = frame.history + steps
        starts = tuple((i, k) for i, a, b in dataset.stretches(rows) for k in range(a, b - rows + 1))
        if not starts:
            raise InputError(f"{dataset.source}: no stretch of {rows} states without a gap; unroll fewer steps")
        return cls(dataset, frame, rows, starts, device)

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

    def inputs(self, chosen: Tensor) -> Tensor:
        """Known inputs at the state that each step leaves, (B, steps, m)."""
        before = self.frame.history - 1
        rows = [self.dataset.series[i].input_rows(k + before, k + self.rows - 1) for i, k in self._chosen(chosen)]
        return torch.from_numpy(np.stack([np.asarray(one, dtype=np.float64) for one in rows])).to(self.device)

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


def spectral_radius(frame: FieldFrame, waves: int = 32) -> float:
    """How much the linear part can grow any wave in one step, in the long run; exact on rings, near it elsewhere."""
    d, c, history = len(frame.space), frame.channels, frame.history
    # A kernel as wide as the grid was fitted to the waves of that grid alone.
    counts = [size if taps == size else max(waves, taps) for size, taps in zip(frame.space, frame.kernel, strict=True)]
    offsets = np.indices(frame.kernel).reshape(d, -1) - (np.array(frame.kernel)[:, None] - 1) // 2
    taps = np.zeros((*counts, c, c * history))
    taps[tuple(offsets % np.array(counts)[:, None])] = np.moveaxis(
        frame.matrix.reshape(c, -1, frame.features)[:, :, : c * history], 1, 0
    )
    symbol = np.fft.fftn(taps, axes=range(d)).reshape(-1, c, c * history)
    # Coordinates: z_k, z_{k-1}, ...; a difference takes from one and gives to the next.
    step = np.zeros((len(symbol), c * history, c * history), dtype=complex)
    step[:, :c, :c] = np.eye(c) + symbol[:, :, :c]
    for j in range(1, history):
        change = symbol[:, :, j * c : (j + 1) * c] / frame.difference_scale[j - 1]
        step[:, :c, (j - 1) * c : j * c] += change
        step[:, :c, j * c : (j + 1) * c] -= change
        step[:, j * c : (j + 1) * c, (j - 1) * c : j * c] = np.eye(c)
    return float(np.abs(np.linalg.eigvals(step)).max())
