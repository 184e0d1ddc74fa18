"""Whatever holds trajectories, as a `Dataset`: arrays, lists of them, frames, xarray objects, files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, positive
from lln.data.cache import simulated_states
from lln.data.interpret.arrays import as_array, nested_numbers, shares
from lln.data.interpret.description import Choices
from lln.data.interpret.interpret import interpret, join
from lln.data.read.formats import read
from lln.data.read.store import ReadTable, Store, xarray_store
from lln.data.series import Array, Dataset, Series, as_states
from lln.systems import System


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One trajectory: a row for each time, a column for each coordinate.

    Args:
        states: (time, n), finite, at least two rows. float32 and float64 are kept, anything else becomes float64.
        dt: time between neighbouring rows.
        names: a name for each column; `x0`, `x1`, ... if left out.
        grid: position of each column in space if the state is one field, (n,).
        name: what it is called in messages and figures.
    """

    states: Array
    dt: float
    names: tuple[str, ...] = ()
    grid: Array | None = None
    name: str = "trajectory"

    def __post_init__(self) -> None:
        """Check everything, and say where the first fault is."""
        states = as_states(self.states, self.name)
        names = tuple(self.names) or tuple(f"x{i}" for i in range(states.shape[1]))
        if len(names) != states.shape[1]:
            raise InputError(f"{self.name}: {states.shape[1]} columns but {len(names)} names; give one for each")
        if states.shape[0] < 2:
            raise InputError(f"{self.name}: one time step has no transition to learn from; give at least two rows")
        if self.grid is not None and np.shape(self.grid) != (states.shape[1],):
            raise InputError(f"{self.name}: grid must have shape ({states.shape[1]},), got {np.shape(self.grid)}")
        bad = np.argwhere(~np.isfinite(states))
        if len(bad):
            row, column = map(int, bad[0])
            raise InputError(
                f"{self.name}: {states[row, column]} at time index {row} in column {names[column]!r} "
                f"({len(bad)} such values in all); states must be finite, so repair or cut those rows"
            )
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "dt", positive(f"{self.name}: dt", self.dt))

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self.states.shape[1])

    def __len__(self) -> int:
        return int(self.states.shape[0])

    @property
    def times(self) -> Array:
        """Time of each row, from zero."""
        return np.arange(len(self)) * self.dt

    def cut(self, first: int, last: int) -> Trajectory:
        """Rows first to last - 1 as a trajectory of their own, whose clock starts at zero again."""
        return Trajectory(self.states[first:last], self.dt, self.names, self.grid, self.name)


def simulate(system: System, steps: int, *, start: ArrayLike | None = None, dtype: str = "float32") -> Trajectory:
    """Simulate `system` over `steps` steps, the start first; the result is cached by its content."""
    states = simulated_states(system, steps, starts=start, dtype=dtype)
    return Trajectory(states, system.dt, system.coordinates, system.grid, system.name)


simulated = simulate  # the name in version 0.1
__all__ = ["Dataset", "Series", "as_dataset"]


def as_dataset(
    x: Any,
    *,
    dt: float | None = None,
    inputs: Any = None,
    weights: Any = None,
    names: Sequence[str] | None = None,
    grid: Any = None,
    time: Any = None,
    states: str | Sequence[str] | None = None,
    trajectory: str | None = None,
    resample: bool = False,
) -> Dataset:
    """Trajectories from whatever holds them.

    Args:
        x: an array (time, n), (time,) for one column, or (trajectories, time, n), a list of arrays (time, n) of any
            lengths, an xarray object, a DataFrame, a `Trajectory`, a path or a list of paths, or a list of these. A
            `Dataset` is returned as it is.
        dt: time between rows; found from the times if there are any, else 1.
        inputs: known forcing or parameters. For arrays: (time, m), or (m,) if constant, for one trajectory, a list of
            these for several, or a mapping from names to such. For files, frames and xarray: names of variables.
        weights: how much each row counts: (time,), a list of these for several trajectories, or a variable's name.
        names: a name for each column.
        grid: for states that are fields: lengths of the grid, or positions along each dimension, or a mapping from
            names of dimensions to positions. Columns run through the fields, then through space in C order.
        time: for arrays: the times of the rows, or the axis of time (0 or 1) where rows and columns could be mistaken.
            For files, frames and xarray: the name of time, or the axis where a file has no names for axes and no times.
        states: name or names of the variables or columns that are the state.
        trajectory: name of the dimension or column that separates trajectories.
        resample: interpolate uneven times onto an even grid instead of refusing them.
    """
    if isinstance(x, Dataset):
        return x
    choices = Choices(dt, inputs, weights, names, grid, time, states, trajectory, resample)
    if isinstance(x, (str, os.PathLike)):
        return read(x, **vars(choices))
    if isinstance(x, Trajectory):
        return _of_trajectory(x)
    kind = type(x).__module__.partition(".")[0]
    if kind == "xarray":
        return interpret(_of_xarray(x), choices)
    if kind == "pandas":
        return interpret(ReadTable(x), choices)
    if isinstance(x, Mapping):
        raise InputError(
            "a mapping is not read as trajectories; give an array, or an xarray.Dataset for named variables"
        )
    if isinstance(x, (list, tuple)) and x and not nested_numbers(x):
        return _of_list(list(x), vars(choices))
    if states is not None or trajectory is not None:
        raise InputError(
            "states= and trajectory= name variables of files, frames and xarray objects; an array has none"
        )
    return interpret(as_array(x), choices)


def _of_xarray(x: Any) -> Store:
    if hasattr(x, "to_dataset") and not hasattr(x, "data_vars"):
        x = x.to_dataset(name=str(x.name or "states"))
    if not hasattr(x, "data_vars"):
        raise InputError(f"{type(x).__name__} of xarray is not read as trajectories; give a DataArray or a Dataset")
    return xarray_store(x, "xarray")


def _of_trajectory(x: Trajectory) -> Dataset:
    plain = Dataset((Series(x.states, name=x.name),), x.dt, x.names, source=x.name)
    if x.grid is None:
        return plain
    channel = x.names[0].rstrip("0123456789") or "states"
    return replace(plain, space=(x.size,), channels=(channel,), coords={"x": np.asarray(x.grid)})


def _of_list(items: list[Any], options: dict[str, Any]) -> Dataset:
    """A list of trajectories, each with its own share of what was given for all."""
    split = {key: shares(key, options[key], len(items)) for key in ("inputs", "weights", "time")}
    parts = []
    for index, item in enumerate(items):
        mine = options | {key: share[index] for key, share in split.items()}
        plain = not isinstance(item, (str, os.PathLike, Trajectory, Dataset))
        part = as_dataset(_list_item(item, index, mine["grid"]) if plain else item, **mine)
        if part.source == "array":
            part = replace(part, series=tuple(replace(one, name=f"trajectory {index}") for one in part.series))
        parts.append(part)
    return join(parts)


def _list_item(item: Any, index: int, grid: Any) -> Any:
    if type(item).__module__.partition(".")[0] in ("xarray", "pandas"):
        return item
    array = as_array(item)
    if grid is None and len(array.shape) not in (1, 2):
        raise InputError(
            f"trajectory {index} of the list must have shape (time, n) or (time,), got {array.shape}; fields need grid="
        )
    # One more axis in front says that this is one trajectory, so that (time, channels, x) is not misread.
    return array[None] if isinstance(array, np.ndarray) and len(array.shape) > 2 else array
