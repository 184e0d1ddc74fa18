"""A report as data (sections of text, tables and pictures), as Markdown and LaTeX, and its figures as files.

Figures are written as SVG for pages and as PNG for LaTeX; the same figure gives the same bytes. The LaTeX document
compiles as it stands beside its figures.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from lln.core.safe_files import whole_file
from lln.core.table import Table
from lln.paper.report.compare import Verdict
from lln.plots.style import DPI, figure_style


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its file name (without suffix) and caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Compared:
    """A table of ours beside the paper's, and what its rows are worth."""

    table: Table  #: to draw.
    verdicts: Sequence[Verdict] = ()  #: one for each row of the paper's table; empty where the paper prints no table.
    notes: Sequence[str] = ()  #: sentences below it.


@dataclass(frozen=True, eq=False)
class Section:
    """One part of the report: paragraphs, a list of points, tables, pictures, in this order."""

    title: str
    text: Sequence[str] = ()
    points: Sequence[str] = ()
    tables: Sequence[Compared] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True, eq=False)
class Document:
    """The whole report."""

    title: str
    sections: Sequence[Section] = ()

    @property
    def pictures(self) -> list[Picture]:
        """All pictures in their order."""
        return [picture for section in self.sections for picture in section.pictures]


def to_markdown(document: Document) -> str:
    """The whole report as one Markdown text."""
    lines = [f"# {document.title}", ""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for paragraph in section.text:
            lines += [paragraph, ""]
        lines += [*(f"- {point}" for point in section.points), *([""] if section.points else [])]
        for part in section.tables:
            lines += [part.table.to_markdown(), ""]
            for note in part.notes:
                lines += [note, ""]
        for picture in section.pictures:
            lines += [f"![{picture.caption}](figures/{picture.name}.svg)", "", f"*{picture.caption}*", ""]
    return "\n".join(lines)


def write_pictures(pictures: Sequence[Picture], folder: Path) -> list[Path]:
    """Write every picture to `folder` under its name, as SVG and as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for picture in pictures:
        # Without a salt the ids in an SVG are random, and with a date two equal reports would differ.
        with figure_style(), mpl.rc_context({"svg.hashsalt": picture.name}):
            svg, png = folder / f"{picture.name}.svg", folder / f"{picture.name}.png"
            with whole_file(svg) as partial:
                picture.figure.savefig(partial, format="svg", metadata={"Date": None})
            # The layout is found; finding it again for the second file would cost as much as drawing it.
            picture.figure.set_layout_engine("none")
            with whole_file(png) as partial:
                picture.figure.savefig(partial, format="png", dpi=DPI, metadata={"Software": None})
        files += [svg, png]
    return files


PREAMBLE = r"""\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[margin=18mm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{adjustbox}
"""
_WORDS = (
    r"\textbackslash{} \textasciitilde{} \textasciicircum{} -- $<$ $>$ $\infty$ $\pm$ $\approx$ $\times$ $\to$ $^\circ$"
)
_PLAIN = dict(zip("\\~^–<>∞±≈×→°₁₂", [*_WORDS.split(), "$_1$", "$_2$"], strict=True))
_PLAIN |= {letter: f"\\{letter}" for letter in "&%#_{}$"}
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def escape(text: str) -> str:
    r"""Text as LaTeX sets it; powers of ten in raised digits become exponents.

    >>> escape("5.6×10¹⁰ & 3 %")
    '5.6$\\times$10$^{10}$ \\& 3 \\%'
    """
    escaped = "".join(_PLAIN.get(letter, letter) for letter in text)
    escaped = re.sub(r"`([^`]*)`", r"\\texttt{\1}", escaped)
    return re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda found: f"$^{{{found[0].translate(_LOWERED)}}}$", escaped)


def table_to_latex(table: Table) -> str:
    """A booktabs table, shrunk to the page where it is wider; text columns of claims may break lines."""
    cells = [[escape(cell) for cell in row] for row in table.cells()]
    for i, j in table.best:
        cells[i][j] = rf"\textbf{{{cells[i][j]}}}"
    longest = [max([len(name), *(len(row[j]) for row in table.cells())]) for j, name in enumerate(table.columns)]
    kinds = "".join("p{55mm}" if size > 60 else ("l" if j == 0 else "r") for j, size in enumerate(longest))
    body = [
        r"\begin{table}[!htbp]",
        r"\centering\small",
        rf"\caption{{{escape(table.title)}}}",
        r"\begin{adjustbox}{max width=\textwidth}",
        rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}",
        r"\toprule",
        " & ".join(map(escape, table.columns)) + r" \\",
        r"\midrule",
    ]
    for index, row in enumerate(cells):
        # Three lines that belong together stay together to the eye.
        gap = [r"\addlinespace"] if index and row[0] and not cells[index - 1][0] else []
        body += [*gap, " & ".join(row) + r" \\"]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}", r"\end{table}"])


def to_latex(document: Document) -> str:
    """The whole report as one LaTeX document."""
    head = [PREAMBLE, rf"\title{{{escape(document.title)}}}", r"\date{}", r"\begin{document}", r"\maketitle"]
    parts = [_section(section) for section in document.sections]
    return "\n".join([*head, *parts, r"\end{document}", ""])


def _section(section: Section) -> str:
    lines = [r"\clearpage", rf"\section{{{escape(section.title)}}}", ""]
    for paragraph in section.text:
        lines += [escape(paragraph), ""]
    if section.points:
        items = [rf"\item {escape(point)}" for point in section.points]
        lines += [r"\begin{itemize}", *items, r"\end{itemize}", ""]
    for part in section.tables:
        lines += [table_to_latex(part.table), ""]
        for note in part.notes:
            lines += [escape(note), ""]
    for picture in section.pictures:
        lines += [
            r"\begin{figure}[!htbp]",
            r"\centering",
            rf"\includegraphics[width=\textwidth]{{figures/{picture.name}.png}}",
            rf"\caption{{{escape(picture.caption)}}}",
            r"\end{figure}",
            "",
        ]
    return "\n".join(lines)
