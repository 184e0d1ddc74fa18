"""Trajectories: several, of unequal length, with gaps and known inputs, perhaps larger than memory."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lln.core.errors import InputError, check_int, positive
from lln.core.table import counted

BURN_IN, PAIRS, HORIZON = 500, 3000, 500

if TYPE_CHECKING:
    from lln.data.gaps import Filling

Array = NDArray[np.floating[Any]]

BLOCK_BYTES = 1 << 24  # read at a time where data stays on the disk
SAMPLED_BLOCKS = 16  # of data on the disk that go into its digest


class Rows(Protocol):
    """Protocol of states that are not an array: rows are read on request, as from HDF5 and Zarr."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(time, n)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number."""

    def __getitem__(self, rows: slice, /) -> Any:
        """Those rows as an array."""


@dataclass(frozen=True, eq=False)
class Series:
    """One trajectory of a `Dataset`: a row for each time, a column for each coordinate."""

    #: (time, n); NaN marks a gap. An array, or `Rows` that stay on the disk until they are asked for.
    states: Array | Rows
    inputs: Array | Rows | None = None  #: known forcing or parameters at each time, (time, m).
    #: how much each row counts, (time,), zero or more; a pair of states counts as its lightest row.
    weights: Array | None = None
    name: str = "trajectory"  #: what it is called in messages.
    start: float = 0.0  #: time of the first row.
    #: the states before gaps in them were filled, (time, n); None where nothing was filled.
    measured: Array | None = None

    def __post_init__(self) -> None:
        """Check everything, and say where the first fault is."""
        object.__setattr__(self, "states", _checked(self.states, self.name, "states"))
        if self.inputs is not None:
            object.__setattr__(self, "inputs", _checked(self.inputs, self.name, "inputs"))
            if self.inputs.shape[0] != len(self):
                raise InputError(
                    f"{self.name}: inputs have {self.inputs.shape[0]} rows but states have {len(self)}; give one row "
                    "of inputs for each time"
                )
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.shape != (len(self),):
                raise InputError(
                    f"{self.name}: weights must have shape ({len(self)},), one for each time, got {weights.shape}"
                )
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise InputError(f"{self.name}: weights must be finite and not negative")
            object.__setattr__(self, "weights", weights)

    def __len__(self) -> int:
        return int(self.states.shape[0])

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return int(self.states.shape[1])

    @property
    def lazy(self) -> bool:
        """Whether the states stay on the disk until they are asked for."""
        return not isinstance(self.states, np.ndarray)

    def rows(self, first: int, last: int) -> Array:
        """States first to last - 1, (last - first, n)."""
        return _block(self.states, first, last, self.name)

    @property
    def as_measured(self) -> Series:
        """The trajectory with its gaps."""
        return self if self.measured is None else replace(self, states=self.measured, measured=None)

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Rows in which a value was filled in, (time,)."""
        if self.measured is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray((np.isfinite(np.asarray(self.states)) & ~np.isfinite(self.measured)).any(axis=1))

    def input_rows(self, first: int, last: int) -> Array | None:
        """Inputs first to last - 1, (last - first, m), or None."""
        return None if self.inputs is None else _block(self.inputs, first, last, self.name)

    def cut(self, first: int, last: int) -> Series:
        """Rows first to last - 1; the caller, who knows dt, sets the clock."""

        def part(values: Array | Rows) -> Array | Rows:
            return values[first:last] if isinstance(values, np.ndarray) else _Cut(values, first, last)

        inputs = None if self.inputs is None else part(self.inputs)
        weights, measured = (None if one is None else one[first:last] for one in (self.weights, self.measured))
        return Series(part(self.states), inputs, weights, self.name, self.start, measured)

    def blocks(self, overlap: int = 0) -> Iterator[tuple[int, Array]]:
        """The rows in order, a few at a time: (first row, states); each repeats the last `overlap` rows before it."""
        step = max(1, BLOCK_BYTES // (8 * self.size))
        for first in range(0, len(self), step):
            begin = max(0, first - overlap)
            yield begin, self.rows(begin, min(first + step, len(self)))


@dataclass(frozen=True, eq=False)
class _Cut:
    """Part of rows on the disk."""

    whole: Rows
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (max(0, min(self.last, self.whole.shape[0]) - self.first), *self.whole.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.whole.dtype)

    def __getitem__(self, rows: slice, /) -> Any:
        begin, end, _ = rows.indices(self.shape[0])
        return self.whole[self.first + begin : self.first + end]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Trajectories of one system at one time step, with names, units, grid and inputs.

    Args:
        series: at least one, all with n columns and m inputs.
        dt: time between neighbouring rows.
        names: a name for each of the n columns; generated if left out.
        input_names: a name for each of the m inputs.
        space: shape of the grid if the state is made of fields; () for plain states. Then n = channels * prod(space),
            and the columns run through the channels, and within a channel through space in C order.
        channels: names of the fields.
        coords: positions along each dimension of space, (length,) each, in the order of `space`.
        time_name: what time is called in files.
        units: by name of column, channel, dimension or time.
        source: where it came from.
        notes: sentences that a user should read: rows filled in, columns that do not vary, guesses made.
        system: name of the preset that was simulated; empty for data of any other origin.
        frequency: step of the calendar as a pandas offset alias (MS, QS, YS, ME, B, ...), None for steps of equal
            length. Times then count such steps.
        filling: how gaps were filled in; see `lln.data.gaps`. None where they were not.
        input_lags: how many earlier values of each known input are columns of the inputs; see `lln.data.stream`.
        time_zone: name of the zone in which a table gave its dates, which are UTC here; behind the word "local" if they
            are local days; empty if they had none.
    """

    series: tuple[Series, ...]
    dt: float = 1.0
    names: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    coords: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    time_name: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)
    source: str = "array"
    notes: tuple[str, ...] = ()
    system: str = ""
    frequency: str | None = None
    input_lags: int = 0
    time_zone: str = ""
    filling: Filling | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit together, and generate names that are missing."""
        object.__setattr__(self, "series", tuple(self.series))
        if not self.series:
            raise InputError(f"{self.source}: no trajectory in it; give at least one")
        first = self.series[0]
        for index, one in enumerate(self.series):
            for count, there, what, same in (
                (one.size, first.size, "columns", "coordinates"),
                (_inputs(one), _inputs(first), "inputs", "inputs"),
            ):
                if count != there:
                    raise InputError(
                        f"{self.source}: trajectory {index} has {count} {what} but trajectory 0 has {there}; all must "
                        f"have the same {same}"
                    )
        object.__setattr__(self, "dt", positive(f"{self.source}: dt", self.dt))
        _check_space(self)
        points = range(math.prod(self.space))
        made_up = [f"{channel}{i}" for channel in self.channels for i in points] or [f"x{i}" for i in range(self.size)]
        inputs = [f"input{i}" for i in range(self.inputs)]
        for field_name, what, usual in (("names", "columns", made_up), ("input_names", "inputs", inputs)):
            given = tuple(str(name) for name in getattr(self, field_name)) or tuple(usual)
            if len(given) != len(usual):
                raise InputError(
                    f"{self.source}: {len(usual)} {what} but {counted(len(given), 'name')}; give one name for each"
                )
            object.__setattr__(self, field_name, given)

    def __repr__(self) -> str:
        """One line; the numbers are in `series`."""
        names = self.channels if self.space else self.names
        of = ", ".join([*names[:6], *(["..."] if len(names) > 6 else [])])
        grid = f" on a grid of {' x '.join(map(str, self.space))}" if self.space else ""
        step = f"dt = {self.dt:.6g}" + (f" {self.frequency}" if self.frequency else "")
        known = f", known inputs {', '.join(self.input_names)}" if self.input_names else ""
        many = "one trajectory" if len(self.series) == 1 else f"{len(self.series):,} trajectories"
        return f"Dataset({many} of {of}{grid}{known}; {counted(self.rows, 'state')}, {step})"

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return self.series[0].size

    @property
    def inputs(self) -> int:
        """Number of known inputs m."""
        return _inputs(self.series[0])

    @property
    def rows(self) -> int:
        """Number of states in all trajectories together."""
        return sum(len(one) for one in self.series)

    @property
    def lazy(self) -> bool:
        """Whether some states stay on the disk until they are asked for."""
        return any(one.lazy for one in self.series)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows of each trajectory."""
        return tuple(len(one) for one in self.series)

    @property
    def labels(self) -> tuple[str, ...]:
        """What tells the trajectories apart: their names without that of the data."""
        return tuple(one.name.removeprefix(f"{self.source}, ") for one in self.series)

    def times(self, index: int = 0) -> Array:
        """Time of each row of one trajectory, (time,)."""
        return self.series[index].start + np.arange(len(self.series[index])) * self.dt

    def stretches(self, rows: int = 2) -> list[tuple[int, int, int]]:
        """Where the data has no gap for at least `rows` rows: (trajectory, first row, last row + 1), in order."""
        rows = check_int("rows", rows, 1)
        return [(index, a, b) for index, a, b in self._stretches if b - a >= rows]

    @cached_property
    def _stretches(self) -> list[tuple[int, int, int]]:
        return [(index, a, b) for index, one in enumerate(self.series) for a, b in _good_rows(one)]

    def transitions(self, history: int = 1) -> int:
        """Number of usable pairs: `history` states and the one after them, without a gap."""
        return sum(b - a for _, a, b in self.pair_runs(history))

    def pair_runs(self, history: int = 1) -> list[tuple[int, int, int]]:
        """Runs of present rows of usable pairs: (trajectory, first, last + 1).

        They and the states after them were measured; what was filled in between them was computed from both.
        """
        found = []
        for index, a, b in self.stretches(check_int("history", history, 1) + 1):
            first, last = a + history - 1, b - 1
            if self.series[index].measured is None:
                found.append((index, first, last))
                continue
            known = ~self.series[index].filled
            both = known[first:last] & known[first + 1 : last + 1]
            edges = np.flatnonzero(np.diff(both, prepend=False, append=False)) + first
            found += [(index, int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
        return found

    def windows(self, rows: int, count: int | None = None) -> NDArray[np.float64]:
        """Stretches of `rows` rows without a gap and without overlap, (W, rows, n); at most `count`, evenly chosen."""
        rows = check_int("rows", rows, 1)
        stretches = self.stretches(rows)
        # Counted, not listed: data on the disk may hold a hundred million.
        before = np.cumsum([0, *((b - a) // rows for _, a, b in stretches)])
        total = int(before[-1])
        few = total if count is None else min(total, check_int("count", count, 1))
        out = np.empty((few, rows, self.size))
        for row, k in zip(out, np.linspace(0, total - 1, few).round().astype(int), strict=True):
            at = int(np.searchsorted(before, k, side="right")) - 1
            i, a, _ = stretches[at]
            first = a + (int(k) - int(before[at])) * rows
            row[:] = self.series[i].rows(first, first + rows)
        return out

    def select(self, parts: Sequence[tuple[int, int, int]]) -> Dataset:
        """Parts of trajectories as a dataset of their own: (trajectory, first row, last row + 1) for each."""
        chosen = []
        for index, first, last in parts:
            one = self.series[index]
            first, last = max(0, first), min(last, len(one))
            if last > first:
                chosen.append(replace(one.cut(first, last), start=one.start + first * self.dt))
        return replace(self, series=tuple(chosen))

    def cut(self, first: int, last: int | None = None) -> Dataset:
        """Rows first to last - 1 of every trajectory that has them; negative numbers count from the end."""
        spans = [slice(first, last).indices(len(one)) for one in self.series]
        return self.select([(index, begin, end) for index, (begin, end, _) in enumerate(spans)])

    def split(self, fraction: float, overlap: int = 0) -> tuple[Dataset, Dataset]:
        """The first part of every trajectory, and the last `fraction` of its rows: split in time, never at random.

        The second part repeats the last `overlap` rows of the first, so that a rollout may start from them.
        """
        if not 0 < fraction < 1:
            raise InputError(f"fraction must be between 0 and 1, got {fraction}")
        ends = [len(one) - max(1, round(fraction * len(one))) for one in self.series]
        early = [(i, 0, end) for i, end in enumerate(ends)]
        late = [(i, end - overlap, len(self.series[i])) for i, end in enumerate(ends)]
        return self.select(early), self.select(late)

    def shaped(self, states: NDArray[Any]) -> NDArray[Any]:
        """Columns back on the grid: (..., n) -> (..., channels, *space), or without channels if there is one."""
        if not self.space:
            return states
        channels = () if len(self.channels) == 1 else (len(self.channels),)
        return states.reshape(*states.shape[:-1], *channels, *self.space)

    def digest(self) -> str:
        """A name for the content: the same numbers, step and names have the same, wherever they came from.

        Of data on disk, only the shape and some blocks along its length count, so that 20 GB need not be read.
        """
        series = [[*map(int, one.states.shape), str(np.dtype(one.states.dtype)), one.start] for one in self.series]
        head = {name: getattr(self, name) for name in ("dt", "names", "input_names", "space")} | {"series": series}
        hasher = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for one in self.series:
            for first, last in _sampled(one):
                for block in (one.rows(first, last), one.input_rows(first, last)):
                    if block is not None:
                        hasher.update(np.ascontiguousarray(block).tobytes())
            if one.weights is not None:
                hasher.update(one.weights.tobytes())
        return hasher.hexdigest()[:32]


def _checked(values: Array | Rows, name: str, what: str) -> Array | Rows:
    if isinstance(values, (np.ndarray, list, tuple)):
        if np.asarray(values).dtype.kind == "c":
            raise InputError(f"{name}: {what} are complex; give real and imaginary parts as columns of their own")
        array = as_states(values, name)
        if not len(array):
            raise InputError(f"{name}: {what} have no rows (shape {array.shape}); give at least one time")
        _refuse_infinity(array, name, 0)
        return array
    if len(values.shape) != 2 or 0 in values.shape or np.dtype(values.dtype).kind not in "fiu":
        raise InputError(f"{name}: {what} must be numbers of shape (time, n), got {values.dtype} of {values.shape}")
    return values


def _block(values: Array | Rows, first: int, last: int, name: str) -> Array:
    if isinstance(values, np.ndarray):
        part: Array = values[first:last]
        return part
    part = as_states(np.asarray(values[first:last]), name)
    _refuse_infinity(part, name, first)
    return part


def _refuse_infinity(array: Array, name: str, first: int) -> None:
    bad = np.isinf(array)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise InputError(
            f"{name}: {array[row, column]} at row {first + row}, column {column}; cut those rows, or set them to NaN "
            "to have them left out"
        )


def _good_rows(one: Series) -> Iterator[tuple[int, int]]:
    """Runs of rows that are finite in states and inputs and weigh something."""
    begin: int | None = None
    for first, block in one.blocks():
        good = np.isfinite(block).all(axis=1)
        inputs = one.input_rows(first, first + len(block))
        if inputs is not None:
            good &= np.isfinite(inputs).all(axis=1)
        if one.weights is not None:
            good &= one.weights[first : first + len(block)] > 0
        edges = np.flatnonzero(np.diff(good, prepend=begin is not None)) + first
        for edge in edges.tolist():
            if begin is None:
                begin = edge
            else:
                yield begin, edge
                begin = None
    if begin is not None:
        yield begin, len(one)


def _sampled(one: Series) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_BYTES // (8 * one.size))
    starts = range(0, len(one), step)
    if one.lazy and len(starts) > SAMPLED_BLOCKS:
        step = max(1, step // SAMPLED_BLOCKS)
        starts = range(0, len(one), len(one) // SAMPLED_BLOCKS)
    for first in starts:
        yield first, min(first + step, len(one))


def _inputs(one: Series) -> int:
    return 0 if one.inputs is None else int(one.inputs.shape[1])


def _check_space(data: Dataset) -> None:
    space = tuple(check_int(f"{data.source}: a length of the grid", length, 1) for length in data.space)
    channels, points = tuple(str(name) for name in data.channels), math.prod(space)
    if space and not channels:
        count = data.size // points
        channels = ("states",) if count == 1 else tuple(f"field{i}" for i in range(count))
    if space and len(channels) * points != data.size:
        raise InputError(
            f"{data.source}: a grid of {' x '.join(map(str, space))} points and {len(channels)} fields need "
            f"{len(channels) * points} columns, got {data.size}; check the shape of the grid"
        )
    coords = {str(key): np.asarray(value) for key, value in data.coords.items()}
    if not coords:
        letters = "xyzw" if len(space) <= 4 else tuple(f"d{i}" for i in range(len(space)))
        coords = {letters[i]: np.arange(length, dtype=np.float64) for i, length in enumerate(space)}
    if tuple(value.shape for value in coords.values()) != tuple((length,) for length in space):
        found = {key: value.shape for key, value in coords.items()}
        raise InputError(f"{data.source}: the coordinates {found} do not fit a grid of shape {space}")
    object.__setattr__(data, "space", space)
    object.__setattr__(data, "channels", channels if space else ())
    object.__setattr__(data, "coords", coords)


def as_states(values: ArrayLike, name: str) -> Array:
    """`values` as a float array (time, n)."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: states must be numbers, got an array of {array.dtype}")
    if array.ndim != 2 or array.shape[1] < 1:
        raise InputError(f"{name}: states must have shape (time, n), got {array.shape}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
