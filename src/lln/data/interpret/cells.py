"""Text in the cells of a table as numbers and dates, in the notations that people use."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.calendar import find_frequency, on_local_days

CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")
DAYS = (
    "%d.%m.%Y",
    "%d.%m.%y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %b %Y",
    "%d %b %y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
MONTH_NOTATIONS = ("%Y%m%d", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%Y-%b", "%Y %b", "%m/%Y", "%m.%Y")
SLASHES = ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")  # day and month can be mistaken for each other
NOTATIONS = ((",", "."), (".", ","))  # marks between thousands and before decimals
THOUSANDS = r"[1-9]\d{0,2}(,\d{3})+"
APART = "[ '\u2019\u00a0\u202f\u2009]"  # blanks and apostrophes between thousands
OFFSET = r"(?<=:\d\d)(?:[+-]\d\d:?\d\d|Z)$"
AWAY = r":\d\d(?:\.\d+)?[+-](?!00(?::?00)?$)\d\d(?::?\d\d)?$"  # an offset other than zero
QUARTER = re.compile(r"(?P<year>\d{4})[-/\s]?Q(?P<part>[1-4])|Q(?P<first>[1-4])[-/\s]?(?P<after>\d{4})", re.IGNORECASE)
WEEK = re.compile(r"(?P<year>\d{4})-?W(?P<part>\d{2})", re.IGNORECASE)  # of ISO 8601, which begins on a Monday
CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
LOOK = 20  # cells that are tried before a whole column is
MANY = 1000  # cells in which the decimal mark is looked for
LIKELY, FEWEST_YEARS = (1700, 2100), 8  # years, and rows of them, from which fractions are taken as months
ROUNDED = 0.13  # months: years with two decimals
PARTS = ("year", "quarter", "month", "week", "day")


def grouped_numbers(column: Any, point: str = "") -> Any:
    """Cells such as 1,234.5, $1,234.50, 12,5 € or 12.5% as numbers, NaN where a cell is none in the notation of most.

    None where it is not certain which mark is which: some cell must have two marks, one notation alone must fit every
    cell, or `point` must be known to be the decimal mark; else commas separate thousands if they always can (see
    `thousands`). Amounts in several currencies are no numbers of one kind.
    """
    cells, best = _bare(column), None
    if cells is None:
        return None
    fits = _fits(column, cells, point)
    whole = [marks for marks in fits if fits[marks].all()]
    if len(whole) == len(fits) and thousands(column, point):
        whole = [NOTATIONS[0]]
    for (group, mark), good in fits.items():
        two = cells[good].str.contains(f"{re.escape(group)}.*[{re.escape(group + mark)}]").any()
        if two or mark == point or whole == [(group, mark)] or not (point or cells.str.contains(",").any()):
            texts = cells[good].str.replace(group, "").str.replace(mark, ".")
            numbers = texts.astype(np.float64).reindex(column.index)
            if best is None or numbers.isna().sum() < best.isna().sum():
                best = numbers
    return None if best is None or np.isinf(best).any() else best


def thousands(column: Any, point: str = "") -> str:
    """The first cell such as 2,005 where every comma may separate thousands or decimals, and thousands are likelier.

    That is so if every comma stands before three digits, and no number without one has four digits before its point.
    """
    cells = None if point else _bare(column)
    if cells is None or not cells.str.fullmatch(r"[-+]?(\d{1,3}|[1-9]\d{0,2},\d{3})").all():
        return ""
    return next(iter(cells[cells.str.contains(",")]), "")


def decimal_mark(column: Any) -> str:
    """The mark before decimals in a column of text, if one notation alone fits every cell that is looked at."""
    few = column.dropna().iloc[:MANY]
    cells = _bare(few)
    fits = {} if cells is None else _fits(few, cells, "")
    whole = [mark for (_, mark), good in fits.items() if good.all()]
    return whole[0] if len(whole) == 1 else ""


def _bare(column: Any) -> Any:
    """Cells that are not empty as text, without a currency or percent; None if there are several of these.

    A blank or an apostrophe between digits, as in 1 234 or 1'234, always separates thousands and is left out.
    """
    cells = column.dropna().astype(str).str.strip()
    if cells.str.extract(r"([$€£%])")[0].nunique() > 1:
        return None
    cells = cells.str.replace(r"^([-+]?)[$€£]\s*", r"\1", regex=True).str.replace(r"\s*[$€£%]$", "", regex=True)
    apart = cells.str.fullmatch(rf"[-+]?[1-9]\d{{0,2}}({APART}\d{{3}})+([.,]\d+)?")
    return cells.where(~apart, cells.str.replace(APART, "", regex=True))


def _fits(column: Any, cells: Any, point: str) -> dict[tuple[str, str], Any]:
    """Which cells each notation fits, the one with `point` first."""
    fits = {}
    for group, mark in sorted(NOTATIONS, key=lambda both: both[1] != point):
        a, b = re.escape(group), re.escape(mark)
        fits[group, mark] = cells.str.fullmatch(rf"[-+]?(\d+|[1-9]\d{{0,2}}({a}\d{{3}})+)({b}\d+)?")
        if mark == ",":  # numbers that are no text have a point
            fits[group, mark] &= (
                column.dropna().astype(object).map(lambda cell: not isinstance(cell, float)).astype(bool)
            )
    return fits


def number(cell: Any) -> float:
    """A cell as a number; NaN if it is none."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


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
    for kind, dates in ((QUARTER, _quarters), (WEEK, _weeks)):
        if all(kind.fullmatch(text) for text in few):
            return _spread(column, dates([kind.fullmatch(text) for text in texts]))
    for notation in [*(day + clock for day in DAYS for clock in CLOCKS), *MONTH_NOTATIONS]:
        if _parsed(few, notation) is not None:
            return _spread(column, _parsed(texts, notation))
    tried = [day + clock for day in SLASHES for clock in CLOCKS if _parsed(few, day + clock) is not None]
    every = [values for notation in tried if (values := _parsed(texts, notation)) is not None]
    found = {values.tobytes(): values for values in every}
    if len(found) > 1:  # dates that go one way only are preferred, forwards if both are possible
        rising = {key: values for key, values in found.items() if _never_back(values)}
        found = rising or {key: values for key, values in found.items() if _never_back(values[::-1])} or found
    if len(found) > 1:  # then even ones
        found = {key: values for key, values in found.items() if _even(values)} or found
    if len(found) > 1:
        raise InputError(
            f"{source}: the dates in column {column.name!r} ({texts.iloc[0]!r}) may be day/month or month/day; write "
            "them as 2024-01-31"
        )
    return _spread(column, next(iter(found.values()), None))


def text_offset(column: Any) -> str:
    """The first text of a date that is not in UTC but in another time zone; empty if there is none."""
    texts = column[column.notna()].astype(str).str.strip()
    away = texts[texts.str.contains(AWAY)]
    return str(away.iloc[0]) if len(away) else ""


def months_of_years(numbers: NDArray[Any], fewest: int = FEWEST_YEARS) -> NDArray[np.datetime64] | None:
    """Dates of years such as 1949.0833, as R writes the times of months and quarters; None for other numbers."""
    if (
        numbers.dtype.kind != "f"
        or len(numbers) < fewest
        or not LIKELY[0] <= numbers.min() <= numbers.max() < LIKELY[1]
    ):
        return None
    months = np.round(12 * numbers)
    steps = np.diff(months)
    if (
        np.abs(12 * numbers - months).max() > ROUNDED
        or np.median(steps) not in (1, 3)
        or (steps % np.median(steps)).any()
    ):
        return None
    return (months.astype(np.int64) - 12 * 1970).astype("M8[M]").astype("M8[ns]")


def counts_rows(column: Any) -> bool:
    """Whether a column is 0, 1, 2, ... or 1, 2, 3, ..., as pandas and R write it where no index was asked for."""
    if column.dtype.kind not in "iu" or not len(column) or column.isna().any():
        return False
    first = int(column.iloc[0])
    return first in (0, 1) and bool((column.to_numpy() == np.arange(first, first + len(column))).all())


def combined_dates(table: Any, base: dict[str, str]) -> tuple[NDArray[np.datetime64], list[str]] | None:
    """Dates from columns of whole numbers called year and quarter, week, or month and perhaps day, and these columns.

    Where days repeat, hours and minutes also count if there are such columns. `base` names the columns of `table` by
    plain lower-case name. None if there are no such columns.
    """
    used = [part for part in PARTS if part in base and (part != "week" or "month" not in base)]
    if used[:1] != ["year"] or used[1:] not in (
        ["quarter"],
        ["month"],
        ["week"],
        ["month", "day"],
        ["quarter", "month"],
    ):
        return None
    limits = {"year": (1000, 2261), "quarter": (1, 4), "month": (1, 12), "week": (1, 53), "day": (1, 31)}
    numbers = {}
    for part in used:
        values = table[base[part]]
        whole = getattr(values.dtype, "kind", "O") in "iu" and values.notna().all()
        if not (whole and values.between(*limits[part]).all()):
            return None
        numbers[part] = values.to_numpy().astype(np.int64)
    if "week" in numbers:
        texts = [f"{year}W{week:02d}" for year, week in zip(numbers["year"], numbers["week"], strict=True)]
        weeks = _weeks([WEEK.fullmatch(text) for text in texts])
        return None if weeks is None else (weeks, [base[part] for part in used])
    month = numbers["month"] if "month" in numbers else 3 * numbers["quarter"] - 2
    dates = ((numbers["year"] - 1970) * 12 + month - 1).astype("M8[M]").astype("M8[D]")
    if "day" in numbers:
        dates = dates + (numbers["day"] - 1)
    dates, columns = dates.astype("M8[ns]"), [base[part] for part in used]
    for names, unit, count in ((("hour", "hr"), "h", 24), (("minute", "min"), "m", 60)):
        finer = next((base[name] for name in names if name in base), None)
        if "day" not in numbers or finer is None or len(np.unique(dates)) == len(dates):
            break
        values = table[finer]
        if getattr(values.dtype, "kind", "O") not in "iu" or not values.between(0, count - 1).all():
            break
        dates, columns = dates + values.to_numpy().astype(f"m8[{unit}]"), [*columns, finer]
    return dates, columns


def with_clock(table: Any, base: dict[str, str], source: str) -> tuple[NDArray[np.datetime64], list[str]] | None:
    """Dates from a column called date and one of times of the day, called time, clock or hour, and these columns.

    Whole numbers are hours if their column says so and days repeat.
    """
    clocks = [base[name] for name in ("time", "clock", "hour", "hr") if name in base]
    if "date" not in base or not clocks:
        return None
    days = table[base["date"]]
    dates = np.asarray(days, "M8[ns]") if getattr(days.dtype, "kind", "O") == "M" else text_dates(days, source)
    clock = table[clocks[0]]
    if dates is None or np.isnat(dates).any() or (dates != dates.astype("M8[D]")).any() or clock.isna().any():
        return None
    if getattr(clock.dtype, "kind", "O") in "iu":
        told = clocks[0] in (base.get("hour"), base.get("hr")) and len(np.unique(dates)) < len(dates)
        hours = clock.to_numpy() if told and clock.between(0, 23).all() else None
        return None if hours is None else (dates + hours.astype("m8[h]"), [base["date"], clocks[0]])
    texts = clock.astype(str).str.strip()
    if not texts.str.fullmatch(CLOCK).all():
        return None
    moments = text_dates("2000-01-01 " + texts, source) if texts.str.fullmatch(r"[\d:.]+").all() else None
    if moments is None:
        moments = text_dates("2000/01/01 " + texts.str.replace(r"(?<=\d)(?=[AaPp])", " ", regex=True), source)
    if moments is None:
        return None
    return (dates + (moments - np.datetime64("2000-01-01"))).astype("M8[ns]"), [base["date"], clocks[0]]


def seconds_of_day(column: Any) -> NDArray[np.float64] | None:
    """Times of one day such as 09:30:05 in seconds; None unless all cells are such times and only rise."""
    import pandas as pd

    texts = column.astype(str).str.strip()
    if not len(texts) or not texts.str.fullmatch(r"\d{1,2}:\d{2}:\d{2}(?:\.\d+)?").all():
        return None
    seconds = pd.to_timedelta(texts).dt.total_seconds().to_numpy(dtype=np.float64)
    return seconds if (np.diff(seconds) > 0).all() else None


def counted_dates(values: NDArray[Any], fewest: int = 3) -> NDArray[np.datetime64] | None:
    """Whole numbers such as 20240131 or 202401 as dates, if all of them are."""
    if values.dtype.kind not in "iu" or len(values) < fewest:
        return None
    for digits, unit in ((8, "M8[D]"), (6, "M8[M]")):
        if values.min() < 1700 * 10 ** (digits - 4) or values.max() >= 2262 * 10 ** (digits - 4):
            continue
        texts = np.char.add(values.astype(str), "01"[: 2 * (digits == 6)])
        try:
            days = [f"{text[:4]}-{text[4:6]}-{text[6:]}" for text in texts.tolist()]
            return np.array(days, dtype="M8[D]").astype(unit).astype("M8[ns]")
        except ValueError:
            continue
    return None


def _never_back(dates: NDArray[np.datetime64]) -> bool:
    return bool((np.diff(dates) >= np.timedelta64(0, "s")).all())


def _even(dates: NDArray[np.datetime64]) -> bool:
    steps = np.diff(np.unique(dates))
    return len(np.unique(steps)) == 1 or find_frequency(dates) is not None


def _parsed(texts: Any, notation: str = "ISO8601") -> NDArray[np.datetime64] | None:
    """Texts as dates in UTC, days and longer steps as dates of their zone; None unless all are in that notation."""
    import pandas as pd

    if notation == "ISO8601" and texts.str.contains(OFFSET).any():
        local = _parsed(texts.str.replace(OFFSET, "", regex=True))
        if local is not None and on_local_days(local):
            return local
    found = pd.to_datetime(texts, format=notation, utc=True, errors="coerce")
    return None if found.isna().any() else np.asarray(found.dt.tz_localize(None), "M8[ns]")


def _quarters(matches: list[re.Match[str] | None]) -> NDArray[np.datetime64] | None:
    found = [(one["year"] or one["after"], one["part"] or one["first"]) for one in matches if one is not None]
    months = [(int(year) - 1970) * 12 + 3 * int(quarter) - 3 for year, quarter in found]
    return np.array(months).astype("M8[M]").astype("M8[ns]") if len(months) == len(matches) else None


def _weeks(matches: list[re.Match[str] | None]) -> NDArray[np.datetime64] | None:
    """The Mondays of weeks; None if a year has no week of that number."""
    try:
        days = [date.fromisocalendar(int(one["year"]), int(one["part"]), 1) for one in matches if one is not None]
    except ValueError:
        return None
    return np.array(days, dtype="M8[D]").astype("M8[ns]") if len(days) == len(matches) else None


def _spread(column: Any, values: NDArray[np.datetime64] | None) -> NDArray[np.datetime64] | None:
    """The dates in the rows of the column, NaT where a cell is empty."""
    if values is None:
        return None
    whole = np.full(len(column), np.datetime64("NaT"), dtype="M8[ns]")
    whole[column.notna().to_numpy()] = values
    return whole
