"""Figures and films from arrays, in one visual style."""

from lln.plots.style import colour, figure_style, save_figure

__all__ = ["colour", "figure_style", "save_figure"]
