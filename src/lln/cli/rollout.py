"""`lln rollout`: a model's forecast as a file of data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lln.cli.options import InputNames, ModelFile, Resample, StateNames, StepLength, TimeName, TrajectoryName

if TYPE_CHECKING:
    from lln.data.dataset import Dataset, Series
    from lln.evaluate import Outcome
    from lln.forecaster.forecaster import LensForecaster


def rollout(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .npz .npy .csv .h5 .nc .zarr.")],
    steps: Annotated[int, typer.Option(min=1, help="States after the start.")] = 500,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start at the first state of each trajectory in this file.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="A rollout of each member of the ensemble alone.")] = False,
    time: TimeName = None,
    states: StateNames = None,
    trajectory: TrajectoryName = None,
    inputs: InputNames = None,
    dt: StepLength = None,
    resample: Resample = False,
) -> None:
    """Roll a model out and write the start and the STEPS states after it.

    Without --from it starts at the last state of the training data. A model with a history of H states takes the first
    H of each trajectory as given, and they lead what is written. Rows from a divergence on are NaN.
    """
    from lln.cli.console import data_file, say, stopwatch
    from lln.cli.reading import Selection, read_for, read_model
    from lln.data.read.formats import write

    data_file(out, model, start)
    forecaster = read_model(model)
    given = None
    if start is not None:
        given = read_for(forecaster, start, Selection(time, states, trajectory, inputs, dt, resample))
    with stopwatch() as taken:
        dataset, outcomes = forecast(forecaster, given, steps, sample)
        write(out, dataset)
    count = len(dataset.series)
    each = f"{count} rollouts of {steps:,} steps" if count > 1 else f"{steps:,} steps"
    typer.echo(f"wrote {out}: {each}, dt = {forecaster.dt_:g} ({taken()})")
    for series, outcome in zip(dataset.series, outcomes, strict=True):
        if outcome.step is not None:
            say(f"{series.name} {outcome}" if count > 1 else f"the rollout {outcome}")
    if any(outcome.step is not None for outcome in outcomes):
        typer.echo("more: lln explain diverged", err=True)


def forecast(
    forecaster: LensForecaster, given: Dataset | None, steps: int, sample: bool = False
) -> tuple[Dataset, list[Outcome]]:
    """A rollout from each trajectory of `given`, or from the end of the training data, as data of the same layout."""
    from dataclasses import replace

    import numpy as np

    from lln.data.dataset import Series

    run_from = forecaster.sample if sample else forecaster.rollout
    if given is None:
        if forecaster.input_names_:
            raise _needs_inputs(forecaster, steps)
        run = run_from(steps=steps)
        names, starts, before = ["rollout"], [float(run.times[0])], 0
        states = run.array[..., None, :, :] if run.array.ndim == 2 + sample else run.array
    else:
        before = forecaster.history_ - 1
        window, known = _windows(given, forecaster, steps)
        run = run_from(window if before else window[:, 0], steps - before, inputs=known)
        names, starts = [one.name for one in given.series], [one.start for one in given.series]
        lead = np.broadcast_to(window[:, :-1], (*run.array.shape[:-2], before, run.array.shape[-1]))
        states = np.concatenate([lead, run.array], axis=-2)
    states = states if sample else states[None]
    labels = [[f"{name}, member {s}" if sample else name for name in names] for s in range(len(states))]
    series = [
        Series(states[s, b], name=labels[s][b], start=starts[b]) for s in range(len(states)) for b in range(len(names))
    ]
    shifted = [o if o.step is None else replace(o, step=o.step + before) for o in run.outcomes]
    return _dataset(forecaster, series, given), shifted


def _windows(given: Dataset, forecaster: LensForecaster, steps: int) -> tuple[Any, Any]:
    """The first states of each trajectory, (B, H, n), and the inputs of each step, (B, steps, m) or None."""
    import numpy as np

    from lln.core.errors import InputError

    history = forecaster.history_
    if steps < history:
        raise InputError(f"--steps must be at least {history}: this model takes the first {history} states as given")
    windows: list[Any] = []
    known: list[Any] = []
    for one in given.series:
        if len(one) < history:
            raise InputError(
                f"{given.source}: {one.name} has {len(one)} row but this model looks at {history} states at a time; "
                f"give {history} consecutive rows, or fit with --history 1"
            )
        windows.append(one.rows(0, history))
        if forecaster.input_names_:
            if len(one) < steps:
                raise _needs_inputs(forecaster, steps, f"{given.source}: {one.name} has {len(one)} rows, but ")
            known.append(one.input_rows(history - 1, steps))
    window = np.stack(windows).astype(np.float64)
    if not np.isfinite(window).all():
        index = int(np.argwhere(~np.isfinite(window))[0, 0])
        raise InputError(
            f"{given.source}: {given.series[index].name} begins with a gap (NaN); a rollout must start at "
            "finite states, so cut the rows before the first whole one"
        )
    return window, np.stack(known) if known else None


def _needs_inputs(forecaster: LensForecaster, steps: int, where: str = "") -> Exception:
    from lln.core.errors import InputError

    names = ", ".join(forecaster.input_names_)
    return InputError(
        f"{where}this model needs its known inputs ({names}) at each step; give --from FILE with {steps} rows",
        topic="inputs-needed",
    )


def _dataset(forecaster: LensForecaster, series: list[Series], given: Dataset | None) -> Dataset:
    from lln.data.dataset import Dataset

    layout = forecaster.layout_
    units = {"time" if name == layout.time_name else name: unit for name, unit in layout.units.items()}
    if given is not None:  # its times may count from another day
        units = {name: unit for name, unit in units.items() if name != "time"}
        units |= {name: unit for name, unit in given.units.items() if name == "time"}
    return Dataset(
        tuple(series),
        layout.dt,
        layout.names,
        space=layout.space,
        channels=layout.channels,
        coords=layout.coords,
        time_name=layout.time_name,
        units=units,
        source="rollout",
        frequency=layout.frequency if given is None or "time" in given.units else None,
    )
