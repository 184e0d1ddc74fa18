"""A memory of past states, and the nearest one in it. Exact, and fast where data fill few dimensions or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.data.series import Dataset
from lln.data.stream import pair_batches
from lln.fit.closed.linear import units_of
from lln.step.frame import Array, Frame

MOST = 200_000
FEW_DIMENSIONS = 8.0
_AXES = 2000  # of more, the principal axes alone would take minutes


class Nearest:
    """The nearest of many points, in the Euclidean distance.

    A tree skips most of the points where they fill few dimensions, however many columns they have; turned into their
    principal axes they also look so to the tree. Where they fill many it would look at nearly all of them in the
    slowest way, and one matrix product serves better. Fewer points than columns span few axes; what a query has beyond
    them is equally far from all points.

    Args:
        points: (P, F).
    """

    def __init__(self, points: Array) -> None:
        from scipy.spatial import cKDTree

        self.centre = points.mean(axis=0)
        spread = points - self.centre
        self.axes: Array | None = None
        self.tree: Any = None
        if min(points.shape) <= _AXES:
            variance, self.axes = _principal_axes(spread)
            filled = float(variance.sum() ** 2 / max(float(np.square(variance).sum()), np.finfo(np.float64).tiny))
            spread = spread @ self.axes
            self.tree = cKDTree(spread, balanced_tree=False) if filled <= FEW_DIMENSIONS else None
        self.points, self.squares = spread, np.square(spread).sum(axis=1)

    def __call__(self, queries: Array) -> NDArray[np.intp]:
        """The index of the nearest point: (..., F) -> (...)."""
        turned = queries - self.centre
        if self.axes is not None:
            turned = turned @ self.axes
        if self.tree is not None:
            return np.asarray(self.tree.query(turned)[1])
        flat = turned.reshape(-1, turned.shape[-1])
        # |p - q|^2 without |q|^2, which is the same for all points.
        nearest = (self.squares - 2.0 * (flat @ self.points.T)).argmin(axis=1)
        return np.asarray(nearest.reshape(turned.shape[:-1]))


def _principal_axes(spread: Array) -> tuple[Array, Array]:
    """Variances and axes (F, r) of centred points (P, F), from the smaller of two squares."""
    if spread.shape[0] >= spread.shape[1]:
        return np.linalg.eigh(spread.T @ spread)
    _, sizes, axes = np.linalg.svd(spread, full_matrices=False)
    return np.square(sizes), axes.T


@dataclass(frozen=True, eq=False)
class Memory:
    """Windows of the past as features, with what came next; of very many, an even choice.

    Attributes:
        frame: units of the features, without a linear part.
        features: (P, F).
        present: (P, n), in the units of the data.
        target: (P, n), the state after it.
    """

    frame: Frame
    features: Array
    present: Array
    target: Array

    @classmethod
    def of(cls, dataset: Dataset, history: int) -> Memory:
        """Read `dataset` once, a block at a time, and keep at most 200,000 pairs."""
        frame = units_of(dataset, history).frame()
        thin = -(-dataset.transitions(history) // MOST)
        parts: list[tuple[Array, ...]] = []
        first = 0
        for batch in pair_batches(dataset, history):
            kept = slice(-first % thin, None, thin)
            inputs = None if batch.inputs is None else batch.inputs[kept]
            window = batch.window[kept]
            parts.append((frame.feature_rows(window, inputs), window[:, -1], batch.target[kept]))
            first += len(batch)
        return cls(frame, *(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class AnalogLibrary:
    """A memory that is asked for the nearest window and what came next.

    Args:
        memory: what is remembered.

    Attributes:
        frame: the units in which windows are compared.
        values: how many numbers are kept.
    """

    def __init__(self, memory: Memory) -> None:
        self.frame, self.present, self.target = memory.frame, memory.present, memory.target
        self.nearest = Nearest(memory.features)
        self.values = int(memory.features.size + memory.target.size)

    def rollout(self, window: Array, steps: int, inputs: Array | None, move: str) -> Array:
        """Step from neighbour to neighbour: to its successor, or by its increment."""
        past = np.asarray(window, dtype=np.float64)[..., -self.frame.history :, :]
        states = np.empty((*past.shape[:-2], steps, past.shape[-1]))
        for k in range(steps):
            now = None if inputs is None else inputs[..., k, :]
            nearest = self.nearest(self.frame.feature_rows(past, now))
            after = self.target[nearest]
            if move == "increment":
                after = past[..., -1, :] + (after - self.present[nearest])
            states[..., k, :] = after
            past = np.concatenate([past[..., 1:, :], after[..., None, :]], axis=-2)
        return states
