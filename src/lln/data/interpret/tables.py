"""Tables, of pandas or from CSV files: which column is time, which separates trajectories, which are the state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.calendar import TIME_NAMES, time_zone
from lln.data.interpret.description import (
    MARKS,
    Choices,
    Description,
    Part,
    TimeContext,
    asked_names,
    far_marks,
    grid_of,
)
from lln.data.interpret.table_index import TELLING, Indexed, base, indexed
from lln.data.read.store import ReadTable

EVEN = 1e-6  # relative spread of the steps of a first column that is taken as time without a name that says so
MOSTLY = 0.5  # share of numbers from which a column holds numbers, and a text in it is a mistake
INPUT, WEIGHT = "input:", "weight"  # how a table of ours marks columns that are not states
POINT = re.compile(r"^(?P<channel>.*)\[(?P<place>[^\[\]]*=[^\[\]]*)\]$")
NAME_STATES = "name the states with --states (in Python: states=)"
COMPLEX = "complex; give real and imaginary parts as columns of their own"
ROW_NUMBERS = "the first column has no name and counts the rows, so it is left out"


def describe_table(given: ReadTable, choices: Choices) -> Description:
    """Find the roles of the columns of a table."""
    import pandas as pd

    source, notes = given.source, tuple[str, ...]()
    table = given.frame.to_frame() if isinstance(given.frame, pd.Series) else given.frame.copy(deep=False)
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"{type(given.frame).__name__} of pandas is not read as trajectories; give a DataFrame")
    table = table.infer_objects()  # a column of objects that are all numbers, or all dates
    table.columns = pd.Index(["_".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in table.columns])
    if not len(table) or not len(table.columns):
        raise InputError(f"{source}: no rows of data in it (shape {table.shape}); give at least two times")
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"{source}: two columns are called {twice[0]!r}; rename one of them")
    if given.row_numbers is not None and given.row_numbers not in choices.mentioned and len(table.columns) > 1:
        table, notes = table.drop(columns=[given.row_numbers]), (f"{source}: {ROW_NUMBERS}",)
    return _Columns(indexed(table, choices, source), given, notes).description()


class _Columns:
    """Columns and the roles that they have."""

    def __init__(self, given: Indexed, table: ReadTable, notes: tuple[str, ...]) -> None:
        self.table, self.choices, self.index = given.table, given.choices, given.clock
        self.source, self.headed, self.first_row = table.source, table.headed, table.first_row
        self.notes, self.last_notes = [*notes, *given.notes], table.notes
        self.zone = ""
        self.columns = [str(name) for name in self.table.columns]

    def description(self) -> Description:
        """Put everything together."""
        choices = self.choices
        trajectory = self._trajectory()
        inputs = self._asked("inputs", choices.inputs) or [one for one in self.columns if one.startswith(INPUT)]
        asked = self._asked("states", choices.states)
        weights = self._asked("weights", choices.weights) or self._own_weights(asked)
        taken = {*trajectory, *inputs, *weights}
        self._combine({*taken, *asked})
        free = asked or [one for one in self.columns if one not in taken]
        roled = {*taken, *asked}
        time = self._time([one for one in self.columns if one not in roled], free, trajectory)
        states = [one for one in free if one not in time]
        states = states if asked else self._numeric(states)
        if not states:
            raise InputError(f"{self.source}: no column is left for the state (columns: {', '.join(self.columns)})")
        clock = self._clock(time[0]) if time else None
        values, known = self._measured(states), self._measured(inputs) if inputs else None
        heavy = self._numbers(weights)[:, 0] if weights else None
        parts = []
        for label, mine in self._groups(trajectory):
            name = self.source if label is None else f"{self.source}, {trajectory[0]} {label}"
            times, given, weight = (None if one is None else one[mine] for one in (clock, known, heavy))
            context = self._context(time[0], mine, times) if time else TimeContext()
            parts.append(Part(name, times, values[mine], given, weight, context=context))
        channels, coords = _grid_in(states)
        if choices.grid is not None:
            channels, coords = (), grid_of(choices.grid)
        return Description(
            self.source,
            parts,
            () if coords else tuple(states),
            tuple(one.removeprefix(INPUT) for one in inputs),
            tuple(len(one) for one in coords.values()),
            channels,
            coords,
            time[0] if time and self.headed and base(time[0]) in TIME_NAMES else "time",
            notes=(*self.notes, *self.last_notes),
            time_zone=self.zone,
        )

    def _asked(self, what: str, names: Any) -> list[str]:
        return list(asked_names(what, names, "column", self.columns, self.source))

    def _own_weights(self, states: list[str]) -> list[str]:
        if WEIGHT not in self.columns or WEIGHT in states:
            return []
        self.notes.append(f"{self.source}: column {WEIGHT!r} is taken as row weights; if it is a state, {NAME_STATES}")
        return [WEIGHT]

    def _trajectory(self) -> list[str]:
        asked = self._asked("trajectory", self.choices.trajectory)
        if asked or not self.headed:
            return asked
        telling = [name for name in self.columns if base(name) in TELLING]
        states = set(self._asked("states", self.choices.states)) if telling else set()
        few = (name for name in telling if self.table[name].nunique() <= len(self.table) / 2 and name not in states)
        return list(few)[:1]

    def _combine(self, taken: set[str]) -> None:
        """Replace columns of year, quarter, month and day by one of dates."""
        free = {base(name): name for name in self.columns if name not in taken} if self.headed else {}
        timed = self.choices.time is not None or self.index is not None or any(name in free for name in TIME_NAMES)
        found = None if timed else combined_dates(self.table, free)
        if found is not None:
            dates, used = found
            self.table = self.table.drop(columns=used)
            self.table.insert(0, "date", dates)
            self.columns = [str(name) for name in self.table.columns]
            self.notes.append(f"{self.source}: columns {' and '.join(map(repr, used))} are taken as time")

    def _time(self, free: list[str], states: list[str], trajectory: list[str]) -> list[str]:
        asked = self.choices.time
        if asked is not None:
            return [] if str(asked) == "0" or self.choices.timeless else self._asked("time", asked)
        named = [name for name in free if base(name) in TIME_NAMES] if self.headed else []
        named += [name for name in free if getattr(self.table[name].dtype, "kind", "O") in "mM"]
        sure = self.index is not None and self.index.sure
        named = list(dict.fromkeys([*named, self.index.name] if self.index is not None and sure else named))
        if len(named) > 1:
            raise InputError(
                f"{self.source}: columns {named[0]!r} and {named[1]!r} could both be time; name it with --time and the "
                "columns of the state with --states (in Python: time= and states=)"
            )
        if named:
            return self._indexed() if sure else named
        return self._dated(free) or self._first(free, states, trajectory) or self._indexed()

    def _dated(self, free: list[str]) -> list[str]:
        """The first column of text whose cells are all dates, or one called year that rises by ones."""
        for name in free:
            if isinstance(self.table[name].dtype, np.dtype) and self.table[name].dtype.kind in "fiub":
                continue
            dates = text_dates(self.table[name], self.source)
            if dates is not None and not np.isnat(dates).any():
                self.table[name] = dates
                self.notes.append(f"{self.source}: column {name!r} holds dates and is taken as time")
                return [name]
        years = [name for name in free if self.headed and base(name) == "year" and len(free) > 1]
        for name in years:
            values = self.table[name].to_numpy()
            if values.dtype.kind in "iu" and len(values) > 1 and (np.diff(values.astype(np.int64)) > 0).all():
                self.notes.append(f"{self.source}: column {name!r} only increases and is taken as time")
                return [name]
        return []

    def _indexed(self) -> list[str]:
        """The index as a column of time, if it can be."""
        if self.index is None:
            return []
        self.table[self.index.name] = self.index.values
        self.notes += [self.index.note] if self.index.note else []
        return [self.index.name]

    def _first(self, free: list[str], states: list[str], trajectory: list[str]) -> list[str]:
        """The first column, if it rises evenly."""
        first = self.columns[0]
        if first not in free or all(one == first for one in states):
            return []
        rows = next(iter(self._groups(trajectory)))[1]
        values = self.table[first].to_numpy()[rows]
        if values.dtype.kind not in "fiu" or len(values) < 3:
            return []
        steps = np.diff(values.astype(np.float64))
        if (steps > 0).all() and np.ptp(steps) <= EVEN * steps.mean() + 8 * np.finfo(float).eps * np.abs(values).max():
            self.notes.append(f"{self.source}: column {first!r} increases evenly and is taken as time")
            return [first]
        if (steps > 0).all():
            self.notes.append(f"{self.source}: column {first!r} only increases; if it is time, say time={first!r}")
        return []

    def _numeric(self, names: list[str]) -> list[str]:
        """The columns that hold numbers; those of text are left out with a note."""
        texts = [name for name in names if self._is_text(name)]
        if texts and len(texts) < len(names):
            shown = ", ".join(map(repr, texts[:3])) + (", ..." if len(texts) > 3 else "")
            said = "columns of text are" if len(texts) > 1 else "column of text is"
            self.notes.append(f"{self.source}: {len(texts)} {said} left out ({shown})")
            left = set(texts)
            names = [name for name in names if name not in left]
        parts = [name for name in names if self.headed and base(name) in PARTS and len(names) > 1]
        if parts:
            self.notes.append(
                f"{self.source}: column {parts[0]!r} is taken as a state; if it is a part of the date, give one column "
                f"of dates, or {NAME_STATES}"
            )
        return names

    def _is_text(self, name: str) -> bool:
        """Whether a column holds text rather than numbers with a few mistakes."""
        kind = self.table[name].dtype
        if isinstance(kind, np.dtype) and kind.kind in "fiubc":
            return False
        if getattr(kind, "kind", "O") in "mM":
            return True
        _, bad = self._parsed(name)
        filled = int(self.table[name].notna().sum())
        return filled > 0 and len(bad) >= (1 - MOSTLY) * filled

    def _context(self, name: str, rows: NDArray[np.intp], times: Any) -> TimeContext:
        """How messages name times in a column: one that was only taken as time could be a state."""
        dates = times if times.dtype.kind == "M" else None
        if self.index is not None and self.index.name == name:
            drop = ", or leave the index out with reset_index(drop=True)" if self.index.note else ""
            return TimeContext(" in the index", rows + self.first_row, drop, dates)
        sure = self.choices.time is not None or (base(name) in TIME_NAMES and base(name) != "t")
        state = f", or if {name!r} is a state, {NAME_STATES}"
        return TimeContext(f" in column {name!r}", rows + self.first_row, "" if sure else state, dates)

    def _clock(self, name: str) -> NDArray[Any]:
        import pandas as pd

        column = self.table[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            zone = "" if column.dt.tz is None else str(column.dt.tz)
            self.zone = zone if time_zone(zone) else ""
            if zone not in ("", "UTC"):
                self.notes.append(f"{self.source}: the times of {name!r} in {zone} are converted to UTC")
            return np.asarray((column.dt.tz_convert("UTC").dt.tz_localize(None) if zone else column), "datetime64[ns]")
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fium":
            return np.asarray(column.to_numpy())
        numbers, bad = self._parsed(name)
        if not len(bad):
            return np.asarray(numbers)
        dates = text_dates(column, self.source)
        if dates is not None:
            return dates
        iso = pd.to_datetime(column.astype(str), format="ISO8601", utc=True, errors="coerce")
        wrong = np.flatnonzero(iso.isna().to_numpy() & column.notna().to_numpy())
        raise InputError(
            f"{self._place(name, next(iter(np.intersect1d(wrong, bad)), bad[0]))} is not a time; write dates as "
            "2024-01-31 or 2024-01-31T12:00:00, or times as numbers",
            topic="not-a-number",
        )

    def _groups(self, trajectory: list[str]) -> list[tuple[Any, NDArray[np.intp]]]:
        """Rows of each trajectory in the order in which they appear."""
        if not trajectory:
            return [(None, np.arange(len(self.table)))]
        found = self.table.groupby(trajectory[0], sort=False, dropna=False).indices
        if sum(len(rows) for rows in found.values()) != len(self.table):
            raise InputError(f"{self.source}: column {trajectory[0]!r} has empty cells; every row needs a trajectory")
        return sorted(found.items(), key=lambda item: int(item[1][0]))

    def _measured(self, names: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The columns as numbers, with gaps for numbers such as -999 that stand for "missing", which notes name."""
        values = self._numbers(names)
        ends = [np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)]
        suspects = np.flatnonzero(np.isin(ends, np.asarray(MARKS, dtype=values.dtype)).any(axis=0)).tolist()
        values = values.copy() if suspects else values
        for column in suspects:
            finite = values[np.isfinite(values[:, column]), column]
            for mark, count in far_marks(finite):
                if 1 < count < len(finite) / 2 and len(np.unique(finite)) > 2:  # else it may be a switch
                    values[values[:, column] == values.dtype.type(mark), column] = np.nan
                    self.notes.append(
                        f"{self.source}: column {names[column]!r} holds {mark:g} in {count:,} rows, unlike its other "
                        "values: taken as missing. If it is a true value, give the data as an array (.npy), whose "
                        "numbers are all kept"
                    )
        return values

    def _numbers(self, names: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The columns as numbers; the first cell that is none is named in the message."""
        single = all(str(self.table[name].dtype) == "float32" for name in names)
        for name in names:
            kind = self.table[name].dtype
            if isinstance(kind, np.dtype) and kind.kind in "fiub":
                continue
            numbers, bad = self._parsed(name)
            if len(bad):
                raise InputError(
                    f"{self._place(name, bad[0])} is not a number; correct it, leave the cell empty for a gap, or name "
                    "the columns to use with --states (in Python: states=)",
                    topic="not-a-number",
                )
            self.table[name] = numbers
        dtype = np.float32 if single else np.float64
        return np.ascontiguousarray(self.table[list(names)].to_numpy(dtype=dtype, na_value=np.nan))

    def _parsed(self, name: str) -> tuple[Any, NDArray[np.intp]]:
        """A column as numbers, and the rows whose cells are none."""
        import pandas as pd

        column = self.table[name]
        try:
            numbers = pd.to_numeric(column.astype(object), errors="coerce")
        except OverflowError:  # a whole number beyond every float, which pandas does not coerce
            numbers = column.map(_float)
        if getattr(numbers.dtype, "kind", "f") == "c":
            raise InputError(f"{self.source}: column {name!r} is {COMPLEX}")
        return numbers.astype(np.float64), np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())

    def _place(self, name: str, row: Any) -> str:
        """Where a cell is and what it holds, for a message."""
        cell = str(self.table[name].iloc[int(row)])[:40]
        return f"{self.source}: row {int(row) + self.first_row}, column {name!r}: {cell!r}"


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _grid_in(states: list[str]) -> tuple[tuple[str, ...], dict[str, NDArray[np.float64]]]:
    """Fields and coordinates from headings such as `u[x=0.5 y=1.0]`, if all of them form one grid."""
    matches = [match for name in states if (match := POINT.match(name)) is not None]
    try:
        words = [[word.partition("=") for word in match["place"].split()] for match in matches]
        places = [{word: float(value) for word, _, value in one} for one in words]
    except ValueError:
        return (), {}
    if len(places) < len(states) or any(list(place) != list(places[0]) for place in places):
        return (), {}
    channels = tuple(dict.fromkeys(match["channel"] for match in matches))
    axes = {axis: list(dict.fromkeys(place[axis] for place in places)) for axis in places[0]}
    if places != [dict(zip(axes, point, strict=True)) for _ in channels for point in product(*axes.values())]:
        return (), {}
    return channels, {axis: np.array(values) for axis, values in axes.items()}


CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
DAYS = ("%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
MONTH_NOTATIONS = ("%Y%m%d", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y-%b", "%Y %b", "%m/%Y", "%m.%Y")
SLASHES = ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")  # day and month can be mistaken for each other
QUARTER = re.compile(r"\s*(\d{4})[-\s]?Q([1-4])\s*")
LOOK = 20  # cells that are tried before a whole column is
PARTS = ("year", "quarter", "month", "day")


def text_dates(column: Any, source: str) -> NDArray[np.datetime64] | None:
    """Read text as dates in one notation; None unless every cell that is not empty is one.

    Dates with a time zone become UTC.
    """
    texts = column[column.notna()].astype(str).str.strip()
    few = texts.iloc[:LOOK]
    if not len(few) or not few.str.contains(r"\d").all() or few.str.fullmatch(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?").all():
        return None
    if _parsed(few) is not None:
        return _spread(column, _parsed(texts))
    if few.str.fullmatch(QUARTER).all():
        return _spread(column, _quarters(texts))
    for notation in [*(day + clock for day in DAYS for clock in CLOCKS), *MONTH_NOTATIONS]:
        if _parsed(few, notation) is not None:
            return _spread(column, _parsed(texts, notation))
    found = {}
    for notation in [day + clock for day in SLASHES for clock in CLOCKS]:
        values = None if _parsed(few, notation) is None else _parsed(texts, notation)
        if values is not None and (np.diff(values) >= np.timedelta64(0, "s")).all():
            found[values.tobytes()] = values
    if len(found) > 1:
        raise InputError(
            f"{source}: the dates in column {column.name!r} ({texts.iloc[0]!r}) may be day/month or month/day; write "
            "them as 2024-01-31"
        )
    return _spread(column, next(iter(found.values()), None))


def combined_dates(table: Any, base: dict[str, str]) -> tuple[NDArray[np.datetime64], list[str]] | None:
    """Dates from columns of whole numbers called year and quarter, or year, month and perhaps day, and these columns.

    `base` names the columns of `table` by plain lower-case name. None if there are no such columns.
    """
    used = [part for part in PARTS if part in base]
    if used[:1] != ["year"] or used[1:] not in (["quarter"], ["month"], ["month", "day"], ["quarter", "month"]):
        return None
    limits = {"year": (1000, 2261), "quarter": (1, 4), "month": (1, 12), "day": (1, 31)}
    numbers = {}
    for part in used:
        values = table[base[part]]
        if getattr(values.dtype, "kind", "O") not in "iu" or not values.between(*limits[part]).all():
            return None
        numbers[part] = values.to_numpy().astype(np.int64)
    month = numbers["month"] if "month" in numbers else 3 * numbers["quarter"] - 2
    dates = ((numbers["year"] - 1970) * 12 + month - 1).astype("M8[M]").astype("M8[D]")
    if "day" in numbers:
        dates = dates + (numbers["day"] - 1)
    return dates.astype("M8[ns]"), [base[part] for part in used]


def _parsed(texts: Any, notation: str = "ISO8601") -> NDArray[np.datetime64] | None:
    """Texts as dates in UTC; None unless all are in that notation."""
    import pandas as pd

    found = pd.to_datetime(texts, format=notation, utc=True, errors="coerce")
    return None if found.isna().any() else np.asarray(found.dt.tz_localize(None), "M8[ns]")


def _quarters(texts: Any) -> NDArray[np.datetime64] | None:
    matches = [match for text in texts if (match := QUARTER.fullmatch(text)) is not None]
    months = [(int(one[1]) - 1970) * 12 + 3 * int(one[2]) - 3 for one in matches]
    return np.array(months).astype("M8[M]").astype("M8[ns]") if len(months) == len(texts) else None


def _spread(column: Any, values: NDArray[np.datetime64] | None) -> NDArray[np.datetime64] | None:
    """The dates in the rows of the column, NaT where a cell is empty."""
    if values is None:
        return None
    whole = np.full(len(column), np.datetime64("NaT"), dtype="M8[ns]")
    whole[column.notna().to_numpy()] = values
    return whole
