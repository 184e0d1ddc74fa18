"""`lln animate`: a rollout, or data, as a film."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lln.cli.options import (
    MODEL_SUFFIX,
    InputNames,
    Resample,
    StateNames,
    StepLength,
    TimeName,
    TrajectoryName,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from lln.cli.reading import Selection
    from lln.data.dataset import Dataset
    from lln.forecaster.forecaster import LensForecaster
    from lln.forecaster.layout import Layout
    from lln.plots.animate import Scene


def animate(
    source: Annotated[Path, typer.Argument(help=f"A model ({MODEL_SUFFIX}) to roll out, or a file of trajectories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Film to write: .gif, or .mp4 where ffmpeg is installed.")],
    data: Annotated[
        Path | None, typer.Option(help="The truth beside a model's rollout, which then starts where the data does.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to show.")] = 500,
    frames: Annotated[int, typer.Option(min=2, help="Pictures in the film.")] = 120,
    fps: Annotated[int, typer.Option(min=1, max=100, help="Pictures a second.")] = 25,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Film a rollout: a curve in phase space or time, a field as a curve, or as an image, whatever the system is."""
    from lln.cli.console import output_file
    from lln.cli.reading import Selection, read_data, read_model
    from lln.core.atomic import whole_file
    from lln.core.errors import InputError
    from lln.plots.animate import draw_frames
    from lln.plots.film import film_bytes, no_film

    reason = no_film(out.suffix)
    if reason is not None:
        raise InputError(f"{out}: {reason}")
    output_file(out, source, data)
    chosen = Selection(time, states, trajectory, inputs, dt, resample)
    if source.suffix == MODEL_SUFFIX:
        scene = _model_scene(read_model(source), data, chosen, steps, source.stem)
    elif data is not None:
        raise InputError("--data is the truth beside a model's rollout; give a model, or one file of data alone")
    else:
        given = read_data([source], chosen)
        first = given.series[0]
        rows = first.rows(0, min(len(first), steps + 1))
        scene = _scene(given, {"data": rows}, source.stem, first.start)
    content = film_bytes(out.suffix, draw_frames(scene, frames), fps)
    with whole_file(out) as partial:
        partial.write_bytes(content)
    typer.echo(f"wrote {out}: {scene.steps:,} states, dt = {scene.dt:g}, {len(content) / 1e6:.1f} MB")


def _model_scene(model: LensForecaster, data: Path | None, chosen: Selection, steps: int, title: str) -> Scene:
    import numpy as np

    from lln.cli.reading import read_for
    from lln.core.errors import InputError

    layout, history = model.layout_, model.history_
    if data is not None:
        given = read_for(model, data, chosen)
        steps = min(steps, len(given.series[0]) - history)
        if steps < 1:
            raise InputError(f"{data}: it has {len(given.series[0])} rows; a film beside it needs more than {history}")
        first = given.series[0]
        window = np.asarray(first.rows(0, history), dtype=np.float64)
        known = first.input_rows(history - 1, history - 1 + steps) if model.input_names_ else None
        guess = model.surrogate_.rollout(window, steps, known)
        truth = np.asarray(first.rows(history - 1, history + steps), dtype=np.float64)
        runs = {"truth": truth, "model": np.concatenate([window[-1:], guess])}
        return _scene(given, runs, title, first.start + (history - 1) * given.dt)
    if model.input_names_:
        raise InputError(
            f"this model needs its known inputs ({', '.join(model.input_names_)}); give --data FILE with them",
            topic="inputs-needed",
        )
    window = model.last_window_
    run = np.concatenate([window[-1:], model.surrogate_.rollout(window, steps)])
    return _scene(layout, {"model": run}, title, model.last_time_)


def _scene(given: Dataset | Layout, runs: Mapping[str, ArrayLike], title: str, start: float) -> Scene:
    """The runs, with what the data or the model says of names, units and grid."""
    from lln.plots.animate import Scene

    return Scene(
        runs, given.dt, given.names, given.space, given.channels, given.coords, title, given.units, given.time_name,
        start,
    )  # fmt: skip
