"""`lln evaluate`: how far a model's rollouts are from data that it has not seen."""

from __future__ import annotations

from typing import Annotated

import typer

from lln.cli.options import (
    AsJson,
    DataFile,
    InputNames,
    ModelFile,
    Resample,
    StateNames,
    StepLength,
    TimeName,
    TrajectoryName,
)


def evaluate(
    model: ModelFile,
    data: DataFile,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Length of each rollout [default: 500, or what there is].")
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="At most so many rollouts, evenly chosen.")] = 64,
    threshold: Annotated[float, typer.Option(help="Normalised error up to which a prediction counts as valid.")] = 0.4,
    as_json: AsJson = False,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Score a model's rollouts on data; rows that trained it are recognised and left out.

    Where nothing else is left, training data is scored and the result says so. The JSON document has nmse,
    nmse_by_step, valid_prediction_steps and parameters; an error that is not finite is null there.
    """
    from lln.cli.console import say
    from lln.cli.reading import Selection, read_for, read_model
    from lln.forecast.scoring import TRAINING

    forecaster = read_model(model)
    dataset = read_for(forecaster, data, Selection(time, states, trajectory, inputs, dt, resample))
    found = forecaster.evaluate(dataset, steps=steps, windows=windows, threshold=threshold)
    if as_json:
        import json

        typer.echo(json.dumps({"model": str(model), "data": str(data), **found.record()}, indent=2))
        return
    typer.echo(str(found))
    if found.scored == TRAINING:
        say("for a score on unseen states give other data, or fit with --test 0.15 to keep a part of these back")
