"""Polynomial parts of a step: weighted monomials of features, alone or as a vector field behind Runge-Kutta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
        """(..., F) -> (..., M), in the order of the table."""
        part = PolynomialPart(self)
        values: Array = part.monomials(as_tensor(features))[..., part.place].numpy()
        return values

    def __call__(self, features: Array) -> Array:
        """The increments: (..., F) -> (..., n)."""
        change: Array = PolynomialPart(self)(as_tensor(features)).numpy()
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
        known = None if inputs is None else as_tensor(inputs)
        change: Array = FlowPart(self)(as_tensor(z), known).numpy()
        return change


class PolynomialPart(nn.Module):
    """A `Polynomial` in torch: monomials of one degree are one product of two gathers.

    Attributes:
        place: where each monomial of the table stands among those of `monomials`, (M,).
        weights: (n, M), in the order of `monomials`.
    """

    place: Tensor
    weights: Tensor

    def __init__(self, polynomial: Polynomial) -> None:
        super().__init__()
        table = np.asarray(polynomial.table, dtype=np.int64)
        degree = np.ones(len(table), dtype=np.int64)
        for index, (parent, _) in enumerate(table.tolist()):
            degree[index] = 1 if parent < 0 else degree[parent] + 1
        order = np.argsort(degree, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.degrees = int(degree.max(initial=0))
        first = 0
        for level in range(1, self.degrees + 1):
            rows = order[degree[order] == level]
            self.register_buffer(f"factor_{level}", torch.from_numpy(table[rows, 1].copy()))
            if level > 1:
                self.register_buffer(f"parent_{level}", torch.from_numpy(place[table[rows, 0]] - first))
                first += int((degree == level - 1).sum())
        self.register_buffer("place", torch.from_numpy(place))
        self.register_buffer("weights", as_tensor(polynomial.weights[..., order]))

    def monomials(self, features: Tensor) -> Tensor:
        """(..., F) -> (..., M), by degree."""
        values: list[Tensor] = []
        for level in range(1, self.degrees + 1):
            factors = features.index_select(-1, self.get_buffer(f"factor_{level}"))
            if level > 1:
                factors = values[-1].index_select(-1, self.get_buffer(f"parent_{level}")) * factors
            values.append(factors)
        return torch.cat(values, dim=-1) if values else features[..., :0]

    def forward(self, features: Tensor) -> Tensor:
        """The increments: (..., F) -> (..., n)."""
        return self.monomials(features) @ self.weights.mT


class FlowPart(nn.Module):
    """A `Flow` in torch."""

    offset: Tensor

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.polynomial, self.substeps = PolynomialPart(flow.polynomial), flow.substeps
        self.register_buffer("offset", as_tensor(flow.offset))

    def forward(self, z: Tensor, inputs: Tensor | None = None) -> Tensor:
        """The increments over one step: (..., n) and (..., m) -> (..., n)."""
        now, h = z, 1.0 / self.substeps
        for _ in range(self.substeps):
            k1 = self._slope(now, inputs)
            k2 = self._slope(now + h / 2 * k1, inputs)
            k3 = self._slope(now + h / 2 * k2, inputs)
            k4 = self._slope(now + h * k3, inputs)
            now = now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return now - z

    def _slope(self, z: Tensor, inputs: Tensor | None) -> Tensor:
        slope: Tensor = self.polynomial(z if inputs is None else torch.cat([z, inputs], dim=-1))
        return slope + self.offset


def as_tensor(values: NDArray[Any]) -> Tensor:
    """An array in float64 as a tensor; memory is shared where its layout allows."""
    return torch.from_numpy(np.require(values, np.float64, ["C", "W"]))


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
