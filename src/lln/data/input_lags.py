"""Known inputs with their lags: earlier values of each input as further input columns.

A step sees one row of inputs. Where it also needs the inputs of earlier steps, these are columns of that row, so that
rollouts, kernels and exports see a wider row and nothing else. The columns are all inputs at the present, then all
inputs one step before, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.data.series import Array, Dataset, Rows, Series


def lagged_rows(inputs: NDArray[Any], lags: int) -> NDArray[np.float64]:
    """Rows of inputs beside the `lags` rows before each: (..., lags + R, m) -> (..., R, (lags + 1) m)."""
    count = inputs.shape[-2] - lags
    parts = [inputs[..., lags - lag : lags - lag + count, :] for lag in range(lags + 1)]
    return np.concatenate(parts, axis=-1, dtype=np.float64)


def lagged_names(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """Names of the columns of `lagged_rows`.

    >>> lagged_names(["u"], 2)
    ('u', 'u 1 step before', 'u 2 steps before')
    """
    before = [f" {lag} step{'s' if lag > 1 else ''} before" for lag in range(1, lags + 1)]
    return tuple(f"{name}{suffix}" for suffix in ("", *before) for name in names)


def with_input_lags(dataset: Dataset, lags: int, *, hold: bool = False) -> Dataset:
    """The same trajectories with the inputs of `lags` earlier steps as further input columns.

    Args:
        dataset: without lags of its inputs.
        lags: number of earlier steps.
        hold: whether the first row counts as the inputs before it; else they are NaN, a gap in each of the first
            `lags` rows.
    """
    if not lags:
        return dataset
    series = [replace(one, inputs=_lagged(one, lags, hold)) for one in dataset.series]
    names = lagged_names(dataset.input_names, lags)
    return replace(dataset, series=tuple(series), input_names=names, input_lags=lags)


def _lagged(one: Series, lags: int, hold: bool) -> Array | Rows | None:
    if one.inputs is None:
        return None
    rows = _LaggedRows(one.inputs, lags, hold)
    return rows[0 : len(one)] if isinstance(one.inputs, np.ndarray) else rows


@dataclass(frozen=True, eq=False)
class _LaggedRows:
    """Inputs with their lags, read when asked for."""

    inputs: Array | Rows
    lags: int
    hold: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.inputs.shape[0], (self.lags + 1) * self.inputs.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice, /) -> NDArray[np.float64]:
        begin, end, _ = rows.indices(self.shape[0])
        known = np.asarray(self.inputs[max(0, begin - self.lags) : end], dtype=np.float64)
        missing = max(0, self.lags - begin)
        before = np.full((missing, self.inputs.shape[1]), np.nan)
        if self.hold:
            before[:] = self.inputs[0:1]
        return lagged_rows(np.concatenate([before, known]), self.lags)
