"""`lln draw`: the architecture, drawn from a real model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.options import ModelFile

SUFFIXES = (".svg", ".png", ".pdf")


def draw(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture to write: .svg, .png or .pdf.")],
    rays: Annotated[int, typer.Option(min=1, help="How many rays to draw.")] = 12,
    member: Annotated[int, typer.Option(min=0, help="Which member of the ensemble.")] = 0,
) -> None:
    """Draw a lens network at the last training state: embedding, rays, lenses with their strength, readout."""
    from lln.cli.console import echo, output_file, read_model
    from lln.core.errors import InputError
    from lln.core.safe_files import whole_file
    from lln.plots.style import DPI, house_style
    from lln.view.drawing import architecture_figure
    from lln.view.rays import bench_of

    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"{out}: a drawing is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file, got {out.suffix!r}")
    output_file(out, model)
    forecaster = read_model(model)
    count = len(forecaster.surrogate_.members)
    if count and member >= count:
        raise InputError(f"--member must be below {count}, the number of members of this model, got {member}")
    bench = bench_of(forecaster.surrogate_, forecaster.last_window_, member=member)
    inside = "the lens network inside"
    if forecaster.surrogate_.kind == "field":
        inside = (
            f"the first of {len(forecaster.surrogate_.members[0].blocks)} blocks of lenses, at one point of the grid"
        )
    figure = architecture_figure(bench, rays=rays, title=f"{model.stem}: {inside}")
    with house_style(), whole_file(out) as partial:
        figure.savefig(partial, dpi=DPI, format=out.suffix[1:].lower())
    echo(f"wrote {out}: {min(rays, bench.width)} of {bench.width} rays through {bench.depth} lenses")
