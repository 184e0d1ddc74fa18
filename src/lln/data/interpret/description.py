"""The common description of all sources of data before their times are examined: choices, parts, checks of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, did_you_mean
from lln.data.series import Array, Dataset, Rows

NO_TIME = "none"  # as `time`: the rows have no times
TRAJECTORY_NAMES = (
    *("trajectory", "trajectories", "traj", "run", "realization", "realisation", "ensemble", "member", "simulation"),
    *("sim", "case", "episode", "experiment", "sample", "batch"),
)


@dataclass(frozen=True)
class Choices:
    """Roles that the caller gave by name; see `as_dataset`."""

    dt: float | None = None
    inputs: Any = None
    weights: Any = None
    names: Sequence[str] | None = None
    grid: Any = None
    time: Any = None
    states: str | Sequence[str] | None = None
    trajectory: str | None = None
    resample: bool = False

    def __post_init__(self) -> None:
        """Refuse values that cannot be names."""
        for what, given in (("states", self.states), ("trajectory", self.trajectory)):
            if given is not None and not isinstance(given, Iterable):
                raise InputError(f"{what}= must name variables or columns, got {type(given).__name__}")
        names = [str(name) for name in self.names] if isinstance(self.names, list | tuple) else []
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise InputError(f"names= has {twice!r} more than once; give each column a name of its own")

    @property
    def timeless(self) -> bool:
        """Whether the caller said that the rows have no times."""
        return isinstance(self.time, str) and self.time.lower() == NO_TIME

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Names of columns or variables that the caller gave a role."""
        parts = (self.time, self.states, self.trajectory, self.inputs, self.weights)
        listed = ([part] if isinstance(part, str) else part for part in parts if isinstance(part, Iterable))
        return frozenset(one for part in listed for one in part if isinstance(one, str))


@dataclass(frozen=True, eq=False)
class TimeContext:
    """How messages describe the times of a table."""

    place: str = ""  #: the column, as in ``" in column 'T'"``
    rows: NDArray[np.intp] | None = None  #: the numbers of its rows; from 0 if None
    remedy: str = ""  #: what may help too where times do not rise, as in ``", or ..."``
    dates: NDArray[np.datetime64] | None = None  #: of the rows, if the times are dates

    def row(self, index: Any) -> int:
        """The number of a row."""
        return int(index if self.rows is None else self.rows[index])

    def time(self, index: int, clock: NDArray[np.float64]) -> str:
        """The time of a row in words."""
        if self.dates is None:
            return f"{clock[index]:g}"
        return str(np.datetime_as_string(self.dates[index], unit="s")).removesuffix("T00:00:00")

    def set_back(self, index: int) -> str:
        """What to do where clocks were probably set back: the hour before, or from, one to three on a Sunday."""
        if self.dates is None:
            return ""
        moment = self.dates[index].astype("M8[s]").item()
        if moment.weekday() != 6 or moment.hour > 3 or moment.month not in (3, 4, 9, 10, 11):
            return ""
        return f"if clocks were set back, write the offset too, as in {moment.isoformat()}+01:00; else "


NO_CONTEXT = TimeContext()


@dataclass(frozen=True, eq=False)
class Part:
    """One trajectory (see `Series`) before its times are examined."""

    name: str
    times: Any  #: of its rows, (time,): numbers, dates or durations; None if there are none
    states: Array | Rows
    inputs: Array | Rows | None = None
    weights: Array | None = None
    start: float = 0.0  #: added to the times, or the time of the first row if there are none
    context: TimeContext = NO_CONTEXT  #: for messages about its times


@dataclass(frozen=True, eq=False)
class Description:
    """A source of data whose roles are known: the same for arrays, tables, files and xarray objects.

    Attributes that a `Dataset` has too mean the same there.
    """

    source: str
    parts: Sequence[Part]  #: the trajectories
    names: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    coords: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    time_name: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    system: str = ""
    dt: float | None = None  #: time step that a file states
    calendar: str = ""  #: of times that count from a date, as CF names it
    frequency: str | None = None
    turnable: bool = False  #: whether rows and columns may have been exchanged
    time_zone: str = ""


SMOOTHER = 4.0  # how much smoother the other axis must be before time and state are said to be exchanged
CONSTANT = 1e-12  # relative spread that rounding leaves of a constant
# Numbers that often stand for "missing".
MARKS = (-99.0, -99.9, -999.0, -999.9, -9999.0, -99999.0, 999.0, 9999.0, 99999.0, 1e20, -32768.0)
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
    marks = np.concatenate([MARKS, np.asarray(MARKS, dtype=np.float32)])  # states may have either precision
    for column in np.flatnonzero(np.isin([least, most], marks).any(axis=0) & (least < most))[:3].tolist():
        values = np.concatenate([block[:, column] for one in data.series for _, block in one.blocks()])
        notes += [
            f"{data.source}: column {data.names[column]!r} holds {mark:g} in {_rows(count)}, unlike its other values; "
            "if that means missing, leave those cells empty"
            for mark, count in far_marks(values)
        ]
    return replace(data, notes=tuple(notes))


def far_marks(values: Array) -> list[tuple[float, int]]:
    """Numbers in a column that often stand for "missing", such as -999, are far from all others, and how many.

    Far is more than three ranges of the others away, or below zero where none of the others is.
    """
    values = values[np.isfinite(values)]
    marks = np.asarray(MARKS, dtype=values.dtype)
    rest = values[~np.isin(values, marks)].astype(np.float64)
    if not len(rest):
        return []
    with np.errstate(over="ignore"):
        wide = APART * max(float(np.ptp(rest)), 1e-3 * float(np.abs(rest).max()))
    found = []
    for mark, exact in zip(MARKS, marks, strict=True):
        count = int((values == exact).sum())
        if count and (np.abs(rest - mark).min() > wide or mark < 0 <= rest.min()):
            found.append((mark, count))
    return found


def _rows(count: int) -> str:
    """A number of rows in words."""
    return "1 row" if count == 1 else f"{count:,} rows"


def asked_names(what: str, names: Any, kind: str, known: Iterable[str], source: str) -> tuple[str, ...]:
    """Names that the caller gave for `what`, none for None, each checked to be a `kind` ("column") of the source."""
    if names is None:
        return ()
    chosen = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)
    there = list(known)
    for name in chosen:
        if not isinstance(name, str):
            raise InputError(f"{source}: {what}= must name {kind}s of it, got {type(name).__name__}")
        if name not in there:
            raise no_such(kind, name, f"for {what}", there, source)
    return chosen


def no_such(kind: str, name: str, purpose: str, known: Iterable[Any], source: str) -> InputError:
    """The error of a name that the source does not have, with a hint at the known one that was probably meant."""
    there = [str(one) for one in known]
    hint = did_you_mean(name, there) if there else ""
    return InputError(f"{source}: no {kind} {name!r} {purpose}{hint}", topic="unknown-name")


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
    """Refuse data whose rows look like columns: fewer rows than columns, and far smoother along a row."""
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
        steps = (np.diff(part, axis=0) ** 2).mean(axis=0)
        return float(np.median(steps[varied] / variance[varied])) if varied.any() else float("nan")
