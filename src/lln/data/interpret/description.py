"""What the sources of data are brought to before their times are examined, and what the caller asked for by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from lln.core.errors import InputError
from lln.data.interpret.resample import NO_CONTEXT, TimeContext
from lln.data.series import Array, Rows

NO_TIME = "none"  # as `time`: the rows have no times


@dataclass(frozen=True)
class Choices:
    """What the caller asked for by name; see `as_dataset`."""

    dt: float | None = None
    inputs: Any = None
    weights: Any = None
    names: Sequence[str] | None = None
    grid: Any = None
    time: Any = None
    states: str | Sequence[str] | None = None
    trajectory: str | None = None
    resample: bool = False

    def __post_init__(self) -> None:
        """Refuse values that cannot be names."""
        for what, given in (("states", self.states), ("trajectory", self.trajectory)):
            if given is not None and not isinstance(given, Iterable):
                raise InputError(f"{what}= must name variables or columns, got {type(given).__name__}")

    @property
    def timeless(self) -> bool:
        """Whether the caller said that the rows have no times."""
        return isinstance(self.time, str) and self.time.lower() == NO_TIME

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Names of columns or variables that the caller gave a role."""
        parts = (self.time, self.states, self.trajectory, self.inputs, self.weights)
        listed = ([part] if isinstance(part, str) else part for part in parts if isinstance(part, Iterable))
        return frozenset(one for part in listed for one in part if isinstance(one, str))


@dataclass(frozen=True, eq=False)
class Part:
    """One trajectory before its times are examined.

    Attributes:
        name: for messages.
        times: of its rows, (time,): numbers, dates or durations; None if there are none.
        states: (time, n).
        inputs: (time, m), or None.
        weights: (time,), or None.
        start: added to the times, or the time of the first row if there are none.
        context: for messages about its times.
    """

    name: str
    times: Any
    states: Array | Rows
    inputs: Array | Rows | None = None
    weights: Array | None = None
    start: float = 0.0
    context: TimeContext = NO_CONTEXT


@dataclass(frozen=True, eq=False)
class Description:
    """A source of data whose roles are known: the same for arrays, tables, files and xarray objects.

    Attributes:
        source: name for messages.
        parts: the trajectories.
        names: of the columns, () if there are none.
        input_names: of the known inputs.
        space: shape of the grid, or ().
        channels: names of the fields.
        coords: positions along the dimensions of the grid.
        time_name: name of time.
        units: by name; that of time under "time".
        notes: sentences for the user.
        system: name of the preset that was simulated.
        dt: time step that a file states.
        calendar: of times that count from a date, as CF names it.
        frequency: calendar step that a file states, as a pandas offset alias.
        turnable: whether rows and columns may have been exchanged.
    """

    source: str
    parts: Sequence[Part]
    names: tuple[str, ...] = ()
    input_names: tuple[str, ...] = ()
    space: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    coords: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    time_name: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    system: str = ""
    dt: float | None = None
    calendar: str = ""
    frequency: str | None = None
    turnable: bool = False
