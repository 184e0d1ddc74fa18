"""The page inside a notebook."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lln.core.errors import check_int
from lln.core.safe_files import whole_file
from lln.data.series import Dataset
from lln.view.page.build import forecaster_page

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster


class InlinePage:
    """A page that runs a model; notebooks show it in a frame.

    Args:
        text: the page as HTML.
        height: of the frame, in pixels.
    """

    def __init__(self, text: str, height: int = 900) -> None:
        self.text, self.height = text, check_int("height", height, 100)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page as one HTML file that needs no network and no other file."""
        with whole_file(Path(path)) as partial:
            partial.write_text(self.text, encoding="utf-8")
        return Path(path)

    def open(self) -> Path:
        """Write the page to a temporary file and open it in the default browser."""
        path = self.save(Path(tempfile.mkdtemp(prefix="lln-")) / "page.html")
        webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        return f"InlinePage({len(self.text) / 1e6:.2f} MB; save(path) writes it, open() shows it in a browser)"

    def _repr_html_(self) -> str:
        content = html.escape(self.text, quote=True)
        style = f"width:100%;height:{self.height}px;border:1px solid #ccc"
        return f'<iframe title="lln: a model that runs here" style="{style}" srcdoc="{content}"></iframe>'


def inline_page(model: LensForecaster, data: Any = None, *, height: int = 900, **options: Any) -> InlinePage:
    """The page of a fitted forecaster, for `LensForecaster.page`."""
    truth = data if data is None or isinstance(data, Dataset) else model.layout_.read(data)
    return InlinePage(forecaster_page(model, truth, **options), height)
