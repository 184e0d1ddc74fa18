"""One visual style for every figure: colours that colour-blind readers can tell apart, and quiet axes."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

from lln.core.atomic import whole_file

# Okabe and Ito's palette, the yellow left out since it vanishes on white.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#222222", "#8A8A8A"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY)

FIELD_COLOURS = "RdBu_r"
ERROR_COLOURS = "PuOr_r"

WIDTH = 7.2
DPI = 160

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": BLACK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=PALETTE),
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.dpi": DPI,
    "figure.titlesize": 11.0,
    "figure.titleweight": "bold",
}


def house_style() -> AbstractContextManager[None]:
    """The style, for the duration of a `with` block; the caller's own settings come back behind it."""
    return mpl.rc_context(STYLE)


def colour(index: int) -> str:
    """The colour of the series number `index`, the same in every figure."""
    return PALETTE[index % len(PALETTE)]


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write `figure` to `path` in the format that its suffix names, and make the folder if it is missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with house_style(), whole_file(target) as partial:
        figure.savefig(partial, dpi=DPI, format=target.suffix[1:].lower() or "png")
    return target
