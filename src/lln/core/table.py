"""Tables, cells that no spreadsheet takes for a formula, and numbers and times as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from lln.core.errors import InputError, printable

OURS = "LensForecaster"  # the name of our model in every table and figure, whichever part of it forecasts

if TYPE_CHECKING:
    import rich.table

INFINITY = "∞"


def label(name: str) -> str:
    """What tables and figures call a model: by its name, as options do; "lens" may use no lens in the end."""
    return OURS if name == "lens" else name


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns; the first column is flush left, the others are numbers and flush right."""

    columns: Sequence[str]  #: the names above the columns
    #: one sequence of cells a row, as many cells as columns. Text is kept, numbers go through `number`.
    rows: Sequence[Sequence[str | float | int]]
    title: str = ""  #: one line above the table
    best: Sequence[tuple[int, int]] = ()  #: (row, column) of each cell that is set in bold

    def __post_init__(self) -> None:
        """Refuse a row that does not fit under the columns."""
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InputError(f"row {index} of the table must have {len(self.columns)} cells, got {len(row)}")

    def cells(self) -> list[list[str]]:
        """Every cell as text."""
        return [[printable(cell) if isinstance(cell, str) else number(cell) for cell in row] for row in self.rows]

    def to_markdown(self) -> str:
        """The table as aligned Markdown, its title as a bold line above."""
        cells = self.cells()
        for row, column in self.best:
            cells[row][column] = f"**{cells[row][column]}**"
        cells = [[cell.replace("|", "\\|") for cell in row] for row in [list(self.columns), *cells]]
        widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(self.columns))]
        aligned = [[f"{cell:{'<' if j == 0 else '>'}{widths[j]}}" for j, cell in enumerate(row)] for row in cells]
        lines = ["| " + " | ".join(row) + " |" for row in aligned]
        rule = ["-" * width if j == 0 else "-" * (width - 1) + ":" for j, width in enumerate(widths)]
        lines.insert(1, "| " + " | ".join(rule) + " |")
        return "\n".join([f"**{self.title}**", "", *lines] if self.title else lines)

    def __str__(self) -> str:
        """The table as plain text in columns, its title above."""
        lines = [list(self.columns), *self.cells()]
        widths = [max(len(line[j]) for line in lines) for j in range(len(self.columns))]
        aligned = ["  ".join(f"{cell:{'<' if j == 0 else '>'}{widths[j]}}" for j, cell in enumerate(line)).rstrip()
                   for line in lines]  # fmt: skip
        return "\n".join([*([printable(self.title)] if self.title else []), *aligned])

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            first = [f"<{tag} style='text-align:left'>{cell}</{tag}>" for cell in cells[:1]]
            return f"<tr>{''.join([*first, *(f'<{tag}>{cell}</{tag}>' for cell in cells[1:])])}</tr>"

        cells = [[escape(cell) for cell in line] for line in self.cells()]
        for i, j in self.best:
            cells[i][j] = f"<b>{cells[i][j]}</b>"
        rows = [row("th", [escape(printable(name)) for name in self.columns]), *(row("td", line) for line in cells)]
        return f"<div><b>{escape(printable(self.title))}</b><table>{''.join(rows)}</table></div>"

    def to_rich(self, *, narrow: bool = False) -> rich.table.Table:
        """The table for a terminal; a narrow one breaks headings that are wider than their column."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        drawn = RichTable(
            title=Text(printable(self.title), "bold", no_wrap=True, overflow="ignore") if self.title else None,
            title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
        )  # fmt: skip
        cells = self.cells()
        for j, name in enumerate(self.columns):
            widest = max([len(word) for word in name.split()] + [len(row[j]) for row in cells], default=1)
            heading = Text(printable("\n".join(wrap(name, widest, break_on_hyphens=False)) if narrow else name))
            drawn.add_column(heading, justify="left" if j == 0 else "right", no_wrap=narrow)
        for i, row in enumerate(cells):
            drawn.add_row(*(Text(cell, style="bold" if (i, j) in self.best else "") for j, cell in enumerate(row)))
        return drawn


def number(value: float | int, digits: int = 3) -> str:
    """A number for a reader: grouped if whole, `digits` significant digits otherwise, tiny and huge ones in powers.

    >>> number(212867), number(0.01234), number(8.04e-07), number(float("inf")), number(float("nan"))
    ('212,867', '0.0123', '8.04e-07', '∞', '-')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return INFINITY if value > 0 else f"-{INFINITY}"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else digits - 1
    return f"{value:.{max(decimals, 0)}f}"


def counted(count: int, what: str) -> str:
    """A number of things in words.

    >>> counted(1, "step"), counted(2000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


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


SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0, "minute": 60.0, "minutes": 60.0}
SECONDS |= {"h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0}
_UNITS = ((365.25 * 86400, "years"), (86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))


def human_time(value: float, unit: str = "") -> str:
    """A time in a unit that people use; without a known unit in units of time.

    >>> human_time(5.58e4, "seconds"), human_time(3.0, "days"), human_time(0.25)
    ('15.5 hours', '3 days', '0.25 time units')
    >>> human_time(1.0, "months")
    '1 month'
    """
    factor, name = human_unit(value, unit)
    count, name = f"{value * factor:.3g}", name or "time units"
    return f"{count} {name[:-1] if count == '1' and len(name) > 2 and name.endswith('s') else name}"


def human_unit(value: float, unit: str = "") -> tuple[float, str]:
    """What a time is multiplied by, and the unit that it then has: one that people use where `unit` is known.

    >>> human_unit(7200.0, "seconds"), human_unit(7.0, "months")
    ((0.0002777777777777778, 'hours'), (1.0, 'months'))
    """
    scale = SECONDS.get(unit.lower())
    if scale is None:
        return 1.0, unit
    size, name = next(((size, name) for size, name in _UNITS if value * scale >= size), _UNITS[-1])
    return scale / size, name


def plain(value: Any) -> Any:
    """`value` in plain values for JSON: arrays and tuples become lists, and numbers that are not finite None.

    >>> plain({"errors": (1.0, float("inf")), "steps": 3})
    {'errors': [1.0, None], 'steps': 3}
    """
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
