"""Rows of several series in one table, and rows that are out of order or there twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.data.interpret.calendar import MONTHS
from lln.data.interpret.cells import PARTS

_ROWS = 3  # of each series, on average
_MOST = 3  # columns that tell series apart together
_COMMON = 0.5  # part of the rows whose time other rows have too
_LABELS = re.compile(
    r"(.*[_\s.-])?(id|key|code|nr|no|number|store|shop|station|site|sensor|device|unit|subject|patient|item|product|sku|"
    r"series|group|location|region|country|customer|machine|engine|well|plot)",
    re.IGNORECASE,
)


def months_in_order(table: Any) -> Any:
    """A table with a row for each year and a column for each month as a column of dates and one of values, else None.

    Months after the last value are left out.
    """
    year, *names = (str(name).strip().upper() for name in table.columns)
    if year != "YEAR" or tuple(name[:3] for name in names) != MONTHS:
        return None
    years = table.iloc[:, 0]
    if getattr(years.dtype, "kind", "O") not in "iu" or not years.between(1678, 2261).all() or not years.is_unique:
        return None
    table = table.iloc[np.argsort(years.to_numpy())]
    first = (table.iloc[:, 0].to_numpy().astype(np.int64) - 1970) * 12
    dates = (first[:, None] + np.arange(12)).ravel().astype("M8[M]").astype("M8[ns]")
    values = table.iloc[:, 1:].to_numpy().ravel()
    last = int(np.flatnonzero([value == value for value in values]).max(initial=-1)) + 1
    return type(table)({"date": dates[:last], "value": values[:last]})


def label_columns(table: Any, names: Sequence[str], times: NDArray[Any]) -> list[str]:
    """The columns that tell series apart: within each of their values no time is there twice.

    None where times only rise or only fall over all rows, or no column of text, or of whole numbers with a name such as
    `store_id`, separates them. Series have times in common or lie below each other; a column of the weather does not
    make series of one that is out of order, or has an hour twice where clocks were set back.

    Args:
        table: with the columns.
        names: of columns that have no role yet.
        times: of the rows.
    """
    if len(times) < 2 * _ROWS or one_way(times):
        return []
    few = [name for name in names if _may_label(table[name], name) and table[name].notna().all()]
    few = [name for name in few if 1 < distinct(table[name]) <= len(table) / _ROWS]
    _, at, often = np.unique(times, return_inverse=True, return_counts=True)
    common = (often[at] > 1).mean() >= _COMMON
    for count in range(1, _MOST + 1):
        for chosen in combinations(few, count):
            codes = table.groupby(list(chosen), sort=False).ngroup().to_numpy()
            below = (codes[1:] != codes[:-1]).sum() == codes.max()
            if codes.max() < len(table) / _ROWS and (common or below) and _apart(codes, times):
                return list(chosen)
    return []


def one_way(times: NDArray[Any]) -> bool:
    """Whether times only rise, or only fall."""
    return bool((times[1:] > times[:-1]).all() or (times[1:] < times[:-1]).all())


def _may_label(column: Any, name: str) -> bool:
    if name.strip().lower() in PARTS:
        return False
    kind = getattr(column.dtype, "kind", "O")
    return bool(_LABELS.fullmatch(name.strip())) if kind in "iu" else kind not in "fcbmM"


def distinct(column: Any) -> int:
    """How many different cells there are; 0 where they cannot be compared, such as lists."""
    try:
        return int(column.nunique())
    except TypeError:
        return 0


def _apart(codes: NDArray[Any], times: NDArray[Any]) -> bool:
    """Whether all pairs of code and time differ."""
    order = np.lexsort((times, codes))
    same = (codes[order][1:] == codes[order][:-1]) & (times[order][1:] == times[order][:-1])
    return not same.any()


def in_order(table: Any, rows: NDArray[np.intp], times: NDArray[Any]) -> tuple[NDArray[np.intp], str]:
    """The rows of one series in the order of time, without those that are there twice, and what was done.

    Rows of dates that go back are sorted, and rows of numbers only if they are mixed up: numbers that begin again may
    be a new trajectory. Rows with the same time and other cells stay as they are.

    Args:
        table: of which these are rows.
        rows: numbers of the rows.
        times: of all rows of the table.
    """
    mine, said = times[rows], ""
    if len(rows) < 2 or (mine[1:] > mine[:-1]).all():
        return rows, ""
    if len(np.unique(mine)) < len(mine):
        twice = table.iloc[rows].astype(str).duplicated().to_numpy()
        if mine.dtype.kind != "M":
            twice = twice & np.r_[False, mine[1:] == mine[:-1]]
        if len(np.unique(mine[~twice])) < (~twice).sum():
            return rows, ""
        rows, mine, said = rows[~twice], mine[~twice], "rows that repeat another one in every column are left out"
    if (mine[1:] > mine[:-1]).all():
        return rows, said
    if mine.dtype.kind == "M" and len(mine) > 2 and one_way(mine):
        return rows[::-1], said or "the newest row comes first, so the rows are read from the last to the first"
    if mine.dtype.kind == "M" or min(_runs(mine)) < 2:
        return rows[
            np.argsort(mine, kind="stable")
        ], said or "the rows are not in the order of time, so they are sorted"
    return rows, said


def _runs(times: NDArray[Any]) -> Iterator[int]:
    """Lengths of the stretches in which times rise."""
    edges = [0, *(np.flatnonzero(times[1:] < times[:-1]) + 1).tolist(), len(times)]
    return (b - a for a, b in pairwise(edges))
