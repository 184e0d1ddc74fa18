"""What data says about its grid: spacing, what lies beyond each side, whether means are conserved. Guesses are said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.models.convolution import Sides, sides
from lln.step.frame import Array

_ROWS = 200  # states that are looked at, spread over the data
_UNEVEN = 1e-6
_STILL = 1e-6
# A step across the seam of a ring is like any other step; half as much again leaves room for luck.
_SEAM = 1.5
# At a mirror the slope is zero, and the first difference is small against those inside.
_FLAT = 0.5
_CONSERVED = 1e-6


@dataclass(frozen=True)
class Grid:
    """The grid of a field.

    Attributes:
        space: points along each axis.
        spacing: distance of neighbours along each axis, in the units of the coordinates.
        boundary: what lies beyond each side.
        notes: sentences for the user: what was found, and how to say otherwise.
    """

    space: tuple[int, ...]
    spacing: tuple[float, ...]
    boundary: Sides
    notes: tuple[str, ...] = ()

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
    each = max(1, _ROWS // len(spans))
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
