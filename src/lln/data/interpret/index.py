"""The index of a DataFrame: time, labels of trajectories, or row numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.interpret.calendar import TIME_NAMES
from lln.data.interpret.description import TRAJECTORY_NAMES, Choices
from lln.data.interpret.panels import distinct

TEMPERATURE = re.compile(r"[\[(\s](°|º|deg|K\b|C\b|F\b|celsius|kelvin|fahrenheit)", re.IGNORECASE)
OFTEN = 0.1  # of the rows: time that begins again does not fall twice in a row
TRAJECTORY_COLUMNS = (*TRAJECTORY_NAMES, "id")  # names of columns that tell trajectories apart


@dataclass(frozen=True, eq=False)
class Clock:
    """An index that can be time."""

    name: str  #: for its column
    values: Any  #: one for each row
    sure: bool = True  #: whether it is time though the first column of the table rises evenly
    note: str = ""  #: what to say if it is taken as time, if anything


@dataclass(frozen=True, eq=False)
class Indexed:
    """A table whose index was looked at."""

    table: Any  #: its columns, and before them parts of the index that are columns too; rows are counted from 0
    choices: Choices  #: of the caller, and what the index says beyond them
    clock: Clock | None = None  #: an index that can be time
    notes: tuple[str, ...] = ()  #: sentences on the rest of the index


def base(name: str) -> str:
    """`time` from `Time [s]` and `time (ms)`."""
    return re.split(r"[\s\[(]", name.strip().lower(), maxsplit=1)[0]


def is_time(column: Any, name: str) -> bool:
    """Whether a column is called time, and is no temperature called T: that has its unit, or falls time and again."""
    if base(name) not in TIME_NAMES:
        return False
    if base(name) != "t":
        return True
    if TEMPERATURE.search(name):
        return False
    values = column.to_numpy() if _kind(column) in "fiu" else np.zeros(0)
    falls = values[1:] < values[:-1]
    return bool(falls.all() or (falls[1:] & falls[:-1]).sum() <= OFTEN * len(values))


def indexed(table: Any, choices: Choices, source: str) -> Indexed:
    """What the index of `table` is."""
    import pandas as pd

    if isinstance(table.index, pd.MultiIndex):
        return _levels(table, choices, source)
    index, plain = table.index.infer_objects(), table.reset_index(drop=True)
    name = "time" if index.name is None else str(index.name)
    if name in plain.columns:
        return Indexed(plain, choices)
    mentioned = choices.time == name or (index.name is not None and name in choices.mentioned)
    telling = index.name is not None and base(name) in TRAJECTORY_COLUMNS and 0 < distinct(index) <= len(index) / 2
    if mentioned or (telling and choices.trajectory is None):
        plain.insert(0, name, _plain(index))
        return Indexed(plain, choices)
    if choices.time is not None or _has_time(plain, choices, dated=_kind(index) not in "mM"):
        if index.name is not None and _kind(index) not in "fiumMp":  # labels of series, perhaps
            plain.insert(0, name, index)
        return Indexed(plain, choices)
    if base(name) in TIME_NAMES and index.name is not None:
        return Indexed(plain, choices, Clock(name, _plain(index)))
    if isinstance(index, pd.RangeIndex):
        return Indexed(plain, choices)
    return _unnamed_index(index, name, plain, choices, source)


def _unnamed_index(index: Any, name: str, plain: Any, choices: Choices, source: str) -> Indexed:
    """An index whose name does not say what it is."""
    kind, called = _kind(index), "the index" if index.name is None else f"the index {name!r}"
    if kind in "mMp":
        return Indexed(plain, choices, Clock(name, _plain(index)))
    if kind not in "fiu":
        values = _dates(index)
        if values is not None:
            return Indexed(plain, choices, Clock(name, values))
        return Indexed(plain, choices, None, (f"{source}: {called} is neither numbers nor dates and is left out",))
    note = f"{source}: {called} is taken as time; reset_index(drop=True) leaves it out"
    if kind == "f" or index.hasnans:
        return Indexed(plain, choices, Clock(name, _plain(index), note=note))
    steps = np.diff(np.asarray(index, dtype=np.int64))
    if index.name is None and (steps == 1).all():  # a part of a table whose rows are counted
        return Indexed(plain, choices)
    return Indexed(plain, choices, Clock(name, _counted(index, choices), index.name is not None, note))


def _counted(index: Any, choices: Choices) -> Any:
    """Whole numbers as times: they count steps, which are as long as the caller says."""
    if _kind(index) not in "iu" or index.hasnans or choices.dt is None or choices.resample:
        return index
    numbers = np.asarray(index, dtype=np.int64)
    return (numbers - numbers[0]) / max(1, np.gcd.reduce(np.diff(numbers), initial=0)) * choices.dt


def _levels(table: Any, choices: Choices, source: str) -> Indexed:
    """An index of several levels: one is time, the others tell trajectories apart."""
    names = [f"level_{at}" if name is None else str(name) for at, name in enumerate(table.index.names)]
    plain = table.reset_index(drop=True)
    levels = {name: table.index.get_level_values(at).infer_objects() for at, name in enumerate(names)}
    for name in names:
        if names.count(name) > 1 or (name in plain.columns and not (plain[name].to_numpy() == levels[name]).all()):
            raise InputError(f"{source}: two columns or levels of the index are called {name!r}; rename one of them")
    plain = plain.drop(columns=[name for name in names if name in plain.columns])
    levels = {name: _plain(level) for name, level in levels.items()}
    free = [name for name in levels if name not in choices.mentioned]
    time = _time_level(levels, free) if choices.time is None and not _has_time(plain, choices) else None
    others = [name for name in free if name != time]
    if choices.trajectory is not None:
        others = []
    elif time is None and choices.time not in levels:
        others = [name for name in others if base(name) in TRAJECTORY_COLUMNS]
    for name in reversed([name for name in levels if name not in free]):
        plain.insert(0, name, levels[name])
    notes = _on_levels(free, others, time, source)
    if others:
        label, whole = ", ".join(others), zip(*(map(str, levels[name]) for name in others), strict=True)
        plain.insert(0, label, levels[label] if len(others) == 1 else [", ".join(row) for row in whole])
        choices = replace(choices, trajectory=label)
    if time is None:
        return Indexed(plain, choices, None, notes)
    values = levels[time] if base(time) in TIME_NAMES else _counted(levels[time], choices)
    return Indexed(plain, choices, Clock(time, values), notes)


def _time_level(levels: dict[str, Any], free: list[str]) -> str | None:
    """The level that is time: by its name, its dates, or as the last one of numbers."""
    called = [name for name in free if base(name) in TIME_NAMES]
    dated = [name for name in free if _kind(levels[name]) in "mM"]
    counted = [name for name in free if _kind(levels[name]) in "fiu" and base(name) not in TRAJECTORY_COLUMNS]
    return next(iter([*called, *dated, *counted[-1:]]), None)


def _on_levels(free: list[str], others: list[str], time: str | None, source: str) -> tuple[str, ...]:
    """Notes on levels that are left out, or whose names do not say what they are."""
    notes = []
    unused = ", ".join(repr(name) for name in free if name not in (*others, time))
    if unused:
        notes.append(f"{source}: the levels of the index {unused} are left out; reset_index() makes columns of them")
    if others and not all(
        base(name) in (*TRAJECTORY_COLUMNS, *TIME_NAMES, "start") for name in (*others, time or "time")
    ):
        end = "" if time is None else f", and {time!r} is taken as time"
        notes.append(f"{source}: the levels of the index {', '.join(map(repr, others))} tell trajectories apart{end}")
    return tuple(notes)


def _has_time(table: Any, choices: Choices, *, dated: bool = True) -> bool:
    """Whether a column can be time by its name, or its dates."""
    free = [name for name in table.columns if name not in choices.mentioned]
    return any(is_time(table[name], name) or (dated and _kind(table[name]) in "mM") for name in free)


def _kind(values: Any) -> str:
    """As NumPy names kinds of numbers and dates; `p` for periods."""
    import pandas as pd

    return "p" if isinstance(values.dtype, pd.PeriodDtype) else str(getattr(values.dtype, "kind", "O"))


def _plain(index: Any) -> Any:
    """The values of an index or a level of one; periods as the dates on which they begin."""
    import pandas as pd

    return index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index


def _dates(index: Any) -> Any:
    """Text as dates, if all of it is."""
    import pandas as pd

    if not all(isinstance(one, str) for one in index):
        return None
    found = pd.to_datetime(index, format="ISO8601", utc=True, errors="coerce")
    return None if found.isna().any() else found
