"""Dates: steps of the calendar (months, quarters, years, business days), times that count from a date, time zones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from lln.core.table import SECONDS

Dates = NDArray[np.datetime64]
USUAL = ("", "standard", "gregorian", "proleptic_gregorian")  # calendars of CF whose dates are ours
TIME_NAMES = ("time", "times", "t", "date", "datetime", "timestamp")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
FEWEST = 3  # dates from which a frequency is recognised
FILLED = 0.5  # smallest share of the steps of a calendar that the dates must fill
CENTRED = 2.0  # days that the date of a monthly mean may lie off the middle of its month
BUSINESS = "B"
LOCAL = "local "  # before the name of a time zone: dates are those of clocks there, not UTC
_ALIAS = re.compile(r"(\d*)([MQY])([SE])(?:-[A-Z]{3})?")
_LENGTHS = {"M": 1, "Q": 3, "Y": 12}
_WORDS = {"M": "months", "Q": "quarters", "Y": "years"}
_UNIT = re.compile(r"(\w+?)s? since (.+)", re.IGNORECASE)
_SECONDS = SECONDS | {"hr": 3600.0} | dict.fromkeys(("ms", "msec", "millisecond"), 1e-3)
_SECONDS |= dict.fromkeys(("us", "microsecond"), 1e-6) | dict.fromkeys(("ns", "nanosecond"), 1e-9)


def find_frequency(dates: Dates) -> str | None:
    """Find the calendar step of dates.

    Returns:
        The pandas offset alias B for business days, MS, QS, YS (one day of the month) or ME, QE, YE (month ends), with
        a multiple or a month where needed (2MS, QS-FEB); None if the dates follow no such step.
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


def on_local_days(local: Dates) -> bool:
    """Whether all dates have the same time of day: they count days or longer steps."""
    days = local.astype("M8[D]")
    return len(np.unique(days)) >= FEWEST and np.ptp((local - days).astype(np.int64)) == 0


def time_zone(name: str) -> tzinfo | None:
    """The time zone of that name, such as Europe/Berlin or UTC+02:00; None if it names none.

    `LOCAL` before the name says that dates are those of clocks in that zone.
    """
    name = name.removeprefix(LOCAL)
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
