"""Arrays: (time, n), stacked, on a grid, with inputs and weights given beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, reason
from lln.data.interpret.description import Choices, Description, Part, grid_of, refuse_swapped
from lln.data.read.store import FileRows, LazyRows, held, stays_on_disk
from lln.data.series import Array

SOURCE = "array"  # name for messages
_FEW = 10  # states; a trajectory as short holds nothing out


def describe_array(x: Any, choices: Choices) -> Description:
    """Find the roles of the axes of an array: (time, n), (trajectories, time, n), or with those of a grid behind."""
    axis, times = (None, None) if choices.timeless else _axis_or_times(choices.time)
    space = {} if choices.grid is None else grid_of(choices.grid)
    lengths = tuple(len(one) for one in space.values())
    stacked, axes = _stacked(x, lengths, axis, asked=times is not None)
    single, count = axes == 2, len(stacked)
    inputs, input_names = _input_shares(choices.inputs, count, single)
    weights = [choices.weights] if single else shares("weights", choices.weights, count)
    one_clock = single or times is None or np.ndim(times[0]) == 0
    clocks = [times] * count if one_clock else shares("time", times, count)
    parts = []
    for index, states in enumerate(stacked):
        name = SOURCE if single else f"{SOURCE}, trajectory {index}"
        rows = int(states.shape[0])
        weight = None if weights[index] is None else _row_weights(weights[index], rows, name)
        clock = None if clocks[index] is None else np.asarray(clocks[index])
        parts.append(Part(name, clock, states, _known(inputs[index], rows, name), weight))
    notes = _axis_note(x, lengths, axis)
    return Description(SOURCE, parts, (), input_names, lengths, coords=space, notes=notes)


def _axis_or_times(time: Any) -> tuple[int | None, Any]:
    """What `time` says of an array: which axis it is, or the times themselves."""
    if time is None:
        return None, None
    if isinstance(time, (int, np.integer, str)):
        if str(time) not in ("0", "1"):
            raise InputError(f"time={time!r}: for an array, time is an axis (0 or 1) or the times of its rows")
        return int(time), None
    return None, time


def as_array(x: Any) -> Any:
    """Convert `x` to an array; a large array on the disk, or of Dask, stays as it is."""
    if x is None:
        raise InputError("no data was given (None); give an array (time, n), a table, an xarray object or a path")
    if isinstance(x, np.ma.MaskedArray):
        return np.ma.filled(x.astype(np.float64), np.nan)
    if hasattr(x, "detach"):  # a torch tensor, whose module must not be imported here
        x = _of_tensor(x)
    if isinstance(x, np.memmap):
        x = _of_map(x)
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__getitem__") and np.ndim(x.shape) == 1:
        return x if isinstance(x, LazyRows) or stays_on_disk(x) else np.asarray(x)
    if isinstance(x, (bytes, set, frozenset)) or hasattr(x, "__next__"):
        raise InputError(f"{type(x).__name__} is not an array of shape (time, n); give an array or a list of rows")
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(x).__name__} is not an array of shape (time, n) ({error})") from error


def _of_tensor(x: Any) -> Any:
    """A torch tensor as an array; sparse, quantised, conjugated and bfloat16 ones are converted first."""
    try:
        x = x.detach()
        x = x if "strided" in str(x.layout) else x.to_dense()
        x = x.dequantize() if x.is_quantized else x
        x = x.resolve_conj().resolve_neg().cpu()
        return (x.float() if "bfloat16" in str(x.dtype) or "float8" in str(x.dtype) else x).numpy()
    except (TypeError, RuntimeError, AttributeError) as error:
        raise InputError(f"this tensor cannot be converted to an array ({reason(error)}); give its numbers") from error


def _of_map(x: np.memmap[Any, Any]) -> Any:
    """A memory-mapped array, read by rows where it is large: access to a truncated map would end the process."""
    whole = isinstance(x.base, mmap) and x.flags.c_contiguous and x.filename is not None
    if whole and stays_on_disk(x):
        return FileRows(Path(str(x.filename)), int(x.offset), x.shape, x.dtype)
    return x if stays_on_disk(x) else np.array(x)


def nested_numbers(x: Sequence[Any]) -> bool:
    """Whether a list is one array written out, rather than a list of trajectories, of which some may be longer."""
    rows = [row if isinstance(row, (list, tuple)) else [row] for row in x]
    if any(isinstance(row, str) for row in x) or not all(all(map(np.isscalar, row)) for row in rows):
        return False
    return len({len(row) for row in rows}) == 1 or not all(isinstance(row, (list, tuple)) for row in x)


def _stacked(x: Any, space: tuple[int, ...], axis: int | None, *, asked: bool) -> tuple[list[Any], int]:
    """Each trajectory as (time, n), and how many axes the array had once space was flattened."""
    shape = tuple(x.shape)
    if not shape:
        raise InputError(f"{SOURCE}: a single number is not a trajectory; give an array (time, n)")
    if 0 in shape:
        what = "feature" if shape[-1] == 0 else "sample"
        raise InputError(f"{SOURCE}: empty, 0 {what}(s) (shape={shape}) while a minimum of 1 is required")
    if not isinstance(x, np.ndarray):
        return _on_disk(x)
    if x.dtype.kind not in "fiucbO":
        raise InputError(f"{SOURCE}: states must be numbers, got an array of {x.dtype}")
    if x.dtype.kind in "Ob":
        try:
            x = x.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{SOURCE}: states must be numbers, got objects ({error})") from error
    if space and axis == 1 and x.ndim == 2:
        x = x.T
    x = _flat(x, space, axis)
    if axis == 1 and x.ndim >= 2 and not space:
        x = np.swapaxes(x, -1, -2)
    if x.ndim == 1:
        return [x[:, None]], 2
    if x.ndim > 3:
        raise InputError(
            f"{SOURCE}: states must have shape (time, n) or (trajectories, time, n), got {shape}; for fields give "
            "grid= or an xarray object"
        )
    if x.ndim == 2:
        if axis is None and not asked and not space:
            refuse_swapped(x, SOURCE)
        return [x], 2
    return list(x), 3


def _on_disk(x: Any) -> tuple[list[Any], int]:
    """Each trajectory of an array on the disk, (time, n) or (trajectories, time, n)."""
    if isinstance(x, LazyRows):
        return [x], 2
    shape = tuple(int(length) for length in x.shape)
    if len(shape) not in (2, 3):
        raise InputError(f"{SOURCE}: states must have shape (time, n) or (trajectories, time, n), got {shape}")
    reopen, kind, rows = held({"states": x}), np.dtype(x.dtype), (shape[-2], shape[-1])
    if len(shape) == 2:
        return [LazyRows(reopen, ("states",), (0, 1), {}, rows, kind)], 2
    return [LazyRows(reopen, ("states",), (1, 2), {0: i}, rows, kind) for i in range(shape[0])], 3


def _flat(x: NDArray[Any], space: tuple[int, ...], axis: int | None) -> NDArray[Any]:
    """Axes of space, and of fields in front of them, as one axis of columns."""
    if not space:
        return x
    points = int(np.prod(space))
    d = len(space)
    if x.ndim > d and x.shape[-d:] == space:
        lead = x.shape[:-d]
        if len(lead) > 3:
            raise InputError(f"{SOURCE}: shape {x.shape} has too many axes for a grid of {space}")
        if len(lead) == 2 and _first_is_time(lead, axis):
            return x.reshape(lead[0], lead[1] * points)
        fields = lead[2] if len(lead) == 3 else 1
        return x.reshape(*lead[:2], fields * points)
    if x.ndim in (2, 3) and x.shape[-1] % points == 0:
        return x
    if x.ndim > d + 1 and x.shape[-d - 1 : -1] == space:
        raise InputError(
            f"{SOURCE}: shape {x.shape} has its fields behind the grid {space}; they belong in front of it, as in "
            f"np.moveaxis(x, -1, {-d - 1})"
        )
    raise InputError(
        f"{SOURCE}: shape {x.shape} does not end in the grid {space} nor in a multiple of its {points} points; "
        "check grid="
    )


def _first_is_time(lead: tuple[int, ...], axis: int | None) -> bool:
    """Whether two axes in front of a grid are time and fields, rather than trajectories and time.

    Trajectories of a few states are rare, but many states of a few fields are common.
    """
    if axis is not None:
        return axis == 0 and lead[0] > 1
    return lead[1] < _FEW and lead[1] < lead[0]


def _axis_note(x: Any, space: tuple[int, ...], axis: int | None) -> tuple[str, ...]:
    """A note on how axes were read that could be read in two ways."""
    shape = tuple(x.shape)
    lead = shape[: -len(space)] if space and shape[-len(space) :] == space else ()
    if axis is not None or len(lead) != 2 or not _first_is_time(lead, axis):
        return ()
    return (f"{SOURCE}: shape {shape} is read as {lead[0]} states of {lead[1]} fields; time=1 says that the second "
            "axis is time",)  # fmt: skip


def _input_shares(inputs: Any, count: int, single: bool) -> tuple[list[Any], tuple[str, ...]]:
    if inputs is None:
        return [None] * count, ()
    if isinstance(inputs, str) or (isinstance(inputs, (list, tuple)) and all(isinstance(i, str) for i in inputs)):
        raise InputError("inputs= names variables of files, frames and xarray objects; for arrays give the values")
    if isinstance(inputs, Mapping):
        split = [[value] if single else shares("inputs", value, count) for value in inputs.values()]
        return [list(one) for one in zip(*split, strict=True)], tuple(str(key) for key in inputs)
    return [inputs] if single else shares("inputs", inputs, count), ()


def _known(value: Any, rows: int, name: str) -> Array | None:
    """Inputs of one trajectory as (time, m): varying, or constant and repeated."""
    if value is None:
        return None
    if isinstance(value, list) and value and not np.isscalar(value[0]) and len(value) != rows:
        return np.concatenate([np.asarray(_known(one, rows, name)) for one in value], axis=1)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: inputs must be numbers of shape (time, m) ({error})") from error
    if array.ndim == 2:
        return array
    if array.ndim == 1 and len(array) == rows:
        return array[:, None]
    if array.ndim > 2:
        raise InputError(f"{name}: inputs must have shape (time, m), or (m,) if constant, got {array.shape}")
    return np.repeat(array.reshape(1, -1), rows, axis=0)


def _row_weights(value: Any, rows: int, name: str) -> Array:
    if isinstance(value, str):
        raise InputError("weights= names a variable of files, frames and xarray objects; for arrays give the values")
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0:
        return np.full(rows, float(array))
    if array.shape != (rows,):
        raise InputError(f"{name}: weights must have shape ({rows},), one for each time, got {array.shape}")
    return array


def shares(what: str, value: Any, count: int) -> list[Any]:
    """The part of `value` for each of `count` trajectories."""
    if value is None or isinstance(value, (str, int)):
        return [value] * count
    if isinstance(value, Mapping):
        split = {key: shares(what, one, count) for key, one in value.items()}
        return [{key: one[index] for key, one in split.items()} for index in range(count)]
    if all(isinstance(one, str) for one in value):
        return [value] * count
    if len(value) != count:
        raise InputError(f"{what}: {len(value)} entries for {count} trajectories; give one for each")
    return list(value)
