"""Short gaps in noisy data, filled in from the values around them and from the same place in the seasons around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.data.series import Array, Dataset, Series

_SEASONS = 3  # on both sides, whose mean is what a value is expected near
_LONGEST = 5  # rows of a gap that is filled in without a season; with one, a season is


@dataclass(frozen=True)
class Filling:
    """How missing values are filled: an expected value, plus a part of the deviation of the values around from it.

    Attributes:
        season: in steps; the expected value is the mean of the same place in the seasons around. 0 uses `mean`.
        mean: of each column.
        parts: fraction of the deviation that is kept, for each column.
    """

    season: int
    mean: tuple[float, ...]
    parts: tuple[float, ...]

    @classmethod
    def of(cls, dataset: Dataset, season: int) -> tuple[Filling, float]:
        """Fit a filling to the known values; also return its mean squared error in filling in each of them.

        The error is in units of each column's variance.
        """
        states = [np.asarray(one.states, dtype=np.float64) for one in dataset.series]
        rows = np.concatenate(states)
        mean, spread = np.nanmean(rows, axis=0), np.nanvar(rows, axis=0)
        parts, errors = [], []
        for column in range(dataset.size):
            both = [_differences(one[:, column], season, float(mean[column])) for one in states]
            value, around = np.concatenate([np.stack(one) for one in both], axis=1)
            known = np.isfinite(value) & np.isfinite(around)
            value, around = value[known], around[known]
            power = float(around @ around)
            parts.append(float(np.clip(value @ around / power, 0.0, 1.0)) if power > 0 else 1.0)
            if len(value) and spread[column] > 0:
                errors.append(float(np.mean((value - parts[-1] * around) ** 2)) / float(spread[column]))
        error = float(np.mean(errors)) if errors else np.inf
        return cls(season, tuple(map(float, mean)), tuple(parts)), error

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """The same trajectories with short gaps filled in; itself if there are none."""
        series = tuple(self._of_series(one) for one in dataset.series)
        if all(one.measured is None for one in series):
            return dataset
        return replace(dataset, series=series, filling=self)

    def of_windows(self, windows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Windows (..., H, n) with all gaps filled in but for those in the newest state, which must be known."""
        flat = windows.reshape(-1, *windows.shape[-2:])
        if np.isfinite(flat).all():
            return windows
        return np.reshape([self._filled(one, at_start=True) for one in flat], windows.shape)

    def _of_series(self, one: Series) -> Series:
        given = np.asarray(one.states, dtype=np.float64)
        if one.measured is not None or np.isfinite(given).all():
            return one
        states = self._filled(given)
        return replace(one, states=states, measured=given) if np.isnan(states).sum() < np.isnan(given).sum() else one

    def _filled(self, states: Array, *, at_start: bool = False) -> Array:
        found = states.copy()
        for column, values in enumerate(states.T):
            known = np.isfinite(values)
            if known.all() or not known.any():
                continue
            expected = self._expected(values, column)
            rest = np.interp(np.arange(len(values)), np.flatnonzero(known), (values - expected)[known])
            part = self.parts[column] if self.season == 0 or np.ptp(expected) > 0 else 1.0
            for first, last in _gaps(known):
                inside = last < len(values) and (at_start or (first > 0 and last - first <= max(self.season, _LONGEST)))
                if inside:
                    found[first:last, column] = (expected + part * rest)[first:last]
        return found

    def _expected(self, values: Array, column: int) -> Array:
        around = _seasons_around(values, self.season)
        known = np.isfinite(around)
        if not known.any():
            return np.full(len(values), self.mean[column])
        return np.interp(np.arange(len(values)), np.flatnonzero(known), around[known])

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {"season": self.season, "mean": list(self.mean), "parts": list(self.parts)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Filling:
        """The filling that `record` wrote down."""
        season, mean, parts = int(record["season"]), *(tuple(map(float, record[name])) for name in ("mean", "parts"))
        if season < 0 or len(mean) != len(parts) or not np.isfinite([*mean, *parts]).all():
            raise ValueError(f"gaps filled in with a season of {season}, {len(mean)} means and {len(parts)} parts")
        return cls(season, mean, parts)


def rows_up_to(dataset: Dataset, index: int, row: int, history: int) -> Array:
    """The last `history` rows up to `row`, (history, n), as they were known then: no gap is filled from later rows."""
    one, first, filling = dataset.series[index], row + 1 - history, dataset.filling
    given = np.asarray(one.rows(first, row + 1), dtype=np.float64)
    if filling is None or one.measured is None or not one.filled[first : row + 1].any():
        return given
    begin = max(0, first - _SEASONS * filling.season)
    known = filling.of_windows(one.measured[begin : row + 1].astype(np.float64))[first - begin :]
    return np.where(np.isfinite(known), known, given)


def _differences(values: Array, season: int, mean: float) -> tuple[Array, Array]:
    """Deviations of all values but the first and last from the expected ones, and their means over both neighbours.

    Both are NaN where they are not known.
    """
    rest = values - (_seasons_around(values, season) if season else mean)
    return rest[1:-1], (rest[:-2] + rest[2:]) / 2


def _seasons_around(values: Array, season: int) -> Array:
    """The mean of the same place in the seasons around, (time,); NaN where there is none."""
    total, count = np.zeros(len(values)), np.zeros(len(values))
    for shift in range(season, min(_SEASONS * season, len(values) - 1) + 1, season or 1) if season else ():
        for here, there in ((slice(shift, None), slice(None, -shift)), (slice(None, -shift), slice(shift, None))):
            known = np.isfinite(values[there])
            total[here] += np.where(known, values[there], 0.0)
            count[here] += known
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _gaps(known: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First row and last row + 1 of each run of values that are not known."""
    edges = np.flatnonzero(np.diff(known, prepend=True, append=True)).reshape(-1, 2)
    yield from ((int(first), int(last)) for first, last in edges)
