"""The one place where data become a `Dataset` at one even step: arrays, tables, files and xarray objects alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, positive
from lln.core.table import counted, human_time
from lln.data.interpret import calendar
from lln.data.interpret.arrays import describe_array
from lln.data.interpret.description import Choices, Description, Part, TimeContext, examined, refuse_swapped
from lln.data.interpret.tables import describe_table
from lln.data.interpret.variables import describe_store
from lln.data.read.store import ReadTable, Store
from lln.data.series import Array, Dataset, Series

TIMES = 1 << 20  # times of rows on the disk that are examined together
Float64 = NDArray[np.float64]
JITTER = 0.01  # of a step that a time may be off; files print times with few digits
FAR = 5.0  # median steps beyond which a hole is left open rather than interpolated
REMEDY = "resample it with --resample (in Python: resample=True), or leave time out and give dt if it is even after all"


def _groups(store: Store, choices: Choices) -> list[Store]:
    """One store for each trajectory, where a file has a group for each with the same variables in it."""
    named = [name.rpartition("/") for name in store.variables]
    folders = list(dict.fromkeys(folder for folder, _, _ in named))
    inside = [tuple(name for at, _, name in named if at == folder) for folder in folders]
    asked = [choices.states] if isinstance(choices.states, str) else list(choices.states or ())
    if "" in folders or len(set(inside)) != 1 or any(name in store.variables for name in asked):
        return []
    return [
        replace(
            store,
            source=f"{store.source}, {folder}",
            variables={name: store.variables[f"{folder}/{name}"] for name in inside[0]},
            reopen=partial(_inside, store.reopen, f"{folder}/"),
        )
        for folder in folders
    ]


def _inside(reopen: Callable[[], Mapping[str, Any]], start: str) -> Mapping[str, Any]:
    """The arrays of one group of a file."""
    return {name.removeprefix(start): array for name, array in reopen().items() if name.startswith(start)}


def even_steps(given: Description, dt: float | None, resample: bool) -> tuple[tuple[Series, ...], float, Description]:
    """Bring the trajectories of `given` to one even step; `dt` is the step where the caller or the file states it.

    Returns:
        The trajectories, the step, and `given` with notes on what was done, the unit of time and a calendar step.
    """
    parts, unit, frequency = _clocks(given, calendars=dt is None and not resample)
    series: list[Series] = []
    notes: list[str] = []
    steps: list[float] = []
    if frequency is not None:
        notes.append(f"{given.source}: the dates are {unit.partition(' since ')[0]}, and each row is one step")
    if " since " in unit and given.calendar.lower() not in calendar.USUAL:
        notes.append(f"{given.source}: times of the calendar {given.calendar!r} stay numbers of {unit}, not dates")
        unit = unit.partition(" since ")[0]  # days of it counted in ours would give wrong dates
    for one in parts:
        if one.times is None:
            series.append(Series(one.states, one.inputs, one.weights, one.name, one.start))
        elif not isinstance(one.states, np.ndarray):
            found, step, said = _even_rows(one, dt)
            series, notes, steps = [*series, *found], [*notes, *said], [*steps, step]
        else:
            inputs = None if one.inputs is None else np.asarray(one.inputs)
            columns = (one.states, inputs, one.weights)
            even_series = even(one.times, columns, one.name, dt, resample, one.context)
            notes += even_series.notes
            steps += [] if even_series.dt is None else [even_series.dt]
            for segment in even_series.segments:
                states, known, weight = segment.columns
                weight = None if weight is None else np.nan_to_num(weight)  # a row that was filled in has no weight
                assert states is not None
                series.append(Series(states, known, weight, one.name, segment.start + one.start))
    step = _one_step(steps, given.source) if steps else (1.0 if dt is None else dt)
    units = {**given.units, "time": unit} if unit else given.units
    notes = [*given.notes, *dict.fromkeys(notes)]
    return tuple(series), step, replace(given, notes=tuple(notes), units=units, frequency=frequency or given.frequency)


def _clocks(given: Description, *, calendars: bool) -> tuple[list[Part], str, str | None]:
    """The trajectories with times as numbers, their unit, and the calendar step that they count."""
    clocks = [one.times for one in given.parts]
    unit, frequency = given.units.get("time", ""), None
    whole = [clock for clock in clocks if isinstance(clock, np.ndarray)]
    if len(whole) < len(clocks) or not whole:
        return list(given.parts), unit, None
    dates: list[Any] = [clock if clock.dtype.kind == "M" else None for clock in whole]
    if calendars and " since " in unit:
        dates = [calendar.decoded_dates(clock, unit, given.calendar) for clock in whole]
    known = all(one is not None and one.size and not np.isnat(one).any() for one in dates)
    if calendars and known:
        frequency = calendar.find_frequency(np.concatenate([one.astype("M8[ns]") for one in dates]))
    if frequency is not None or whole[0].dtype.kind == "M":
        origin = next((one[0] for one in dates if one is not None and one.size), np.datetime64(0, "s"))
        unit = calendar.unit_of(origin, frequency)
        if frequency is None:
            whole = [((one - origin) / np.timedelta64(1, "ns") * 1e-9).astype(np.float64) for one in dates]
        else:
            first = origin.astype("M8[ns]")
            whole = [calendar.step_numbers(one.astype("M8[ns]"), first, frequency) for one in dates]
    elif whole[0].dtype.kind == "m":
        unit, whole = "s", [one / np.timedelta64(1, "ns") * 1e-9 for one in whole]
    return [replace(one, times=clock) for one, clock in zip(given.parts, whole, strict=True)], unit, frequency


def _even_rows(one: Part, dt: float | None) -> tuple[list[Series], float, list[str]]:
    """Cut rows on the disk where time jumps or goes back, read in parts: the stretches, their step, and notes."""
    times, name = one.times, one.name
    rows = int(one.states.shape[0])
    head = np.asarray(times[: min(rows, TIMES)], dtype=np.float64)
    precision = float(np.finfo(times.dtype).eps) if np.dtype(times.dtype).kind == "f" else 0.0
    if rows == 1:
        return [Series(one.states, one.inputs, one.weights, name, float(head[0]) + one.start)], dt or 1.0, []
    middle = float(np.median(np.diff(head)))
    end = float(np.asarray(times[rows - 1 : rows], dtype=np.float64)[0])
    slack = 4 * precision * max(abs(float(head[0])), abs(end))
    mean = (end - float(head[0])) / (rows - 1)
    step = mean if abs(mean - middle) <= JITTER * middle + slack else middle
    if not step > 0:
        raise InputError(f"{name}: times do not increase; name the variable that is time with time=")
    edges, before = [0], float(head[0]) - step
    for first in range(0, rows, TIMES):
        part = np.asarray(times[first : min(first + TIMES, rows)], dtype=np.float64)
        steps = np.diff(part, prepend=before)
        jumps = np.abs(steps - step) > JITTER * step + slack
        holes = steps[jumps & (steps > 0)]
        if not np.isfinite(part).all() or (np.abs(holes / step - np.round(holes / step)) > JITTER + slack / step).any():
            raise InputError(
                f"{name}: unevenly sampled, or times are missing, between rows {first} and "
                f"{first + len(part) - 1}; {REMEDY}",
                topic="uneven",
            )
        edges += (np.flatnonzero(jumps) + first).tolist()
        before = float(part[-1])
    edges = [*dict.fromkeys(edges), rows]
    if len(edges) > 2 + rows // 2:
        raise InputError(f"{name}: time jumps at {len(edges) - 2} of {rows} rows; {REMEDY}", topic="uneven")
    whole = Series(one.states, one.inputs, one.weights, name)
    parts = []
    for a, b in pairwise(edges):
        begin = float(np.asarray(times[a : a + 1], dtype=np.float64)[0])
        parts.append(replace(whole if (a, b) == (0, rows) else whole.cut(a, b), start=begin + one.start))
    notes = [f"{name}: cut at {len(parts) - 1} jumps in time"] if len(parts) > 1 else []
    found = nice(step, max(slack / rows, 1e-9 * step), float(head[1] - head[0]))
    if dt is not None and abs(dt - found) > 1e-3 * found:
        raise InputError(f"{name}: dt = {dt:g} was given but the times are {found:g} apart; leave dt out")
    return parts, dt or found, notes


def _one_step(steps: Sequence[float], source: str) -> float:
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
    kinds = {"names": "names of columns", "input_names": "inputs", "space": "grid"}
    kinds["frequency"] = "steps of the calendar"
    for part in parts[1:]:
        what = [word for name, word in kinds.items() if getattr(first, name) != getattr(part, name)]
        if part.size == first.size and what:
            raise InputError(f"{first.source} and {part.source} differ in their {what[0]}; give data of one system")
        if abs(part.dt - first.dt) > 1e-6 * first.dt:
            raise InputError(
                f"{first.source} has dt = {first.dt:g} but {part.source} has dt = {part.dt:g}; bring them to one step "
                "with --resample (in Python: resample=True and dt=)"
            )
    series = tuple(
        replace(one, start=one.start + later) if (later := _later(part, first)) else one
        for part in parts
        for one in part.series
    )
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    sources = list(dict.fromkeys(part.source for part in parts))
    system = first.system if all(part.system == first.system for part in parts) else ""
    return replace(first, series=series, notes=notes, source=source or ", ".join(sources), system=system)


def _later(part: Dataset, first: Dataset) -> float:
    """Time between the dates from which two datasets count, in their unit; zero where they do not count from dates."""
    ours, theirs = (calendar.first_date(one.units.get("time", "")) for one in (part, first))
    if ours is None or theirs is None:
        return 0.0
    if first.frequency is not None:
        return float(calendar.step_numbers(np.array([ours]), theirs, first.frequency)[0])
    second = calendar.dates_of([1.0], first.units["time"])
    length = 1e9 if second is None else float((second[0] - theirs) / np.timedelta64(1, "ns"))
    return float((ours - theirs) / np.timedelta64(1, "ns")) / length


SAME_STEP = 1e-6  # relative difference between the step of rounded times and the step that a file states
# What a description says of a dataset under the same name.
SHARED = {one.name for one in fields(Dataset)} & {one.name for one in fields(Description)} - {"dt"}


def interpret(given: Store | ReadTable | Any, choices: Choices) -> Dataset:
    """Make a dataset of what a reader returned (variables, a table) or the caller holds (arrays).

    The roles of variables, columns and axes are found first (`describe_*`); then times are brought to one even step,
    and the columns are examined.
    """
    if isinstance(given, Store):
        parts = _groups(given, choices)
        if parts:
            return join([interpret(part, choices) for part in parts], given.source)
        found = describe_store(given, choices)
    elif isinstance(given, ReadTable):
        found = describe_table(given, choices)
    else:
        found = describe_array(given, choices)
    untimed = all(one.times is None for one in found.parts)
    dt = found.dt if choices.dt is None and untimed else choices.dt
    series, step, found = even_steps(found, dt, choices.resample)
    if found.dt is not None and abs(found.dt - step) <= SAME_STEP * step:
        step = found.dt  # the times of a file are rounded; the step that was written beside them is not
    first = series[0].states if series else None
    if found.turnable and isinstance(first, np.ndarray):
        refuse_swapped(first, found.source)
    known = {name: getattr(found, name) for name in SHARED} | ({"names": tuple(choices.names)} if choices.names else {})
    return examined(Dataset(series, step, **known))


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows at an even step."""

    start: float  #: time of the first row
    columns: tuple[Array | None, ...]  #: what was given with the times, row by row; None where that was None
    filled: int = 0  #: rows of NaN that stand for missing times


@dataclass(frozen=True, eq=False)
class EvenSeries:
    """Trajectories at an even step, and notes."""

    dt: float | None  #: time between rows, or None if there is but one row
    segments: tuple[Segment, ...]  #: stretches of time; more than one if time went back or a hole was long
    notes: tuple[str, ...] = ()  #: sentences on what was done


def even(
    times: Any, columns: Sequence[Array | None], name: str, dt: float | None, resample: bool, context: TimeContext
) -> EvenSeries:
    """Bring rows to one even step: time that goes back begins a new segment, missing times become rows of NaN.

    Args:
        times: of the rows, (time,).
        columns: arrays whose first axis is time, or None.
        name: for messages, as is `context`.
        dt: the step, if it is known; must agree with the times unless `resample` is on.
        resample: interpolate uneven times onto an even grid, by cubic splines where there are four rows or more.
        context: how messages describe the times.
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
        notes.append(
            f"{name}: time goes back {counted(len(spans) - 1, 'time')}{context.place}, taken as new trajectories"
        )
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
        what = "missing time filled in as a gap" if filled == 1 else "missing times filled in as gaps"
        notes.append(f"{name}: {filled} {what}")
    if len(segments) > len(spans):
        notes.append(f"{name}: cut at {counted(len(segments) - len(spans), 'long hole')} in time")
    return EvenSeries(step, tuple(segments), tuple(notes))


def nice(value: float, error: float, first: float) -> float:
    """A short decimal within `error` of `value` (0.01, not 0.010000000000000009), else the first step if it is."""
    for digits in range(1, 13):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= error:
            return short
    return first if abs(first - value) <= error else value


def _rising(clock: Float64, name: str, context: TimeContext) -> list[tuple[int, int]]:
    """Stretches of rows in which time only rises, (first row, last row + 1) each."""
    steps = np.diff(clock)
    same = np.flatnonzero(steps == 0)
    if len(same):
        row = int(same[0])
        raise InputError(
            f"{name}: rows {context.row(row)} and {context.row(row + 1)} have the same time {context.time(row, clock)}"
            f"{context.place}; {context.set_back(row)}drop one of them, or name the column that tells trajectories "
            f"apart with --trajectory (in Python: trajectory=){context.remedy}"
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
        notes.append(f"{name}: cut at {counted(len(segments) - len(spans), 'long hole')} in time")
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
