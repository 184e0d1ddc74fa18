"""Tables, of pandas or from CSV files: which column is time, which separates trajectories, which are the state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.calendar import LOCAL, TIME_NAMES, on_local_days, time_zone
from lln.data.interpret.cells import (
    PARTS,
    combined_dates,
    counted_dates,
    counts_rows,
    decimal_mark,
    grouped_numbers,
    months_of_years,
    number,
    seconds_of_day,
    text_dates,
    text_offset,
    thousands,
    with_clock,
)
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
from lln.data.interpret.index import TRAJECTORY_COLUMNS, Indexed, base, indexed, is_time
from lln.data.interpret.panels import distinct, in_order, label_columns, months_in_order, one_way
from lln.data.read.store import ReadTable

EVEN = 1e-6  # relative spread of the steps of a first column that is taken as time without a name that says so
MOSTLY = 0.5  # share of numbers from which a column holds numbers, and a text in it is a mistake
COUNTED = ("date", "day", "month", "yearmonth", "year_month", "period", "yyyymm", "yyyymmdd", "ym", "datum")
EPOCH = (5e8, 4e9)  # seconds since 1970 that are taken as such: of 1985 to 2096
YEARS = (1678, 2261)  # whose dates NumPy can count in nanoseconds
INPUT, WEIGHT = "input:", "weight"  # how a table of ours marks columns that are not states
POINT = re.compile(r"^(?P<channel>.*)\[(?P<place>[^\[\]]*=[^\[\]]*)\]$")
NAME_STATES = "name the states with --states (in Python: states=)"
COMPLEX = "complex; give real and imaginary parts as columns of their own"
COUNTERS = ("rownames", "row_names", "row", "rows", "rowid", "row_id", "index", "no", "nr", "n", "obs", "id", "#")
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
    months = None if choices.mentioned or choices.timeless else months_in_order(table)
    if months is not None:
        table, notes = (
            months.infer_objects(),
            (*notes, f"{source}: the columns of months are read as one series of them"),
        )
    return _Columns(indexed(table, choices, source), given, notes).description()


class _Columns:
    """Columns and the roles that they have."""

    def __init__(self, given: Indexed, table: ReadTable, notes: tuple[str, ...]) -> None:
        self.table, self.choices, self.index = given.table, given.choices, given.clock
        self.source, self.headed, self.first_row, self.point = table.source, table.headed, table.first_row, table.point
        self.notes, self.last_notes = [*notes, *given.notes], table.notes
        self.zone = ""
        self.columns = [str(name) for name in self.table.columns]
        marks = {decimal_mark(self.table[name]) for name in self.columns if not self.point and self._is_object(name)}
        self.point = self.point or ("," if "," in marks else "")

    def _is_object(self, name: str) -> bool:
        """Whether a column holds objects, such as text."""
        return not (isinstance(self.table[name].dtype, np.dtype) and self.table[name].dtype.kind in "fiubcmM")

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
        clock = self._clock(time[0]) if time else None
        labels = [] if trajectory or clock is None else self._labels(clock, {*time, *roled})
        trajectory = self._joined(labels) if labels else trajectory
        states = [one for one in free if one not in (*time, *labels)]
        states = states if asked else self._numeric(states if clock is None else self._without_counters(states))
        if not states:
            raise InputError(f"{self.source}: no column is left for the state (columns: {', '.join(self.columns)})")
        values, known = self._measured(states), self._measured(inputs) if inputs else None
        heavy = self._numbers(weights)[:, 0] if weights else None
        parts, ordered = [], dict[str, str]()
        for label, mine in self._groups(trajectory):
            name = self.source if label is None else f"{self.source}, {trajectory[0]} {label}"
            if clock is not None:
                mine, done = in_order(self.table, mine, clock)
                ordered |= {done: name} if done and done not in ordered else {}
            times, given, weight = (None if one is None else one[mine] for one in (clock, known, heavy))
            context = self._context(time[0], mine, times) if time else TimeContext()
            parts.append(Part(name, times, values[mine], given, weight, context=context))
        self.notes += [f"{name}: {done}" for done, name in ordered.items()]
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
        telling = [name for name in self.columns if base(name) in TRAJECTORY_COLUMNS]
        states = set(self._asked("states", self.choices.states)) if telling else set()
        few = (name for name in telling if 0 < distinct(self.table[name]) <= len(self.table) / 2 and name not in states)
        return list(few)[:1]

    def _labels(self, clock: NDArray[Any], roled: set[str]) -> list[str]:
        """The columns that tell the series of a table apart, if there are several though the caller named none."""
        if not self.headed or self.choices.timeless:
            return []
        return label_columns(self.table, [name for name in self.columns if name not in roled], clock)

    def _joined(self, labels: list[str]) -> list[str]:
        """The one column of labels, or a new one of several together."""
        name, many = ", ".join(labels), len(labels) > 1
        if many:
            cells = self.table[labels].astype(str)
            self.table[name] = [", ".join(row) for row in cells.itertuples(index=False, name=None)]
        count = self.table[name].nunique()
        said = f"columns {' and '.join(map(repr, labels))} tell" if many else f"column {name!r} tells"
        self.notes.append(f"{self.source}: {said} {count:,} trajectories apart")
        return [name]

    def _combine(self, taken: set[str]) -> None:
        """Replace columns of year, quarter, month and day, or of a date and a time of the day, by one of dates."""
        free = {base(name): name for name in self.columns if name not in taken} if self.headed else {}
        timed = self.choices.time is not None or self.index is not None or any(name in free for name in TIME_NAMES)
        split = self.choices.time is None and self.index is None
        found = (with_clock(self.table, free, self.source) if split else None) or (
            None if timed else combined_dates(self.table, free)
        )
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
        called = [name for name in free if base(name) in TIME_NAMES] if self.headed else []
        named = [name for name in called if is_time(self.table[name], name)]
        warm = [name for name in called if name not in named]
        self.notes += [
            f"{self.source}: column {name!r} is taken as a temperature, not as time; if it is time, say time={name!r}"
            for name in warm
        ]
        free = [name for name in free if name not in warm]
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
        """The first column whose cells are all dates, or one called year that rises."""
        for name in free:
            column = self.table[name]
            if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
                dates = counted_dates(column.to_numpy()) if base(name) in COUNTED else None
                dates = months_of_years(column.to_numpy()) if base(name) == "year" else dates
            else:
                dates = text_dates(column, self.source)
            if dates is not None and not np.isnat(dates).any():
                self.table[name] = dates
                self.notes.append(f"{self.source}: column {name!r} holds dates and is taken as time")
                return [name]
        years = [name for name in free if self.headed and base(name) == "year" and len(free) > 1]
        for name in years:
            values = self.table[name].to_numpy()
            if values.dtype.kind not in "iu" or len(values) < 2:
                continue
            if one_way(values) or label_columns(self.table, [one for one in free if one != name], values):
                self.notes.append(f"{self.source}: column {name!r} counts years and is taken as time")
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
        with np.errstate(invalid="ignore"):
            steps = np.diff(values.astype(np.float64))
        if (steps > 0).all() and np.ptp(steps) <= EVEN * steps.mean() + 8 * np.finfo(float).eps * np.abs(values).max():
            self.notes.append(f"{self.source}: column {first!r} increases evenly and is taken as time")
            return [first]
        if (steps > 0).all():
            self.notes.append(f"{self.source}: column {first!r} only increases; if it is time, say time={first!r}")
        return []

    def _numeric(self, names: list[str]) -> list[str]:
        """The columns that hold numbers; those of text are left out with a note."""
        empty = [name for name in names if self.table[name].isna().all()]
        if empty and len(empty) < len(names):
            self._leave_out(empty, "empty column is", "empty columns are")
            names = [name for name in names if name not in set(empty)]
        texts = [name for name in names if self._is_text(name)]
        if texts and len(texts) < len(names):
            self._leave_out(texts, "column of text is", "columns of text are")
            names = [name for name in names if name not in set(texts)]
        parts = [name for name in names if self.headed and base(name) in PARTS and len(names) > 1]
        if parts:
            self.notes.append(
                f"{self.source}: column {parts[0]!r} is taken as a state; if it is a part of the date, give one column "
                f"of dates, or {NAME_STATES}"
            )
        return names

    def _without_counters(self, names: list[str]) -> list[str]:
        """The columns but one that only counts the rows, by its name and its cells; there is a column of time."""
        counters = [name for name in names if self.headed and base(name) in COUNTERS and counts_rows(self.table[name])]
        if not counters or len(counters) == len(names):
            return names
        self.notes.append(
            f"{self.source}: column {counters[0]!r} counts the rows, so it is left out; if it is a state, {NAME_STATES}"
        )
        return [name for name in names if name != counters[0]]

    def _leave_out(self, names: list[str], one: str, several: str) -> None:
        shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
        self.notes.append(f"{self.source}: {len(names)} {several if len(names) > 1 else one} left out ({shown})")

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
            local = np.asarray(column.dt.tz_localize(None), "datetime64[ns]")
            if self.zone not in ("", "UTC") and on_local_days(local):
                self.zone = LOCAL + zone
                return local
            if zone not in ("", "UTC"):
                self.notes.append(f"{self.source}: the times of {name!r} in {zone} are converted to UTC")
            return np.asarray((column.dt.tz_convert("UTC").dt.tz_localize(None) if zone else column), "datetime64[ns]")
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fium":
            numbers = np.asarray(column.to_numpy())
            return numbers if self.choices.dt is not None else self._moments(name, numbers)
        numbers, bad = self._parsed(name)
        if not len(bad):
            return np.asarray(numbers)
        dates = text_dates(column, self.source)
        if dates is not None:
            if (offset := text_offset(column)) and not on_local_days(dates[~np.isnat(dates)]):
                self.notes.append(f"{self.source}: the times of {name!r}, as in {offset!r}, are converted to UTC")
            return dates
        seconds = seconds_of_day(column)
        if seconds is not None:
            self.notes.append(f"{self.source}: column {name!r} is taken as times of one day, in seconds")
            return (seconds * 1e9).round().astype("m8[ns]")
        iso = pd.to_datetime(column.astype(str), format="ISO8601", utc=True, errors="coerce")
        wrong = np.flatnonzero(iso.isna().to_numpy() & column.notna().to_numpy())
        raise InputError(
            f"{self._place(name, next(iter(np.intersect1d(wrong, bad)), bad[0]))} is not a time; write dates as "
            "2024-01-31 or 2024-01-31T12:00:00, or times as numbers",
            topic="not-a-number",
        )

    def _moments(self, name: str, numbers: NDArray[Any]) -> NDArray[Any]:
        """Years, numbers such as 20240131 in a column of dates, and seconds since 1970 as dates; others unchanged."""
        dates = counted_dates(numbers) if base(name) in COUNTED else None
        if dates is not None:
            return dates
        if base(name) == "year" and numbers.dtype.kind in "iu" and (np.clip(numbers, *YEARS) == numbers).all():
            return (numbers.astype(np.int64) - 1970).astype("M8[Y]").astype("M8[ns]")
        if base(name) not in TIME_NAMES or numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
            return numbers
        months = months_of_years(numbers)
        if months is not None:
            self.notes.append(f"{self.source}: column {name!r} holds parts of years and is taken as months")
            return months
        for factor, unit in ((1.0, "seconds"), (1e-3, "milliseconds")):
            if len(numbers) and EPOCH[0] <= numbers.min() * factor and numbers.max() * factor < EPOCH[1]:
                self.notes.append(f"{self.source}: column {name!r} is taken as {unit} since 1970 (UTC)")
                size = 1_000_000_000 if factor == 1.0 else 1_000_000
                return np.round(numbers * size).astype(np.int64).astype("M8[ns]")
        return numbers

    def _groups(self, trajectory: list[str]) -> list[tuple[Any, NDArray[np.intp]]]:
        """Rows of each trajectory in the order in which they appear."""
        if not trajectory:
            return [(None, np.arange(len(self.table)))]
        if self.table[trajectory[0]].isna().any():
            raise InputError(f"{self.source}: column {trajectory[0]!r} has empty cells; every row needs a trajectory")
        found = self.table.groupby(trajectory[0], sort=False).indices
        return sorted(found.items(), key=lambda item: int(item[1][0]))

    def _measured(self, names: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The columns as numbers, with gaps for numbers such as -999 that stand for "missing", which notes name."""
        values = self._numbers(names)
        infinite = np.isinf(values)
        if infinite.any():
            row, column = np.argwhere(infinite)[0].tolist()
            raise InputError(
                f"{self._place(names[column], row)} is not finite; leave the cell empty for a gap (in Python: NaN)"
            )
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
            example = thousands(self.table[name], self.point)
            if example:
                self.notes.append(
                    f"{self.source}: the commas of column {name!r} are taken as separators of thousands "
                    f"({example!r} is {example.replace(',', '')}); write decimals with a point if they are not"
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
        except OverflowError:  # an integer too large for a float, which pandas does not coerce
            numbers = column.map(number)
        if getattr(numbers.dtype, "kind", "f") == "c":
            raise InputError(f"{self.source}: column {name!r} is {COMPLEX}")
        grouped = grouped_numbers(column, self.point) if self.point or (numbers.isna() & column.notna()).any() else None
        if grouped is not None and grouped.isna().sum() <= numbers.isna().sum():
            numbers = grouped
        return numbers.astype(np.float64), np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())

    def _place(self, name: str, row: Any) -> str:
        """Where a cell is and what it holds, for a message."""
        cell = str(self.table[name].iloc[int(row)])[:40]
        return f"{self.source}: row {int(row) + self.first_row}, column {name!r}: {cell!r}"


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
