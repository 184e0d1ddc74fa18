"""Rows of features and increments: blocks of all of them straight from trajectories, and some to solve closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lln.data.series import Dataset
from lln.data.stream import check_range, pair_batches, span_batches, span_weights
from lln.fit.closed.linear import Block, Units
from lln.step.frame import Array

if TYPE_CHECKING:
    from lln.fit.closed.bases import Basis
    from lln.fit.prepare import PreparedData

ROWS = 24_000  # pairs that a closed form is solved from at most
_STREAMED_ROWS = 6000  # of data that does not fit into memory


def feature_blocks(dataset: Dataset, units: Units) -> Iterator[Block]:
    """Features (P, F), increments (P, n) and weights (P,) or None of all pairs in order.

    Features are those of `Frame.feature_rows`, bit for bit; increments are in the units of the data.
    """
    history, n, m = units.history, len(units.mean), len(units.input_mean)
    for spans in span_batches(dataset, history):
        count = sum(b - a for _, a, b in spans)
        features, increments, at = np.empty((count, n * history + m)), np.empty((count, n)), 0
        for i, a, b in spans:
            here = slice(at, at + b - a)
            states = np.asarray(dataset.series[i].rows(a - history + 1, b + 1), dtype=np.float64)
            known = dataset.series[i].input_rows(a, b)
            check_range(dataset, states, known)
            increments[here] = states[history:] - states[history - 1 : -1]
            z = (states[:-1] - units.mean) / units.scale
            features[here, :n] = z[history - 1 :]
            if history > 1:
                past = sliding_window_view(np.diff(z, axis=0), history - 1, axis=0)[..., ::-1].swapaxes(1, 2)
                out = features[here, n : n * history].reshape(b - a, history - 1, n)
                np.divide(past, units.difference_scale, out=out)
            if known is not None:
                features[here, n * history :] = (known - units.input_mean) / units.input_scale
            at += b - a
        yield features, increments, span_weights(dataset, history, spans)


def evenly_spread(dataset: Dataset, units: Units, most: int) -> Block:
    """The same of at most `most` pairs."""
    count, at, found = dataset.transitions(units.history), 0, []
    keep = np.linspace(0, count - 1, min(most, count)).round().astype(int)
    for block in feature_blocks(dataset, units):
        if count <= len(block[0]) and count <= most:
            return block
        rows = keep[(keep >= at) & (keep < at + len(block[0]))] - at
        found.append(tuple(None if part is None else part[rows] for part in block))
        at += len(block[0])
    features, increments, weights = zip(*found, strict=True)
    return np.concatenate(features), np.concatenate(increments), None if weights[0] is None else np.concatenate(weights)


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
