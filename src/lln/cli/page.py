"""`lln page`: a model as one web page that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.options import InputNames, ModelFile, Resample, StateNames, StepLength, TimeName, TrajectoryName


def page(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("bench.html"),
    data: Annotated[
        Path | None, typer.Option("--data", help="Trajectories to start from and to hold rollouts against.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="States after the start.")] = 500,
    members: Annotated[int | None, typer.Option(min=1, help="Take so many networks of the ensemble, not all.")] = None,
    title: Annotated[str | None, typer.Option(help="Head of the page.")] = None,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Write one HTML file that runs a model in the browser: a start to drag, its future, and the rays inside.

    The file needs no server, no network and nothing beside it. Rows of --data that trained are left out, unless all
    did. Without --data a rollout starts where the training data ended, and there is no truth to hold it against.
    """
    from lln.cli.console import output_file
    from lln.cli.reading import Selection, read_for, read_model
    from lln.core.atomic import whole_file
    from lln.view.page import forecaster_page

    output_file(out, model, data)
    forecaster = read_model(model)
    truth = None
    if data is not None:
        truth = read_for(forecaster, data, Selection(time, states, trajectory, inputs, dt, resample))
    text = forecaster_page(forecaster, truth, title=title, steps=steps, members=members)
    with whole_file(out) as partial:
        partial.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}: {out.stat().st_size / 1e6:.2f} MB, open it in a browser")
