"""The true system as a polynomial vector field, so that the page can integrate it from any start."""

from __future__ import annotations

from typing import Any

import numpy as np

from lln.step.polynomial import Array, monomial_table
from lln.systems import SpectralField, System

FEW = 8
EXACT = 1e-10


def polynomial_field(system: System) -> tuple[Any, Array, Array] | None:
    """Monomial table (M, 2), weights (n, M) and offset (n,) of `system.rhs`; None if it is no such polynomial.

    Monomials are those of degree 1 to 3 of systems of few coordinates, and of larger ones those of single coordinates
    and of products of neighbours. The weights are found from the values of the right-hand side and checked on others.
    """
    if isinstance(system, SpectralField):
        return None
    n = system.size
    table = monomial_table(range(n), 3) if n <= FEW else _local_table(n)
    source = np.random.default_rng(0)
    states = source.normal(size=(2 * len(table) + 50, n))
    values = _monomials(table, states)
    slopes = system.rhs(states)
    fitted = len(table) + 40
    design = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    weights = np.linalg.lstsq(design[:fitted], slopes[:fitted], rcond=None)[0]
    wrong = np.abs(design[fitted:] @ weights - slopes[fitted:]).max()
    if wrong > EXACT * (np.abs(slopes).max() + 1.0):
        return None
    weights[np.abs(weights) < 1e-9 * np.abs(weights).max()] = 0.0
    used = np.flatnonzero(weights[:-1].any(axis=1))
    kept = _closed(table, used)
    places = {int(old): new for new, old in enumerate(kept)}
    small = [(places.get(int(parent), -1), int(factor)) for parent, factor in table[kept]]
    return np.asarray(small, dtype=np.int64), np.ascontiguousarray(weights[:-1][kept].T), weights[-1]


def _local_table(n: int) -> Any:
    """Each coordinate, its square and cube, and its product with the next one, on a ring."""
    rows = [(-1, i) for i in range(n)]
    rows += [(i, i) for i in range(n)]
    rows += [(n + i, i) for i in range(n)]
    rows += [(i, (i + 1) % n) for i in range(n)]
    return np.asarray(rows, dtype=np.int64)


def _monomials(table: Any, states: Array) -> Array:
    values = np.empty((len(states), len(table)))
    for index, (parent, factor) in enumerate(table.tolist()):
        values[:, index] = states[:, factor] if parent < 0 else values[:, parent] * states[:, factor]
    return values


def _closed(table: Any, used: Any) -> list[int]:
    """The used monomials and those that they are built from, in order."""
    kept: set[int] = set()
    for index in map(int, used):
        while index >= 0 and index not in kept:
            kept.add(index)
            index = int(table[index, 0])
    return sorted(kept)
