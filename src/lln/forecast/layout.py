"""What the coordinates of a state mean: names, units, a grid in space, the time step. Kept with a model for good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.forecast.frame import Array


@dataclass(frozen=True, eq=False)
class Layout:
    """How a flat state vector of n coordinates is to be read.

    Attributes:
        names: of the n coordinates.
        dt: time between neighbouring states.
        space: grid shape, () for plain states; then n = channels * prod(space), in the order channel, then space.
        channels: names of the fields on the grid; () for plain states.
        coords: positions along each direction of space, keyed by its name, in order.
        input_names: of the m known inputs.
        time_name: what the data calls time.
        units: by name of coordinate, channel, direction or time, where the data told them.
        source: what the data came from, in words.
    """

    names: tuple[str, ...]
    dt: float
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    coords: Mapping[str, Array] = field(default_factory=dict)
    input_names: tuple[str, ...] = ()
    time_name: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)
    source: str = "array"

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

    def listing(self, most: int = 6) -> str:
        """The coordinates in words, for messages."""
        if self.space:
            return f"{', '.join(self.channels)} on a grid of {' x '.join(map(str, self.space))}"
        shown = ", ".join(self.names[:most])
        return shown if self.size <= most else f"{shown}, ... ({self.size} in all)"

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """The layout of a dataset's states."""
        return cls(
            tuple(dataset.names),
            float(dataset.dt),
            tuple(int(size) for size in dataset.space),
            tuple(dataset.channels),
            {str(name): np.asarray(values) for name, values in dataset.coords.items()},
            tuple(dataset.input_names),
            str(dataset.time_name),
            {str(key): str(unit) for key, unit in dataset.units.items()},
            str(dataset.source),
        )

    def check(self, dataset: Dataset) -> None:
        """Refuse data of another size, step or number of inputs than the model's."""
        if dataset.size != self.size:
            raise InputError(
                f"{dataset.source}: X has {dataset.size} features, but LensForecaster is expecting {self.size} "
                f"features as input ({self.listing()}); give data of the system that it was fitted to",
                topic="other-size",
            )
        if len(dataset.input_names) != len(self.input_names):
            raise InputError(
                f"{dataset.source}: it has {len(dataset.input_names)} known inputs, but this model was fitted with "
                f"{len(self.input_names)}{_named(self.input_names)}; give inputs= as in fit",
                topic="inputs-needed",
            )
        if not math.isclose(dataset.dt, self.dt, rel_tol=1e-3):
            raise InputError(
                f"{dataset.source}: its time step is {dataset.dt:g}, but this model steps by {self.dt:g}; "
                "give dt= if that is what it should be, else resample the data or fit to it",
                topic="other-step",
            )

    def record(self) -> dict[str, Any]:
        """Everything as plain values, for a model file."""
        return {
            "dt": self.dt,
            "names": list(self.names),
            "space": list(self.space),
            "channels": list(self.channels),
            "coords": [[name, np.asarray(values).tolist()] for name, values in self.coords.items()],
            "input_names": list(self.input_names),
            "time_name": self.time_name,
            "units": dict(self.units),
            "source": self.source,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Layout:
        """The layout that `record` wrote down."""
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
        )


def _named(names: tuple[str, ...]) -> str:
    return f" ({', '.join(names)})" if names else ""
