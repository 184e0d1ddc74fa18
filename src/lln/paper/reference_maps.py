"""Two predictors without training that the paper compares networks with: the mean, and a linear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.checks import finite
from lln.core.errors import InputError

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class MeanMap:
    """Predicts the mean of the training inputs, whatever the state."""

    mean: Array

    @classmethod
    def fit(cls, inputs: ArrayLike) -> MeanMap:
        """From inputs (pairs, n)."""
        return cls(np.asarray(inputs, dtype=np.float64).mean(axis=0))

    def __call__(self, state: Array) -> Array:
        """(..., n) -> (..., n)."""
        return np.broadcast_to(self.mean, np.shape(state)).copy()


@dataclass(frozen=True, eq=False)
class LinearMap:
    """``x <- x + A x + b``, with A and b from least squares on the increments, in float64.

    Attributes:
        matrix: A, (n, n).
        offset: b, (n,).
    """

    matrix: Array
    offset: Array

    @classmethod
    def fit(cls, inputs: ArrayLike, targets: ArrayLike, ridge: float = 0.0) -> LinearMap:
        """Least squares of targets - inputs on inputs, both (pairs, n).

        Args:
            inputs: states.
            targets: their successors.
            ridge: weight of |A|^2 for each pair, after centring; 0 takes the smallest A among equals.
        """
        x, y = np.asarray(inputs, dtype=np.float64), np.asarray(targets, dtype=np.float64)
        if x.ndim != 2 or x.shape != y.shape or len(x) == 0:
            raise InputError(f"a linear map needs inputs and targets (pairs, n) alike, got {x.shape} and {y.shape}")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise InputError("a linear map needs finite inputs and targets, got NaN or infinity")
        if finite("ridge", ridge) < 0:
            raise InputError(f"ridge must not be negative, got {ridge}")
        centre, change = x.mean(axis=0), (y - x).mean(axis=0)
        rows, values = x - centre, y - x - change
        if ridge:
            n = x.shape[1]
            rows = np.concatenate([rows, np.sqrt(ridge * len(x)) * np.eye(n)])
            values = np.concatenate([values, np.zeros((n, n))])
        matrix = np.linalg.lstsq(rows, values, rcond=None)[0].T
        return cls(matrix, change - matrix @ centre)

    def __call__(self, state: Array) -> Array:
        """(..., n) -> (..., n)."""
        return state + state @ self.matrix.T + self.offset

    @property
    def parameters(self) -> int:
        """Number of fitted values, n (n + 1)."""
        return int(self.matrix.size + self.offset.size)
