"""Scenes of films: a model's rollout, with the data beside it, or data alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.forecaster.display import real_times, rollout_beside
from lln.forecaster.forecaster import LensForecaster
from lln.forecaster.layout import Layout
from lln.plots.animate import Scene


def data_scene(data: Dataset, steps: int, title: str) -> Scene:
    """The first `steps` steps of the first trajectory of `data`."""
    first, title = data.series[0], _title(data, title)
    rows = first.rows(0, min(len(first), steps + 1))
    return _scene(data, {"data": rows}, title, first.start)


def model_scene(model: LensForecaster, truth: Dataset | None, steps: int, title: str) -> Scene:
    """A rollout of `model` beside the longest unseen stretch of `truth`, or from the end of its training data."""
    if truth is None:
        if model.input_names_:
            raise InputError(
                f"this model needs its known inputs ({', '.join(model.input_names_)}); give --data FILE with them",
                topic="inputs-needed",
            )
        window = model.last_window_
        run = np.concatenate([window[-1:], model.surrogate_.rollout(window, steps)])
        label = model.report_.last_trajectory
        return _scene(model.layout_, {"forecast": run}, f"{title}, {label}" if label else title, model.last_time_)
    beside, after, what = rollout_beside(model, truth, steps)
    guess = beside.array.reshape(-1, truth.size)
    runs = {"truth": np.concatenate([guess[:1], after]), "forecast": guess}
    return _scene(truth, runs, f"{title}{what}", beside.start.time)


def _title(data: Dataset, title: str) -> str:
    """With the name of the trajectory that is filmed, where there are others."""
    return f"{title}, {data.labels[0]}" if len(data.series) > 1 else title


def _scene(given: Dataset | Layout, runs: Mapping[str, ArrayLike], title: str, start: float) -> Scene:
    """The runs, with names, units and grid of the data or of the model."""
    rows = len(np.asarray(next(iter(runs.values()))))
    layout = given if isinstance(given, Layout) else Layout.of(given)
    times = real_times(start + np.arange(rows) * given.dt, layout)
    return Scene(
        runs, given.dt, given.names, given.space, given.channels, given.coords, title, given.units, given.time_name,
        start, None if times.dtype.kind == "f" else times,
    )  # fmt: skip
