"""Forecasts in the form of their start (an array, a field, an xarray object or a table), or as a dataset."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, finite
from lln.data.interpret.calendar import LOCAL, dates_after, time_zone
from lln.data.series import Dataset, Series
from lln.evaluate.metrics import VALID_RMSE
from lln.evaluate.rollout import Outcome, Rollout
from lln.fit.report.intervals import Intervals
from lln.forecaster import display
from lln.forecaster.layout import Layout
from lln.step.frame import Array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas
    import xarray
    from matplotlib.figure import Figure

    from lln.forecaster.forecaster import LensForecaster


STATE = "__coordinate__"  # dimension of an xarray object along which the variables of a Dataset lie


@dataclass(frozen=True, eq=False)
class Start:
    """Windows of states, and how they were given, so that an answer can have the same form."""

    window: Array  #: (..., H, n) in float64, oldest first.
    kind: str = "flat"  #: "flat" or "field" for arrays, "dataarray", "dataset" or "table".
    time: Any = None  #: of the present state, a number or a date, or one for each start; None if it is unknown.
    #: for xarray, the given object without time as a DataArray whose dimensions are the starts', then the state's; for
    #: a table None.
    template: Any = None
    name: str | None = None  #: of the single variable of an xarray Dataset that holds the whole state.
    #: name of the time zone of a table's dates, empty for dates without one; None for other kinds of starts.
    zone: str | None = None
    filled: NDArray[np.bool_] | None = None  #: values of the window that were filled in; None where none was.
    names: tuple[str, ...] = ()  #: of the trajectories of the starts, where the data has several and that is known.

    @property
    def lead(self) -> tuple[int, ...]:
        """The shape of the starts: () for one."""
        return self.window.shape[:-2]


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Rollout):
    """A rollout of a forecaster.

    Attributes:
        states: the start and the states after it, of the same kind as the start: an array (..., steps + 1, n), a field
            (..., steps + 1, *grid), an xarray object or a table.
        outcomes: how each rollout ended: finished, left the region that training covered, or diverged.
        array: the same states as a flat float64 array (..., steps + 1, n), for every kind of start.
        times: of the states, (steps + 1,): numbers or dates; (starts, steps + 1) where the rows of a table start at
            different times.
        layout: names, units and grid.
        start: the start as it was given.
        extra: names of dimensions in front of the starts, such as "member".
        scale: standard deviation of each coordinate in the training data, (n,); the unit of the valid prediction time.
        lower: lower bound of the prediction interval at `level`, flat like `array`; None where none was asked for.
        upper: upper bound, likewise.
        level: probability of the interval.
    """

    states: Any
    array: Array
    times: Any
    layout: Layout
    start: Start
    extra: tuple[str, ...] = ()
    scale: Array | None = None
    lower: Array | None = None
    upper: Array | None = None
    level: float | None = None

    @property
    def predicted(self) -> Any:
        """The states after the start, of the same kind as `states`."""
        return shaped(self.array[..., 1:, :], self.times[..., 1:], self.start, self.layout, self.extra)

    @property
    def bounds(self) -> dict[str, Array]:
        """The bounds of the interval by name, "lower" and "upper"; empty without an interval."""
        return {} if self.lower is None or self.upper is None else {"lower": self.lower, "upper": self.upper}

    @property
    def dates(self) -> Any:
        """The times as dates where the training data has dates, otherwise the same as `times`."""
        return self.times if self.start.time is None else display.real_times(self.times, self.layout)

    def times_before(self, count: int) -> Any:
        """Times of the last `count` states up to the start, which is the last; dates as in `dates`."""
        times = _times_at(self.start.time, self.layout.dt, np.arange(1 - count, 1), self.layout.frequency)
        return times if self.start.time is None else display.real_times(times, self.layout)

    def to_xarray(self) -> xarray.Dataset:
        """The states as an xarray Dataset: one variable for each coordinate (or field), with times, grid and units.

        An interval adds variables named "<name> lower" and "<name> upper". Where starts have different times, these
        label the starts, and time counts from each of them.
        """
        import xarray as xr

        times = self.dates
        lead = _lead_names(self.array.ndim - 2, self.extra)
        dims = (*lead, self.layout.time_name, *self.layout.directions)
        coords = _coords(times, self.layout, self.start)
        if times.ndim > 1:
            coords[lead[-1]] = (lead[-1], times[:, 0])
        variables = {}
        for suffix, values in (("", self.array), *self.bounds.items()):
            for name, part in zip(self.layout.variables, _by_variable(values, self.layout), strict=True):
                variables[f"{name} {suffix}".rstrip()] = (dims, part, _units(self.layout, name))
        return xr.Dataset(variables, coords)

    def to_pandas(self) -> pandas.DataFrame:
        """The states as a table: one column for each coordinate, one row for each time.

        An interval adds columns named "<name> lower" and "<name> upper". Several rollouts have an index with a level
        for the starts in front of the time. Dates are in the time zone of the start, if that is a table, otherwise of
        the training data.
        """
        import pandas as pd

        tables: list[pandas.DataFrame] = [_table(self.array, self.dates, self.start, self.layout, self.extra)]
        for suffix, values in self.bounds.items():
            table = _table(values, self.dates, self.start, self.layout, self.extra)
            tables.append(table.add_suffix(f" {suffix}"))
        return pd.concat(tables, axis=1) if len(tables) > 1 else tables[0]

    def plot(
        self,
        truth: Any = None,
        *,
        start: int = 0,
        coordinates: Sequence[str] | None = None,
        threshold: float = VALID_RMSE,
        title: str | None = None,
    ) -> Figure:
        """Draw the forecast: curves over time, a field over time, or snapshots of a field in the plane.

        The states before the start that the first step uses are drawn too. An interval is shaded. A dashed line
        marks where the forecast stops being valid (with a truth) and where it leaves the region that training covered.

        Args:
            truth: the true states: an array of the rows after the start, or with the start as its first row, or data
                with times (a table, an xarray object, a path), of which the rows at the forecast's times are taken.
            start: which of several starts to draw.
            coordinates: names of the coordinates (or of the field) to draw; the first eight by default.
            threshold: error, in standard deviations of the training data, up to which a prediction counts as valid.
            title: title of the figure.

        Returns:
            A matplotlib figure, which notebooks show.
        """
        return display.plot_forecast(self, truth, start, coordinates, threshold, title)

    def __repr__(self) -> str:
        return display.forecast_words(self)

    def _repr_html_(self) -> str:
        return display.forecast_html(self)


def forecast(
    run: Rollout, start: Start, layout: Layout, extra: tuple[str, ...] = (), scale: Array | None = None
) -> Forecast:
    """The judged flat rollout `run`, states (..., steps + 1, n) and outcomes, in the form of its start."""
    array = np.asarray(run.states, dtype=np.float64)
    times = times_after(start.time, layout.dt, array.shape[-2], layout.frequency)
    return Forecast(shaped(array, times, start, layout, extra), run.outcomes, array, times, layout, start, extra, scale)


def check_level(intervals: Mapping[str, Any], level: float) -> Intervals:
    """The intervals of a report, if it has them and they support `level`."""
    value = finite("level", level)
    if not intervals:
        raise InputError("this model has no prediction intervals: it was made without held-out rows; fit it again")
    found = Intervals.from_record(intervals)
    least, most = found.levels[0], found.levels[-1]
    if not least <= value <= most:
        percent = f"; write {value:g} % as {value / 100:g}" if least <= value / 100 <= most else ""
        raise InputError(
            f"level must be between {least:g} and {most:g}, the range in which held-out rows give intervals, "
            f"got {value:g}{percent}"
        )
    return found


def with_bounds(found: Forecast, intervals: Intervals, level: float, spread: Array | None = None) -> Forecast:
    """The forecast with its interval at `level`; both bounds are the start itself where that is, which is known.

    `spread` is that along the rollouts, if the intervals need it.
    """
    first, after = found.array[..., :1, :], found.array[..., 1:, :]
    lower, upper = (np.concatenate([first, bound], axis=-2) for bound in intervals.bounds(after, level, spread))
    return replace(found, lower=lower, upper=upper, level=level)


def times_after(first: Any, dt: float, count: int, frequency: str | None = None) -> Any:
    """`count` times from `first`, or from each of them, in steps of `dt`, seconds or `frequency` for dates."""
    return _elapsed(dt, count).copy() if first is None else _times_at(first, dt, np.arange(count), frequency)


@lru_cache(maxsize=8)
def _elapsed(dt: float, count: int) -> Array:
    """`count` times from zero on."""
    return np.arange(count, dtype=np.float64) * dt


def _times_at(first: Any, dt: float, steps: Any, frequency: str | None) -> Any:
    start = np.asarray(0.0 if first is None else first)[..., None]
    if start.dtype.kind == "M" and frequency is not None:
        return dates_after(start.astype("M8[ns]"), steps, frequency)
    if start.dtype.kind in "mM":
        return start.astype(f"{start.dtype.kind}8[ns]") + (steps * round(dt * 1e9)).astype("m8[ns]")
    return start.astype(np.float64) + steps * dt


def shaped(states: Array, times: Any, start: Start, layout: Layout, extra: tuple[str, ...] = ()) -> Any:
    """Flat states (..., time, n) in the form of `start`."""
    if start.kind == "flat":
        return states
    if start.kind == "field":
        return states.reshape(*states.shape[:-1], *layout.shape)
    if start.kind == "table":
        return _table(states, times, start, layout, extra)
    return _labelled(states, times, start, layout, extra)


def one_step(states: Array, start: Start, layout: Layout, ahead: int = 1) -> Any:
    """Flat states (..., 1, n), `ahead` steps after the start's present, in the form of `start` without a time axis."""
    if start.kind in ("flat", "field"):
        return shaped(states[..., 0, :], None, start, layout)
    times = _times_at(start.time, layout.dt, np.array([ahead]), layout.frequency)
    whole = shaped(states, times, start, layout)
    return whole if start.kind == "table" else whole.isel({layout.time_name: 0})


def _labelled(states: Array, times: Any, start: Start, layout: Layout, extra: tuple[str, ...]) -> Any:
    """As xarray: the dimensions and coordinates of the start, with time between the starts' and the state's."""
    import xarray as xr

    template: xr.DataArray = start.template
    lead = template.dims[: len(start.lead)]
    inner = template.dims[len(start.lead) :]
    kept = {key: value for key, value in template.coords.items() if layout.time_name not in value.dims}
    values = states.reshape(*states.shape[:-1], *(template.sizes[dim] for dim in inner))
    array = xr.DataArray(
        values,
        dims=(*extra, *lead, layout.time_name, *inner),
        coords={**kept, layout.time_name: _coords(times, layout, start)[layout.time_name]},
        name=template.name,
        attrs=template.attrs,
    )
    if start.kind == "dataarray":
        return array.squeeze(STATE, drop=True) if STATE in array.dims else array
    if start.name is not None:
        return array.to_dataset(name=start.name)
    if STATE not in array.dims:
        return array.to_dataset(name=layout.variables[0]).assign_attrs(template.attrs)
    whole = array.to_dataset(STATE)
    return whole.assign({name: whole[name].assign_attrs(_units(layout, name)) for name in layout.variables})


def _table(states: Array, times: Any, start: Start, layout: Layout, extra: tuple[str, ...]) -> Any:
    import pandas as pd

    there = layout.time_zone.startswith(LOCAL)
    zone = time_zone(layout.time_zone if there or start.zone is None else start.zone)

    def local(moments: Any) -> Any:
        """In the time zone, where they are dates and there is one."""
        index = pd.Index(moments)
        if zone is None or moments.dtype.kind != "M":
            return index
        if there:
            first = np.ones(len(index), dtype=bool)  # of an hour that is there twice, and after one that is left out
            return index.tz_localize(zone, ambiguous=first, nonexistent="shift_forward")
        return index.tz_localize("UTC").tz_convert(zone)

    columns = list(layout.names)
    if states.ndim == 2:
        return pd.DataFrame(states, columns=columns, index=local(times).rename(layout.time_name))
    lead = states.shape[:-2]
    names = [*_lead_names(len(lead), extra), layout.time_name]
    whole = (*lead, states.shape[-2])
    starts = np.indices(whole).reshape(len(whole), -1)[:-1]
    index = pd.MultiIndex.from_arrays([*starts, local(np.broadcast_to(times, whole).ravel())], names=names)
    return pd.DataFrame(states.reshape(-1, layout.size), columns=columns, index=index)


def _coords(times: Any, layout: Layout, start: Start) -> dict[str, Any]:
    unit = layout.units.get(layout.time_name, "")
    counted = times.ndim == 1 and start.time is not None
    times = times if times.ndim == 1 else times[0] - times[0, 0]
    if not counted:  # it does not count from the day from which the training data does
        unit = layout.time_unit
    if times.dtype.kind != "f":  # dates and durations carry their own
        unit = ""
    coords: dict[str, Any] = {layout.time_name: (layout.time_name, times, {"units": unit} if unit else {})}
    for name, values in layout.coords.items():
        coords[name] = (name, values, _units(layout, name))
    return coords


def _units(layout: Layout, name: str) -> dict[str, str]:
    return {"units": layout.units[name]} if name in layout.units else {}


def _by_variable(states: Array, layout: Layout) -> list[Array]:
    """Flat states as one array for each coordinate, or for each field on its grid."""
    if not layout.space:
        return [states[..., i] for i in range(layout.size)]
    fields = states.reshape(*states.shape[:-1], len(layout.channels), *layout.space)
    return list(np.moveaxis(fields, -1 - len(layout.space), 0))


def _lead_names(count: int, extra: tuple[str, ...]) -> tuple[str, ...]:
    starts = count - len(extra)
    return (*extra, *(("start",) if starts == 1 else tuple(f"start_{i}" for i in range(starts))))


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
        level: probability of prediction intervals, which become columns or fields "<name> lower" and "<name> upper".
        future: file of known inputs alone, where the rollout starts at the end of the training data.

    Returns:
        The start and the states after it, one trajectory for each rollout, how each rollout ended, and the forecast.
    """
    if level is not None and sample:
        raise InputError(
            "--level does not go with --sample: each member is one rollout without an interval; leave one out"
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
        run = _placed(run, given, before)
        names, starts = [one.name for one in given.series], [one.start for one in given.series]
        lead = np.broadcast_to(first[:, :-1], (*run.array.shape[:-2], before, run.array.shape[-1]))
        states = np.concatenate([lead, run.array], axis=-2)
    names_of = forecaster.layout_.variables
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


def _placed(run: Forecast, given: Dataset, before: int) -> Forecast:
    """A forecast from row `before` of each trajectory, with its times and the names of several."""
    layout = run.layout
    units = {**layout.units, layout.time_name: given.units.get("time", "")}  # it may count from another day
    layout = replace(layout, units=units, frequency=given.frequency)
    time = np.array([one.start for one in given.series]) + before * given.dt
    start = replace(run.start, time=time, names=given.labels if len(time) > 1 else ())
    return replace(run, layout=layout, start=start, times=times_after(time, given.dt, run.array.shape[-2]))


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
    """A trajectory of the data as text; one that is called like its file has no name of its own."""
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
    layout, bounds = forecaster.layout_, names[len(forecaster.layout_.variables) :]
    units = {"time" if name == layout.time_name else name: unit for name, unit in layout.units.items()}
    units |= {name: unit for name in bounds if (unit := units.get(name.rsplit(" ", 1)[0]))}
    if given is not None:  # its times may count from another day
        units = {name: unit for name, unit in units.items() if name != "time"}
        units |= {name: unit for name, unit in given.units.items() if name == "time"}
    return Dataset(
        tuple(series),
        layout.dt,
        () if layout.space and bounds else layout.names + bounds,
        space=layout.space,
        channels=names if layout.space or bounds else layout.channels,
        coords=layout.coords,
        time_name=layout.time_name,
        units=units,
        source="rollout",
        frequency=layout.frequency if given is None or "time" in given.units else None,
    )
