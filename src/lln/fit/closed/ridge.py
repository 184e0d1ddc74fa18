"""The grids of ridges, and ridge regression in float64 for all ridges at once by one decomposition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lln.fit.closed.linear import Block, singular_values
from lln.step.frame import Array

# Ridges that are tried, relative to the largest squared singular value of the normalised columns.
RIDGES = tuple(10.0**power for power in range(-16, 0))  # of linear maps, polynomials and drawn lenses
FLOW_RIDGES = (1e-18, 1e-13, 1e-8)  # of vector fields
FIELD_RIDGES = (1e-14, 1e-11, 1e-8, 1e-5, 1e-3)  # of convolutions
_POWER = 30  # steps of the power method; a ridge need not be exact
_LEAST_SQUARE = 1e-13  # of the largest: smaller squares of singular values are rounding of sums of products
_TALL = 1.5  # with this many rows to a column, a triangular factor comes first


class RidgePath:
    """Least squares of targets on columns, centred and normalised, for any ridge.

    Args:
        blocks: columns (P, M), targets (P, n) and weights (P,) or None, a block of rows at a time. Blocks are folded
            into one triangular factor, so that memory holds one block and one factor.
        exact: whether columns that nearly depend on each other count to rounding; else sums of products do, in a
            fraction of the time, and ridges below 1e-12 make no difference.
    """

    def __init__(self, blocks: Iterable[Block], *, exact: bool = True) -> None:
        if not exact:
            self._sum(blocks)
            return
        self._fold(blocks)
        left, self.singular, right = singular_values(self._rows)
        self.directions, self.along = right.T, left.T @ self._values

    @classmethod
    def solved(cls, blocks: Iterable[Block], ridge: float) -> tuple[Array, Array]:
        """Weights and offset at one ridge alone, by a triangular factor: a fraction of the time of all ridges."""
        from scipy.linalg import solve_triangular

        path = cls.__new__(cls)
        path._fold(blocks)
        rows, values = path._rows, path._values
        top = _largest(rows)
        count = rows.shape[1]
        stacked = np.concatenate([rows, math.sqrt(ridge * top) * np.eye(count)])
        basis, factor = np.linalg.qr(stacked)
        along = basis[: len(rows)].T @ values
        diagonal = np.abs(np.diagonal(factor))
        if not diagonal.all():  # columns without a spread
            factor = factor + np.diag(np.where(diagonal == 0, 1.0, 0.0))
        weights = (solve_triangular(factor, along) / path.scale[:, None]).T
        return weights, path.mean - weights @ path.centre

    def _sum(self, blocks: Iterable[Block]) -> None:
        """Singular values and directions from sums of products."""
        held, total = self._normalised(blocks)
        gram, cross = 0.0, 0.0
        wide = len(held) == 1 and len(held[0][0]) < held[0][0].shape[1]
        for columns, targets, weights in held:
            root = np.sqrt(weights / total)[:, None]
            rows, rest = (columns - self.centre) / self.scale * root, (targets - self.mean) * root
            gram, cross = (rows @ rows.T, rest) if wide else (gram + rows.T @ rows, cross + rows.T @ rest)
        squares, vectors = np.linalg.eigh(gram)
        squares = np.where(squares > _LEAST_SQUARE * squares.max(initial=0.0), squares, 0.0)
        self.singular = np.sqrt(squares)
        inverse = np.divide(1.0, self.singular, out=np.zeros_like(squares), where=squares > 0)
        if wide:
            self.directions, self.along = rows.T @ (vectors * inverse), vectors.T @ cross
        else:
            self.directions, self.along = vectors, inverse[:, None] * (vectors.T @ cross)

    def _fold(self, blocks: Iterable[Block]) -> None:
        """The normalised rows, or a triangular factor of them, and the targets along it."""
        held, total = self._normalised(blocks)
        self._rows, self._values = np.zeros((0, len(self.centre))), np.zeros((0, len(self.mean)))
        for columns, targets, weights in held:
            root = np.sqrt(weights / total)[:, None]
            rows, rest = (columns - self.centre) / self.scale * root, (targets - self.mean) * root
            if len(self._rows):
                rows, rest = np.concatenate([self._rows, rows]), np.concatenate([self._values, rest])
            if len(rows) > _TALL * rows.shape[1]:
                basis, rows = np.linalg.qr(rows)
                rest = basis.T @ rest
            self._rows, self._values = rows, rest

    def _normalised(self, blocks: Iterable[Block]) -> tuple[list[tuple[Array, Array, Array]], float]:
        """The blocks with their weights and the total weight; centre, mean and scale are set."""
        held = [
            (columns, targets, np.ones(len(columns)) if weights is None else np.asarray(weights, dtype=np.float64))
            for columns, targets, weights in blocks
        ]
        total = sum(float(weights.sum()) for _, _, weights in held)
        self.centre = np.sum([weights @ columns for columns, _, weights in held], axis=0) / total
        self.mean = np.sum([weights @ targets for _, targets, weights in held], axis=0) / total
        square = np.sum([weights @ (columns - self.centre) ** 2 for columns, _, weights in held], axis=0) / total
        # A column that does not vary carries nothing; its weight becomes zero.
        floor = 1e-24 * (self.centre**2 + 1e-280)
        self.scale = np.where(square > floor, np.sqrt(np.maximum(square, 1e-300)), np.inf)
        return held, total

    def solve(self, ridge: float) -> tuple[Array, Array]:
        """Weights (n, M) and offset (n,) at `ridge`, relative to the largest squared singular value."""
        weights = ((self.directions @ self._shrunk(ridge)) / self.scale[:, None]).T
        return weights, self.mean - weights @ self.centre

    def one_step(self, columns: Array, targets: Array, ridges: Sequence[float]) -> Array:
        """Mean squared error of every ridge on other rows, (R,)."""
        return np.asarray([float(np.mean(rest**2)) for rest in self.residuals(columns, targets, ridges)])

    def residuals(self, columns: Array, targets: Array, ridges: Sequence[float]) -> Iterator[Array]:
        """What every ridge errs by on other rows, (P, n)."""
        rows = (columns - self.centre) / self.scale @ self.directions
        rest = targets - self.mean
        for ridge in ridges:
            yield rows @ self._shrunk(ridge) - rest

    def _shrunk(self, ridge: float) -> Array:
        """Weights along each direction, (r, n)."""
        squares = self.singular**2
        held = squares + ridge * squares.max(initial=0.0)
        shrink = np.divide(self.singular, held, out=np.zeros_like(squares), where=squares > 0)
        return np.asarray(shrink[:, None] * self.along)


def _largest(rows: Array) -> float:
    """The largest squared singular value, by the power method."""
    vector = np.ones(rows.shape[1]) / math.sqrt(rows.shape[1])
    for _ in range(_POWER):
        after = rows.T @ (rows @ vector)
        size = float(np.linalg.norm(after))
        if size == 0:
            return 0.0
        vector = after / size
    return float(np.linalg.norm(rows @ vector) ** 2)
