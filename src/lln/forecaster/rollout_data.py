"""Rollouts of a forecaster as a dataset: starts from trajectories, results with names, units and grid."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.evaluate.rollout import Outcome
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.results import Forecast


def rollout_data(
    forecaster: LensForecaster,
    given: Dataset | None,
    steps: int,
    sample: bool = False,
    level: float | None = None,
    future: str | os.PathLike[str] | None = None,
) -> tuple[Dataset, list[Outcome], Forecast]:
    """Roll a model out and return the states as data of the layout that it was fitted with.

    Args:
        forecaster: a fitted forecaster.
        given: trajectories whose first states start the rollouts; None starts at the end of the training data.
        steps: number of states after the start.
        sample: roll each member of the ensemble out alone.
        level: probability of prediction intervals, which become columns "<name> lower" and "<name> upper".
        future: file of known inputs alone, where the rollout starts at the end of the training data.

    Returns:
        The start and the states after it, one trajectory for each rollout, how each rollout ended, and the forecast.
    """
    if level is not None and (sample or forecaster.space_):
        raise InputError(
            "--level does not go with --sample: each member is one rollout without an interval; leave one out"
            if sample
            else "intervals of a field do not fit into this file; take them from rollout(level=...) in Python"
        )
    run_from: Any = forecaster.sample if sample else partial(forecaster.rollout, level=level)
    if given is not None and future is not None:
        raise InputError("--future gives inputs after the training data, but --from starts elsewhere; leave one out")
    if future is not None and not forecaster.input_names_:
        raise InputError("--future gives known inputs, but this model was fitted without any; leave it out")
    if given is None:
        if forecaster.input_names_ and future is None:
            raise _needs_inputs(forecaster, steps)
        run = run_from(steps=steps, inputs=future)
        names, starts, before = ["rollout"], [float(run.times[0])], 0
        states = run.array[..., None, :, :] if run.array.ndim == 2 + sample else run.array
    else:
        history = forecaster.history_
        first, known = _first_rows(given, forecaster, steps)
        before = first.shape[1] - 1
        window = first[:, -history:]
        run = run_from(window if history > 1 else window[:, 0], steps - before, inputs=known)
        names, starts = [one.name for one in given.series], [one.start for one in given.series]
        lead = np.broadcast_to(first[:, :-1], (*run.array.shape[:-2], before, run.array.shape[-1]))
        states = np.concatenate([lead, run.array], axis=-2)
    names_of = forecaster.layout_.names
    if level is not None:
        flat = (-1, run.array.shape[-2], run.array.shape[-1])
        bounds = [np.concatenate([states[:, :before], side.reshape(flat)], axis=-2) for side in (run.lower, run.upper)]
        states = np.concatenate([states, *bounds], axis=-1)
        names_of = (*names_of, *(f"{name} {side}" for side in ("lower", "upper") for name in names_of))
    states = states if sample else states[None]
    labels = [[f"{name}, member {s}" if sample else name for name in names] for s in range(len(states))]
    series = [
        Series(states[s, b], name=labels[s][b], start=starts[b]) for s in range(len(states)) for b in range(len(names))
    ]
    shifted = [o if o.step is None else replace(o, step=o.step + before) for o in run.outcomes]
    return _dataset(forecaster, series, given, names_of), shifted, run


def _first_rows(given: Dataset, forecaster: LensForecaster, steps: int) -> tuple[Any, Any]:
    """The first R states of each trajectory, (B, R, n), and the inputs of the steps after them, (B, L + steps, m).

    R is as many as the model looks at, or those before which L earlier inputs are known.
    """
    lags = forecaster.input_lags_
    history = max(forecaster.history_, lags + 1)
    if steps < history:
        raise InputError(f"--steps must be at least {history}: this model takes the first {history} states as given")
    windows: list[Any] = []
    known: list[Any] = []
    for one in given.series:
        if len(one) < history:
            looks = "states at a time" if history == forecaster.history_ else "rows of inputs at a time"
            shorter = ", or fit with --history 1" if history == forecaster.history_ else ""
            raise InputError(
                f"{_where(given, one)} has {len(one)} row{'s' * (len(one) != 1)}, but this model looks at {history} "
                f"{looks}; give "
                f"{history} consecutive rows{shorter}"
            )
        windows.append(one.rows(0, history))
        if forecaster.input_names_:
            if len(one) < steps:
                raise _needs_inputs(forecaster, steps, f"{_where(given, one)} has {len(one)} rows, but ")
            known.append(one.input_rows(history - 1 - lags, steps))
    window = np.stack(windows).astype(np.float64)
    if not np.isfinite(window).all():
        index = int(np.argwhere(~np.isfinite(window))[0, 0])
        raise InputError(
            f"{_where(given, given.series[index])} begins with a gap (NaN); a rollout must start at "
            "finite states, so cut the rows before the first whole one"
        )
    return window, np.stack(known) if known else None


def _where(given: Dataset, one: Series) -> str:
    """A trajectory of the data in words; one that is called like its file has no name of its own."""
    return f"{given.source}:" if one.name == Path(given.source).name else f"{given.source}: {one.name}"


def _needs_inputs(forecaster: LensForecaster, steps: int, where: str = "") -> Exception:
    names = ", ".join(forecaster.input_names_)
    return InputError(
        f"{where}this model needs its known inputs ({names}) at each step; give --future FILE of inputs, or "
        f"--from FILE with {steps} rows",
        topic="inputs-needed",
    )


def _dataset(
    forecaster: LensForecaster, series: list[Series], given: Dataset | None, names: tuple[str, ...]
) -> Dataset:
    layout = forecaster.layout_
    units = {"time" if name == layout.time_name else name: unit for name, unit in layout.units.items()}
    if given is not None:  # its times may count from another day
        units = {name: unit for name, unit in units.items() if name != "time"}
        units |= {name: unit for name, unit in given.units.items() if name == "time"}
    return Dataset(
        tuple(series),
        layout.dt,
        names,
        space=layout.space,
        channels=layout.channels if names == layout.names else names,
        coords=layout.coords,
        time_name=layout.time_name,
        units=units,
        source="rollout",
        frequency=layout.frequency if given is None or "time" in given.units else None,
    )
