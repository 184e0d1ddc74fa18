"""Features and increments that closed forms are solved from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lln.data.stream import pair_batches
from lln.fit.closed.bases import Basis
from lln.fit.closed.linear import Units
from lln.fit.prepare import PreparedData
from lln.step.frame import Array

ROWS = 24_000  # pairs that a closed form is solved from at most
_STREAMED_ROWS = 6000  # of data that does not fit into memory


@dataclass(frozen=True, eq=False)
class Pairs:
    """Features and standardised increments of some pairs."""

    features: Array
    increments: Array
    weights: Array | None

    def blocks(self, basis: Basis, rows: int = 4096) -> Iterator[tuple[Array, Array, Array | None]]:
        """Features with the columns of `basis`, increments and weights, some rows at a time."""
        for first in range(0, len(self.features), rows):
            part = slice(first, first + rows)
            features = self.features[part]
            columns = np.concatenate([features, basis.columns(features)], axis=1)
            yield columns, self.increments[part], None if self.weights is None else self.weights[part]

    def some(self, count: int) -> Pairs:
        """Evenly spread rows."""
        if len(self.features) <= count:
            return self
        rows = np.linspace(0, len(self.features) - 1, count).round().astype(int)
        return Pairs(self.features[rows], self.increments[rows], None if self.weights is None else self.weights[rows])


def pairs_of(ready: PreparedData, units: Units) -> Pairs:
    """Up to 24,000 pairs, evenly spread where there are more."""
    if ready.in_memory:
        features, increments, weights = ready.some(units, ROWS)
        return Pairs(features, increments / units.scale, weights)
    pairs = next(pair_batches(ready.dataset, units.history, rows=_STREAMED_ROWS, shuffle=0))
    features = units.frame().feature_rows(pairs.window, pairs.inputs)
    return Pairs(features, pairs.increments / units.scale, pairs.weights)
