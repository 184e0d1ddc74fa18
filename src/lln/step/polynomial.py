"""Polynomial parts of a step: monomials of features with weights, alone or as a vector field behind Runge-Kutta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Table = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Polynomial:
    """Weighted monomials of features.

    Monomial j is feature ``table[j, 1]`` times monomial ``table[j, 0]``, which comes before it, or times 1 where that
    entry is -1.

    Attributes:
        table: (M, 2).
        weights: (n, M), from monomials to standardised increments.
    """

    table: Table
    weights: Array

    def monomials(self, features: Array) -> Array:
        """(..., F) -> (..., M)."""
        values = np.empty((*features.shape[:-1], len(self.table)))
        for index, (parent, factor) in enumerate(self.table.tolist()):
            values[..., index] = features[..., factor] if parent < 0 else values[..., parent] * features[..., factor]
        return values

    def __call__(self, features: Array) -> Array:
        """The increments: (..., F) -> (..., n)."""
        change: Array = self.monomials(features) @ self.weights.T
        return change


def monomial_table(factors: Sequence[int], degree: int) -> Table:
    """The table of all monomials of degree 1 to `degree` in the features `factors`."""
    place: dict[tuple[int, ...], int] = {}
    rows: list[tuple[int, int]] = []
    for order in range(1, degree + 1):
        for term in combinations_with_replacement(factors, order):
            place[term] = len(rows)
            rows.append((place[term[:-1]] if order > 1 else -1, term[-1]))
    return np.asarray(rows, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Flow:
    """A polynomial vector field, advanced over one step of data by the classical Runge-Kutta method.

    ``dz/dt = offset + polynomial([z, u])`` in standardised states z and inputs u, with the step of the data as the unit
    of time; u is held over the step.

    Attributes:
        polynomial: of the n standardised states and m standardised inputs.
        offset: (n,).
        substeps: Runge-Kutta steps in one step of data.
    """

    polynomial: Polynomial
    offset: Array
    substeps: int = 1

    def __call__(self, z: Array, inputs: Array | None = None) -> Array:
        """The increments over one step: (..., n) and (..., m) -> (..., n)."""
        now, h = z, 1.0 / self.substeps
        for _ in range(self.substeps):
            k1 = self._slope(now, inputs)
            k2 = self._slope(now + h / 2 * k1, inputs)
            k3 = self._slope(now + h / 2 * k2, inputs)
            k4 = self._slope(now + h * k3, inputs)
            now = now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return now - z

    def _slope(self, z: Array, inputs: Array | None) -> Array:
        features = z if inputs is None else np.concatenate([z, inputs], axis=-1)
        return self.polynomial(features) + self.offset


def polynomial_arrays(polynomial: Polynomial | None, flow: Flow | None) -> dict[str, Any]:
    """The arrays of both, by the names under which files store them."""
    found: dict[str, Any] = {}
    if polynomial is not None:
        found |= {"polynomial_table": polynomial.table, "polynomial_weights": polynomial.weights}
    if flow is not None:
        found |= {
            "flow_table": flow.polynomial.table,
            "flow_weights": flow.polynomial.weights,
            "flow_offset": flow.offset,
            "flow_substeps": np.asarray([flow.substeps], dtype=np.int64),
        }
    return found
