"""How models and results are shown: text and HTML for a notebook, figures, tables, the summary of a fit."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lln.core.errors import InputError
from lln.core.table import OURS, human_time, number
from lln.data.interpret.calendar import dates_of
from lln.data.series import HORIZON
from lln.data.stream import with_input_lags
from lln.evaluate.metrics import VALID_RMSE, rmse_by_step
from lln.fit.choice.holdout import lead_columns
from lln.forecaster.layout import Layout, TrainingFingerprint
from lln.step.frame import Array, flow_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lln.fit.options import FitReport, Recipe
    from lln.forecaster.forecaster import LensForecaster
    from lln.forecaster.results import Forecast
    from lln.forecaster.scoring.evaluation import Evaluation

MOST_PANELS = 8
ROWS_SHOWN = 6
WIDTH = 100  # of a summary
_LABEL = 12
_LEADS = 4  # lead times that are shown
NAIVE = ("persistence", "drift", "mean", "smoothing", "last change", "seasonal naive")
LINEAR = ("linear", *NAIVE)  # parts of which none is chaotic


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
    """Label of the time axis; dates need no unit, but those of data in a time zone are in UTC here."""
    if times.dtype.kind == "f":
        return labelled(layout, layout.time_name)
    return f"{layout.time_name} (UTC)" if layout.time_zone else layout.time_name


# ---- forecasts


def forecast_words(forecast: Forecast) -> str:
    """One line: how many steps of what, from when to when, and how it ended."""
    layout, times = forecast.layout, np.atleast_2d(forecast.dates)[0]
    starts = math.prod(forecast.array.shape[:-2])
    many = f"{starts} rollouts of " if starts > 1 else ""
    level = "" if forecast.level is None else f", with a {forecast.level:.0%} interval"
    zone = " UTC" if layout.time_zone and times.dtype.kind != "f" else ""
    span = f"{layout.time_name} {_time(times[0])} to {_time(times[-1])}{zone}"
    ended = "" if forecast.outcome.step is None else f"; {forecast.outcome}"
    return f"Forecast({many}{forecast.array.shape[-2] - 1:,} steps of {layout.listing()}, {span}{level}{ended})"


def forecast_html(forecast: Forecast) -> str:
    """The line, and the first and last rows of the table of a single rollout."""
    words = html.escape(forecast_words(forecast))
    if forecast.array.ndim != 2 or forecast.layout.size > 2 * MOST_PANELS:
        return f"<p>{words}</p>"
    table = forecast.to_pandas().to_html(max_rows=ROWS_SHOWN, border=0)
    return f"<p>{words}</p>{table}"


def plot_forecast(
    forecast: Forecast,
    truth: Any = None,
    *,
    start: int = 0,
    coordinates: Sequence[str] | None = None,
    threshold: float = VALID_RMSE,
    title: str | None = None,
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
    head = f"{layout.title}: forecast" if title is None else title
    if layout.space:
        size = math.prod(layout.space)
        channel = 0 if coordinates is None else _places(layout, coordinates)[0]
        part = slice(channel * size, (channel + 1) * size)
        label = labelled(layout, layout.channels[channel])
        grids = [(labelled(layout, name), np.asarray(values)) for name, values in layout.coords.items()]
        shown = None if right is None else right[:, part]
        if len(layout.space) == 1:
            labels = (time_label(layout, times), grids[0][0], label)
            options: dict[str, Any] = {"truth": shown, "marks": marks, "title": head}
            return field_forecast_figure(times, states[:, part], grid=grids[0][1], labels=labels, **options)
        if len(layout.space) == 2:
            at = np.unique(np.linspace(0, len(times) - 1, 4).round().astype(int))
            turned = next(iter(layout.coords)).lower() in ("x", "lon", "longitude")
            order = (0, 2, 1) if turned else (0, 1, 2)

            def frames(values: Array) -> Array:
                return np.asarray(values[at].reshape(len(at), *layout.space).transpose(order))

            moments = [f"{layout.time_name} {_time(times[k])}" for k in at]
            return snapshot_figure(
                moments, frames(states[:, part]), axes_of_space=grids[::-1] if turned else grids, label=label,
                truth=None if shown is None else frames(shown), title=head,
            )  # fmt: skip
    places = _places(layout, coordinates)
    interval = None
    if forecast.bounds:
        shape = (-1, *forecast.array.shape[-2:])
        low, high = (side.reshape(shape)[start][:, places] for side in forecast.bounds.values())
        interval = Band(low, high, forecast.level)
    return forecast_figure(
        times, states[:, places], labels=[labelled(layout, layout.names[i]) for i in places],
        time_label=time_label(layout, times), truth=None if right is None else right[:, places], interval=interval,
        members=chosen[..., places] if members else None, past=_past(forecast, start, places), marks=marks, title=head,
    )  # fmt: skip


def _past(forecast: Forecast, start: int, places: Sequence[int]) -> tuple[Any, Array] | None:
    """Times and states that the first step was given, at most as many as were forecast; None for a single state."""
    window = forecast.start.window
    rows = min(window.shape[-2], forecast.array.shape[-2])
    if rows < 2:
        return None
    times = forecast.times_before(rows)
    states = window.reshape(-1, *window.shape[-2:])[start, -rows:, places].T
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
        first = 1 if len(rows) == count - 1 else 0  # without the start itself
    else:
        dataset = layout.read(truth)
        clock = real_times(dataset.times(), Layout.of(dataset))
        if clock.dtype.kind != times.dtype.kind:
            raise InputError("the truth and the forecast must both have dates, or both have numbers as times")
        first = int(np.argmin(np.abs(clock - times[0])))
        rows, first = np.asarray(dataset.series[0].rows(first, len(dataset.series[0])), dtype=np.float64), 0
    right = np.full((count, layout.size), np.nan)
    rows = rows[: count - first]
    right[first : first + len(rows)] = rows
    if first:
        right[0] = forecast.array.reshape(-1, count, layout.size)[start, 0]  # the start is given, so it is true
    return right


def _moments(
    forecast: Forecast, states: Array, truth: Array | None, start: int, threshold: float
) -> list[tuple[int, str]]:
    """Steps worth marking: the end of the valid prediction, of the training region, or of the rollout."""
    found: list[tuple[int, str]] = []
    if truth is not None:
        known = np.flatnonzero(np.isfinite(truth).all(axis=1))
        known = known[known > 0]
        scale = forecast.scale if forecast.scale is not None else np.nanstd(truth, axis=0)
        if len(known) and (np.asarray(scale) > 0).all():
            errors = rmse_by_step(states[known], truth[known], scale)
            bad = np.flatnonzero(errors > threshold)
            if len(bad):
                found.append((int(known[bad[0]]) - 1, f"valid for {int(known[bad[0]]) - 1} steps"))
    outcome = forecast.outcomes[start] if start < len(forecast.outcomes) else forecast.outcome
    if outcome.left is not None:
        found.append((outcome.left, "leaves the training region"))
    return found


def _time(value: Any) -> str:
    """A time for people: dates to the second at most, numbers with up to six digits."""
    if isinstance(value, np.datetime64):
        return np.datetime_as_string(value, unit="s").removesuffix("T00:00:00")
    return str(value) if isinstance(value, np.timedelta64) else f"{float(value):.6g}"


# ---- evaluations


def evaluation_html(scores: Evaluation) -> str:
    """The scores as a table, with the errors by lead time below."""
    cells = "".join(
        f"<tr><th style='text-align:left;font-weight:normal'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for label, value in scores.facts().items()
    )
    page = f"<div><b>{html.escape(scores.title)}</b><table>{cells}</table></div>"
    if scores.skill is not None:
        table = scores.skill.table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                       for row in table.cells())  # fmt: skip
        page += f"<div><b>{html.escape(table.title)}</b><table><tr>{head}</tr>{body}</table></div>"
    return page + "".join(f"<p>{html.escape(text)}</p>" for text in scores.remarks())


def plot_evaluation(scores: Evaluation, title: str | None = None) -> Figure:
    """Draw the error against lead time; see `Evaluation.plot`."""
    from lln.plots.forecasts import comparison_figure

    head = f"scored on {scores.scored}: {scores.many}" if title is None else title
    errors, references = {OURS: scores.rmse_by_step}, []
    if scores.skill is not None:
        curves = scores.skill.by_step
        references = [name for name in curves if name != "model"]
        errors = {OURS: curves["model"], **{name: curves[name] for name in references}}
        head = f"scored on {scores.scored}: {scores.skill.origins} rolling origins" if title is None else title
    return comparison_figure(
        errors, references=references, threshold=scores.threshold, dt=scores.dt, time_unit=scores.time_unit, title=head
    )


# ---- models


def plot_model(model: LensForecaster, data: Any = None, *, steps: int = HORIZON, level: float | None = None) -> Figure:
    """Draw a rollout of a model; see `LensForecaster.plot`."""
    from lln.forecaster.results import times_after
    from lln.forecaster.scoring.scored_rows import read_windows, windows_of

    options = {} if level is None else {"level": level}
    if data is None:
        return plot_forecast(model.rollout(steps=steps, **options))
    dataset, lags = model.layout_.read(data), model.input_lags_
    found, scored = windows_of(with_input_lags(dataset, lags), model.training_, model.history_, None, None)
    window = max(found, key=lambda one: min(one.steps, steps))
    window = window._replace(steps=min(window.steps, steps))
    rows, _ = read_windows(dataset, [window], model.history_)
    series = dataset.series[window.series]
    inputs = series.input_rows(window.first - 1 - lags, window.first + window.steps - 1)
    run = model.rollout(rows[0, : model.history_], window.steps, inputs, **options)
    timed = replace(run.start, time=series.start + (window.first - 1) * dataset.dt)
    placed = replace(run, start=timed, times=times_after(timed.time, dataset.dt, window.steps + 1))
    title = f"{Layout.of(dataset).title}: {window.steps} steps of {scored}"
    return plot_forecast(placed, rows[0, model.history_ :], title=title)


# ---- the summary of a fit


def summary(
    layout: Layout, recipe: Recipe, report: FitReport, training: TrainingFingerprint, width: int = WIDTH
) -> str:
    """One labelled paragraph for each fact, in lines of at most `width` characters."""
    parts = [
        ("data", _data(layout, report)),
        ("trained on", _rows(report, training)),
        ("noise", _noise(report)),
        ("step", _step(layout, report)),
        ("network", _network(recipe, report)),
        ("parameters", _parameters(report)),
        ("held out", _held_out(report)),
        *(("", line) for line in _by_lead(report)),
        ("intervals", _intervals(report)),
        ("chaos", _chaos(layout, report)),
        ("coverage", _coverage(report)),
        ("time", f"{report.seconds:.1f} s on {recipe.device}, random_state {recipe.seed}"),
        *(("note", note) for note in report.notes),
    ]
    lines = [f"LensForecaster, recipe {recipe.recipe!r}"]
    for label, text in parts:
        if text:
            lines += textwrap.wrap(
                f"  {label:<{_LABEL}}{text}",
                width,
                subsequent_indent=" " * (_LABEL + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines).replace("\xa0", " ")


def _data(layout: Layout, report: FitReport) -> str:
    many = "one trajectory" if report.trajectories == 1 else f"{report.trajectories:,} trajectories"
    forced = f", known inputs {', '.join(layout.input_names)}" if layout.input_names else ""
    early = f" (or the first {report.input_lags} rows)" if report.input_lags else ""
    trained = " trained" if report.held_out_rows else ""
    gaps = f"; {report.left_out:,} more touch a gap{early} and were left out" if report.left_out else ""
    return (
        f"{layout.source}: {many} of {layout.listing()}{forced}, dt = {layout.step_length}; {report.pairs:,} pairs of "
        f"neighbouring states{trained}{gaps}"
    )


def _rows(report: FitReport, training: TrainingFingerprint) -> str:
    rows = sum(last - first for _, first, last in training.rows)
    if rows >= training.total:
        return f"all {training.total:,} states, after the choices had been made on held-out ones"
    kept = sum(last - first for _, first, last in report.held_out_rows)
    chose = f"; {kept:,} others only helped to choose" if kept else ""
    return f"{rows:,} of {training.total:,} states{chose}"


def _noise(report: FitReport) -> str:
    if math.isnan(report.noise):
        return ""
    size = f"{report.noise:.2g} of the states' spread, {report.noise_of_increments:.2g} of one step's change"
    return f"found, about {size}" if report.noisy else f"none that matters (at most {size})"


def _step(layout: Layout, report: FitReport) -> str:
    looks = "the present state" if report.history == 1 else f"the last {report.history} states"
    looks = f"logarithms of {looks}" if report.logarithms else looks
    looks += f" and {report.input_lags} earlier values of each known input" if report.input_lags else ""
    if report.part in NAIVE:
        return f"looks at {looks}; {_naive(report)} alone, no linear part"
    growth = report.spectral_radius
    grows = f", spectral radius {growth:.6g}" if math.isfinite(growth) else ""
    if report.structure.get("members"):
        return f"looks at {looks}; the mean of {len(report.structure['members'])} linear maps in float64{grows}"
    near = "" if report.radius is None else f" within {report.radius} grid point{'s' * (report.radius != 1)}"
    closed = _closed_form(report)
    if closed:
        return f"looks at {looks}{near}; a {_closed_form(report, report.degree)} in float64"
    if report.ridge is None:
        return f"looks at {looks}; no linear part"
    what = "a convolution" if layout.space and report.radius is not None else "a linear map"
    return f"looks at {looks}{near}; {what} in float64 with ridge {report.ridge:.2g}{grows}"


def _naive(report: FitReport) -> str:
    """The simple method that is the whole step, with its season."""
    shape = report.structure
    if report.part != "seasonal naive" or not shape.get("season"):
        return report.part
    count = shape["smoothing"][0] if shape.get("smoothing") and shape["naive"] in ("season", "change") else 1
    mean = f", the mean of the last {count:g}" if count > 1 else ""
    drift = ", with drift" if report.linear_parameters else ""
    return f"seasonal naive (seasons of {shape['season']} steps{mean}{drift})"


def _closed_form(report: FitReport, degree: int | None = None) -> str:
    """The nonlinear closed form that is the whole step, in words; empty if there is another part or none."""
    if report.correction_weight or report.part not in ("polynomial", "flow"):
        return ""
    if report.part == "polynomial":
        return "polynomial" if degree is None else f"polynomial of degree {degree}"
    flow = report.structure.get("flow")
    sines, gaussians = (isinstance(flow, dict) and bool(flow.get(name)) for name in ("angle", "lenses"))
    return flow_words(sines, gaussians, degree)


def _network(recipe: Recipe, report: FitReport) -> str:
    closed = _closed_form(report)
    if closed:
        return f"none: a {_closed_form(report, report.degree)} did best on held-out rollouts"
    if not report.model or not report.correction_weight:
        best = "this" if report.part in NAIVE else "the linear part"
        return f"none: no network did better than {best} on held-out rollouts"
    if report.part == "lens":
        drawn = "drawn and trained" if report.structure.get("factors") else "drawn"
        return f"{_many(report)}; lenses {drawn}, readout solved in closed form"
    tuned = f", fine-tuned over {report.unroll} steps" if report.unroll else ""
    weight = "" if recipe.recipe == "paper" else f"correction weight {report.correction_weight:.3g}, "
    return f"{_many(report)}; {weight}{report.updates:,} updates{tuned}"


def _many(report: FitReport) -> str:
    names = (
        ("width", report.width),
        ("depth", report.depth),
        ("basis", report.basis),
        ("optical length", report.optical_length),
    )
    sizes = ", ".join(f"{name} {value:g}" for name, value in names if value is not None)
    many = "one" if report.members == 1 else f"the mean of {report.members}"
    return f"{many} of kind {report.model!r} ({sizes})"


def _parameters(report: FitReport) -> str:
    if report.part in NAIVE:
        return f"{report.parameters:,}"
    each = (
        f"{report.parameters_per_member:,} in each network, "
        if report.parameters_per_member and report.correction_weight
        else ""
    )
    solved = _closed_form(report) or "linear part"
    return f"{report.parameters:,} ({each}{report.linear_parameters:,} in the {solved})"


def _held_out(report: FitReport) -> str:
    if math.isnan(report.held_out_nmse):
        return ""
    count = len(report.candidates)
    tried = f"; {count} candidate{'s' if count > 1 else ''} tried" if count else ""
    apart = report.part not in LINEAR and not math.isnan(report.linear_nmse)
    error, alone = f"{report.held_out_nmse:.3g}", f"{report.linear_nmse:.3g}"
    beside = f" (linear part alone {alone})" if apart and alone != error else ""
    return f"normalised mean square error {error}{beside} over {report.held_out_steps} steps{tried}"


def _by_lead(report: FitReport) -> list[str]:
    """Errors at a few lead times, a line for the model and for each simple method beside it."""
    if not report.skill or not report.lead_times:
        return []
    places = lead_columns(report.lead_times, _LEADS)
    width = max(map(len, (OURS, *report.skill)))
    rows = [("steps ahead", [f"{report.lead_times[k]}" for k in places])]
    cells = {name: [number(values[k]) for k in places] for name, values in report.skill.items()}
    if report.part in LINEAR and cells.get("linear map") == cells.get("model"):
        cells.pop("linear map", None)  # it is the model
    rows += [(OURS if name == "model" else name, cells) for name, cells in cells.items()]
    # Spaces that do not break keep a row on its line.
    return [f"{name:<{width}}{''.join(f'{cell:>10}' for cell in cells)}".replace(" ", "\xa0") for name, cells in rows]


def _intervals(report: FitReport) -> str:
    if report.coverage_90 is None:
        return ""
    return f"90 % intervals cover {report.coverage_90:.0%} of held-out states"


def _chaos(layout: Layout, report: FitReport) -> str:
    if report.exponent is None:
        return ""
    time = human_time(1.0 / report.exponent, layout.time_unit)
    return f"neighbouring rollouts separate by a factor e in about {time} (one Lyapunov time)"


def _coverage(report: FitReport) -> str:
    if report.coverage is None or not report.correction_weight:
        return ""
    return f"{1 - report.coverage:.1%} of hidden positions lie between the control points on the training data"
