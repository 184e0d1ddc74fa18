"""The variables of a file or an xarray object, described by the roles that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret import calendar
from lln.data.interpret.description import Choices, Description, Part, grid_of
from lln.data.interpret.roles import CHANNEL_DIMS, STATE_DIMS, Roles, hints_of, roles_of, with_axis, with_dims
from lln.data.read.store import LazyRows, Store, held, stays_on_disk

SPACE_NAMES = ("x", "y", "z", "r", "lon", "lat", "longitude", "latitude", "space", "level", "depth", "height", "point")


def describe_store(store: Store, choices: Choices) -> Description:
    """Find the roles of the variables of `store`."""
    timeless = choices.timeless
    store, choices = with_axis(store, replace(choices, time=None) if timeless else choices)
    hints = hints_of(store)
    store = with_dims(store, choices, hints)
    roles = roles_of(store, choices)
    roles = replace(roles, time=None, named=True) if timeless else roles
    return _Variables(store, roles, choices, hints).description()


class Labels(NamedTuple):
    """Names and grid of the columns, as in `Dataset`."""

    names: tuple[str, ...]
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    coords: Mapping[str, NDArray[Any]] = {}


class _Variables:
    """One store and the roles of its variables."""

    def __init__(self, store: Store, roles: Roles, choices: Choices, hints: Mapping[str, Any]) -> None:
        self.store, self.roles, self.choices, self.hints = store, roles, choices, hints
        first = store.variables[roles.states[0]]
        self.dims, self.sizes = first.dims or (), first.sizes
        self.texts = {dim: self._texts(dim, self.sizes[dim]) for dim in roles.rest}
        self.naming = self._naming()
        space = tuple(dim for dim in roles.rest if dim not in self.naming)
        self.roles = replace(roles, rest=(*self.naming, *space))
        if 0 in self.sizes.values():
            raise InputError(
                f"{store.source}: {roles.states[0]!r} is empty, shape {tuple(first.array.shape)}; give at least two "
                "times"
            )
        self.rows = self.sizes[roles.time_dim]
        self.count = self.sizes.get(roles.trajectory_dim or "", 1)
        for name in (roles.states[0], roles.time, *roles.inputs, roles.weights):
            if name is not None:
                self._check_axes(name)

    def _check_axes(self, name: str) -> None:
        """Refuse a variable that names an axis twice, or has another number of trajectories than the states."""
        one = self.store.variables[name]
        dims = one.dims or ()
        if len(set(dims)) < len(dims):
            raise InputError(f"{self.store.source}: {name!r} has the dimensions {dims}; every axis needs its own name")
        found = one.sizes.get(self.roles.trajectory_dim or "", self.count)
        if found != self.count:
            raise InputError(
                f"{self.store.source}: {name!r} has {found} trajectories, but {self.roles.states[0]!r} has "
                f"{self.count}; give one for each"
            )

    def description(self) -> Description:
        """Put everything together."""
        store, roles, hints = self.store, self.roles, self.hints
        lengths = self._each("length", self.rows)
        starts = self._each("start", 0.0)
        states = self._columns_of(roles.states, roles.rest)
        inputs, input_names = self._inputs()
        parts = []
        for index in range(self.count):
            name = store.source if self.count == 1 else f"{store.source}, trajectory {index}"
            rows = int(min(max(1, lengths[index]), self.rows))
            clock, weight = self._times(index, rows), self._weights(index, rows)
            parts.append(Part(name, clock, states(index, rows), inputs(index, rows), weight, float(starts[index])))
        labels, notes = self._labels(), store.notes
        if self.dims[0] == "state" and roles.time is not None:
            notes = (*notes, f"{store.source}: {roles.states[0]!r} has time along its rows and was transposed")
        return Description(
            store.source,
            parts,
            labels.names,
            input_names,
            *labels[1:],
            roles.time_dim,
            self._units(),
            notes,
            hints.get("system", ""),
            hints.get("dt"),
            "" if roles.time is None else str(store.variables[roles.time].attrs.get("calendar", "")),
            calendar.checked_alias(hints.get("frequency")),
            roles.time is None and not labels.space and self.count == 1 and not roles.named,
        )

    def _each(self, name: str, default: float) -> list[float]:
        """A number for each trajectory from a variable of ours."""
        if not self.hints or name not in self.store.variables:
            return [default] * self.count
        values = self.store.read(name).reshape(-1)
        usable = len(values) == self.count and values.dtype.kind in "fiu" and np.isfinite(values).all()
        return values.tolist() if usable else [default] * self.count

    def _columns_of(self, names: tuple[str, ...], rest: tuple[str, ...]) -> Callable[[int, int], Any]:
        """Rows of variables with the same axes, for a trajectory and a number of rows."""
        roles, store = self.roles, self.store
        first = store.variables[names[0]]
        dims = first.dims or ()
        axes = tuple(dims.index(dim) for dim in (roles.time_dim, *rest))
        columns = len(names) * math.prod(first.sizes[dim] for dim in rest)
        arrays = [store.variables[name].array for name in names]
        kind, lazy = np.result_type(*(array.dtype for array in arrays)), stays_on_disk(*arrays)
        reopen = store.reopen if lazy else held({name: store.read(name) for name in names})

        def rows_of(index: int, rows: int) -> Any:
            fixed = {dims.index(roles.trajectory_dim): index} if roles.trajectory_dim in dims else {}
            lazy_rows = LazyRows(reopen, names, axes, fixed, (rows, columns), kind)
            return lazy_rows if lazy else lazy_rows[:]

        return rows_of

    def _inputs(self) -> tuple[Callable[[int, int], Any], tuple[str, ...]]:
        roles, names = self.roles, self.roles.inputs
        if not names:
            return (lambda _index, _rows: None), ()
        parts, labels = [], []
        for name in names:
            sizes = self.store.variables[name].sizes
            rest = tuple(dim for dim in sizes if dim not in (roles.time_dim, roles.trajectory_dim))
            parts.append(self._columns_of((name,), rest) if roles.time_dim in sizes else self._constant(name))
            width = math.prod(sizes[dim] for dim in rest)
            labels += (self._texts(rest[0], width) if rest else None) or (
                [name] if not rest else [f"{name}{i}" for i in range(width)]
            )
        said = self.hints.get("input_names")
        labels = [str(one) for one in said] if said is not None and len(said) == len(labels) else labels

        def rows_of(index: int, rows: int) -> Any:
            found = [part(index, rows) for part in parts]
            if len(found) == 1:
                return found[0]
            return np.concatenate([np.asarray(one[:]) for one in found], axis=1)

        return rows_of, tuple(labels)

    def _constant(self, name: str) -> Callable[[int, int], Any]:
        """Inputs that do not vary in time: one row, shown at every time."""
        dims, values = self.store.variables[name].dims or (), self.store.read(name).astype(np.float64)
        along = self.roles.trajectory_dim

        def rows_of(index: int, rows: int) -> Any:
            mine = np.take(values, index, axis=dims.index(along)) if along in dims else values
            return np.broadcast_to(mine.reshape(1, -1), (rows, mine.size))

        return rows_of

    def _times(self, index: int, rows: int) -> Any:
        if self.roles.time is None:
            return None
        one = self.store.variables[self.roles.time]
        dims = one.dims or ()
        if one.sizes[self.roles.time_dim] != self.rows:
            raise InputError(
                f"{self.store.source}: {one.array.shape} times in {self.roles.time!r} but {self.rows} rows of states; "
                "give one time for each row"
            )
        if len(dims) == 1 and stays_on_disk(one.array):
            return one.array
        times = self.store.read(self.roles.time)
        if len(dims) == 2:
            times = np.take(times, index, axis=1 - dims.index(self.roles.time_dim))
        return times[:rows]

    def _weights(self, index: int, rows: int) -> NDArray[Any] | None:
        if self.roles.weights is None:
            return None
        dims, values = self.store.variables[self.roles.weights].dims or (), self.store.read(self.roles.weights)
        if self.roles.trajectory_dim in dims:
            values = np.take(values, index, axis=dims.index(self.roles.trajectory_dim))
        return np.full(rows, float(values)) if values.ndim == 0 else values[:rows]

    def _texts(self, dim: str, length: int) -> list[str] | None:
        """Labels along a dimension, where its coordinate is text."""
        one = self.store.variables.get(dim)
        if one is None or tuple(one.array.shape) != (length,) or np.dtype(one.array.dtype).kind not in "OUST":
            return None
        return [value.decode() if isinstance(value, bytes) else str(value) for value in self.store.read(dim)]

    def _labels(self) -> Labels:
        """Names of columns, or grid, fields and coordinates."""
        roles, sizes = self.roles, self.sizes
        total = len(roles.states) * math.prod(sizes[dim] for dim in roles.rest)
        grid = self._given_grid()
        if grid:
            return self._on_grid(grid, total)
        if not roles.rest:
            return Labels(self._names(roles.states, total))
        if self.naming:
            return self._named_by_text(roles.rest[len(self.naming) :], total)
        if len(roles.rest) == 1 and not self._spatial(roles.rest[0]):
            each = range(total // len(roles.states))
            several = [f"{name}_{i}" for name in roles.states for i in each]
            return Labels(self._names(several if len(roles.states) > 1 else [f"x{i}" for i in each], total))
        channels, dims = tuple(roles.states), roles.rest
        if len(dims) > 1 and dims[0].lower() in CHANNEL_DIMS and len(roles.states) == 1:
            channels = tuple(self.texts[dims[0]] or (f"{roles.states[0]}{i}" for i in range(sizes[dims[0]])))
            dims = dims[1:]
        coords = {dim: self._positions(dim) for dim in dims}
        return Labels(self._names((), total), tuple(sizes[dim] for dim in dims), channels, coords)

    def _naming(self) -> tuple[str, ...]:
        """The dimensions that name columns rather than span space, where text labels one beside that of channels."""
        rest = self.roles.rest
        channel = [dim for dim in rest[:1] if dim.lower() in CHANNEL_DIMS] if len(rest) > 1 else []
        if not any(self.texts[dim] for dim in rest if dim not in channel):
            return ()
        return tuple(dim for dim in rest if dim in channel or self.texts[dim] or not self._spatial(dim))

    def _named_by_text(self, space: tuple[str, ...], total: int) -> Labels:
        """Names such as `a_T` for station `a` and quantity `T`: of columns, or of fields where there is space too."""
        each = [self.texts[dim] or [str(i) for i in range(self.sizes[dim])] for dim in self.naming]
        several = [self.roles.states] if len(self.roles.states) > 1 else []
        found = tuple("_".join(parts) for parts in product(*several, *each))
        if not space:
            return Labels(self._names(found, total))
        coords = {dim: self._positions(dim) for dim in space}
        return Labels(self._names((), total), tuple(self.sizes[dim] for dim in space), found, coords)

    def _on_grid(self, grid: Mapping[str, NDArray[Any]], total: int) -> Labels:
        space = tuple(len(one) for one in grid.values())
        points = math.prod(space)
        if total % points:
            raise InputError(
                f"{self.store.source}: {total} columns do not fit a grid of {' x '.join(map(str, space))} points; "
                "check grid="
            )
        fields, said = total // points, self.hints.get("channels")
        channels = self.roles.states if fields == 1 else tuple(f"field{i}" for i in range(fields))
        if said is not None and len(said) == fields:
            channels = tuple(map(str, said))
        return Labels(self._names((), total), space, channels, dict(grid))

    def _given_grid(self) -> Mapping[str, NDArray[Any]]:
        if self.choices.grid is not None:
            return grid_of(self.choices.grid)
        names = [str(name) for name in self.hints.get("coords", ())]
        flat = self.roles.rest == ("state",) and all(name in self.store.variables for name in names)
        return {name: self.store.read(name) for name in names} if flat else {}

    def _names(self, found: Any, total: int) -> tuple[str, ...]:
        said = self.hints.get("names")
        return tuple(map(str, said)) if said is not None and len(said) == total else tuple(found)

    def _spatial(self, dim: str) -> bool:
        """Whether a dimension is one of space: it has positions, or a name that says so."""
        if dim.lower() in STATE_DIMS:
            return False
        one = self.store.variables.get(dim)
        return dim.lower() in SPACE_NAMES or (one is not None and one.numeric and len(one.array.shape) == 1)

    def _positions(self, dim: str) -> NDArray[Any]:
        one = self.store.variables.get(dim)
        if one is None or not one.numeric or tuple(one.array.shape) != (self.sizes[dim],):
            return np.arange(self.sizes[dim], dtype=np.float64)
        return self.store.read(dim)

    def _units(self) -> dict[str, str]:
        """Units in the file, by name; those of time under "time"."""
        named = {name: name for name in (*self.roles.states, *self.roles.rest) if name in self.store.variables}
        if self.roles.time is not None:
            named["time"] = self.roles.time
        units = {key: self.store.variables[name].attrs.get("units") for key, name in named.items()}
        said = {str(key): value for key, value in self.hints.get("units", {}).items() if isinstance(value, str)}
        return said | {key: str(value) for key, value in units.items() if value is not None}
