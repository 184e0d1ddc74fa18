"""Standardisation: each coordinate to mean zero and standard deviation one over the training inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError
from lln.data.series import Array


@dataclass(frozen=True, eq=False)
class Standardizer:
    """``z = (x - mean) / scale``, column by column, in float64.

    A column that does not vary has no scale of its own: its scale is 1, so that it becomes all zeros and keeps its
    units, and its index is listed in `constant`.

    Attributes:
        mean: (n,).
        scale: (n,), above zero.
        constant: indices of the columns that did not vary.
    """

    mean: Array
    scale: Array
    constant: tuple[int, ...] = ()

    @classmethod
    def fit(cls, values: ArrayLike) -> Standardizer:
        """Mean and standard deviation of each column of `values`, (samples, n)."""
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
            raise InputError(f"standardising needs values of shape (samples, n), at least 2 samples, got {array.shape}")
        if not np.isfinite(array).all():
            row, column = map(int, np.argwhere(~np.isfinite(array))[0])
            raise InputError(f"standardising needs finite values, got {array[row, column]} at ({row}, {column})")
        # Twelve digits: below that a spread is what rounding left of a constant.
        constant = np.ptp(array, axis=0) <= 1e-12 * np.abs(array).max(axis=0)
        scale = np.where(constant, 1.0, array.std(axis=0))
        return cls(array.mean(axis=0), scale, tuple(int(i) for i in np.flatnonzero(constant)))

    def transform(self, values: ArrayLike) -> Array:
        """Physical to standardised units, (..., n) -> (..., n)."""
        array = np.asarray(values, dtype=np.float64)
        if array.ndim < 1 or array.shape[-1] != self.mean.shape[0]:
            raise InputError(f"this scaling is for {self.mean.shape[0]} columns, got values of shape {array.shape}")
        return (array - self.mean) / self.scale
