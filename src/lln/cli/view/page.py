"""`lln page`: a model as one web page that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.options import ModelFile, Selection


def page(
    model: ModelFile,
    selection: Selection,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML file to write.", show_default="the model's name with .html")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Trajectories to start from and to compare rollouts with.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="States after the start.", show_default="all rows to compare with, 50 to 500"),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="Number of networks of the ensemble to include.", show_default="all")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="the name of the data")] = None,
) -> None:
    """Write one HTML file that runs a model in the browser: a start to drag, its future, and the rays inside.

    The file needs no server, no network and no other file. Training rows of --data are marked; the first start lies on
    other rows if there are any. Without --data a rollout starts where the training data ends, and there is no truth to
    compare it with.
    """
    from lln.cli.console import echo, output_file, read_for, read_model
    from lln.core.safe_files import whole_file
    from lln.view.page import forecaster_page

    target = output_file(Path(f"{model.stem}.html") if out is None else out, model, data)
    forecaster = read_model(model)
    truth = None if data is None else read_for(forecaster, data, selection)
    text = forecaster_page(forecaster, truth, title=title, steps=steps, members=members)
    with whole_file(target) as partial:
        partial.write_text(text, encoding="utf-8")
    echo(f"wrote {target}: {target.stat().st_size / 1e6:.2f} MB{'' if show else ', open it in a browser'}")
    if show:
        typer.launch(target.resolve().as_uri())
