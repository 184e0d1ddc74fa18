"""`lln export`: a model for other programs: ONNX, C99, or torch.export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lln.cli.options import ModelFile


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write (.onnx, .pt2), or a folder for C.")],
    format: Annotated[  # noqa: A002
        str | None, typer.Option("--format", "-f", help="onnx, c or torch.", show_default="by the suffix")
    ] = None,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="ONNX: a whole rollout; its number of steps is an input.")
    ] = False,
    precision: Annotated[
        str | None, typer.Option(help="C: precision of weights and lenses, float or double.", show_default="as fitted")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="C: prefix of the names of files, type and functions.", show_default="model")
    ] = None,
) -> None:
    """Write one step, or a rollout, for other programs, run it, and print its difference from the float64 rollout.

    An export contains everything: scaling, history, inputs, closed-form parts and networks. C comes as one source file,
    one header and a self-test, without dependencies or allocation.
    """
    from lln.cli.console import echo, output_file, read_model
    from lln.core.errors import InputError
    from lln.forecaster.forecaster import export_format

    kind = export_format(out, format)
    if rollout and kind == "torch":
        raise InputError("--rollout is for --format onnx; torch.export writes one step, and C holds both")
    if kind != "c":
        for option, given in (("--precision", precision), ("--name", name)):
            if given is not None:
                raise InputError(f"{option} is for C; leave it out, or give a folder as --out")
        output_file(out, model)
    options: dict[str, dict[str, Any]] = {
        "onnx": {"rollout": rollout},
        "c": {"precision": precision, "name": name or "model"},
        "torch": {},
    }
    done = read_model(model).export(out, kind, **options[kind])
    if kind != "c":
        what = "a rollout, as one graph that is told the number of steps" if rollout else "one step"
        echo(f"wrote {out}: {what}")
        echo(str(done))
        return
    for file in done.files:
        echo(f"wrote {file}")
    if done.difference is None:
        echo("no C compiler was found here, so nothing was compared; elsewhere run:")
    else:
        echo(str(done.difference))
        echo("to compile and test it:")
    echo(f"  {done.command}")
