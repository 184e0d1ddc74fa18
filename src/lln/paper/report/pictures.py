"""Figures as files: SVG for pages, PNG for LaTeX; the same figure gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from lln.core.atomic import whole_file
from lln.paper.report.document import Picture
from lln.plots.style import DPI, house_style


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
