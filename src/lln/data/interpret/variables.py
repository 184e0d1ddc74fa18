"""The variables of a file or an xarray object: which is time, state, input or weight, and what their axes are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.calendar import TIME_NAMES, checked_alias
from lln.data.interpret.description import TRAJECTORY_NAMES, Choices, Description, Part, asked_names, grid_of, no_such
from lln.data.read.store import LazyRows, Store, Variable, held, stays_on_disk

STATE_NAMES = ("states", "state", "data", "x", "y", "u", "trajectory", "trajectories")
STATE_DIMS = (
    *("state", "states", "coordinate", "coordinates", "component", "components", "feature", "features", "column"),
)
CHANNEL_DIMS = ("channel", "channels", "field", "fields", "variable", "component", "components")
SPACE_NAMES = ("x", "y", "z", "r", "lon", "lat", "longitude", "latitude", "space", "level", "depth", "height", "point")
ATTRIBUTE = "lln"  # of a file that we wrote: what its variables cannot say


def describe_store(store: Store, choices: Choices) -> Description:
    """Find the roles of the variables of `store`."""
    timeless = choices.timeless
    store, choices = _with_axis(store, replace(choices, time=None) if timeless else choices)
    hints = _hints(store)
    store = _with_dims(store, choices, hints)
    roles = _roles(store, choices)
    roles = replace(roles, time=None, named=True) if timeless else roles
    return _Variables(store, roles, choices, hints).description()


@dataclass(frozen=True)
class Roles:
    """The roles of variables and dimensions."""

    time: str | None  #: name of the variable of times, or None
    time_dim: str  #: name of the dimension
    trajectory_dim: str | None  #: name of the dimension, or None
    states: tuple[str, ...]  #: variables in the order of the columns
    rest: tuple[str, ...]  #: the other dimensions of a state variable, channels first
    inputs: tuple[str, ...]  #: variables
    weights: str | None  #: variable, or None
    named: bool  #: whether the caller said which axis is time


def _hints(store: Store) -> dict[str, Any]:
    """Hints in a file that lln wrote, beyond its variables."""
    text = store.attrs.get(ATTRIBUTE)
    if text is None and ATTRIBUTE in store.variables and not tuple(store.variables[ATTRIBUTE].array.shape):
        text = str(store.read(ATTRIBUTE)[()])
    try:
        hints = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    lists = dict.fromkeys(("coords", "channels", "names", "input_names"), list)
    kinds = {"dt": float, "dims": dict, "units": dict, "system": str, "frequency": str, **lists}
    known = hints if isinstance(hints, dict) else {}
    said = {key: known[key] for key, kind in kinds.items() if isinstance(known.get(key), kind)}
    return said if "frequency" not in said or checked_alias(said["frequency"]) else said | {"frequency": None}


def _with_axis(store: Store, choices: Choices) -> tuple[Store, Choices]:
    """The store and the choices with a name for time, where the caller gave the number of its axis (0 or 1)."""
    arrays = {name: one for name, one in store.variables.items() if not one.coordinate}
    dims = {one.dims for one in arrays.values()}
    asked = str(choices.time)
    if asked not in ("0", "1") or asked in store.variables or choices.grid is not None or len(dims) != 1:
        return store, choices
    (known,) = dims
    if known is not None or _named(store, None) is not None:
        inside = known is not None and asked not in known and int(asked) < len(known)
        return store, replace(choices, time=known[int(asked)]) if known is not None and inside else choices
    last = ("state", "time") if asked == "1" else ("time", "state")
    usual = {1: ("time",), 2: last, 3: ("trajectory", *last)}
    variables = {name: replace(one, dims=usual.get(len(one.shape))) for name, one in arrays.items()}
    return replace(store, variables=variables), replace(choices, time="time")


def _with_dims(store: Store, choices: Choices, hints: Mapping[str, Any]) -> Store:
    """The store with a name for every axis: the file's own, or by the usual order and the number of times."""
    times = _named(store, choices.time)
    shape = () if times is None else store.variables[times].shape
    length = shape[-1] if len(shape) in (1, 2) else None
    known = hints.get("dims", {})
    space = [str(name) for name in hints.get("coords", ())]
    axes = space if choices.grid is None else list(grid_of(choices.grid))
    variables = {}
    for name, one in store.variables.items():
        dims, said = one.dims, known.get(name)
        if dims is None:
            own = isinstance(said, list) and len(said) == len(one.shape)
            dims = tuple(map(str, said)) if own else _usual(one.shape, name == times, length, axes)
        variables[name] = Variable(one.array, dims, one.attrs, one.coordinate or name in space)
    return replace(store, variables=variables)


def _usual(shape: tuple[int, ...], is_time: bool, length: int | None, space: list[str]) -> tuple[str, ...] | None:
    """Names of axes by the usual order: (time, n), (trajectories, time, n), and space behind time."""
    letters = space or list("xyzw")
    if is_time:
        return ("trajectory", "time")[-len(shape) :] if len(shape) in (1, 2) else None
    if len(shape) == 0:
        return ()
    if length is None:
        if len(shape) > 3 and len(shape) - len(space) in (1, 2) and space:
            return (*("trajectory", "time")[-(len(shape) - len(space)) :], *space)
        return {1: ("time",), 2: ("time", "state"), 3: ("trajectory", "time", "state")}.get(len(shape))
    at = [axis for axis, size in enumerate(shape) if size == length]
    if not at:
        return None
    if len(shape) == 3 and 1 in at:
        return ("trajectory", "time", "state") if len(space) != 2 or at[0] != 0 else ("time", *space)
    if at[0] == 0:
        behind = len(shape) - 1
        return ("time", *(("state",) if behind == 1 and not space else letters[:behind])) if behind <= 4 else None
    if at[0] == 1 and len(shape) == 2:
        return ("state", "time")
    return ("trajectory", "time", *letters[: len(shape) - 2]) if 1 in at and len(shape) <= 6 else None


def _named(store: Store, asked: Any) -> str | None:
    """The variable of time that the caller named, or one with a usual name."""
    if asked is None:
        return _first(TIME_NAMES, store.variables)
    return asked if isinstance(asked, str) and asked in store.variables else None


def _first(usual: Iterable[str], known: Iterable[str]) -> str | None:
    """The first of the usual names that is known, as it is written there."""
    lower = {name.lower(): name for name in known}
    return next((lower[name] for name in usual if name in lower), None)


def _roles(store: Store, choices: Choices) -> Roles:
    """The role of each variable and dimension, as given or by names and shapes."""
    dims = list(dict.fromkeys(dim for one in store.variables.values() for dim in one.dims or ()))
    time, time_dim = _time(store, choices, dims)
    if choices.trajectory is not None and choices.trajectory not in dims:
        raise no_such("dimension", choices.trajectory, "to tell trajectories apart", dims, store.source)
    trajectory = choices.trajectory or _first(TRAJECTORY_NAMES, (dim for dim in dims if dim != time_dim))
    states = _asked(store, "states", choices.states)
    own = choices.inputs is None and "inputs" in store.variables and "inputs" not in states
    inputs = _asked(store, "inputs", "inputs" if own else choices.inputs)
    weights = "weights" if choices.weights is None and "weights" in store.variables else choices.weights
    if not isinstance(weights, str | None):
        raise InputError(f"{store.source}: weights= must name a variable of it, one weight for each time")
    _asked(store, "weights", weights)
    states = states or _found_states(store, time_dim, {time, weights, *inputs})
    rest = _rest(store, states, time_dim, trajectory)
    return Roles(time, time_dim, trajectory, states, rest, inputs, weights, choices.time is not None)


def _time(store: Store, choices: Choices, dims: list[str]) -> tuple[str | None, str]:
    """Variable and dimension of time."""
    asked = choices.time
    if asked is not None and not isinstance(asked, str):
        kind = type(asked).__name__
        raise InputError(f"{store.source}: time= must name the variable or dimension of time, got {kind}")
    if asked is not None and asked not in store.variables and asked not in dims:
        raise no_such("variable", asked, "for time", [*store.variables, *dims], store.source)
    name = _named(store, asked)
    if name is None and asked is None:
        marked = [key for key, one in store.variables.items() if str(one.attrs.get("standard_name")) == "time"]
        name = marked[0] if marked else None
    if name is not None:
        own = [dim for dim in store.variables[name].dims or () if dim.lower() not in TRAJECTORY_NAMES]
        if len(own) == 1:
            return name, own[0]
        raise InputError(f"{store.source}: time {name!r} has the dimensions {own}; it must have one")
    dim = asked or _first(TIME_NAMES, dims)
    if dim is None:
        shapes = [one.shape for one in store.variables.values() if len(one.shape) > 3]
        if not dims and shapes:
            raise InputError(
                f"{store.source}: an array of shape {shapes[0]} does not say which axis is what; write it as NetCDF "
                "with named dimensions, or save an array (time, n) (in Python: grid= gives the shape of space)"
            )
        listing = ", ".join(map(repr, dims)) or "none"
        raise InputError(f"{store.source}: none of its dimensions ({listing}) is called time; name it with time=")
    return None, dim


def _asked(store: Store, what: str, names: Any) -> tuple[str, ...]:
    """Names that the caller gave, each checked to be there and to hold numbers."""
    chosen = asked_names(what, names, "variable", store.variables, store.source)
    for name in chosen:
        one = store.variables[name]
        if not one.numeric:
            raise InputError(f"{store.source}: variable {name!r} holds {one.array.dtype}, not numbers")
    return chosen


def _refuse_other_kinds(store: Store, taken: set[str | None]) -> None:
    """Refuse the only array of a file: not numbers, unknown axes, or too few times."""
    alone = [(name, one) for name, one in store.variables.items() if name not in taken]
    if len(alone) != 1 or not alone[0][1].shape:
        return
    name, one = alone[0]
    kind = np.dtype(one.array.dtype)
    if kind.kind == "c":
        raise InputError(f"{store.source}: {name!r} is complex; give real and imaginary parts as columns of their own")
    if not one.numeric:
        raise InputError(f"{store.source}: {name!r} holds {kind}, not numbers; save it as float64 or float32")
    times = {key: other.shape[0] for key, other in store.variables.items() if key in taken and len(other.shape) == 1}
    if times and one.dims is None:
        time, count = next(iter(times.items()))
        raise InputError(
            f"{store.source}: {time!r} has {count} times, but no axis of {name!r}, shape {one.shape}, is as long; give "
            "one time for each row"
        )


def _found_states(store: Store, time_dim: str, taken: set[str | None]) -> tuple[str, ...]:
    """The variables that vary in time, if they can only be the state."""
    able = {
        name: one
        for name, one in store.variables.items()
        if name not in taken and one.numeric and not one.coordinate and time_dim in (one.dims or ())
    }
    if not able:
        _refuse_other_kinds(store, taken)
        shapes = {name: one.shape for name, one in store.variables.items()}
        raise InputError(
            f"{store.source}: no variable of numbers varies along {time_dim!r} (it has {shapes}); name the state with "
            "--states and time with --time (in Python: states= and time=)"
        )
    if len({(one.dims, one.shape) for one in able.values()}) == 1:
        return tuple(able)
    usual = [name for name in STATE_NAMES if name in able]
    if usual:
        return (usual[0],)
    listing = ", ".join(f"{name!r} {one.shape}" for name, one in able.items())
    raise InputError(
        f"{store.source}: several variables could be the state ({listing}); name one or more with --states (in Python: "
        "states=)"
    )


def _rest(store: Store, states: tuple[str, ...], time_dim: str, trajectory: str | None) -> tuple[str, ...]:
    shapes = {name: (store.variables[name].dims or (), store.variables[name].shape) for name in states}
    for name, (dims, shape) in shapes.items():
        if time_dim not in dims:
            raise InputError(
                f"{store.source}: variable {name!r} of shape {shape} has no axis that is time ({time_dim!r}); name "
                "time with --time (in Python: time=), or the grid with grid="
            )
    if len(set(shapes.values())) > 1:
        raise InputError(
            f"{store.source}: the states {shapes} differ in their axes; name those of one kind with --states (in "
            "Python: states=)"
        )
    rest = [dim for dim in shapes[states[0]][0] if dim not in (time_dim, trajectory)]
    channel = [dim for dim in rest if dim.lower() in CHANNEL_DIMS] if len(rest) > 1 and len(states) == 1 else []
    return (*channel[:1], *(dim for dim in rest if dim not in channel[:1]))


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
                f"{store.source}: {roles.states[0]!r} is empty, shape {first.shape}; give at least two times"
            )
        self.rows = self.sizes[roles.time_dim]
        self.count = self.sizes.get(roles.trajectory_dim or "", 1)
        for name in filter(None, (roles.states[0], roles.time, *roles.inputs, roles.weights)):
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
        lengths, starts = self._each("length", self.rows), self._each("start", 0.0)
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
            hints.get("frequency"),
            roles.time is None and not labels.space and self.count == 1 and not roles.named,
        )

    def _each(self, name: str, default: float) -> list[float]:
        """A number for each trajectory from a variable that lln wrote."""
        known = self.hints and name in self.store.variables
        values = self.store.read(name).reshape(-1) if known else np.empty(0)
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
            texts = self._texts(rest[0], width) if rest else [name]
            labels += texts or [f"{name}{i}" for i in range(width)]

        def rows_of(index: int, rows: int) -> Any:
            found = [part(index, rows) for part in parts]
            return found[0] if len(found) == 1 else np.concatenate([np.asarray(one[:]) for one in found], axis=1)

        return rows_of, self._said("input_names", labels, len(labels))

    def _constant(self, name: str) -> Callable[[int, int], Any]:
        """Inputs that do not vary in time: one row, shown at every time."""
        values = self.store.read(name).astype(np.float64)

        def rows_of(index: int, rows: int) -> Any:
            mine = self._own(name, values, index)
            return np.broadcast_to(mine.reshape(1, -1), (rows, mine.size))

        return rows_of

    def _own(self, name: str, values: NDArray[Any], index: int) -> NDArray[Any]:
        """The values of a variable that belong to one trajectory; all of them if they have no such axis."""
        dims, along = self.store.variables[name].dims or (), self.roles.trajectory_dim
        return np.take(values, index, axis=dims.index(along)) if along in dims else values

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
        mine = np.take(times, index, axis=1 - dims.index(self.roles.time_dim)) if len(dims) == 2 else times
        return mine[:rows]

    def _weights(self, index: int, rows: int) -> NDArray[Any] | None:
        if self.roles.weights is None:
            return None
        values = self._own(self.roles.weights, self.store.read(self.roles.weights), index)
        return np.full(rows, float(values)) if values.ndim == 0 else values[:rows]

    def _texts(self, dim: str, length: int) -> list[str] | None:
        """Labels along a dimension, where its coordinate is text."""
        one = self.store.variables.get(dim)
        if one is None or one.shape != (length,) or np.dtype(one.array.dtype).kind not in "OUST":
            return None
        return [value.decode() if isinstance(value, bytes) else str(value) for value in self.store.read(dim)]

    def _labels(self) -> Labels:
        """Names of columns, or grid, fields and coordinates."""
        roles, sizes = self.roles, self.sizes
        total = len(roles.states) * math.prod(sizes[dim] for dim in roles.rest)
        if grid := self._given_grid():
            return self._on_grid(grid, total)
        # The names are those of columns, or of fields where dimensions of space are left.
        names, dims = roles.states, roles.rest[len(self.naming) :]
        if self.naming:  # such as `a_T` for station `a` and quantity `T`
            each = [self.texts[dim] or [str(i) for i in range(sizes[dim])] for dim in self.naming]
            names = tuple("_".join(parts) for parts in product(*([names] if len(names) > 1 else []), *each))
        elif len(dims) == 1 and not self._spatial(dims[0]):
            starts = [f"{name}_" for name in names] if len(names) > 1 else ["x"]
            names, dims = tuple(f"{start}{i}" for start in starts for i in range(sizes[dims[0]])), ()
        elif len(dims) > 1 and dims[0].lower() in CHANNEL_DIMS and len(names) == 1:
            names = tuple(self.texts[dims[0]] or (f"{names[0]}{i}" for i in range(sizes[dims[0]])))
            dims = dims[1:]
        if not dims:
            return Labels(self._said("names", names, total))
        coords = {dim: self._positions(dim) for dim in dims}
        return Labels(self._said("names", (), total), tuple(sizes[dim] for dim in dims), names, coords)

    def _naming(self) -> tuple[str, ...]:
        """The dimensions that name columns rather than span space, where text labels one beside that of channels."""
        rest = self.roles.rest
        channel = [dim for dim in rest[:1] if dim.lower() in CHANNEL_DIMS] if len(rest) > 1 else []
        if not any(self.texts[dim] for dim in rest if dim not in channel):
            return ()
        return tuple(dim for dim in rest if dim in channel or self.texts[dim] or not self._spatial(dim))

    def _on_grid(self, grid: Mapping[str, NDArray[Any]], total: int) -> Labels:
        space = tuple(len(one) for one in grid.values())
        points = math.prod(space)
        if total % points:
            raise InputError(
                f"{self.store.source}: {total} columns do not fit a grid of {' x '.join(map(str, space))} points; "
                "check grid="
            )
        fields = total // points
        channels = self.roles.states if fields == 1 else [f"field{i}" for i in range(fields)]
        return Labels(self._said("names", (), total), space, self._said("channels", channels, fields), dict(grid))

    def _given_grid(self) -> Mapping[str, NDArray[Any]]:
        if self.choices.grid is not None:
            return grid_of(self.choices.grid)
        names = [str(name) for name in self.hints.get("coords", ())]
        flat = self.roles.rest == ("state",) and all(name in self.store.variables for name in names)
        return {name: self.store.read(name) for name in names} if flat else {}

    def _said(self, what: str, found: Iterable[str], count: int) -> tuple[str, ...]:
        """Names stated in a file that lln wrote, if their number is right, else those that were found."""
        said = self.hints.get(what)
        return tuple(map(str, said)) if said is not None and len(said) == count else tuple(found)

    def _spatial(self, dim: str) -> bool:
        """Whether a dimension is one of space: it has positions, or a name that says so."""
        one = self.store.variables.get(dim)
        located = one is not None and one.numeric and len(one.shape) == 1
        return dim.lower() not in STATE_DIMS and (dim.lower() in SPACE_NAMES or located)

    def _positions(self, dim: str) -> NDArray[Any]:
        one = self.store.variables.get(dim)
        known = one is not None and one.numeric and one.shape == (self.sizes[dim],)
        return self.store.read(dim) if known else np.arange(self.sizes[dim], dtype=np.float64)

    def _units(self) -> dict[str, str]:
        """Units in the file, by name; those of time under "time"."""
        named = {name: name for name in (*self.roles.states, *self.roles.rest) if name in self.store.variables}
        if self.roles.time is not None:
            named["time"] = self.roles.time
        units = {key: self.store.variables[name].attrs.get("units") for key, name in named.items()}
        said = {str(key): value for key, value in self.hints.get("units", {}).items() if isinstance(value, str)}
        return said | {key: str(value) for key, value in units.items() if value is not None}
