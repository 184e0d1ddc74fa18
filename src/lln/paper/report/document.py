"""A report as data: sections of text, tables and pictures, which every renderer draws its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from lln.core.table import Table
from lln.paper.report.compare import Verdict


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its file name (without suffix) and caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Compared:
    """A table of ours beside the paper's, and what its rows are worth.

    Attributes:
        table: to draw.
        verdicts: one for each row of the paper's table; empty where the paper prints no table.
        notes: sentences below it.
    """

    table: Table
    verdicts: Sequence[Verdict] = ()
    notes: Sequence[str] = ()


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
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def pictures(self) -> list[Picture]:
        """All pictures in their order."""
        return [picture for section in self.sections for picture in section.pictures]
