"""`lln rollout`: a model's forecast as a file of data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lln.cli.options import ModelFile, Selection


def rollout(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .npz .npy .csv .h5 .nc .zarr.")],
    selection: Selection,
    steps: Annotated[int, typer.Option(min=1, help="States after the start.")] = 500,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start at the first state of each trajectory in this file.")
    ] = None,
    future: Annotated[
        Path | None,
        typer.Option(help="File of known inputs for the steps after the training data."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Roll out each member of the ensemble separately.")] = False,
    level: Annotated[
        float | None, typer.Option(help="Add prediction intervals of this probability, such as 0.9.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the forecast, with its interval, to this file: .png .svg .pdf.")
    ] = None,
) -> None:
    """Roll a model out and write the start and the STEPS states after it.

    Without --from it starts at the last state of the training data; a model with known inputs then needs --future. With
    --from, a model with a history of H states starts from the first H states of each trajectory and writes them first.
    Rows after a divergence are NaN.
    """
    from lln.cli.console import data_file, echo, picture_file, read_for, read_model, say, stopwatch
    from lln.data.read.formats import write
    from lln.forecaster.results import rollout_data

    data_file(out, model, start, future)
    if plot is not None:
        picture_file(plot, model, out)
    forecaster = read_model(model)
    given = None
    if start is not None:
        given = read_for(forecaster, start, selection)
    with stopwatch() as taken:
        dataset, outcomes, run = rollout_data(forecaster, given, steps, sample, level, future)
        write(out, dataset)
        if plot is not None:
            from lln.plots.style import save_figure

            save_figure(run.plot(), plot)
    count = len(dataset.series)
    each = f"{count} rollouts of {steps:,} steps" if count > 1 else f"{steps:,} steps"
    echo(f"wrote {out}: {each}, dt = {forecaster.layout_.step_length} ({taken()})")
    if plot is not None:
        echo(f"wrote {plot}")
    for series, outcome in zip(dataset.series, outcomes, strict=True):
        if outcome.step is not None:
            say(f"{series.name} {outcome}" if count > 1 else f"the rollout {outcome}")
    if any(outcome.step is not None for outcome in outcomes):
        echo("more: lln explain diverged", err=True)
