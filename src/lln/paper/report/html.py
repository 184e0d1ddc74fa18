"""The report as one HTML page that needs nothing else: style and figures are inside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from lln.core.table import Table
from lln.paper.report.claims import FAILS, HOLDS, IN_NOISE, NOT_RUN, OTHER_SIZE
from lln.paper.report.compare import Verdict
from lln.paper.report.document import Document, Picture, Section
from lln.paper.report.names import MISSING, SYSTEM_NAMES

_MARKS = {
    Verdict.AGREE.value: "agree",
    Verdict.OTHER_SIZE.value: "other",
    Verdict.DIFFER.value: "differ",
    Verdict.NOT_COMPARABLE.value: "open",
    HOLDS: "agree",
    IN_NOISE: "agree",
    OTHER_SIZE: "other",
    FAILS: "differ",
    NOT_RUN: "open",
}
LONG = 24
WIDE = 100  # letters from which on a cell gets a wide column
MANY = 9  # columns from which on a table is set tightly


def to_html(document: Document, figures: Path) -> str:
    """The whole report as one page; the SVG file of every picture in the folder `figures` is copied into it."""
    links = "".join(f'<li><a href="#{_anchor(s.title)}">{escape(s.title)}</a></li>' for s in document.sections)
    body = "\n".join(_section(section, figures) for section in document.sections)
    parts = {"title": escape(document.title), "links": links, "body": body}
    template = (files("lln.paper.report") / "template.html").read_text("utf-8")
    return re.sub("@(title|links|body)@", lambda found: parts[found[1]], template)


def table_to_html(table: Table) -> str:
    """One table: verdicts are tinted, columns of words are flush left, and cells carry their heading."""
    cells = table.cells()
    words = [j == 0 or _is_text([row[j] for row in cells]) for j in range(len(table.columns))]
    head = "".join(_heading(name, text) for name, text in zip(table.columns, words, strict=True))
    rows = []
    for i, row in enumerate(cells):
        grouped = i > 0 and row[0] and not cells[i - 1][0]
        inner = "".join(
            _cell(cell, label, text_column=text, bold=(i, j) in table.best, tight=len(row) >= MANY)
            for j, (cell, label, text) in enumerate(zip(row, table.columns, words, strict=True))
        )
        rows.append(f'<tr class="first">{inner}</tr>' if grouped else f"<tr>{inner}</tr>")
    dense = ' class="dense"' if len(table.columns) >= MANY else ""
    return (
        f"<table{dense}><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _heading(name: str, text_column: bool) -> str:
    """The head of a column; one without a name is a plain cell, since an empty heading would be read aloud."""
    if not name:
        return "<td></td>"
    return f'<th scope="col"{_kinds(name, ["text"] * text_column)}>{_prose(name)}</th>'


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column holds words: one cell is long, or most of those that are no verdict begin with a letter."""
    plain = [cell for cell in cells if cell and cell not in _MARKS and cell != MISSING]
    return any(len(cell) > LONG and "±" not in cell and any(map(str.isalpha, cell)) for cell in plain) or (
        2 * sum(cell[0].isalpha() for cell in plain) > len(plain)
    )


def _cell(text: str, label: str, *, text_column: bool, bold: bool, tight: bool) -> str:
    kinds = [f"verdict {_MARKS[text]}"] if text in _MARKS else []
    kinds += ["text"] * text_column + ["wide"] * (len(text) > WIDE) + ["empty"] * (not text)
    # A line may break between a score and the printed one; inside a score only where there are many columns.
    inner = _prose(text.replace(" ± ", " ±\u00a0" if tight else "\u00a0±\u00a0").replace("] ", "]\u00a0"))
    inner = f"<strong>{inner}</strong>" if bold else inner
    return f'<td{_kinds(text, kinds)} data-label="{escape(label)}">{inner}</td>'


def _kinds(text: str, kinds: list[str]) -> str:
    """The classes of a cell or heading; the name of a system stays on one line where there is room."""
    kinds = [*kinds, "name"] if text in SYSTEM_NAMES.values() else kinds
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _section(section: Section, figures: Path) -> str:
    parts = [f'<h2 id="{_anchor(section.title)}">{escape(section.title)}</h2>']
    parts += [f"<p>{_prose(paragraph)}</p>" for paragraph in section.text]
    if section.points:
        parts.append(f"<ul>{''.join(f'<li>{_prose(point)}</li>' for point in section.points)}</ul>")
    for part in section.tables:
        parts.append(table_to_html(part.table))
        parts += [f'<p class="note">{_prose(note)}</p>' for note in part.notes]
    parts += [_picture(picture, figures) for picture in section.pictures]
    return "\n".join(parts)


def _picture(picture: Picture, figures: Path) -> str:
    data = base64.b64encode((figures / f"{picture.name}.svg").read_bytes()).decode("ascii")
    caption = escape(picture.caption)
    source = f"data:image/svg+xml;base64,{data}"
    image = f'<div tabindex="0"><img alt="{caption}" src="{source}"></div>'  # narrow pages scroll it
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _prose(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
