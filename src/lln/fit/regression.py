"""Ridge regression in float64 for all ridges at once: one decomposition, then a product for each ridge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lln.step.frame import Array

# Relative to the largest squared singular value of the normalised columns.
RIDGES = tuple(10.0**power for power in range(-16, 0))
_TALL = 1.5  # with this many rows to a column, a triangular factor comes first


class RidgePath:
    """Least squares of targets on columns, centred and normalised, for any ridge.

    Args:
        blocks: columns (P, M), targets (P, n) and weights (P,) or None, a block of rows at a time. Blocks are folded
            into one triangular factor, so that memory holds one block and one factor.
    """

    def __init__(self, blocks: Iterable[tuple[Array, Array, Array | None]]) -> None:
        held = [(columns, targets, _weights(len(columns), weights)) for columns, targets, weights in blocks]
        total = sum(float(weights.sum()) for _, _, weights in held)
        self.centre = np.sum([weights @ columns for columns, _, weights in held], axis=0) / total
        self.mean = np.sum([weights @ targets for _, targets, weights in held], axis=0) / total
        square = np.sum([weights @ (columns - self.centre) ** 2 for columns, _, weights in held], axis=0) / total
        # A column that does not vary carries nothing; its weight becomes zero.
        floor = 1e-24 * (self.centre**2 + 1e-280)
        self.scale = np.where(square > floor, np.sqrt(np.maximum(square, 1e-300)), np.inf)
        rows, values = _folded(held, self.centre, self.mean, self.scale, total)
        left, self.singular, right = np.linalg.svd(rows, full_matrices=False)
        self.directions, self.along = right.T, left.T @ values

    def solve(self, ridge: float) -> tuple[Array, Array]:
        """Weights (n, M) and offset (n,) at `ridge`, relative to the largest squared singular value."""
        squares = self.singular**2
        top = squares.max(initial=0.0)
        shrink = np.divide(self.singular, squares + ridge * top, out=np.zeros_like(squares), where=squares > 0)
        weights = ((self.directions @ (shrink[:, None] * self.along)) / self.scale[:, None]).T
        return weights, self.mean - weights @ self.centre

    def one_step(self, columns: Array, targets: Array, ridges: Sequence[float]) -> Array:
        """Mean squared error of every ridge on other rows, (R,)."""
        rows = (columns - self.centre) / self.scale @ self.directions
        rest, squares = targets - self.mean, self.singular**2
        top = squares.max(initial=0.0)
        errors = []
        for ridge in ridges:
            shrink = np.divide(self.singular, squares + ridge * top, out=np.zeros_like(squares), where=squares > 0)
            errors.append(float(np.mean((rows @ (shrink[:, None] * self.along) - rest) ** 2)))
        return np.asarray(errors)


def _weights(count: int, weights: Array | None) -> Array:
    return np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)


def _folded(
    held: list[tuple[Array, Array, Array]], centre: Array, mean: Array, scale: Array, total: float
) -> tuple[Array, Array]:
    """The normalised rows, or a triangular factor of them, and the targets along it."""
    factor: Array | None = None
    values: Array | None = None
    for columns, targets, weights in held:
        root = np.sqrt(weights / total)[:, None]
        rows, rest = (columns - centre) / scale * root, (targets - mean) * root
        if factor is not None and values is not None:
            rows, rest = np.concatenate([factor, rows]), np.concatenate([values, rest])
        if len(rows) > _TALL * rows.shape[1]:
            basis, rows = np.linalg.qr(rows)
            rest = basis.T @ rest
        factor, values = rows, rest
    assert factor is not None
    assert values is not None
    return factor, values
