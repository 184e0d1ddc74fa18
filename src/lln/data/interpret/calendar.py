"""Dates and times: steps of the calendar (months, quarters, years, business days), times that count from a date.

Times are brought to one even step: gaps are filled with NaN, restarts cut, uneven times refused or interpolated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, positive
from lln.core.table import SECONDS, human_time
from lln.data.series import Array

Dates = NDArray[np.datetime64]
TIME_NAMES = ("time", "times", "t", "date", "datetime", "timestamp")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
FEWEST = 3  # dates from which a frequency is recognised
FILLED = 0.5  # smallest share of the steps of a calendar that the dates must fill
CENTRED = 2.0  # days that the date of a monthly mean may lie off the middle of its month
BUSINESS = "B"
_ALIAS = re.compile(r"(\d*)([MQY])([SE])(?:-[A-Z]{3})?")
_LENGTHS = {"M": 1, "Q": 3, "Y": 12}
_WORDS = {"M": "months", "Q": "quarters", "Y": "years"}
_UNIT = re.compile(r"(\w+?)s? since (.+)", re.IGNORECASE)
_SECONDS = SECONDS | {"hr": 3600.0} | dict.fromkeys(("ms", "msec", "millisecond"), 1e-3)
_SECONDS |= dict.fromkeys(("us", "microsecond"), 1e-6) | dict.fromkeys(("ns", "nanosecond"), 1e-9)


def find_frequency(dates: Dates) -> str | None:
    """Find the calendar step of dates.

    Returns:
        A pandas offset alias: B for business days, MS, QS, YS (one day of the month), ME, QE, YE (month ends), with a
        multiple or a month where needed (2MS, QS-FEB); None if the dates follow no such step.
    """
    array = np.unique(np.asarray(dates, dtype="datetime64[ns]"))
    if len(array) < FEWEST or np.isnat(array).any():
        return None
    return _months(array) or _business(array)


def checked_alias(frequency: Any) -> str | None:
    """Return `frequency` if it names a calendar step, else None."""
    known = isinstance(frequency, str) and (frequency == BUSINESS or _ALIAS.fullmatch(frequency))
    return frequency if known else None


def step_numbers(dates: Dates, first: np.datetime64, frequency: str) -> NDArray[np.float64]:
    """Count the calendar steps from `first` to each date."""
    if frequency == BUSINESS:
        days: NDArray[np.float64] = np.busday_count(first.astype("M8[D]"), dates.astype("M8[D]")).astype(np.float64)
        return days
    months: NDArray[np.float64] = (dates.astype("M8[M]") - first.astype("M8[M]")).astype(np.float64)
    return months / _length(frequency)


def dates_after(first: Any, steps: Any, frequency: str) -> Dates:
    """Dates that lie `steps` calendar steps after `first`, one date or several that broadcast."""
    count = np.round(np.asarray(steps, dtype=np.float64)).astype(np.int64)
    day = first.astype("M8[D]")
    hours = (first - day).astype("m8[ns]")
    found: Dates
    if frequency == BUSINESS:
        found = np.busday_offset(day, count, roll="forward").astype("M8[ns]") + hours
        return found
    month = first.astype("M8[M]") + count * _length(frequency)
    last = (month + 1).astype("M8[D]") - 1
    same = month.astype("M8[D]") + (day - first.astype("M8[M]").astype("M8[D]"))
    match = _ALIAS.fullmatch(frequency)
    chosen = last if match is not None and match[3] == "E" else np.minimum(same, last)
    found = chosen.astype("M8[ns]") + hours
    return found


def unit_of(first: np.datetime64, frequency: str | None) -> str:
    """The unit of times that count from `first`, such as "seconds since 2024-01-31T00:00:00"."""
    since = np.datetime_as_string(first, unit="s")
    if frequency is None:
        return f"seconds since {since}"
    match = _ALIAS.fullmatch(frequency)
    word = "business days" if match is None else "steps" if match[1] else _WORDS[match[2]]
    return f"{word} since {since}"


def first_date(unit: str) -> np.datetime64 | None:
    """The date from which times of such a unit count; None if it names none."""
    _, since, date = unit.partition(" since ")
    try:
        return np.datetime64(date.strip().removesuffix("Z").removesuffix(" UTC").strip(), "ns") if since else None
    except ValueError:
        return None


def dates_of(times: Any, unit: str, frequency: str | None = None) -> Dates | None:
    """Times that count from a date as dates; None if their unit does not say from which."""
    first = first_date(unit)
    if first is None:
        return None
    if frequency is not None:
        return dates_after(first, times, frequency)
    match = _UNIT.fullmatch(unit.strip())
    if match is None or match[1].lower() not in _SECONDS:
        return None
    nanoseconds = np.round(np.asarray(times, dtype=np.float64) * (_SECONDS[match[1].lower()] * 1e9))
    return None if np.abs(nanoseconds).max(initial=0.0) > 2**62 else first + nanoseconds.astype("m8[ns]")


def decoded_dates(times: NDArray[Any], unit: str, calendar: str) -> Dates | None:
    """Times of a file in CF units as dates; None where xarray cannot decode them."""
    from xarray.coding.times import decode_cf_datetime

    if " since " not in unit or times.dtype.kind not in "fiu" or not np.isfinite(times).all():
        return None
    try:
        found = np.asarray(decode_cf_datetime(times, unit, calendar or "standard", use_cftime=False))
    except (ValueError, OverflowError, ImportError, TypeError, KeyError, AttributeError):
        return None
    return found.astype("M8[ns]") if found.dtype.kind == "M" else None


def time_zone(name: str) -> tzinfo | None:
    """The time zone of that name, such as Europe/Berlin or UTC+02:00; None if it names none."""
    if name == "UTC":
        return UTC
    try:
        if re.fullmatch(r"UTC[+-]\d\d:\d\d", name):
            return datetime.strptime(name.removeprefix("UTC"), "%z").tzinfo
        return ZoneInfo(name) if name else None
    except (ValueError, KeyError, OSError):  # what zoneinfo raises for an unknown name, a path, and a folder
        return None


def _length(frequency: str) -> int:
    """Months of one step."""
    match = _ALIAS.fullmatch(frequency)
    if match is None:
        raise ValueError(f"{frequency!r} is no step of months")
    return int(match[1] or 1) * _LENGTHS[match[2]]


def _months(dates: Dates) -> str | None:
    months = dates.astype("M8[M]")
    steps = np.diff(months.astype(np.int64))
    if (steps < 1).any():
        return None
    step = int(np.gcd.reduce(steps))
    if len(dates) < FILLED * (steps.sum() / step + 1):
        return None
    begin = months.astype("M8[D]")
    length = ((months + 1).astype("M8[D]") - begin).astype(np.float64)
    day = (dates - begin).astype("m8[ns]").astype(np.float64) / 86400e9
    end = bool((np.floor(day) == length - 1).all())
    if not (end or np.ptp(day) == 0 or (np.abs(day - length / 2) <= CENTRED).all()):
        return None
    letter = "Y" if step % 12 == 0 else "Q" if step % 3 == 0 else "M"
    count, side = step // _LENGTHS[letter], "E" if end else "S"
    alias = f"{count if count > 1 else ''}{letter}{side}"
    # pandas names the month of yearly steps, and one of the months of quarterly steps.
    month = int(months[0].astype(np.int64)) % _LENGTHS[letter]
    usual = _LENGTHS[letter] - 1 if end else 0
    named = month + (9 if letter == "Q" and end else 0)
    return alias if letter == "M" or month == usual else f"{alias}-{MONTHS[named]}"


def _business(dates: Dates) -> str | None:
    days = dates.astype("M8[D]")
    if np.ptp((dates - days).astype(np.int64)) or not np.is_busday(days).all():
        return None
    steps = np.diff(days).astype(np.int64)
    spanned = int(np.busday_count(days[0], days[-1])) + 1
    weekend = int((days[-1] - days[0]).astype(np.int64)) + 1 > spanned
    return BUSINESS if weekend and np.median(steps) == 1 and len(days) >= FILLED * spanned else None


Float64 = NDArray[np.float64]
JITTER = 0.01  # of a step that a time may be off; files print times with few digits
FAR = 5.0  # median steps beyond which a hole is left open rather than interpolated
REMEDY = "resample it with --resample (in Python: resample=True), or leave time out and give dt if it is even after all"


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows at an even step."""

    start: float  #: time of the first row
    columns: tuple[Array | None, ...]  #: what was given with the times, row by row; None where that was None
    filled: int = 0  #: rows of NaN that stand for missing times


@dataclass(frozen=True, eq=False)
class EvenSeries:
    """What became of the times."""

    dt: float | None  #: time between rows, or None if there is but one row
    segments: tuple[Segment, ...]  #: stretches of time; more than one if time went back or a hole was long
    notes: tuple[str, ...] = ()  #: sentences on what was done


@dataclass(frozen=True, eq=False)
class TimeContext:
    """How messages speak of the times of a table."""

    place: str = ""  #: the column, as in " in column 'T'"
    rows: NDArray[np.intp] | None = None  #: the numbers of its rows; from 0 if None
    remedy: str = ""  #: what may help too where times do not rise, as in ", or ..."
    dates: Dates | None = None  #: of the rows, if the times are dates

    def row(self, index: Any) -> int:
        """The number of a row."""
        return int(index if self.rows is None else self.rows[index])

    def time(self, index: int, clock: Float64) -> str:
        """The time of a row in words."""
        if self.dates is None:
            return f"{clock[index]:g}"
        return str(np.datetime_as_string(self.dates[index], unit="s")).removesuffix("T00:00:00")


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
    """Bring rows to one even step: time that goes back begins a new segment, missing times become rows of NaN.

    Args:
        times: of the rows, (time,).
        columns: arrays whose first axis is time, or None.
        name: for messages, as is `context`.
        dt: the step, if it is known; must agree with the times unless `resample` is on.
        resample: interpolate uneven times onto an even grid, by cubic splines where there are four rows or more.
        context: how messages speak of the times.
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
            f"{name}: rows {context.row(row)} and {context.row(row + 1)} have the same time {context.time(row, clock)}"
            f"{context.place}; drop one of them, or name the column that tells trajectories apart with --trajectory "
            f"(in Python: trajectory=){context.remedy}"
        )
    edges = [0, *(np.flatnonzero(steps < 0) + 1).tolist(), len(clock)]
    spans = list(pairwise(edges))
    if len(spans) > 1 and min(b - a for a, b in spans) < 2:
        row = int(np.flatnonzero(steps < 0)[0]) + 1
        raise InputError(
            f"{name}: time goes back from {context.time(row - 1, clock)} to {context.time(row, clock)} at row "
            f"{context.row(row)}{context.place}; sort the rows{context.remedy}"
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
        return [
            Segment(float(clock[first + a]), tuple(None if part is None else part[a:b] for part in parts))
            for a, b in pairwise(edges)
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
        for a, b in pairwise([first, *holes.tolist(), last]):
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
    ends = (float(steps.min()), float(steps.max()))
    found = " to ".join(f"{step:g}" if context.dates is None else human_time(step, "seconds") for step in ends)
    return f"{name}: unevenly sampled, steps in time from {found}{context.place}; {REMEDY}{context.remedy}"
