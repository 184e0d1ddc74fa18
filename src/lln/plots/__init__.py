"""Figures and films from arrays, in one visual style."""

from lln.plots.figures import error_figure, field_figure, portrait_figure, trajectory_figure
from lln.plots.style import colour, house_style, save_figure

__all__ = [
    "colour",
    "error_figure",
    "field_figure",
    "house_style",
    "portrait_figure",
    "save_figure",
    "trajectory_figure",
]
