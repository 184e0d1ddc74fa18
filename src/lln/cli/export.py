"""`lln export`: a model for other programs: ONNX, C99, or torch.export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lln.cli.options import ModelFile

if TYPE_CHECKING:
    from lln.forecaster.forecaster import LensForecaster

FORMATS = ("onnx", "c", "torch")


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (onnx, torch), or folder (c).")],
    format: Annotated[str, typer.Option("--format", "-f", help="onnx, c or torch.")] = "onnx",  # noqa: A002
    rollout: Annotated[
        bool, typer.Option("--rollout", help="onnx: a whole rollout; its number of steps is an input.")
    ] = False,
    precision: Annotated[
        str | None, typer.Option(help="c: of weights and lenses, float or double; default: as they were fitted.")
    ] = None,
    name: Annotated[str, typer.Option(help="c: stem of files, type and functions.")] = "model",
) -> None:
    """Write one step, or a rollout, for other programs, run it, and print its difference from the float64 rollout.

    ONNX and C hold everything: units, history, inputs, linear part and networks. C comes as one source, one header and
    a self-test, without dependencies or allocation.
    """
    from lln.cli.console import output_file, read_model
    from lln.core.errors import InputError, choice

    choice("format", format, FORMATS)
    if rollout and format == "torch":
        raise InputError("--rollout is for --format onnx; torch.export writes one step, and C holds both")
    if format != "c":
        output_file(out, model)
    forecaster = read_model(model)
    if format == "c":
        _c(forecaster, out, precision, name)
    else:
        _file(forecaster, out, format, rollout)


def _file(forecaster: LensForecaster, out: Path, kind: str, rollout: bool) -> None:
    from lln.cli.console import echo

    surrogate, window = forecaster.surrogate_, forecaster.last_window_
    if kind == "onnx":
        from lln.export.onnx import export_onnx

        known = {"names": forecaster.names_, "input_names": forecaster.input_columns_}
        difference = export_onnx(surrogate, out, rollout=rollout, window=window, **known)
        what = "a rollout, as one graph that is told the number of steps" if rollout else "one step"
    else:
        from lln.export.torch import export_torch

        difference, what = export_torch(surrogate, out, window=window), "one step"
    echo(f"wrote {out}: {what}")
    echo(str(difference))


def _c(forecaster: LensForecaster, out: Path, precision: str | None, name: str) -> None:
    from lln.cli.console import echo
    from lln.export.c.export import export_c

    done = export_c(
        forecaster.surrogate_,
        out,
        precision,
        name=name,
        window=forecaster.last_window_,
        names=forecaster.names_,
        input_names=forecaster.input_columns_,
    )
    for file in done.files:
        echo(f"wrote {file}")
    if done.difference is None:
        echo("no C compiler was found here, so nothing was compared; elsewhere run:")
    else:
        echo(str(done.difference))
        echo("to compile and test it:")
    echo(f"  {done.command}")
