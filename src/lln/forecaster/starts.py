"""Where a rollout starts, and with what inputs: any kind of array or table, read as windows of flat states."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from lln.core.errors import InputError, did_you_mean
from lln.data.interpret.calendar import LOCAL, dates_of, first_date, step_numbers, time_zone
from lln.data.interpret.cells import counted_dates, months_of_years, text_dates
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset
from lln.data.stream import lagged_rows
from lln.forecaster.layout import Layout
from lln.forecaster.results import STATE, Start
from lln.step.frame import Array

if TYPE_CHECKING:
    import pandas
    import xarray

    from lln.fit.options import FitReport


@dataclass(frozen=True)
class Present:
    """The end of the training data: the time of its last state, and the known inputs there with their lags."""

    time: float
    inputs: Sequence[float]


def last_start(window: Array, time: float, report: FitReport) -> Start:
    """The start where training ended."""
    filled = np.isin(np.arange(window.size), report.last_filled).reshape(window.shape)
    return Start(window, time=time, filled=filled, names=(report.last_trajectory,) if report.last_trajectory else ())


def read_start(x0: Any, layout: Layout, history: int, *, gaps: bool = False) -> Start:
    """`x0` (an array, xarray object or table) as windows of `history` states; `gaps` lets NaN through."""
    module = type(x0).__module__.partition(".")[0]
    if module == "xarray":
        start = _from_xarray(x0, layout, history)
    elif module == "pandas":
        start = _from_table(x0, layout, history)
    else:
        start = _from_array(x0, layout, history)
    if layout.filling is not None and not gaps:
        start = replace(start, window=layout.filling.of_windows(start.window), filled=np.isnan(start.window))
    if not (gaps or np.isfinite(start.window).all()):
        bad = tuple(map(int, np.argwhere(~np.isfinite(start.window))[0]))
        raise InputError(
            f"x0 is {start.window[bad]} in coordinate {layout.names[bad[-1]]!r}; a rollout must start at finite states"
        )
    return start


def _from_array(x0: Any, layout: Layout, history: int) -> Start:
    values, kind, shape = numbers("x0", x0), "flat", layout.shape
    if not values.ndim:
        raise InputError(
            f"x0 is a single number ({values:g}), but a start is an array of shape ({layout.size},); give a number of "
            "steps by name, as in steps=500"
        )
    if values.ndim == 1 and layout.size == 1 and len(values) > 1:  # a series
        values = values[:, None]
    if layout.space and len(shape) > 1 and values.shape[-len(shape) :] == shape:
        values, kind = values.reshape(*values.shape[: -len(shape)], layout.size), "field"
    if values.shape[-1] != layout.size:
        raise InputError(_expected(values.shape, layout, history), topic="other-size")
    if history > 1 and (values.ndim < 2 or values.shape[-2] != history):
        raise InputError(_too_few(values.shape, layout, history))
    if history == 1 and not (values.ndim > 2 and values.shape[-2] == 1):
        values = values[..., None, :]
    return Start(values, kind)


def numbers(what: str, values: Any) -> Array:
    """`values` as a new float64 array; refused in one sentence if they are not numbers."""
    if type(values) is np.ndarray and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} must be an array of numbers, got rows of unequal length") from None
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{what} must be an array of numbers, got objects ({error})") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must be an array of numbers, got {array.dtype} in {type(values).__name__}")
    return array.astype(np.float64)


def _expected(shape: tuple[int, ...], layout: Layout, history: int) -> str:
    wanted = f"(..., {layout.size})" if history == 1 else f"(..., {history}, {layout.size})"
    turned = len(shape) == 2 and shape[0] == layout.size
    field = f" or fields (..., {', '.join(map(str, layout.shape))})" if len(layout.shape) > 1 else ""
    # The first words are those that scikit-learn requires of every estimator.
    return (
        f"X has {shape[-1] if shape else 0} features, but LensForecaster is expecting {layout.size} features as input "
        f"({layout.listing()}): give states of shape {wanted}{field}, got {shape}"
        f"{'; it looks transposed, give its .T' if turned else ''}"
    )


def _too_few(shape: tuple[int, ...], layout: Layout, history: int) -> str:
    return (
        f"x0 has shape {shape}, but this model looks at {history} states at a time: give the last {history} states, "
        f"oldest first, as ({history}, {layout.size}) for one start or (B, {history}, {layout.size}) for many"
    )


def _from_xarray(x0: xarray.DataArray | xarray.Dataset, layout: Layout, history: int) -> Start:
    import xarray as xr

    kind = "dataset" if isinstance(x0, xr.Dataset) else "dataarray"
    array, name = _one_array(x0, layout) if isinstance(x0, xr.Dataset) else (x0, None)
    time, given = layout.time_name, list(layout.directions)
    missing = [dim for dim in given if dim not in array.dims]
    if missing:
        raise InputError(
            f"x0 has no dimension {missing[0]!r}{did_you_mean(missing[0], map(str, array.dims))}", topic="unknown-name"
        )
    array = _in_order(array, layout)
    stacked = _stack_dimensions(array, layout, {time, *given}) if len(layout.shape) > len(given) else ()
    if stacked is None:
        array, stacked = array.expand_dims(STATE, axis=-1), (STATE,)
    elif name is None and kind == "dataset" and layout.space and len(layout.shape) == len(given):
        array = array.squeeze(STATE, drop=True)
    state = [*stacked, *given]
    lead = [dim for dim in array.dims if dim not in {time, *state}]
    clock = np.ravel(array.coords[time].values)[-1] if time in array.coords else None
    if time not in array.dims:
        array = array.expand_dims(time)
    array = array.transpose(*lead, time, *state)
    if array.sizes[time] < history:
        raise InputError(_too_few(tuple(array.shape), layout, history))
    values = numbers("x0", array.isel({time: slice(-history, None)}).values)
    shape = values.shape[: len(lead) + 1]
    if values.size != np.prod(shape) * layout.size:
        raise InputError(_expected(tuple(array.shape), layout, history), topic="other-size")
    template = array.isel({time: -1}, drop=True)
    return Start(values.reshape(*shape, layout.size), kind, clock, template, name)


def _one_array(x0: xarray.Dataset, layout: Layout) -> tuple[xarray.DataArray, str | None]:
    """The state of an xarray Dataset as one array, and the variable's name if it is a single one."""
    absent = [name for name in layout.variables if name not in x0.data_vars]
    if not absent:
        return x0[list(layout.variables)].to_dataarray(STATE), None
    if len(x0.data_vars) == 1:
        name = str(next(iter(x0.data_vars)))
        return x0[name], name
    raise InputError(
        f"x0 has no variable {absent[0]!r}{did_you_mean(absent[0], map(str, x0.data_vars))}", topic="unknown-name"
    )


def _in_order(array: xarray.DataArray, layout: Layout) -> xarray.DataArray:
    """A dimension whose labels are the coordinates (or channels) in another order, in the model's."""
    for dim in array.dims:
        (labels,) = _labels(array, (dim,))
        if set(labels) == set(layout.variables) and len(labels) == len(layout.variables):
            return array.isel({dim: [labels.index(name) for name in layout.variables]})
    return array


def _stack_dimensions(array: xarray.DataArray, layout: Layout, taken: set[str]) -> Any:
    """The dimensions along which coordinates (or channels) lie: by their labels, else one by its size, else None."""
    count = layout.shape[0]
    free = [dim for dim in array.dims if dim not in taken]
    for several in range(1, len(free) + 1):
        for dims in permutations(free, several):
            fits = math.prod(array.sizes[dim] for dim in dims) == count
            if fits and ["_".join(parts) for parts in product(*_labels(array, dims))] == list(layout.variables):
                return dims
    alike = [dim for dim in free if array.sizes[dim] == count]
    if alike:
        return (alike[-1],)
    if count == 1:
        return None
    raise InputError(_expected(tuple(array.shape), layout, 1), topic="other-size")


def _labels(array: xarray.DataArray, dims: tuple[Any, ...]) -> list[list[str]]:
    """Labels along each dimension, or numbers where there are none."""
    return [list(map(str, array[dim].values)) for dim in dims]  # xarray counts where there are no labels


def _from_table(x0: pandas.DataFrame | pandas.Series[Any], layout: Layout, history: int) -> Start:
    import pandas as pd

    table = x0.to_frame().T if isinstance(x0, pd.Series) else x0
    columns = [str(column) for column in table.columns]
    if not set(layout.names) <= set(columns):
        absent = next(name for name in layout.names if name not in columns)
        raise InputError(f"x0 has no column {absent!r}{did_you_mean(absent, columns)}", topic="unknown-name")
    chosen = [table.columns[columns.index(name)] for name in layout.names]
    values = numbers("x0", table[chosen].to_numpy())
    if len(table) < history:
        raise InputError(_too_few(values.shape, layout, history))
    given: Any = None
    if layout.time_name in columns:
        given = table[table.columns[columns.index(layout.time_name)]]
    elif table.index.name == layout.time_name or isinstance(table.index, pd.DatetimeIndex):
        given = table.index
    else:
        given = _dated_column(table, layout)
    times = None if given is None else _as_dates(_clock(given.to_numpy(), layout.time_name), table, layout)
    zone = "" if given is None else str(getattr(given.dtype, "tz", None) or "")
    if zone and layout.time_zone.startswith(LOCAL):
        moments = pd.DatetimeIndex(given).tz_convert(time_zone(layout.time_zone)).tz_localize(None)
        times = moments.to_numpy()
    if len(table) == history or history > 1:
        if times is not None and history > 1 and (times[1:] < times[:-1]).all():  # the newest row first, as in files
            values, times = values[::-1], times[::-1]
        # As of an xarray object, its end counts.
        return Start(values[-history:], "table", None if times is None else times[-1], zone=zone)
    return Start(values[:, None, :], "table", times, zone=zone)


def _dated_column(table: pandas.DataFrame, layout: Layout) -> Any:
    """The column beside states and inputs that holds dates, whatever its name; None if there is no single one."""
    if first_date(layout.units.get(layout.time_name, "")) is None:
        return None
    rest = [table[name] for name in table.columns if str(name) not in (*layout.names, *layout.input_names)]
    dated = []
    for column in rest:
        values = column.to_numpy()
        if column.dtype.kind == "M" or counted_dates(values, fewest=1) is not None:
            dated.append(column)
        elif values.dtype.kind == "O" and (found := text_dates(column, "x0")) is not None:
            dated.append(type(column)(found))
    return dated[0] if len(dated) == 1 else None


def _as_dates(times: Any, table: pandas.DataFrame, layout: Layout) -> Any:
    """Numbers that are dates in tables, such as 20240131 or 1949.083, as dates if those of the model are."""
    if times.dtype.kind not in "fiu" or first_date(layout.units.get(layout.time_name, "")) is None:
        return times
    days = counted_dates(times, fewest=1)
    if days is not None:
        return days
    falls = len(times) > 1 and times[0] > times[-1]
    dates = None if layout.frequency is None else months_of_years(times[::-1] if falls else times, fewest=2)
    if dates is None:
        with suppress(InputError):
            data = as_dataset(table, states=list(layout.variables), inputs=list(layout.input_names) or None)
            dates = dates_of(data.times(), data.units.get("time", ""), data.frequency)
    if dates is None or len(dates) != len(times):
        return times
    return dates[::-1] if falls else dates


def _clock(times: Any, name: str) -> Any:
    """Times of a table: numbers, dates, or dates as text."""
    import pandas as pd

    if times.dtype.kind in "fiumM":
        return times
    try:
        return times.astype(np.float64)
    except (TypeError, ValueError):
        pass
    try:
        return pd.to_datetime(times, utc=True, format="ISO8601").tz_localize(None).to_numpy()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"x0 has times in {name!r} that are neither numbers nor dates; write dates as 2024-01-31 or "
            "2024-01-31T12:00:00, or times as numbers"
        ) from error


def read_inputs(
    inputs: Any, layout: Layout, steps: int, lead: tuple[int, ...], present: Present | None = None, lags: int = 0
) -> Array:
    """Known inputs for every step of a rollout with their lags, (*lead, steps, (lags + 1) m).

    Args:
        inputs: a number for each input, constant in time: (m,), or a value for each step: (steps, m), or of its own for
            each start: (..., steps, m). A table or a mapping names them. A path is a file of the inputs, a row for each
            step from the present state on; rows beyond the last step are not used. With lags, arrays of (lags + steps)
            rows begin with those before the start.
        layout: names the inputs.
        steps: of the rollout.
        lead: shape of the starts.
        present: the end of the training data, if the rollout starts there; rows with dates are then matched to it, and
            earlier inputs are known.
        lags: number of earlier rows that a step looks at.
    """
    names = layout.input_names
    if not names:
        raise InputError("this model was fitted without known inputs; leave inputs= out, or fit it with them")
    rows = steps if present is not None else lags + steps
    if inputs is None:
        early = f", which begin with the {lags} before the start" if rows > steps else ""
        raise InputError(
            f"this model was fitted with known inputs ({', '.join(names)}); give inputs= as ({len(names)},) if they "
            f"stay constant, or as ({rows}, {len(names)}) for {steps} steps{early}",
            topic="inputs-needed",
        )
    if isinstance(inputs, str | os.PathLike):
        inputs = _from_file(inputs, layout, steps, present)
    values = numbers("inputs", _columns(inputs, names))
    if values.ndim == 0 and len(names) == 1:
        values = values[None]
    m = len(names)
    allowed = [(m,), *((*some, count, m) for count in dict.fromkeys((steps, lags + steps)) for some in ((), lead))]
    if values.shape not in allowed:
        shapes = " or ".join(str(shape) for shape in dict.fromkeys(allowed))
        raise InputError(f"inputs must have shape {shapes} ({', '.join(names)}), got {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("inputs must be finite, got NaN or infinity")
    count = steps if values.ndim == 1 else values.shape[-2]
    whole = np.broadcast_to(values, (*lead, count, m))
    if not lags:
        return whole
    if count == lags + steps:
        return lagged_rows(whole, lags)
    if present is not None and len(present.inputs) == (lags + 1) * m:
        before = np.reshape(present.inputs, (lags + 1, m))[:0:-1]  # the present first, the oldest last
    else:
        before = whole[..., :1, :]
        if values.ndim > 1:
            warnings.warn(
                f"this model looks at the known inputs of {lags} earlier steps, which are not given, so the first row "
                f"is used for them; give {lags + steps} rows that begin with the {lags} before the start",
                stacklevel=5,
            )
    return lagged_rows(np.concatenate([np.broadcast_to(before, (*lead, lags, m)), whole], axis=-2), lags)


def _from_file(path: str | os.PathLike[str], layout: Layout, steps: int, present: Present | None) -> Array:
    """Inputs from a file that need hold nothing else, (steps, m), or (starts, steps, m) for several trajectories."""
    names = layout.input_names
    try:
        found, columns = as_dataset(path, states=list(names), inputs=()), list(range(len(names)))
    except InputError:  # a file of ours, whose columns are labels and no variables
        found = as_dataset(path, inputs=())
        columns = _input_columns(path, tuple(found.names), names)
    ahead = 0 if present is None else _steps_ahead(found, layout, present)
    if ahead > 1 or (ahead == 1 and present is not None and not present.inputs):
        raise InputError(
            f"{path}: its rows begin {ahead} steps after the last state of training; give inputs from that state on",
            topic="inputs-needed",
        )
    short = min(found.lengths) + ahead
    if short < steps:
        raise InputError(
            f"{path}: its inputs last for {max(0, short)} steps, but {steps} were asked for; give more rows or ask for "
            "fewer steps",
            topic="inputs-needed",
        )
    rows = []
    for one in found.series:
        known = np.asarray(one.rows(max(0, -ahead), steps - ahead), dtype=np.float64)[:, columns]
        bad = np.argwhere(~np.isfinite(known))
        if len(bad):
            raise InputError(
                f"{path}: its row {max(0, -ahead) + bad[0, 0]} (counted from 0) has no finite value of "
                f"{names[bad[0, 1]]!r}; each step needs one, so fill the gap"
            )
        now = [] if present is None or ahead < 1 else [present.inputs[: len(names)]]
        rows.append(np.concatenate([np.reshape(now, (-1, len(names))), known]))
    return rows[0] if len(rows) == 1 else np.stack(rows)


def _input_columns(path: str | os.PathLike[str], found: tuple[str, ...], names: tuple[str, ...]) -> list[int]:
    """Where the inputs `names` are among the columns `found` of a file; columns without names are in their order."""
    if set(names) <= set(found):
        return [found.index(name) for name in names]
    if found != tuple(f"x{i}" for i in range(len(found))):
        absent = next(name for name in names if name not in found)
        raise InputError(f"{path}: no column {absent!r} for inputs{did_you_mean(absent, found)}", topic="unknown-name")
    if len(found) != len(names):
        raise InputError(
            f"{path}: has {len(found)} columns without names, but the known inputs of this model are "
            f"{', '.join(names)}; give one column for each, in that order",
            topic="inputs-needed",
        )
    return list(range(len(names)))


def _steps_ahead(found: Dataset, layout: Layout, present: Present) -> int:
    """How many steps after the last state of training the rows begin; 0 where one of them has no dates."""
    unit = layout.units.get(layout.time_name, "")
    first = dates_of(found.times(0)[:1], found.units.get("time", ""), found.frequency)
    last = dates_of(np.array([present.time]), unit, layout.frequency)
    if first is None or last is None:
        return 0
    if layout.frequency is not None:
        return round(float(step_numbers(first, last[0], layout.frequency)[0]))
    second = dates_of(np.array([present.time + layout.dt]), unit)
    return 0 if second is None else round(float((first[0] - last[0]) / (second[0] - last[0])))


def _columns(inputs: Any, names: tuple[str, ...]) -> Any:
    """Named inputs in the model's order; anything else as it is."""
    if not (isinstance(inputs, Mapping) or type(inputs).__module__.partition(".")[0] in ("pandas", "xarray")):
        return inputs
    # A bare labelled array holds no names.
    keys = inputs if isinstance(inputs, Mapping) else getattr(inputs, "data_vars", getattr(inputs, "columns", ()))
    held = {str(key): inputs[key] for key in keys}
    if not held:
        return inputs
    for name in names:
        if name not in held:
            raise InputError(f"inputs has no {name!r}{did_you_mean(name, held)}", topic="unknown-name")
    parts = [numbers(f"inputs[{name!r}]", held[name]) for name in names]
    shape = next((part.shape for part in parts if part.ndim), ())
    return np.stack([np.broadcast_to(part, shape) if part.ndim == 0 else part for part in parts], axis=-1)
