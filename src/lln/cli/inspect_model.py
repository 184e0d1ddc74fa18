"""`lln inspect`: the content of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lln.cli.options import AsJson, ModelFile

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster


def inspect(model: ModelFile, as_json: AsJson = False) -> None:
    """Show what a model is: sizes, parameters, coverage, versions, and how it was trained."""
    from lln.cli.console import echo, facts, read_model, text_width

    forecaster = read_model(model)
    found = describe(forecaster, model)
    if as_json:
        typer.echo(to_json(found))
        return
    summary, *rest = forecaster.summary(text_width()).splitlines()
    echo(summary)
    facts(_lines(forecaster, found))
    echo("\n".join(rest))


def describe(forecaster: LensForecaster, path: Path) -> dict[str, Any]:
    """Everything about a model file as plain values."""
    from lln.forecaster.fitted import describe as header_of

    header = header_of(path)
    training = header.pop("training")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "model_parameters": forecaster.parameters_,
        "history": forecaster.history_,
        **header,
        "training": {key: training[key] for key in ("source", "rows", "held_out", "total")},
    }


def to_json(found: dict[str, Any]) -> str:
    """One JSON document."""
    import json

    return json.dumps(found, indent=2)


def _lines(forecaster: LensForecaster, found: dict[str, Any]) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    layout = forecaster.layout_
    lines = {
        "file": f"{found['file']}, {found['bytes']:,} bytes, format {found['format']}",
        "written by": f"lln {found['lln']} with {versions}",
        "states": f"{layout.size} {'coordinate' if layout.size == 1 else 'coordinates'}: {layout.listing()}",
        "time step": layout.step_length,
    }
    if layout.input_names:
        lags = forecaster.input_lags_
        early = f" (and {lags} earlier value{'s' if lags > 1 else ''} of each)" if lags else ""
        lines["inputs"] = ", ".join(layout.input_names) + early
    return lines
