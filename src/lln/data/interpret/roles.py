"""Which variable of a file is time, state, input or weight, and which of their axes is what."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.interpret.description import Choices, asked_names, grid_of, no_such
from lln.data.read.store import Store, Variable

TIME_NAMES = ("time", "times", "t", "date", "datetime", "timestamp")
TRAJECTORY_NAMES = (
    *("trajectory", "trajectories", "traj", "run", "realization", "realisation", "ensemble", "member", "simulation"),
    *("sim", "case", "episode", "experiment", "sample", "batch"),
)
STATE_NAMES = ("states", "state", "data", "x", "y", "u", "trajectory", "trajectories")
STATE_DIMS = (
    *("state", "states", "coordinate", "coordinates", "component", "components", "feature", "features", "column"),
)
CHANNEL_DIMS = ("channel", "channels", "field", "fields", "variable", "component", "components")
ATTRIBUTE = "lln"  # of a file that we wrote: what its variables cannot say


@dataclass(frozen=True)
class Roles:
    """Which variables and dimensions play which part."""

    time: str | None  #: name of the variable of times, or None
    time_dim: str  #: name of the dimension
    trajectory_dim: str | None  #: name of the dimension, or None
    states: tuple[str, ...]  #: variables in the order of the columns
    rest: tuple[str, ...]  #: the other dimensions of a state variable, channels first
    inputs: tuple[str, ...]  #: variables
    weights: str | None  #: variable, or None
    named: bool  #: whether the caller said which axis is time


def groups(store: Store, choices: Choices) -> list[Store]:
    """One store for each trajectory, where a file has a group for each with the same variables in it."""
    named = [name.rpartition("/") for name in store.variables]
    folders = list(dict.fromkeys(folder for folder, _, _ in named))
    inside = [tuple(name for at, _, name in named if at == folder) for folder in folders]
    asked = [choices.states] if isinstance(choices.states, str) else list(choices.states or ())
    if "" in folders or len(set(inside)) != 1 or any(name in store.variables for name in asked):
        return []
    return [
        replace(
            store,
            source=f"{store.source}, {folder}",
            variables={name: store.variables[f"{folder}/{name}"] for name in inside[0]},
            reopen=partial(_inside, store.reopen, f"{folder}/"),
        )
        for folder in folders
    ]


def _inside(reopen: Callable[[], Mapping[str, Any]], start: str) -> Mapping[str, Any]:
    """The arrays of one group of a file."""
    return {name.removeprefix(start): array for name, array in reopen().items() if name.startswith(start)}


def hints_of(store: Store) -> dict[str, Any]:
    """What a file of ours says beyond its variables."""
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
    return {key: known[key] for key, kind in kinds.items() if isinstance(known.get(key), kind)}


def with_axis(store: Store, choices: Choices) -> tuple[Store, Choices]:
    """The store and the choices with a name for time, where the caller gave the number of its axis (0 or 1)."""
    arrays = {name: one for name, one in store.variables.items() if not one.coordinate}
    dims = {one.dims for one in arrays.values()}
    asked = str(choices.time)
    if asked not in ("0", "1") or asked in store.variables or choices.grid is not None or len(dims) != 1:
        return store, choices
    (known,) = dims
    if known is not None:
        inside = asked not in known and int(asked) < len(known)
        return store, replace(choices, time=known[int(asked)]) if inside else choices
    if _named(store, None, TIME_NAMES) is not None:
        return store, choices
    last = ("state", "time") if asked == "1" else ("time", "state")
    usual = {1: ("time",), 2: last, 3: ("trajectory", *last)}
    variables = {name: replace(one, dims=usual.get(len(one.array.shape))) for name, one in arrays.items()}
    return replace(store, variables=variables), replace(choices, time="time")


def with_dims(store: Store, choices: Choices, hints: Mapping[str, Any]) -> Store:
    """The store with a name for every axis: the file's own, or by the usual order and the number of times."""
    times = _named(store, choices.time, TIME_NAMES)
    length = None
    if times is not None and len(store.variables[times].array.shape) in (1, 2):
        length = int(store.variables[times].array.shape[-1])
    known = hints.get("dims", {})
    space = [str(name) for name in hints.get("coords", ())]
    axes = space if choices.grid is None else list(grid_of(choices.grid))
    variables = {}
    for name, one in store.variables.items():
        dims = one.dims
        if dims is None and isinstance(known.get(name), list) and len(known[name]) == len(one.array.shape):
            dims = tuple(map(str, known[name]))
        if dims is None:
            dims = _usual(one, name == times, length, axes)
        variables[name] = Variable(one.array, dims, one.attrs, one.coordinate or name in space)
    return replace(store, variables=variables)


def _usual(one: Variable, is_time: bool, length: int | None, space: list[str]) -> tuple[str, ...] | None:
    """Names of axes by the usual order: (time, n), (trajectories, time, n), and space behind time."""
    shape = tuple(int(size) for size in one.array.shape)
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
    if at[0] == 1 or 1 in at:
        return ("trajectory", "time", *letters[: len(shape) - 2]) if len(shape) <= 6 else None
    return None


def _named(store: Store, asked: Any, usual: Sequence[str]) -> str | None:
    """The variable that the caller named, or one of the usual names."""
    if isinstance(asked, str) and asked in store.variables:
        return asked
    if asked is not None:
        return None
    lower = {name.lower(): name for name in store.variables}
    return next((lower[name] for name in usual if name in lower), None)


def roles_of(store: Store, choices: Choices) -> Roles:
    """The part that each variable and dimension plays, as asked for or as names and shapes tell."""
    dims = list(dict.fromkeys(dim for one in store.variables.values() for dim in one.dims or ()))
    time, time_dim = _time(store, choices, dims)
    trajectory = choices.trajectory
    if trajectory is not None and trajectory not in dims:
        raise no_such("dimension", trajectory, "to tell trajectories apart", dims, store.source)
    if trajectory is None:
        lower = {dim.lower(): dim for dim in dims if dim != time_dim}
        trajectory = next((lower[name] for name in TRAJECTORY_NAMES if name in lower), None)
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
        raise InputError(
            f"{store.source}: time= must name the variable or dimension of time, got {type(asked).__name__}"
        )
    if asked is not None and asked not in store.variables and asked not in dims:
        raise no_such("variable", asked, "for time", [*store.variables, *dims], store.source)
    name = _named(store, asked, TIME_NAMES)
    if name is None and asked is None:
        name = next(
            (key for key, one in store.variables.items() if str(one.attrs.get("standard_name")) == "time"), None
        )
    if name is not None:
        own = [dim for dim in store.variables[name].dims or () if dim.lower() not in TRAJECTORY_NAMES]
        if len(own) == 1:
            return name, own[0]
        raise InputError(f"{store.source}: time {name!r} has the dimensions {own}; it must have one")
    lower = {dim.lower(): dim for dim in dims}
    dim = asked or next((lower[key] for key in TIME_NAMES if key in lower), None)
    if dim is None:
        shapes = [tuple(one.array.shape) for one in store.variables.values() if len(one.array.shape) > 3]
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
        if not store.variables[name].numeric:
            raise InputError(
                f"{store.source}: variable {name!r} holds {store.variables[name].array.dtype}, not numbers"
            )
    return chosen


def _refuse_other_kinds(store: Store, taken: set[str | None]) -> None:
    """Refuse the only array of a file: not numbers, unknown axes, or too few times."""
    alone = [name for name in store.variables if name not in taken]
    if len(alone) != 1 or not len(store.variables[alone[0]].array.shape):
        return
    name, one = alone[0], store.variables[alone[0]]
    shape, kind = tuple(one.array.shape), np.dtype(one.array.dtype)
    if kind.kind == "c":
        raise InputError(f"{store.source}: {name!r} is complex; give real and imaginary parts as columns of their own")
    if not one.numeric:
        raise InputError(f"{store.source}: {name!r} holds {kind}, not numbers; save it as float64 or float32")
    named = [other for other in taken if other is not None and other in store.variables]
    times = [other for other in named if len(store.variables[other].array.shape) == 1]
    if times and one.dims is None:
        count = store.variables[times[0]].array.shape[0]
        raise InputError(
            f"{store.source}: {times[0]!r} has {count} times, but no axis of {name!r}, shape {shape}, is as long; give "
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
        shapes = {name: tuple(one.array.shape) for name, one in store.variables.items()}
        raise InputError(
            f"{store.source}: no variable of numbers varies along {time_dim!r} (it has {shapes}); name the state with "
            "--states and time with --time (in Python: states= and time=)"
        )
    if len({(one.dims, tuple(one.array.shape)) for one in able.values()}) == 1:
        return tuple(able)
    usual = [name for name in STATE_NAMES if name in able]
    if usual:
        return (usual[0],)
    listing = ", ".join(f"{name!r} {tuple(one.array.shape)}" for name, one in able.items())
    raise InputError(
        f"{store.source}: several variables could be the state ({listing}); name one or more with --states (in Python: "
        "states=)"
    )


def _rest(store: Store, states: tuple[str, ...], time_dim: str, trajectory: str | None) -> tuple[str, ...]:
    shapes = {}
    for name in states:
        one = store.variables[name]
        if one.dims is None or time_dim not in one.dims:
            raise InputError(
                f"{store.source}: variable {name!r} of shape {tuple(one.array.shape)} has no axis that is time "
                f"({time_dim!r}); name time with --time (in Python: time=), or the grid with grid="
            )
        shapes[name] = (one.dims, tuple(one.array.shape))
    if len(set(shapes.values())) > 1:
        raise InputError(
            f"{store.source}: the states {shapes} differ in their axes; name those of one kind with --states (in "
            "Python: states=)"
        )
    rest = [dim for dim in shapes[states[0]][0] if dim not in (time_dim, trajectory)]
    channel = [dim for dim in rest if dim.lower() in CHANNEL_DIMS] if len(rest) > 1 and len(states) == 1 else []
    return (*channel[:1], *(dim for dim in rest if dim not in channel[:1]))
