"""Figures and films from arrays, in one visual style."""

from lln.plots.style import colour, house_style, save_figure

__all__ = ["colour", "house_style", "save_figure"]
