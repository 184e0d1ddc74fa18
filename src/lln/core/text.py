"""Text from files that strangers wrote, made safe for terminals and spreadsheets."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_QUOTE = "'"


def printable(text: str) -> str:
    """`text` with control characters written as escapes, so that it cannot steer a terminal; line breaks stay.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


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
