"""One visual style: tables as data and figures from arrays."""

from lln.plots.figures import error_figure, field_figure, portrait_figure, trajectory_figure
from lln.plots.style import colour, house_style, save_figure
from lln.plots.table import Table, number

__all__ = [
    "Table",
    "colour",
    "error_figure",
    "field_figure",
    "house_style",
    "number",
    "portrait_figure",
    "save_figure",
    "trajectory_figure",
]
