"""Display of forecasts: text and HTML for a notebook, and figures."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lln.core.errors import InputError
from lln.core.table import counted
from lln.data.interpret.calendar import LOCAL, dates_of
from lln.data.series import HORIZON
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import rmse_by_step
from lln.forecaster.layout import Layout
from lln.step.frame import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lln.data.series import Dataset
    from lln.forecaster.forecaster import LensForecaster
    from lln.forecaster.results import Forecast
    from lln.plots.forecasts import Band

MOST_PANELS = 8
ROWS_SHOWN = 6


def real_times(times: Any, layout: Layout) -> Any:
    """Times of a forecast as dates where the training data counts them from a date; other times unchanged."""
    if times.dtype.kind != "f":
        return times
    found = dates_of(times, layout.units.get(layout.time_name, ""), layout.frequency)
    return times if found is None else found


def labelled(layout: Layout, name: str) -> str:
    """A name with its unit."""
    unit = layout.units.get(name, "").partition(" since ")[0]
    return f"{name} ({unit})" if unit else name


def time_label(layout: Layout, times: Any) -> str:
    """Label of the time axis; dates need no unit, but for data in a time zone the label says in which they are."""
    if times.dtype.kind == "f":
        return labelled(layout, layout.time_name)
    return f"{layout.time_name} ({_zone(layout)})" if layout.time_zone else layout.time_name


def _zone(layout: Layout) -> str:
    """The zone of the dates of a forecast."""
    return layout.time_zone.removeprefix(LOCAL) if layout.time_zone.startswith(LOCAL) else "UTC"


def forecast_words(forecast: Forecast) -> str:
    """One line: how many steps of what, from when to when, and how it ended."""
    layout, times = forecast.layout, np.atleast_2d(forecast.dates)[0]
    starts = math.prod(forecast.array.shape[:-2])
    many = f"{starts} rollouts of " if starts > 1 else ""
    of = f", {forecast.start.names[0]}" if starts == 1 and forecast.start.names else ""
    level = "" if forecast.level is None else f", with a {100 * forecast.level:g} % interval"
    zone = f" {_zone(layout)}" if layout.time_zone and times.dtype.kind != "f" else ""
    span = f"{layout.time_name} {_time(times[0])} to {_time(times[-1])}{zone}"
    ended = "" if forecast.outcome.step is None else f"; {forecast.outcome}"
    steps = counted(forecast.array.shape[-2] - 1, "step")
    return f"Forecast({many}{steps} of {layout.listing()}{of}, {span}{level}{ended})"


def forecast_html(forecast: Forecast) -> str:
    """The line, and the first and last rows of the table of a single rollout."""
    small = forecast.array.ndim == 2 and forecast.layout.size <= 2 * MOST_PANELS
    table = forecast.to_pandas().to_html(max_rows=ROWS_SHOWN, border=0, float_format="{:.6g}".format) if small else ""
    return f"<p>{html.escape(forecast_words(forecast))}</p>{table}"


def plot_forecast(
    forecast: Forecast, truth: Any, start: int, coordinates: Sequence[str] | None, threshold: float, title: str | None
) -> Figure:
    """Draw a forecast; see `Forecast.plot`."""
    from lln.plots.forecasts import Band, Mark, field_forecast_figure, forecast_figure, snapshot_figure

    layout = forecast.layout
    members = forecast.extra == ("member",)
    runs = forecast.array.reshape(*(forecast.array.shape[:1] if members else ()), -1, *forecast.array.shape[-2:])
    if not 0 <= start < runs.shape[-3]:
        raise InputError(f"start = {start}, but this forecast has {runs.shape[-3]} starts, numbered from 0")
    chosen = runs[..., start, :, :]
    states = chosen.mean(axis=0) if members else chosen
    times = forecast.dates if forecast.dates.ndim == 1 else forecast.dates[start]
    right = None if truth is None else _truth(truth, forecast, times, start)
    marks = [Mark(times[step], words) for step, words in _moments(forecast, states, right, start, threshold)]
    head = f"{layout.title}: forecast{_which(forecast, start, runs.shape[-3])}" if title is None else title
    if layout.space:
        size = math.prod(layout.space)
        channel = 0 if coordinates is None else _places(layout, coordinates)[0]
        part = slice(channel * size, (channel + 1) * size)
        label = labelled(layout, layout.channels[channel])
        grids = [(labelled(layout, name), np.asarray(values)) for name, values in layout.coords.items()]
        shown = None if right is None else right[:, part]
        interval = _interval(forecast, start, part)
        if len(layout.space) == 1:
            labels = (time_label(layout, times), grids[0][0], label)
            options: dict[str, Any] = {"truth": shown, "interval": interval, "marks": marks, "title": head}
            return field_forecast_figure(times, states[:, part], grid=grids[0][1], labels=labels, **options)
        if len(layout.space) == 2:
            at = np.unique(np.linspace(0, len(times) - 1, 4).round().astype(int))
            turned = next(iter(layout.coords)).lower() in ("x", "lon", "longitude")
            order = (0, 2, 1) if turned else (0, 1, 2)

            def frames(values: Any) -> Array:
                return np.asarray(values[at].reshape(len(at), *layout.space).transpose(order))

            moments = [f"{layout.time_name} {_time(times[k])}" for k in at]
            return snapshot_figure(
                moments, frames(states[:, part]), axes_of_space=grids[::-1] if turned else grids, label=label,
                truth=None if shown is None else frames(shown), title=head,
                interval=None if interval is None else Band(frames(interval[0]), frames(interval[1]), forecast.level),
            )  # fmt: skip
    places = _places(layout, coordinates)
    return forecast_figure(
        times, states[:, places], labels=[labelled(layout, layout.names[i]) for i in places],
        time_label=time_label(layout, times), truth=None if right is None else right[:, places],
        interval=_interval(forecast, start, places),
        members=chosen[..., places] if members else None, past=_past(forecast, start, places), marks=marks, title=head,
    )  # fmt: skip


def _which(forecast: Forecast, start: int, count: int) -> str:
    """Words for a title: of which trajectory a forecast is, or from which of several starts."""
    if start < len(forecast.start.names):
        return f" of {forecast.start.names[start]}"
    return f" from start {start}" if count > 1 else ""


def _interval(forecast: Forecast, start: int, places: Any) -> Band | None:
    """The bounds of some columns of one rollout."""
    from lln.plots.forecasts import Band

    if not forecast.bounds:
        return None
    shape = (-1, *forecast.array.shape[-2:])
    low, high = (side.reshape(shape)[start][:, places] for side in forecast.bounds.values())
    return Band(low, high, forecast.level)


def _past(forecast: Forecast, start: int, places: Sequence[int]) -> tuple[Any, Array] | None:
    """Times and states that lead to the start, at most as many as were forecast; None for a single state.

    What was filled in is NaN.
    """
    window = forecast.start.window
    rows = min(window.shape[-2], forecast.array.shape[-2])
    if rows < 2:
        return None
    times = forecast.times_before(rows)
    known = window if forecast.start.filled is None else np.where(forecast.start.filled, np.nan, window)
    states = known.reshape(-1, *window.shape[-2:])[start, -rows:, places].T
    return (times if times.ndim == 1 else times[start]), states


def _places(layout: Layout, names: Sequence[str] | None) -> list[int]:
    """Indices of the named variables; the first few where none are named."""
    known = layout.variables
    if names is None:
        return list(range(min(len(known), MOST_PANELS)))
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in known:
            raise InputError(f"no coordinate is called {name!r}; there are {layout.listing()}")
    return [known.index(name) for name in names]


def _truth(truth: Any, forecast: Forecast, times: Any, start: int) -> Array:
    """The truth at the forecast's times, (time, n), NaN where it is unknown."""
    layout, count = forecast.layout, forecast.array.shape[-2]
    if isinstance(truth, np.ndarray | list | tuple) or hasattr(truth, "detach"):
        rows = np.asarray(truth, dtype=np.float64)
        rows = rows.reshape(len(rows), -1) if rows.ndim else rows
        if rows.ndim != 2 or rows.shape[1] != layout.size:
            raise InputError(f"the truth must have {layout.size} coordinates in each row, got shape {rows.shape}")
        given = forecast.array.reshape(-1, count, layout.size)[start, 0]
        whole = len(rows) == count or (len(rows) != count - 1 and np.allclose(rows[:1], given, equal_nan=True))
        first = 0 if whole else 1  # without the start itself
    else:
        dataset = layout.read(truth)
        index = _trajectory(dataset, forecast, start)
        clock, series = real_times(dataset.times(index), Layout.of(dataset)), dataset.series[index].as_measured
        if clock.dtype.kind != times.dtype.kind:
            raise InputError("the truth and the forecast must both have dates, or both have numbers as times")
        first = int(np.argmin(np.abs(clock - times[0])))
        rows, first = np.asarray(series.rows(first, len(series)), dtype=np.float64), 0
    right = np.full((count, layout.size), np.nan)
    rows = rows[: count - first]
    right[first : first + len(rows)] = rows
    if first:
        right[0] = forecast.array.reshape(-1, count, layout.size)[start, 0]  # the start is given, so it is true
    return right


def _trajectory(dataset: Dataset, forecast: Forecast, start: int) -> int:
    """Which trajectory of the truth a forecast is compared with: by name, or by place where each start has one."""
    names = forecast.start.names
    if start < len(names) and names[start] in dataset.labels:
        return dataset.labels.index(names[start])
    return start if len(dataset.series) == math.prod(forecast.start.lead) else 0


def _moments(
    forecast: Forecast, states: Array, truth: Array | None, start: int, threshold: float
) -> list[tuple[int, str]]:
    """Steps worth marking: the end of the valid prediction, of the training region, or of the rollout."""
    found: list[tuple[int, str]] = []
    if truth is not None:
        known = 1 + np.flatnonzero(np.isfinite(truth[1:]).all(axis=1))
        scale = forecast.scale if forecast.scale is not None else np.nanstd(truth, axis=0)
        if len(known) and (np.asarray(scale) > 0).all():
            bad = known[rmse_by_step(states[known], truth[known], scale) > threshold]
            good = int(bad[0]) - 1 if len(bad) else 0
            found += [(good, f"valid for {counted(good, 'step')}")] if len(bad) else []
    outcome = forecast.outcomes[start] if start < len(forecast.outcomes) else forecast.outcome
    if outcome.left is not None:
        found.append((outcome.left, "leaves the training region"))
    return found


def _time(value: Any) -> str:
    """A time for people: dates to the second at most, numbers with up to six digits."""
    if isinstance(value, np.datetime64):
        return np.datetime_as_string(value, unit="s").removesuffix("T00:00:00")
    return str(value) if isinstance(value, np.timedelta64) else f"{float(value):.6g}"


def plot_model(model: LensForecaster, data: Any = None, *, steps: int = HORIZON, level: float | None = None) -> Figure:
    """Draw a rollout of a model; see `LensForecaster.plot`."""
    options = {} if level is None else {"level": level}
    if data is None:
        return model.rollout(steps=steps, **options).plot()
    dataset = model.layout_.read(data)
    run, truth, what = rollout_beside(model, dataset, steps, **options)
    return run.plot(truth, title=f"{Layout.of(dataset).title}{what}")


def rollout_beside(
    model: LensForecaster, dataset: Dataset, steps: int, **options: float
) -> tuple[Forecast, Array, str]:
    """A rollout beside the longest unseen stretch, or beside rows that chose or trained where none is unseen.

    Returns:
        the rollout, the true states after its start (steps, n), and words for a title: which rows these are.
    """
    from lln.forecaster.results import times_after
    from lln.forecaster.scoring.scored_rows import read_windows, windows_of

    lags = model.input_lags_
    found, scored = windows_of(with_input_lags(dataset, lags), model.training_, model.history_, None, None)
    window = max(found, key=lambda one: min(one.steps, steps))
    window = window._replace(steps=min(window.steps, steps))
    rows, _ = read_windows(dataset, [window], model.history_)
    series = dataset.series[window.series]
    inputs = series.input_rows(window.first - 1 - lags, window.first + window.steps - 1)
    run = model.rollout(rows[0, : model.history_], window.steps, inputs, **options)
    given = series.as_measured.rows(window.first - model.history_, window.first)
    timed = replace(run.start, time=series.start + (window.first - 1) * dataset.dt, filled=np.isnan(given))
    placed = replace(run, start=timed, times=times_after(timed.time, dataset.dt, window.steps + 1))
    label = f", {dataset.labels[window.series]}" if len(dataset.series) > 1 else ""
    return placed, rows[0, model.history_ :], f"{label}: {counted(window.steps, 'step')} of {scored}"
