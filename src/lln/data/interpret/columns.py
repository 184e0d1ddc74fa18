"""Checks of the columns of a dataset: constant, missing throughout, marks for missing values, exchanged axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.series import Dataset

SMOOTHER = 4.0  # how much smoother the other axis must be before time and state are said to be exchanged
CONSTANT = 1e-12  # relative spread that rounding leaves of a constant
MARKS = (-99.0, -999.0, -9999.0, -99999.0, 999.0, 9999.0, 99999.0, 1e20, -32768.0)  # that often stand for "missing"
APART = 3.0  # distance of such a mark from the other values, in units of their range


def examined(data: Dataset) -> Dataset:
    """Examine the columns: refuse one that is missing throughout, note constant ones and marks for missing values."""
    if data.lazy:
        return data
    least, most = np.full(data.size, np.inf), np.full(data.size, -np.inf)
    for one in data.series:
        for _, block in one.blocks():
            least = np.fmin(least, np.fmin.reduce(block, axis=0, initial=np.inf))
            most = np.fmax(most, np.fmax.reduce(block, axis=0, initial=-np.inf))
    missing = np.flatnonzero(least > most)
    if len(missing):
        raise InputError(
            f"{data.source}: column {data.names[missing[0]]!r} holds no number at all (NaN throughout); leave it out"
        )
    notes = list(data.notes)
    with np.errstate(over="ignore"):
        still = np.flatnonzero(most - least <= CONSTANT * np.maximum(np.abs(most), np.abs(least)))
    if len(still) and data.rows > 1:
        shown = ", ".join(repr(data.names[i]) for i in still[:3]) + (", ..." if len(still) > 3 else "")
        plural = "columns do" if len(still) > 1 else "column does"
        notes.append(f"{data.source}: {len(still)} {plural} not vary ({shown})")
    suspects = np.flatnonzero((np.isin(least, MARKS) | np.isin(most, MARKS)) & (least < most))
    notes += [note for column in suspects[:3].tolist() for note in _marks(data, column)]
    return replace(data, notes=tuple(notes))


def _marks(data: Dataset, column: int) -> list[str]:
    """Say that a column holds a number far from all others that often stands for "missing", such as -999."""
    values = np.concatenate([block[:, column] for one in data.series for _, block in one.blocks()])
    values = values[np.isfinite(values)].astype(np.float64)
    rest = values[~np.isin(values, MARKS)]
    if not len(rest):
        return []
    with np.errstate(over="ignore"):
        wide = APART * max(float(np.ptp(rest)), 1e-3 * float(np.abs(rest).max()))
        far = [mark for mark in MARKS if (values == mark).any() and np.abs(rest - mark).min() > wide]
    return [
        f"{data.source}: column {data.names[column]!r} holds {mark:g} in {int((values == mark).sum())} rows, far from "
        "its other values; if that means missing, leave those cells empty"
        for mark in far
    ]


def grid_of(grid: Any) -> dict[str, NDArray[np.float64]]:
    """Positions along each dimension by name, from lengths, positions or a mapping."""
    if isinstance(grid, Mapping):
        named = {str(key): np.asarray(value, dtype=np.float64) for key, value in grid.items()}
    else:
        alone = isinstance(grid, int) or (np.ndim(grid) == 1 and np.asarray(grid).dtype.kind == "f")
        entries = [grid] if alone else list(grid)
        letters = "xyzw" if len(entries) <= 4 else [f"d{i}" for i in range(len(entries))]
        named = {}
        for letter, entry in zip(letters, entries, strict=False):
            length = np.ndim(entry) == 0
            named[letter] = np.arange(int(entry), dtype=np.float64) if length else np.asarray(entry, dtype=np.float64)
    for key, value in named.items():
        if value.ndim != 1 or not len(value) or not np.isfinite(value).all():
            raise InputError(
                f"grid: dimension {key!r} must be a length or positions of shape (length,), got {value.shape}"
            )
    return named


def refuse_swapped(x: NDArray[Any], source: str) -> None:
    """Say so if columns look like time: fewer rows than columns, and far smoother along a row than down a column."""
    rows, columns = x.shape
    if rows < 2 or rows >= columns or x.dtype.kind == "c":
        return
    down, along = _roughness(x), _roughness(x.T)
    if np.isfinite(down) and np.isfinite(along) and down > SMOOTHER * along:
        raise InputError(
            f"{source}: shape {x.shape} looks transposed, since values change far less along a row than down a column; "
            "time must run down the rows: pass the transpose, or say --time 1, or --time 0 if each row is a time after "
            "all (in Python: time=1, time=0)",
            topic="transposed",
        )


def _roughness(x: NDArray[Any]) -> float:
    """Mean squared step down the columns against their variance: 2 for noise, near 0 for a smooth curve."""
    part = np.asarray(x[:, :: max(1, x.size // 4_000_000)], dtype=np.float64)
    part = part[:, np.isfinite(part).all(axis=0)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        variance = part.var(axis=0)
        varied = variance > 0
        if not varied.any():
            return float("nan")
        return float(np.median((np.diff(part, axis=0) ** 2).mean(axis=0)[varied] / variance[varied]))
