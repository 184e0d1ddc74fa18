"""Tables, from pandas or from CSV: which column is time, which tells trajectories apart, which are the state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, did_you_mean
from lln.data.interpret.even_steps import Track, finished, grid_of, timed
from lln.data.interpret.resample import NOWHERE, Where, seconds
from lln.data.interpret.roles import TIME_NAMES, Choices
from lln.data.interpret.table_index import TELLING, Indexed, base, indexed
from lln.data.series import Dataset

EVEN = 1e-6  # how even a first column must be to be taken for time though its name does not say so
INPUT, WEIGHT = "input:", "weight"  # how a table of ours marks what is not state
POINT = re.compile(r"^(?P<channel>.*)\[(?P<place>[^\[\]]*=[^\[\]]*)\]$")


def from_frame(
    frame: Any, *, source: str = "frame", headed: bool = True, first_row: int = 0, **options: Any
) -> Dataset:
    """The trajectories in a DataFrame (or one column in a Series of pandas).

    Args:
        frame: columns of numbers; time may be a column or the index.
        source: for messages.
        headed: whether the columns have names of their own.
        first_row: number of the first row in messages.
        options: see `as_dataset`.
    """
    import pandas as pd

    choices = Choices(**options)
    table = frame.to_frame() if isinstance(frame, pd.Series) else frame.copy(deep=False)
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"{type(frame).__name__} of pandas is not read as trajectories; give a DataFrame")
    table = table.infer_objects()  # a column of objects that are numbers, or dates, is one of numbers, or dates
    table.columns = pd.Index([_flat_name(name) for name in table.columns])
    if not len(table) or not len(table.columns):
        raise InputError(f"{source}: no rows of data in it (shape {table.shape}); give at least two times")
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"{source}: two columns are called {twice[0]!r}; rename one of them")
    return _Table(indexed(table, choices, source), source, headed, first_row).dataset()


def _flat_name(name: Any) -> str:
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


class _Table:
    """Columns and the parts that they play."""

    def __init__(self, given: Indexed, source: str, headed: bool, first_row: int) -> None:
        self.table, self.choices, self.index, self.source = given.table, given.choices, given.clock, source
        self.headed, self.first_row = headed, first_row
        self.columns = [str(name) for name in self.table.columns]
        self.notes = list(given.notes)

    def dataset(self) -> Dataset:
        """Everything together."""
        choices = self.choices
        trajectory = self._trajectory()
        inputs = self._asked("inputs", choices.inputs) or [one for one in self.columns if one.startswith(INPUT)]
        asked = self._asked("states", choices.states)
        weights = self._asked("weights", choices.weights) or self._own_weights(asked)
        taken = {*trajectory, *inputs, *weights}
        free = asked or [one for one in self.columns if one not in taken]
        time = self._time([one for one in self.columns if one not in {*taken, *asked}], free, trajectory)
        states = [one for one in free if one not in time]
        if not states:
            raise InputError(f"{self.source}: no column is left for the state (columns: {', '.join(self.columns)})")
        clock = self._clock(time[0]) if time else None
        values, known = self._numbers(states), self._numbers(inputs) if inputs else None
        heavy = self._numbers(weights)[:, 0] if weights else None
        tracks = []
        for label, rows in self._groups(trajectory):
            name = self.source if label is None else f"{self.source}, {trajectory[0]} {label}"
            times, mine = (None if one is None else one[rows] for one in (clock, known))
            weight, where = None if heavy is None else heavy[rows], self._where(time[0], rows) if time else NOWHERE
            tracks.append(Track(name, times, values[rows], mine, weight, where=where))
        series, step, notes = timed(tracks, choices.dt, choices.resample, self.source)
        return self._labelled(series, step, (*self.notes, *notes), states, inputs, time)

    def _labelled(
        self, series: Any, step: float, notes: tuple[str, ...], states: list[str], inputs: list[str], time: list[str]
    ) -> Dataset:
        import pandas as pd

        input_names = tuple(one.removeprefix(INPUT) for one in inputs)
        units = {}
        if time and isinstance(self.table[time[0]].dtype, np.dtype) and self.table[time[0]].dtype.kind in "mM":
            units["time"] = seconds(self.table[time[0]].to_numpy())[1] or "s"
        named = tuple(self.choices.names or ())
        channels, coords = _grid_in(states)
        if self.choices.grid is not None:
            channels, coords = (), grid_of(self.choices.grid)
        space = tuple(len(one) for one in coords.values())
        plain = named or (() if coords else tuple(states))
        time_name = time[0] if time and self.headed and base(time[0]) in TIME_NAMES else "time"
        assert isinstance(self.table, pd.DataFrame)
        return finished(
            Dataset(
                series,
                step,
                plain,
                input_names,
                space,
                channels,
                coords,
                time_name,
                units,
                self.source,
                notes,
            )
        )

    def _asked(self, what: str, names: Any) -> list[str]:
        if names is None:
            return []
        chosen = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
        for name in chosen:
            if not isinstance(name, str):
                raise InputError(f"{self.source}: {what}= must name columns of it, got {type(name).__name__}")
            if name not in self.columns:
                raise InputError(
                    f"{self.source}: no column {name!r} for {what}{did_you_mean(name, self.columns)}",
                    topic="unknown-name",
                )
        return chosen

    def _own_weights(self, states: list[str]) -> list[str]:
        if WEIGHT not in self.columns or WEIGHT in states:
            return []
        self.notes.append(
            f"{self.source}: column {WEIGHT!r} is taken as row weights; if it is a state, name the states with "
            "--states (in Python: states=)"
        )
        return [WEIGHT]

    def _trajectory(self) -> list[str]:
        asked = self._asked("trajectory", self.choices.trajectory)
        if asked or not self.headed:
            return asked
        for name in self.columns:
            few = base(name) in TELLING and self.table[name].nunique() <= len(self.table) / 2
            if few and name not in self._asked("states", self.choices.states):
                return [name]
        return []

    def _time(self, free: list[str], states: list[str], trajectory: list[str]) -> list[str]:
        asked = self.choices.time
        if asked is not None:
            if str(asked) == "0":
                return []
            return self._asked("time", asked)
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
        return self._first(free, states, trajectory) or self._indexed()

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
        if first not in free or len([one for one in states if one != first]) < 1:
            return []
        rows = next(iter(self._groups(trajectory)))[1]
        values = self.table[first].to_numpy()[rows]
        if values.dtype.kind not in "fiu" or len(values) < 3:
            return []
        steps = np.diff(values.astype(np.float64))
        if (steps > 0).all() and np.ptp(steps) <= EVEN * steps.mean() + 8 * np.finfo(float).eps * np.abs(values).max():
            self.notes.append(f"{self.source}: column {first!r} rises evenly and is taken as time")
            return [first]
        if (steps > 0).all():
            self.notes.append(f"{self.source}: column {first!r} only ever rises; if it is time, say time={first!r}")
        return []

    def _where(self, name: str, rows: NDArray[np.intp]) -> Where:
        """How messages speak of times in a column: one that was only taken as time could be a state."""
        if self.index is not None and self.index.name == name:
            drop = ", or leave the index out with reset_index(drop=True)" if self.index.note else ""
            return Where(" in the index", rows + self.first_row, drop)
        sure = self.choices.time is not None or (base(name) in TIME_NAMES and base(name) != "t")
        state = f", or if {name!r} is a state, name the states with --states (in Python: states=)"
        return Where(f" in column {name!r}", rows + self.first_row, "" if sure else state)

    def _clock(self, name: str) -> NDArray[Any]:
        import pandas as pd

        column = self.table[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            return np.asarray(column.dt.tz_localize(None) if column.dt.tz is not None else column, "datetime64[ns]")
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fium":
            return np.asarray(column.to_numpy())
        numbers, bad = self._parsed(name)
        if not len(bad):
            self.table[name] = numbers
            return np.asarray(numbers)
        dates = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
        wrong = np.flatnonzero(dates.isna().to_numpy() & column.notna().to_numpy())
        if len(wrong):
            raise InputError(
                f"{self._place(name, next(iter(np.intersect1d(wrong, bad)), wrong[0]))} is not a time; write dates as "
                "2024-01-31 or 2024-01-31T12:00:00, or times as numbers",
                topic="not-a-number",
            )
        self.table[name] = dates
        return np.asarray(dates.to_numpy(), "datetime64[ns]")

    def _groups(self, trajectory: list[str]) -> list[tuple[Any, NDArray[np.intp]]]:
        """Rows of each trajectory in the order in which they appear."""
        if not trajectory:
            return [(None, np.arange(len(self.table)))]
        found = self.table.groupby(trajectory[0], sort=False, dropna=False).indices
        if sum(len(rows) for rows in found.values()) != len(self.table):
            raise InputError(f"{self.source}: column {trajectory[0]!r} has empty cells; every row needs a trajectory")
        return sorted(found.items(), key=lambda item: int(item[1][0]))

    def _numbers(self, names: Sequence[str]) -> NDArray[np.floating[Any]]:
        kinds = set()
        for name in names:
            kind = self.table[name].dtype
            plain = isinstance(kind, np.dtype) and kind.kind in "fiub"
            if not plain:
                self._refuse_text(name)
            kinds.add(str(kind))
        dtype = np.float32 if kinds == {"float32"} else np.float64
        return np.ascontiguousarray(self.table[list(names)].to_numpy(dtype=dtype, na_value=np.nan))

    def _refuse_text(self, name: str) -> None:
        """Say where the first cell of a column is that is not a number, if there is one."""
        numbers, bad = self._parsed(name)
        if not len(bad):
            self.table[name] = numbers
            return
        raise InputError(
            f"{self._place(name, bad[0])} is not a number; correct it, leave the cell empty for a gap, or name the "
            "columns to use with --states (in Python: states=)",
            topic="not-a-number",
        )

    def _parsed(self, name: str) -> tuple[Any, NDArray[np.intp]]:
        """A column as numbers, and the rows whose cells are none."""
        import pandas as pd

        column = self.table[name]
        try:
            numbers = pd.to_numeric(column.astype(object), errors="coerce")
        except OverflowError:  # a whole number beyond every float, which pandas does not coerce
            numbers = column.map(_float)
        return numbers.astype(np.float64), np.flatnonzero(numbers.isna().to_numpy() & column.notna().to_numpy())

    def _place(self, name: str, row: Any) -> str:
        """Where a cell is and what is in it, for a message."""
        cell = str(self.table[name].iloc[int(row)])[:40]
        return f"{self.source}: row {int(row) + self.first_row}, column {name!r}: {cell!r}"


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _grid_in(states: list[str]) -> tuple[tuple[str, ...], dict[str, NDArray[np.float64]]]:
    """Fields and coordinates from headings such as `u[x=0.5 y=1.0]`, if all of them form one grid."""
    matches = [POINT.match(name) for name in states]
    nothing: tuple[tuple[str, ...], dict[str, NDArray[np.float64]]] = ((), {})
    places = []
    for match in matches:
        if match is None:
            return nothing
        words = [word.partition("=") for word in match["place"].split()]
        try:
            places.append({word: float(value) for word, _, value in words})
        except ValueError:
            return nothing
    channels = tuple(dict.fromkeys(match["channel"] for match in matches if match is not None))
    axes = {axis: list(dict.fromkeys(place[axis] for place in places)) for axis in places[0]} if _alike(places) else {}
    expected = [dict(zip(axes, point, strict=True)) for _ in channels for point in product(*axes.values())]
    if not axes or expected != places:
        return nothing
    return channels, {axis: np.array(values) for axis, values in axes.items()}


def _alike(places: list[dict[str, float]]) -> bool:
    return bool(places) and all(list(place) == list(places[0]) for place in places)
