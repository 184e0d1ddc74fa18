"""The report as one HTML page that needs nothing else: style and figures are inside it."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

from lln.core.table import Table
from lln.paper.report.compare import Verdict
from lln.paper.report.document import Document, Picture, Section

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --quiet: #555; --rule: #ccc; --soft: #f4f4f2;
  --agree: #dff0e6; --other: #fff3d6; --differ: #f9ddd3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e3; --paper: #17181a; --quiet: #a9a9a4; --rule: #45474b; --soft: #232528;
    --agree: #1d3b2a; --other: #443a1b; --differ: #4a2a20; }
  figure img { background: #fff; border-radius: 4px; }
  a { color: #8ab4f8; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1180px; padding: 1.5rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--rule); }
nav a { margin-right: 1rem; white-space: nowrap; }
.wide { overflow-x: auto; max-width: 100%; margin: 1rem 0 .4rem; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .22rem .55rem; text-align: right; white-space: nowrap; }
th { white-space: normal; max-width: 9rem; }
th:first-child, td:first-child, td.text { text-align: left; }
td.text { white-space: normal; min-width: 14rem; max-width: 30rem; }
thead th { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink); vertical-align: bottom; }
tbody tr:last-child td { border-bottom: 2px solid var(--ink); }
tbody tr.first td { border-top: 1px solid var(--rule); }
td.agree { background: var(--agree); } td.other { background: var(--other); } td.differ { background: var(--differ); }
td.open { background: var(--soft); color: var(--quiet); }
p, li { max-width: 46rem; }
p.note { font-size: 13px; color: var(--quiet); margin: .2rem 0; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { font-size: 13px; color: var(--quiet); max-width: 46rem; }
code { background: var(--soft); padding: 0 .25em; }
"""
_MARKS = {
    Verdict.AGREE.value: "agree",
    Verdict.OTHER_SIZE.value: "other",
    Verdict.DIFFER.value: "differ",
    Verdict.NOT_COMPARABLE.value: "open",
    "holds": "agree",
    "holds within noise": "agree",
    "order holds, size differs": "other",
    "fails": "differ",
    "not run": "open",
}
LONG = 40


def to_html(document: Document, figures: Path) -> str:
    """The whole report as one page.

    Args:
        document: the report.
        figures: the folder that holds the SVG of every picture; they are read into the page.
    """
    links = "".join(f'<a href="#{_anchor(s.title)}">{escape(s.title)}</a>' for s in document.sections)
    body = "\n".join(_section(section, figures) for section in document.sections)
    title = escape(document.title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<nav>{links}</nav>\n{body}\n</body>\n</html>\n"
    )


def table_to_html(table: Table) -> str:
    """One table; a verdict's cell is tinted by what it says."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = []
    cells = table.cells()
    for i, row in enumerate(cells):
        grouped = i > 0 and row[0] and not cells[i - 1][0]
        inner = "".join(_cell(cell, bold=(i, j) in table.best) for j, cell in enumerate(row))
        rows.append(f'<tr class="first">{inner}</tr>' if grouped else f"<tr>{inner}</tr>")
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(text: str, *, bold: bool) -> str:
    kind = _MARKS.get(text, "text" if len(text) > LONG else "")
    inner = f"<strong>{escape(text)}</strong>" if bold else escape(text)
    return f'<td class="{kind}">{inner}</td>' if kind else f"<td>{inner}</td>"


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
    return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'


def _prose(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
