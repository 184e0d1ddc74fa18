"""One visual style for all figures: a colour-blind safe palette, and one colour, marker and name for each model."""

from __future__ import annotations

import io
import os
import zlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

from lln.core.safe_files import whole_file
from lln.core.table import OURS

# Okabe and Ito's palette, the yellow left out since it vanishes on white.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#222222", "#8A8A8A"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY)

FIELD_COLOURS = "RdBu_r"
ERROR_COLOURS = "PuOr_r"

WIDTH = 7.2
DPI = 160

_FILE = Path(__file__).with_name("lln.mplstyle")
STYLE: Any = {
    **mpl.rc_params_from_file(_FILE, use_default_template=False),
    "axes.prop_cycle": cycler(color=PALETTE),
    "figure.dpi": DPI,
}


class _DisplayFigure(Figure):
    """A figure that notebooks show without pyplot."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with figure_style():
            self.savefig(content, dpi=DPI, format="png")
        return content.getvalue()


def figure_style() -> AbstractContextManager[None]:
    """Apply the style inside a `with` block and restore the caller's settings after it."""
    return mpl.rc_context(STYLE)


def new_figure(height: float = 3.8) -> Figure:
    """An empty figure as high as so many inches, with constrained layout."""
    return _DisplayFigure(figsize=(WIDTH, height), layout="constrained")


class Look(NamedTuple):
    """How the curve of one model is drawn, the same in every figure."""

    colour: str
    dash: Any
    marker: str

    def line(self, points: int, offset: int = 0) -> dict[str, Any]:
        """Keywords for `Axes.plot` with about eight markers on a curve of `points` points."""
        every = max(points // 8, 1)
        markers = {"marker": self.marker, "markersize": 3.8, "markevery": (offset % every, every)}
        return {"color": self.colour, "linestyle": self.dash, **(markers if self.marker else {})}


SOLID, DASHED, DOTTED, MIXED, LONG = "-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (8, 3))
LOOKS = {
    "lens": Look(BLUE, SOLID, ""),
    "mlp": Look(VERMILION, SOLID, "s"),
    "residual": Look(GREEN, SOLID, "^"),
    "scaled-residual": Look(ORANGE, SOLID, "D"),
    "residual-batchnorm": Look(PURPLE, SOLID, "v"),
    "layerscale": Look(SKY, SOLID, "P"),
    "linear": Look(BLACK, DASHED, ""),
    "analog": Look(GREY, MIXED, ""),
    "persistence": Look(GREY, DOTTED, ""),
    "mean": Look(BLACK, DOTTED, ""),
    "seasonal": Look(ORANGE, DOTTED, ""),
    "drift": Look(PURPLE, DOTTED, ""),
    "polynomial": Look(GREEN, DASHED, ""),
    "kernel": Look(VERMILION, DASHED, ""),
}


def look(name: str) -> Look:
    """Colour, dash and marker of a model; a name that is not listed always gets the same ones."""
    key = "lens" if name == OURS else name
    if key in LOOKS:
        return LOOKS[key]
    number = zlib.crc32(key.encode())
    dash = (LONG, MIXED, DASHED)[number // len(PALETTE) % 3]
    return Look(PALETTE[number % len(PALETTE)], dash, "ox*hX"[number // 7 % 5])


def colour(of: str | int) -> str:
    """The colour of a model by name, or of a numbered series."""
    return look(of).colour if isinstance(of, str) else PALETTE[of % len(PALETTE)]


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write `figure` to `path` in the format of its suffix (PNG without one); a missing folder is created."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with figure_style(), whole_file(target) as partial:
        figure.savefig(partial, dpi=DPI, format=target.suffix[1:].lower() or "png")
    return target
