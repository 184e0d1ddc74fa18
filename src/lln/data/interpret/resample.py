"""Times to one even step: gaps filled in with NaN, restarts cut, uneven times refused or interpolated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.checks import positive
from lln.core.errors import InputError
from lln.data.trajectory import Array

Float64 = NDArray[np.float64]
JITTER = 0.01  # of a step that a time may be off; files print times with few digits
FAR = 5.0  # median steps beyond which a hole is left open rather than interpolated
REMEDY = "resample it with --resample (in Python: resample=True), or leave time out and give dt if it is even after all"
_SINCE = "seconds since "


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows at an even step.

    Attributes:
        start: time of the first row.
        columns: what was given with the times, row by row; None where that was None.
        filled: rows of NaN that stand for missing times.
    """

    start: float
    columns: tuple[Array | None, ...]
    filled: int = 0


@dataclass(frozen=True, eq=False)
class Even:
    """What became of the times.

    Attributes:
        dt: time between rows, or None if there is but one row.
        pieces: stretches of time; more than one if time went back or a hole was long.
        notes: sentences on what was done.
    """

    dt: float | None
    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Where:
    """How messages speak of the times of a table.

    Attributes:
        place: the column, as in " in column 'T'".
        rows: the numbers of its rows; from 0 if None.
        remedy: what may help too where times do not rise, as in ", or ...".
    """

    place: str = ""
    rows: NDArray[np.intp] | None = None
    remedy: str = ""

    def row(self, index: Any) -> int:
        """The number of a row."""
        return int(index if self.rows is None else self.rows[index])


NOWHERE = Where()


def seconds(times: Any) -> tuple[Float64, str | None]:
    """Times as float64, and their unit where dates told it."""
    array = np.asarray(times)
    if array.dtype.kind == "M":
        first = array.reshape(-1)[0] if array.size else np.datetime64(0, "s")
        since = (array - first) / np.timedelta64(1, "ns") * 1e-9
        return since.astype(np.float64), f"{_SINCE}{np.datetime_as_string(first, unit='s')}"
    if array.dtype.kind == "m":
        return (array / np.timedelta64(1, "ns") * 1e-9).astype(np.float64), "s"
    if array.dtype.kind not in "fiu":
        raise InputError(f"times must be numbers or dates, got an array of {array.dtype}")
    return array.astype(np.float64), None


def first_date(unit: str) -> np.datetime64 | None:
    """The date from which times of such a unit count, None if it is no such unit."""
    if not unit.startswith(_SINCE):
        return None
    try:
        return np.datetime64(unit.removeprefix(_SINCE), "ns")
    except ValueError:
        return None


def even(
    times: Any,
    columns: Sequence[Array | None],
    name: str,
    *,
    dt: float | None = None,
    resample: bool = False,
    precision: float | None = None,
    where: Where = NOWHERE,
) -> Even:
    """Bring rows to one even step.

    Args:
        times: of the rows, (time,).
        columns: arrays whose first axis is time, or None.
        name: for messages.
        dt: the step, if it is known; must agree with the times unless `resample` is on.
        resample: interpolate uneven times onto an even grid, by cubic splines where there are four rows or more.
        precision: relative rounding error of the times as they were stored.
        where: for messages too.

    Returns:
        Pieces with equal steps: time that goes back begins a new one, missing times become rows of NaN.
    """
    array = np.asarray(times)
    if precision is None:
        precision = float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else float(np.finfo(np.float64).eps)
    clock, _ = seconds(array)
    if clock.ndim != 1:
        raise InputError(f"{name}: times must be one column, got shape {clock.shape}")
    for column in columns:
        if column is not None and len(column) != len(clock):
            raise InputError(f"{name}: {len(clock)} times but {len(column)} rows; give one time for each row")
    if not np.isfinite(clock).all():
        row = where.row(np.flatnonzero(~np.isfinite(clock))[0])
        raise InputError(f"{name}: the time of row {row} is missing{where.place}; fill it in or drop the row")
    dt = None if dt is None else positive(f"{name}: dt", dt)
    if len(clock) < 2:
        return Even(dt, (Piece(float(clock[0]), tuple(columns)),) if len(clock) else ())
    spans = _rising(clock, name, where)
    notes = []
    if len(spans) > 1:
        notes.append(f"{name}: time goes back {len(spans) - 1} times{where.place}, taken as new trajectories")
    slack = 4 * precision * float(np.abs(clock).max())
    found = _step(clock, spans, slack)
    if resample and (found is None or (dt is not None and not _agree(dt, found, clock, slack))):
        return _resampled(clock, columns, spans, dt, name, notes)
    if found is None:
        raise InputError(_uneven(clock, spans, name, where), topic="uneven")
    if dt is not None and not _agree(dt, found, clock, slack):
        raise InputError(
            f"{name}: dt = {dt:g} was given but the times are {found:g} apart; leave dt out, or resample to it with "
            "--resample (in Python: resample=True)"
        )
    step = dt if dt is not None else found
    pieces = [piece for span in spans for piece in _filled(clock, columns, span, step)]
    filled = sum(piece.filled for piece in pieces)
    if filled:
        notes.append(f"{name}: {filled} missing times filled in as gaps")
    if len(pieces) > len(spans):
        notes.append(f"{name}: cut at {len(pieces) - len(spans)} long holes in time")
    return Even(step, tuple(pieces), tuple(notes))


def nice(value: float, error: float, first: float) -> float:
    """A short decimal within `error` of `value` (0.01, not 0.010000000000000009), else the first step if it is."""
    for digits in range(1, 13):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= error:
            return short
    return first if abs(first - value) <= error else value


def _rising(clock: Float64, name: str, where: Where) -> list[tuple[int, int]]:
    """Where time only rises, (first row, last row + 1) each."""
    steps = np.diff(clock)
    same = np.flatnonzero(steps == 0)
    if len(same):
        row = int(same[0])
        raise InputError(
            f"{name}: rows {where.row(row)} and {where.row(row + 1)} have the same time {clock[row]:g}{where.place}; "
            "drop one of them, or name the column that tells trajectories apart with --trajectory (in Python: "
            f"trajectory=){where.remedy}"
        )
    edges = [0, *(np.flatnonzero(steps < 0) + 1).tolist(), len(clock)]
    spans = list(pairwise(edges))
    if len(spans) > 1 and min(b - a for a, b in spans) < 2:
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise InputError(
            f"{name}: time goes back from {clock[row - 1]:g} to {clock[row]:g} at row {where.row(row)}{where.place}; "
            f"sort the rows{where.remedy}"
        )
    return spans


def _step(clock: Float64, spans: list[tuple[int, int]], slack: float) -> float | None:
    """The step that all times are whole multiples of, or None."""
    steps = np.concatenate([np.diff(clock[a:b]) for a, b in spans])
    for guess in dict.fromkeys((float(np.median(steps)), float(steps.min()))):
        # A rough guess counts steps rightly near the start only, so refine it on ever longer stretches.
        fitted = guess
        reach = 16
        while True:
            parts = [(clock[a:b] - clock[a])[: reach + 1] for a, b in spans]
            counts = [np.round(part / fitted) for part in parts]
            square = sum(float(k @ k) for k in counts)
            if square == 0:
                break
            fitted = sum(float(k @ part) for k, part in zip(counts, parts, strict=True)) / square
            if reach >= len(clock):
                break
            reach *= 4
        if fitted > 0 and all(_on_grid(clock[a:b], fitted, slack) for a, b in spans):
            longest = max(float(clock[b - 1] - clock[a]) for a, b in spans)
            return nice(fitted, max(slack, 1e-13 * longest) * fitted / longest, float(clock[1] - clock[0]))
    return None


def _on_grid(times: Float64, step: float, slack: float) -> bool:
    since = times - times[0]
    counts = np.round(since / step)
    close = np.abs(since - counts * step) <= JITTER * step + slack
    return bool(close.all() and (np.diff(counts) >= 1).all())


def _agree(dt: float, found: float, clock: Float64, slack: float) -> bool:
    return abs(dt - found) * len(clock) <= 0.5 * found + slack


def _filled(clock: Float64, columns: Sequence[Array | None], span: tuple[int, int], step: float) -> list[Piece]:
    """One rising stretch with missing times filled in, or cut at them where that would more than double it."""
    first, last = span
    since = clock[first:last] - clock[first]
    counts = np.round(since / step)
    rows = int(counts[-1]) + 1
    parts = tuple(None if column is None else column[first:last] for column in columns)
    if rows == last - first:
        return [Piece(float(clock[first]), parts)]
    if rows > 2 * (last - first):
        edges = [0, *(np.flatnonzero(np.diff(counts) > 1) + 1).tolist(), len(counts)]
        spans = pairwise(edges)
        return [
            Piece(float(clock[first + a]), tuple(None if part is None else part[a:b] for part in parts))
            for a, b in spans
        ]
    whole = tuple(None if part is None else _spread(part, counts.astype(np.int64), rows) for part in parts)
    return [Piece(float(clock[first]), whole, rows - (last - first))]


def _spread(part: Array, counts: NDArray[np.int64], rows: int) -> Array:
    kind = part.dtype if part.dtype.kind == "f" else np.dtype(np.float64)
    out = np.full((rows, *part.shape[1:]), np.nan, dtype=kind)
    out[counts] = part
    return out


def _resampled(
    clock: Float64,
    columns: Sequence[Array | None],
    spans: list[tuple[int, int]],
    dt: float | None,
    name: str,
    notes: list[str],
) -> Even:
    middle = float(np.median(np.concatenate([np.diff(clock[a:b]) for a, b in spans])))
    step = middle if dt is None else dt
    pieces = []
    for first, last in spans:
        holes = np.flatnonzero(np.diff(clock[first:last]) > FAR * max(middle, step)) + first + 1
        edges = [first, *holes.tolist(), last]
        for a, b in pairwise(edges):
            rows = int((clock[b - 1] - clock[a]) / step * (1 + 1e-12)) + 1
            if rows > 1000 * (b - a) + 1000:
                raise InputError(
                    f"{name}: resampling {b - a} rows to dt = {step:g} would make {rows}; give a larger dt"
                )
            at = clock[a] + np.arange(rows) * step
            parts = tuple(None if column is None else _interpolated(clock[a:b], column[a:b], at) for column in columns)
            pieces.append(Piece(float(clock[a]), parts))
    notes = [*notes, f"{name}: uneven times interpolated to dt = {step:g}"]
    if len(pieces) > len(spans):
        notes.append(f"{name}: cut at {len(pieces) - len(spans)} long holes in time")
    return Even(step, tuple(pieces), tuple(notes))


def _interpolated(times: Float64, values: Array, at: Float64) -> Array:
    """Columns of `values` at other times; NaN where a neighbour is NaN."""
    from scipy.interpolate import CubicSpline

    flat = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    out = np.full((len(at), flat.shape[1]), np.nan)
    good = np.isfinite(flat)
    for pattern in np.unique(good, axis=1).T:  # columns that miss the same rows share one spline
        which = (good == pattern[:, None]).all(axis=0)
        if pattern.sum() >= 4:
            out[:, which] = CubicSpline(times[pattern], flat[pattern][:, which])(at)
        elif pattern.sum() >= 1:
            known = flat[pattern][:, which]
            out[:, which] = np.stack([np.interp(at, times[pattern], column) for column in known.T], axis=1)
        below = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 1)
        above = np.clip(np.searchsorted(times, at, side="left"), 0, len(times) - 1)
        lost = ~(pattern[below] & pattern[above])
        out[np.ix_(lost, which)] = np.nan
    kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    return out.reshape(len(at), *values.shape[1:]).astype(kind)


def _uneven(clock: Float64, spans: list[tuple[int, int]], name: str, where: Where) -> str:
    steps = np.concatenate([np.diff(clock[a:b]) for a, b in spans])
    found = f"steps in time from {steps.min():g} to {steps.max():g}{where.place}"
    return f"{name}: unevenly sampled, {found}; {REMEDY}{where.remedy}"
