"""Sphinx configuration: Markdown pages, docstrings in Google style, warnings are errors (`make docs`)."""

from lln import __version__

project = "lln"
author = "the lln contributors"
copyright = "the lln contributors"  # noqa: A001 - the name Sphinx reads
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
nitpicky = False
html_theme = "furo"
html_title = f"lln {__version__}"
exclude_patterns = ["_build"]
# Sphinx reaches the default-generator objects and NumPy types by many names; only our own must resolve.
suppress_warnings = ["ref.python"]


def _plain_bars(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, ARG001
    """Docstrings write |x| for a magnitude; reStructuredText would take it for a substitution."""
    lines[:] = [line.replace("|", r"\|") for line in lines]


def setup(app):  # noqa: ANN001, ANN201
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _plain_bars)
