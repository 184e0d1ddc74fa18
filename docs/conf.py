"""Sphinx configuration: Markdown pages, docstrings in Google style, warnings are errors (`make docs`)."""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.inspect import TypeAliasForwardRef

from lln import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "lln"
author = "the lln contributors"
copyright = "the lln contributors"  # noqa: A001 - the name Sphinx reads
release = version = __version__
smartquotes_action = "De"  # quotes in code and values stay straight
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "lln_docs",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Names of types are shown, not what they stand for; the kinds of arrays are all arrays.
ARRAYS = ("Array", "NDArray", "Dates", "Index", "Integers", "Marks", "Mask", "Points", "Spectrum")
autodoc_type_aliases = {
    **dict.fromkeys(ARRAYS, "numpy.ndarray"),
    "ArrayLike": "numpy.typing.ArrayLike",
    **{name: name for name in ("Functional", "Invariant", "Metric", "Metrics")},
}
napoleon_use_ivar = True  # an attribute with a default is described once
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    # What scikit-learn and pydantic add, and modules, whose value is a path on the machine that builds the pages.
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, set_partial_fit_request, "
    "model_config, module",
}
nitpicky = False
html_theme = "furo"
html_theme_options = {"top_of_page_buttons": []}  # a link to the source of a page, which readers do not need
# The live page is made while the documentation is built; Sphinx looks for the folder before that.
(Path(__file__).parent / "_made" / "static").mkdir(parents=True, exist_ok=True)
html_static_path = ["_static", "_made/static"]
html_css_files = ["lln.css"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_title = f"lln {__version__}"
html_math_renderer = "mathml"
html_show_search_summary = False  # summaries are fetched, which browsers refuse to pages opened from disk
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-bash pre, div.highlight-toml pre"
exclude_patterns = ["_build", "_ext", "live"]
# Sphinx reaches the default-generator objects and NumPy types by many names; only our own must resolve.
suppress_warnings = ["ref.python"]
FITTED = re.compile(r"^(:ivar \w+)_:")
STAR = re.compile(r"(?<![\w*`\\])\*(?=[a-z_]+\b(?!\*))")
INDENTED = r"(?:    [^\n]*\n?|\n(?=    ))+"
BLOCK = re.compile(rf"^(\w[^\n]*\n\n)({INDENTED})", re.MULTILINE)
CODE = re.compile(rf"(``.+?``|^ *>>>[^\n]*(?:\n[^\n]+)*|(?<=^::\n\n){INDENTED})", re.MULTILINE | re.DOTALL)
# Lines must not end within an arrow, 1e-12 or 90 %.
UNBROKEN = {
    r"(?<= )->(?= )": "\N{RIGHTWARDS ARROW}",
    r"(?<=\de)-(?=\d)": "\N{NON-BREAKING HYPHEN}",
    r"(?<=\d) (?=%)": "\xa0",
}


def _plain_marks(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, ARG001
    """Docstrings write |x|, (time, *space), np.bool_ and scale_, which mean something else in reStructuredText.

    They indent formulas and code; reStructuredText takes those for quotations, and wraps their lines.
    """
    text = BLOCK.sub(r"\1::\n\n\2", "\n".join(lines).replace("np.bool_", "np.bool"))
    pieces = CODE.split(text)
    pieces[::2] = [STAR.sub(r"\*", piece.replace("|", r"\|")) for piece in pieces[::2]]
    for broken, whole in UNBROKEN.items():
        pieces[::2] = [re.sub(broken, whole, piece) for piece in pieces[::2]]
    told = [line for line in "".join(pieces).split("\n") if not line.startswith("Alias for field number")]
    lines[:] = [FITTED.sub(r"\1\\_:", line) for line in told]


def _once(app, domain, objtype, content):  # noqa: ANN001, ANN202, ARG001
    """A class says what its attributes are; a second list of the same names, with types alone, says nothing."""
    if objtype != "class":
        return
    for fields in content.findall(nodes.field_list):
        told = {one[0].astext().split()[-1] for one in fields if one[0].astext()[:6] == "param " and one[1].astext()}
        for one in list(fields):
            kind, *name = one[0].astext().split()
            if kind in ("param", "type") and name and name[-1] not in told:
                fields.remove(one)


NAMED = re.compile(r"<function (?:\w+\.)*(\w+|<lambda>)>|<?<class '(?:\w+\.)*(\w+)'>(?: \w+>)?")


def _plain_defaults(app, what, name, obj, options, signature, returned):  # noqa: ANN001, ANN202, ARG001
    """A default that is a function or a class is shown by its name, not as <class '...'>."""
    return signature and NAMED.sub(lambda default: default[1] or default[2], signature), returned


# In `Array | None` Sphinx writes the alias by its representation, which would name this class of its own.
TypeAliasForwardRef.__repr__ = lambda alias: alias.name
# NDArray[np.bool_] is an array too.
TypeAliasForwardRef.__getitem__ = lambda alias, _: alias

# Sphinx would take the words before a colon for the type of a property.
GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end


def setup(app):  # noqa: ANN001, ANN201
    """Called by Sphinx."""
    app.connect("object-description-transform", _once, priority=600)
    app.connect("autodoc-process-docstring", _plain_marks)
    app.connect("autodoc-process-signature", _plain_defaults)
