"""Times to one even step: gaps filled in with NaN, restarts cut, uneven times refused or interpolated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, positive
from lln.data.series import Array

Float64 = NDArray[np.float64]
JITTER = 0.01  # of a step that a time may be off; files print times with few digits
FAR = 5.0  # median steps beyond which a hole is left open rather than interpolated
REMEDY = "resample it with --resample (in Python: resample=True), or leave time out and give dt if it is even after all"


@dataclass(frozen=True, eq=False)
class Segment:
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
class EvenSeries:
    """What became of the times.

    Attributes:
        dt: time between rows, or None if there is but one row.
        segments: stretches of time; more than one if time went back or a hole was long.
        notes: sentences on what was done.
    """

    dt: float | None
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TimeContext:
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


NO_CONTEXT = TimeContext()


def even(
    times: Any,
    columns: Sequence[Array | None],
    name: str,
    *,
    dt: float | None = None,
    resample: bool = False,
    context: TimeContext = NO_CONTEXT,
) -> EvenSeries:
    """Bring rows to one even step.

    Args:
        times: of the rows, (time,).
        columns: arrays whose first axis is time, or None.
        name: for messages.
        dt: the step, if it is known; must agree with the times unless `resample` is on.
        resample: interpolate uneven times onto an even grid, by cubic splines where there are four rows or more.
        context: for messages about the times.

    Returns:
        Pieces with equal steps: time that goes back begins a new one, missing times become rows of NaN.
    """
    array = np.asarray(times)
    precision = float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps)  # of the times as stored
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: times must be numbers or dates, got an array of {array.dtype}")
    clock = array.astype(np.float64)
    if clock.ndim != 1:
        raise InputError(f"{name}: times must be one column, got shape {clock.shape}")
    for column in columns:
        if column is not None and len(column) != len(clock):
            raise InputError(f"{name}: {len(clock)} times but {len(column)} rows; give one time for each row")
    if not np.isfinite(clock).all():
        row = context.row(np.flatnonzero(~np.isfinite(clock))[0])
        raise InputError(f"{name}: the time of row {row} is missing{context.place}; fill it in or drop the row")
    dt = None if dt is None else positive(f"{name}: dt", dt)
    if len(clock) < 2:
        return EvenSeries(dt, (Segment(float(clock[0]), tuple(columns)),) if len(clock) else ())
    spans = _rising(clock, name, context)
    notes = []
    if len(spans) > 1:
        notes.append(f"{name}: time goes back {len(spans) - 1} times{context.place}, taken as new trajectories")
    slack = 4 * precision * float(np.abs(clock).max())
    found = _step(clock, spans, slack)
    if resample and (found is None or (dt is not None and not _agree(dt, found, clock, slack))):
        return _resampled(clock, columns, spans, dt, name, notes)
    if found is None:
        raise InputError(_uneven(clock, spans, name, context), topic="uneven")
    if dt is not None and not _agree(dt, found, clock, slack):
        raise InputError(
            f"{name}: dt = {dt:g} was given but the times are {found:g} apart; leave dt out, or resample to it with "
            "--resample (in Python: resample=True)"
        )
    step = dt if dt is not None else found
    segments = [piece for span in spans for piece in _filled(clock, columns, span, step)]
    filled = sum(piece.filled for piece in segments)
    if filled:
        notes.append(f"{name}: {filled} missing times filled in as gaps")
    if len(segments) > len(spans):
        notes.append(f"{name}: cut at {len(segments) - len(spans)} long holes in time")
    return EvenSeries(step, tuple(segments), tuple(notes))


def nice(value: float, error: float, first: float) -> float:
    """A short decimal within `error` of `value` (0.01, not 0.010000000000000009), else the first step if it is."""
    for digits in range(1, 13):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= error:
            return short
    return first if abs(first - value) <= error else value


def _rising(clock: Float64, name: str, context: TimeContext) -> list[tuple[int, int]]:
    """TimeContext time only rises, (first row, last row + 1) each."""
    steps = np.diff(clock)
    same = np.flatnonzero(steps == 0)
    if len(same):
        row = int(same[0])
        raise InputError(
            f"{name}: rows {context.row(row)} and {context.row(row + 1)} have the same time {clock[row]:g}"
            f"{context.place}; drop one of them, or name the column that tells trajectories apart with --trajectory "
            f"(in Python: trajectory=){context.remedy}"
        )
    edges = [0, *(np.flatnonzero(steps < 0) + 1).tolist(), len(clock)]
    spans = list(pairwise(edges))
    if len(spans) > 1 and min(b - a for a, b in spans) < 2:
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise InputError(
            f"{name}: time goes back from {clock[row - 1]:g} to {clock[row]:g} at row {context.row(row)}"
            f"{context.place}; sort the rows{context.remedy}"
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


def _filled(clock: Float64, columns: Sequence[Array | None], span: tuple[int, int], step: float) -> list[Segment]:
    """One rising stretch with missing times filled in, or cut at them where that would more than double it."""
    first, last = span
    since = clock[first:last] - clock[first]
    counts = np.round(since / step)
    rows = int(counts[-1]) + 1
    parts = tuple(None if column is None else column[first:last] for column in columns)
    if rows == last - first:
        return [Segment(float(clock[first]), parts)]
    if rows > 2 * (last - first):
        edges = [0, *(np.flatnonzero(np.diff(counts) > 1) + 1).tolist(), len(counts)]
        spans = pairwise(edges)
        return [
            Segment(float(clock[first + a]), tuple(None if part is None else part[a:b] for part in parts))
            for a, b in spans
        ]
    whole = tuple(None if part is None else _spread(part, counts.astype(np.int64), rows) for part in parts)
    return [Segment(float(clock[first]), whole, rows - (last - first))]


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
) -> EvenSeries:
    middle = float(np.median(np.concatenate([np.diff(clock[a:b]) for a, b in spans])))
    step = middle if dt is None else dt
    segments = []
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
            segments.append(Segment(float(clock[a]), parts))
    notes = [*notes, f"{name}: uneven times interpolated to dt = {step:g}"]
    if len(segments) > len(spans):
        notes.append(f"{name}: cut at {len(segments) - len(spans)} long holes in time")
    return EvenSeries(step, tuple(segments), tuple(notes))


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


def _uneven(clock: Float64, spans: list[tuple[int, int]], name: str, context: TimeContext) -> str:
    steps = np.concatenate([np.diff(clock[a:b]) for a, b in spans])
    found = f"steps in time from {steps.min():g} to {steps.max():g}{context.place}"
    return f"{name}: unevenly sampled, {found}; {REMEDY}{context.remedy}"
