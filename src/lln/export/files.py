"""Write a fitted forecaster in a format for other programs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lln.core.errors import InputError, choice

if TYPE_CHECKING:
    from lln.export.c.export import CExport
    from lln.export.parts import Difference
    from lln.forecaster.forecaster import LensForecaster

FORMATS = ("onnx", "c", "torch")
_SUFFIXES = {".onnx": "onnx", ".pt2": "torch", "": "c"}


def export_model(
    forecaster: LensForecaster,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    **options: Any,
) -> Difference | CExport:
    """Write the step of `forecaster`, run it, and compare it with the float64 rollout.

    Args:
        forecaster: a fitted model.
        path: a file for "onnx" and "torch", a folder for "c".
        format: "onnx", "torch" or "c"; None goes by the ending of `path`: .onnx, .pt2, or none for C.
        **options: `rollout` for ONNX; `precision`, `name` and `check` for C.
    """
    kind = _SUFFIXES.get(Path(path).suffix.lower()) if format is None else choice("format", format, FORMATS)
    if kind is None:
        raise InputError(f"{path}: unknown ending; use .onnx, .pt2 or, for C, a folder, or give format=")
    surrogate, window = forecaster.surrogate_, forecaster.last_window_
    if kind == "onnx":
        from lln.export.onnx import export_onnx

        return export_onnx(
            surrogate, path, window=window, names=forecaster.names_, input_names=forecaster.input_columns_, **options
        )
    if kind == "torch":
        from lln.export.torch import export_torch

        return export_torch(surrogate, path, window=window, **options)
    from lln.export.c.export import export_c

    return export_c(
        surrogate, path, window=window, names=forecaster.names_, input_names=forecaster.input_columns_, **options
    )
