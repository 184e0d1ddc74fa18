"""The optical bench in the browser: one self-contained web page that runs a model."""

from lln.view.page.build import build_page, forecaster_page

__all__ = ["build_page", "forecaster_page"]
