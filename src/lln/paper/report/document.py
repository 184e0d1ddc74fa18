"""A report as data (sections of text, tables and pictures), its Markdown, and its figures as files.

Figures are written as SVG for pages and as PNG for LaTeX; the same figure gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from lln.core.safe_files import whole_file
from lln.core.table import Table
from lln.paper.report.compare import Verdict
from lln.plots.style import DPI, house_style


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
        with house_style(), mpl.rc_context({"svg.hashsalt": picture.name}):
            svg, png = folder / f"{picture.name}.svg", folder / f"{picture.name}.png"
            with whole_file(svg) as partial:
                picture.figure.savefig(partial, format="svg", metadata={"Date": None})
            # The layout is found; finding it again for the second file would cost as much as drawing it.
            picture.figure.set_layout_engine("none")
            with whole_file(png) as partial:
                picture.figure.savefig(partial, format="png", dpi=DPI, metadata={"Software": None})
        files += [svg, png]
    return files
