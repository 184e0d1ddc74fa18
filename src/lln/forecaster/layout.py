"""What a model stores about its data: names, units, grid and time step of coordinates, and which rows trained.

The rows take a few kilobytes. With them, a score on training rows is always recognised.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.core.table import human_time, plain
from lln.data.gaps import Filling
from lln.data.interpret.calendar import FEWEST, checked_alias, dates_of, step_numbers, time_zone, unit_of
from lln.data.read.formats import as_dataset
from lln.data.series import Dataset, Series
from lln.step.frame import Array

_SHOWN = 6
Marks = NDArray[np.uint64]
Part = tuple[int, int, int]

_RUN = 8
_MOST = 16384


@dataclass(frozen=True, eq=False)
class Layout:
    """How a flat state vector of n coordinates is to be read."""

    names: tuple[str, ...]  #: of the n coordinates.
    dt: float  #: time between neighbouring states.
    #: grid shape, () for plain states; then n = channels * prod(space), in the order channel, then space.
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()  #: names of the fields on the grid; () for plain states.
    #: positions along each direction of space, keyed by its name, in order.
    coords: Mapping[str, Array] = field(default_factory=dict)
    input_names: tuple[str, ...] = ()  #: of the m known inputs.
    time_name: str = "time"  #: what the data calls time.
    #: by name of coordinate, channel, direction or time, where the data has them.
    units: Mapping[str, str] = field(default_factory=dict)
    source: str = "array"  #: what the data came from, as text.
    frequency: str | None = None  #: step of the calendar as a pandas offset alias, None for steps of equal length.
    #: name of the zone in which tables of a forecast give their dates; empty for dates without one, in UTC.
    time_zone: str = ""
    filling: Filling | None = None  #: how gaps in other data are filled; None where they stay gaps.

    @property
    def size(self) -> int:
        """Number of coordinates n."""
        return len(self.names)

    @property
    def variables(self) -> tuple[str, ...]:
        """One name for each quantity: channels on a grid, coordinates otherwise."""
        return self.channels if self.space else self.names

    @property
    def shape(self) -> tuple[int, ...]:
        """The natural shape of one state: (n,), a grid, or channels on a grid."""
        if not self.space:
            return (self.size,)
        return self.space if len(self.channels) == 1 else (len(self.channels), *self.space)

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of the directions of space."""
        return tuple(self.coords) if self.space else ()

    @property
    def time_unit(self) -> str:
        """The unit of the time step, "" if it is unknown; for dates the unit without the first date."""
        return self.units.get(self.time_name, "").partition(" since ")[0]

    @property
    def step_length(self) -> str:
        """The time step as text, with its unit where that is known."""
        return human_time(self.dt, self.time_unit) if self.time_unit else f"{self.dt:g}"

    def listing(self, most: int = 6) -> str:
        """The coordinates as text, for messages."""
        if self.space:
            return f"{', '.join(self.channels)} on a grid of {' x '.join(map(str, self.space))}"
        shown = ", ".join(self.names[:most])
        return shown if self.size <= most else f"{shown}, ... ({self.size} in all)"

    @property
    def title(self) -> str:
        """What titles call the data: files without their folders. An array's coordinates stand for it."""
        if self.source == "array":
            return self.listing(3)
        names = [PurePath(one).name for one in self.source.split(", ")]
        return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} others"

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """The layout of a dataset's states."""
        found = {one.name: getattr(dataset, one.name) for one in fields(cls)}
        units = {dataset.time_name if key == "time" else key: unit for key, unit in dataset.units.items()}
        filling = None if dataset.filling is None else dataset.filling.record()
        return cls.from_record({**found, "coords": dataset.coords.items(), "units": units, "filling": filling})

    def read(self, x: Any, **options: Any) -> Dataset:
        """Data for a model of this layout; roles that `options` of `as_dataset` do not set are found by its names.

        Where both sides have names, they say which column is which, in whatever order.
        """
        options = {key: value for key, value in options.items() if value is not None}
        if isinstance(x, Dataset):
            dataset = x
        elif _bare(x):
            dataset = as_dataset(x, **{"dt": self.dt} | options)
            if self.space and not dataset.space and dataset.size == self.size:  # the grid is known
                dataset = replace(
                    dataset, names=self.names, space=self.space, channels=self.channels, coords=dict(self.coords)
                )
        else:
            dataset = self._of_names(x, options)
        self.check(dataset)
        return dataset if self.filling is None or dataset.lazy else self.filling.of_dataset(dataset)

    def _of_names(self, x: Any, options: dict[str, Any]) -> Dataset:
        """From files, tables and xarray objects, which may hold more than was fitted, text too."""
        if "inputs" in options or self.input_names:
            options = {**options, "inputs": _in_order(options.get("inputs"), self.input_names)}
        if "states" in options:
            dataset = self._stepped(x, {**options, "states": _in_order(options["states"], self.variables)})
            # A caller who names the states means the states of the model, even under other names.
            same = dataset.size == self.size and tuple(dataset.space) == self.space
            return replace(dataset, names=self.names, channels=self.channels) if same else dataset
        own = {**options, "states": list(self.variables)}
        try:
            dataset = self._stepped(x, options)
        except InputError as first:
            try:
                return self._stepped(x, own)
            except InputError:
                raise first from None
        if tuple(dataset.channels if dataset.space else dataset.names) != self.variables:
            with contextlib.suppress(InputError):
                return self._stepped(x, own)
        return dataset

    def _stepped(self, x: Any, options: dict[str, Any]) -> Dataset:
        """A table without times has the model's step."""
        if type(x).__module__.partition(".")[0] == "pandas" and "dt" not in options:
            with contextlib.suppress(InputError):
                return self._on_calendar(as_dataset(x, dt=self.dt, **options))
        dataset = as_dataset(x, **options)
        if self.frequency is None and dataset.frequency is not None and "dt" not in options:
            with contextlib.suppress(InputError):  # a model from before there were steps of the calendar
                return as_dataset(x, dt=self.dt, **options)
        return self._on_calendar(dataset)

    def _on_calendar(self, dataset: Dataset) -> Dataset:
        """Data of too few dates to show their step take the model's, if they fit it."""
        if self.frequency is None or dataset.frequency is not None or max(dataset.lengths) >= FEWEST:
            return dataset
        dates = [dates_of(dataset.times(i), dataset.units.get("time", "")) for i in range(len(dataset.series))]
        known = [one for one in dates if one is not None]
        if len(known) < len(dates):
            return dataset
        first = known[0][0]
        counts = [step_numbers(one, first, self.frequency) for one in known]
        if any((np.diff(one) != 1).any() for one in counts):
            return dataset
        series = tuple(replace(one, start=float(count[0])) for one, count in zip(dataset.series, counts, strict=True))
        units = {**dataset.units, "time": unit_of(first, self.frequency)}
        return replace(dataset, series=series, dt=self.dt, units=units, frequency=self.frequency)

    def check(self, dataset: Dataset) -> None:
        """Refuse data of another size, step or number of inputs than the model's, or with other names."""
        if dataset.size != self.size:
            raise InputError(
                f"{dataset.source}: X has {dataset.size} features, but LensForecaster is expecting {self.size} "
                f"features as input ({self.listing()}); give data of the system that it was fitted to",
                topic="other-size",
            )
        if len(dataset.input_names) != len(self.input_names):
            named = f" ({', '.join(self.input_names)})" if self.input_names else ""
            raise InputError(
                f"{dataset.source}: it has {len(dataset.input_names)} known inputs, but this model was fitted with "
                f"{len(self.input_names)}{named}; name them with --inputs (in Python: "
                "inputs=) as in fit",
                topic="inputs-needed",
            )
        for what, found, own in (
            ("states", dataset.channels if dataset.space else dataset.names, self.variables),
            ("inputs", dataset.input_names, self.input_names),
        ):
            if not _alike(tuple(found), own):
                raise InputError(
                    f"{dataset.source}: its {what} are {', '.join(found[:_SHOWN])}, but this model was fitted to "
                    f"{', '.join(own[:_SHOWN])}, in that order; rename or reorder them, or name them in that order "
                    f"with --{what} (in Python: {what}=)",
                    topic="other-names",
                )
        if dataset.frequency not in (None, self.frequency):
            raise InputError(
                f"{dataset.source}: its dates are {_steps(dataset.frequency)}, but this model was fitted to "
                f"{_steps(self.frequency)}; give data of that step, or say --time none (in Python: time='none')",
                topic="other-step",
            )
        if not math.isclose(dataset.dt, self.dt, rel_tol=1e-3):
            raise InputError(
                f"{dataset.source}: its time step is {dataset.dt:g}, but this model steps by {self.dt:g}; resample "
                f"it with --resample --dt {self.dt:g} (in Python: resample=True, dt={self.dt:g}), say --dt {self.dt:g} "
                "alone if it has no times, or fit to it",
                topic="other-step",
            )

    def record(self) -> dict[str, Any]:
        """Everything as plain values, for a model file."""
        names = ["dt", "names", "space", "channels", "coords", "input_names", "time_name", "units", "source"]
        names += ["frequency", "time_zone"] if self.time_zone else ["frequency"]
        coords = [[name, np.asarray(values).tolist()] for name, values in self.coords.items()]
        filling = {} if self.filling is None else {"filling": self.filling.record()}
        return {name: plain(getattr(self, name)) for name in names} | {"coords": coords} | filling

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Layout:
        """The layout that `record` wrote down."""
        zone = str(record.get("time_zone", ""))
        return cls(
            tuple(map(str, record["names"])),
            float(record["dt"]),
            tuple(map(int, record["space"])),
            tuple(map(str, record["channels"])),
            {str(name): np.asarray(values) for name, values in record["coords"]},
            tuple(map(str, record["input_names"])),
            str(record["time_name"]),
            {str(key): str(unit) for key, unit in record["units"].items()},
            str(record["source"]),
            checked_alias(record["frequency"]) if record.get("frequency") else None,
            zone if zone and time_zone(zone) else "",
            Filling.from_record(record["filling"]) if record.get("filling") else None,
        )


def _steps(frequency: str | None) -> str:
    """Steps of a frequency in words, as in "quarters"."""
    if frequency is None:
        return "steps of equal length"
    word = unit_of(np.datetime64(0, "s"), frequency).partition(" since ")[0]
    return f"steps of the calendar ({frequency})" if word == "steps" else word


def _bare(x: Any) -> bool:
    """Whether data are arrays alone, which know no time and no names."""
    items = x if isinstance(x, list | tuple) else [x]
    return all(isinstance(item, np.ndarray | list | tuple | float | int) or hasattr(item, "detach") for item in items)


def _in_order(given: Any, own: Sequence[str]) -> Any:
    """The model's names where none are given, or the same in another order; else what is given."""
    names = list(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [given]
    same = all(isinstance(name, str) for name in names) and set(names) == set(own)
    return list(own) if given is None or same else given


def _alike(found: tuple[str, ...], own: tuple[str, ...]) -> bool:
    """Whether names do not contradict each other; made-up ones say nothing, and one quantity has no order."""
    if found == own or len(own) == 1:
        return True
    made_up = [tuple(f"{word}{i}" for i in range(len(own))) for word in ("x", "input")]
    return set(found) != set(own) and (found in made_up or own in made_up)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingFingerprint:
    """Which rows trained a model.

    Short runs of consecutive rows are hashed, so that rows are recognised in any other file, cut, order or precision
    that holds the same numbers. Of very many runs those whose hash is a multiple of `stride` are kept, and the rows
    between two of them count as they do.
    """

    source: str  # what the data was called
    rows: tuple[Part, ...]  # (trajectory, first row, last row + 1) for each part that trained
    held_out: tuple[Part, ...]  # the parts that only helped to choose
    total: int  # rows of the data in all
    run: int  # rows in one hash
    stride: int  # one in so many hashes is kept
    marks: Marks  # sorted hashes
    choosing: TrainingFingerprint | None = None  # the same of the rows that only helped to choose

    def __repr__(self) -> str:
        trained = sum(last - first for _, first, last in self.rows)
        return f"TrainingFingerprint({trained:,} of {self.total:,} rows of {self.source})"

    @classmethod
    def of(cls, dataset: Dataset, rows: Sequence[Part], held_out: Sequence[Part] = ()) -> TrainingFingerprint:
        """Hash those parts of `dataset`."""
        parts = [part for part in rows if part[2] > part[1]]
        run = min([_RUN, *(last - first for _, first, last in parts)])
        stride, kept = 1, np.empty(0, dtype=np.uint64)
        for index, first, last in parts:
            for _, hashes in _hashes(dataset.series[index].cut(first, last), run):
                kept = np.union1d(kept, _select(hashes, stride))
                while len(kept) > _MOST:
                    stride *= 2
                    kept = _select(kept, stride)
        choosing = cls.of(dataset, held_out) if any(last > first for _, first, last in held_out) else None
        return cls(dataset.source, tuple(parts), tuple(held_out), dataset.rows, run, stride, kept, choosing)

    def seen(self, series: Series) -> NDArray[np.bool_]:
        """Which rows of a trajectory trained, (time,)."""
        rows = np.zeros(len(series), dtype=bool)
        places, flags = [np.array([-1])], [np.array([False])]
        for first, hashes in _hashes(series, self.run):
            chosen = np.flatnonzero(hashes % np.uint64(self.stride) == 0)
            places.append(chosen + first)
            flags.append(np.isin(hashes[chosen], self.marks))
        probes = np.concatenate([*places, [len(rows) - self.run + 1]])
        found = np.flatnonzero(np.concatenate(flags))
        if not len(found):
            return rows
        # A run between two kept hashes trained if one of them did, so each reaches from the one before to the next.
        begins, ends = probes[found - 1] + 1, probes[found + 1] - 1 + self.run
        apart = np.flatnonzero(begins[1:] > ends[:-1])
        for begin, end in zip(begins[np.r_[0, apart + 1]], ends[np.r_[apart, -1]], strict=True):
            rows[begin:end] = True
        return rows

    def chose(self, series: Series) -> NDArray[np.bool_]:
        """Which rows of a trajectory helped to choose but did not train, (time,)."""
        if self.choosing is None:
            return np.zeros(len(series), dtype=bool)
        return self.choosing.seen(series) & ~self.seen(series)

    def record(self) -> dict[str, Any]:
        """Everything but the hashes as plain values, for a model file."""
        found: dict[str, Any] = {} if self.choosing is None else {"choosing": self.choosing.record()}
        found |= {name: getattr(self, name) for name in ("source", "rows", "held_out", "total", "run", "stride")}
        return found | {name: [list(part) for part in found[name]] for name in ("rows", "held_out")}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], marks: Marks, choosing: Marks | None = None) -> TrainingFingerprint:
        """The fingerprint that `record` wrote down, with the hashes of the rows that trained and that chose."""
        rows, held_out = (tuple((int(i), int(a), int(b)) for i, a, b in record[key]) for key in ("rows", "held_out"))
        run, stride = max(1, int(record["run"])), max(1, int(record["stride"]))
        other = record.get("choosing")
        chose = None if other is None or choosing is None else cls.from_record(other, choosing)
        return cls(str(record["source"]), rows, held_out, int(record["total"]), run, stride, marks, chose)


def _select(hashes: Marks, stride: int) -> Marks:
    return np.unique(hashes[hashes % np.uint64(stride) == 0])


def _hashes(series: Series, run: int) -> Iterator[tuple[int, Marks]]:
    """One hash for each `run` consecutive rows, time - run + 1 in all, a block at a time: (first run, hashes)."""
    factors = _factors(series.size)
    for first, block in series.as_measured.blocks(overlap=run - 1):
        # Adding zero makes -0.0 and 0.0 one number; float32 data widens without change.
        bits = (np.ascontiguousarray(block, dtype=np.float64) + 0.0).view(np.uint64)
        rows = _mixed((_mixed(bits) * factors).sum(axis=1, dtype=np.uint64))
        count = max(0, len(rows) - run + 1)
        total = np.zeros(count, dtype=np.uint64)
        for offset, factor in enumerate(_factors(run)):
            total += rows[offset : offset + count] * factor
        yield first, _mixed(total)


def _factors(count: int) -> Marks:
    """Odd multipliers, the same everywhere."""
    return _mixed(np.arange(1, count + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(values: Marks) -> Marks:
    """Spread every bit of 64 over all of them (multiply and shift, twice)."""
    for factor in (0xD6E8FEB86659FD93, 0xCA5A826395121157):
        values = (values ^ (values >> np.uint64(32))) * np.uint64(factor)
    return values ^ (values >> np.uint64(32))
