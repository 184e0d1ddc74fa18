"""What every reader does in the end: even steps for each trajectory, one grid, a last look at the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.resample import NOWHERE, Where, even, first_date
from lln.data.read.lazy import timed_rows
from lln.data.series import Dataset, Rows, Series
from lln.data.trajectory import Array

SMOOTHER = 4.0  # how much smoother the other axis must be before time and state are said to be swapped
CONSTANT = 1e-12  # relative spread that rounding leaves of a constant


@dataclass(frozen=True, eq=False)
class Track:
    """One trajectory before its times are looked at.

    Attributes:
        name: for messages.
        times: of its rows, (time,), or None.
        states: (time, n).
        inputs: (time, m), or None.
        weights: (time,), or None.
        start: added to the times, or the time of the first row if there are none.
        where: for messages on its times.
    """

    name: str
    times: Any
    states: Array | Rows
    inputs: Array | Rows | None = None
    weights: Array | None = None
    start: float = 0.0
    where: Where = NOWHERE


def timed(
    table: Sequence[Track], dt: float | None, resample: bool, source: str
) -> tuple[tuple[Series, ...], float, tuple[str, ...]]:
    """Trajectories at one even step: the series, the step, and notes on what was done."""
    series: list[Series] = []
    notes: list[str] = []
    steps: list[float] = []
    for one in table:
        if one.times is None:
            series.append(Series(one.states, one.inputs, one.weights, one.name, one.start))
            continue
        if not isinstance(one.states, np.ndarray):
            parts, step, said = timed_rows(one.times, one.states, one.inputs, one.weights, one.name, dt)
            series += [replace(part, start=part.start + one.start) for part in parts]
            notes += said
            steps.append(step)
            continue
        inputs = None if one.inputs is None else np.asarray(one.inputs)
        columns = (one.states, inputs, one.weights)
        found = even(one.times, columns, one.name, dt=dt, resample=resample, where=one.where)
        notes += found.notes
        steps += [] if found.dt is None else [found.dt]
        for piece in found.pieces:
            states, known, weight = piece.columns
            weight = None if weight is None else np.nan_to_num(weight)  # a row filled in weighs nothing
            assert states is not None
            series.append(Series(states, known, weight, one.name, piece.start + one.start))
    step = one_step(steps, source) if steps else (1.0 if dt is None else dt)
    return tuple(series), step, tuple(dict.fromkeys(notes))


def one_step(steps: Sequence[float], source: str) -> float:
    """The one step that several trajectories share."""
    if max(steps) - min(steps) > 1e-6 * min(steps):
        raise InputError(
            f"{source}: trajectories have different time steps, from {min(steps):g} to {max(steps):g}; bring them to "
            "one with --resample and --dt (in Python: resample=True and dt=)"
        )
    return float(steps[0])


def join(parts: Sequence[Dataset], source: str | None = None) -> Dataset:
    """The trajectories of several datasets of one system as one dataset."""
    first = parts[0]
    for part in parts[1:]:
        what = [
            word
            for word, a, b in (
                ("names of columns", first.names, part.names),
                ("inputs", first.input_names, part.input_names),
                ("grid", first.space, part.space),
            )
            if a != b
        ]
        if part.size == first.size and what:
            raise InputError(f"{first.source} and {part.source} differ in their {what[0]}; give data of one system")
        if abs(part.dt - first.dt) > 1e-6 * first.dt:
            raise InputError(
                f"{first.source} has dt = {first.dt:g} but {part.source} has dt = {part.dt:g}; bring them to one step "
                "with --resample (in Python: resample=True and dt=)"
            )
    series = tuple(_shifted(one, _later(part, first)) for part in parts for one in part.series)
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    sources = list(dict.fromkeys(part.source for part in parts))
    system = first.system if all(part.system == first.system for part in parts) else ""
    return replace(first, series=series, notes=notes, source=source or ", ".join(sources), system=system)


def _shifted(one: Series, later: float) -> Series:
    return replace(one, start=one.start + later) if later else one


def _later(part: Dataset, first: Dataset) -> float:
    """Seconds between the days from which the times of two datasets count; zero where they are no dates."""
    ours, theirs = (first_date(one.units.get("time", "")) for one in (part, first))
    return 0.0 if ours is None or theirs is None else float((ours - theirs) / np.timedelta64(1, "s"))


def finished(data: Dataset) -> Dataset:
    """`data` with a last look at its columns: one that is missing throughout is refused, constant ones are noted."""
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
    still = np.flatnonzero(most - least <= CONSTANT * np.maximum(np.abs(most), np.abs(least)))
    if not len(still) or data.rows < 2:
        return data
    shown = ", ".join(repr(data.names[i]) for i in still[:3]) + (", ..." if len(still) > 3 else "")
    plural = "columns do" if len(still) > 1 else "column does"
    return replace(data, notes=(*data.notes, f"{data.source}: {len(still)} {plural} not vary ({shown})"))


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
