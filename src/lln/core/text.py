"""Text for people and their programs: cells that no spreadsheet takes for a formula, and times."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_QUOTE = "'"


def cell(text: str) -> str:
    """`text` as a cell of a table that no spreadsheet takes for a formula.

    >>> cell("=1+1"), cell("x")
    ("'=1+1", 'x')
    """
    return _QUOTE + text if text.lstrip(_QUOTE).startswith(_FORMULA) else text


def from_cell(text: str) -> str:
    """The text that `cell` was given.

    >>> from_cell("'=1+1"), from_cell("'x")
    ('=1+1', "'x")
    """
    return text[1:] if text.startswith(_QUOTE) and text.lstrip(_QUOTE).startswith(_FORMULA) else text


_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0, "minute": 60.0, "minutes": 60.0}
_SECONDS |= {"h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0}
_UNITS = ((365.25 * 86400, "years"), (86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def human_time(value: float, unit: str = "") -> str:
    """A time in a unit that people use; without a known unit in units of time.

    >>> human_time(5.58e4, "seconds"), human_time(3.0, "days"), human_time(0.25)
    ('15.5 hours', '3 days', '0.25 time units')
    >>> human_time(1.0, "months")
    '1 month'
    """
    factor, name = human_unit(value, unit)
    return _counted(value * factor, name or "time units")


def human_unit(value: float, unit: str = "") -> tuple[float, str]:
    """What a time is multiplied by, and the unit that it then has: one that people use where `unit` is known.

    >>> human_unit(7200.0, "seconds"), human_unit(7.0, "months")
    ((0.0002777777777777778, 'hours'), (1.0, 'months'))
    """
    scale = _SECONDS.get(unit.lower())
    if scale is None:
        return 1.0, unit
    size, name = next(((size, name) for size, name in _UNITS if value * scale >= size), _UNITS[-1])
    return scale / size, name


def _counted(value: float, unit: str) -> str:
    number = f"{value:.3g}"
    return f"{number} {unit[:-1] if number == '1' and len(unit) > 2 and unit.endswith('s') else unit}"
