"""The report as a LaTeX document with booktabs, which compiles as it stands beside its figures."""

from __future__ import annotations

import re

from lln.core.table import Table
from lln.paper.report.document import Document, Section

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
