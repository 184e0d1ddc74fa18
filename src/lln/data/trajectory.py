"""One trajectory as plain numbers, and simulated ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lln.core.errors import InputError, positive
from lln.core.table import counted
from lln.data.cache import simulated_states
from lln.data.series import Array, as_states
from lln.systems import System, preset


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

    def __repr__(self) -> str:
        """One line; the numbers are in `states`."""
        names = ", ".join([*self.names[:6], *["..."] * (self.size > 6)])
        return f"Trajectory({self.name}: {counted(len(self), 'state')} of {names}, dt = {self.dt:.6g})"

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


def simulate(
    system: System | str, steps: int, *, start: ArrayLike | None = None, dtype: str = "float32"
) -> Trajectory:  # fmt: skip
    """Simulate `system`; the states of the systems of lln are cached and read again for the same arguments.

    Args:
        system: what to simulate, or the name of a preset.
        steps: number of steps; the trajectory has one row more, because the start is its first row.
        start: the state at time zero, (n,); None takes the system's own start.
        dtype: of the states, "float32" or "float64". Runge-Kutta also computes in it; spectral fields are always
            computed in float64.
    """
    if isinstance(system, str):
        system = preset(system)
    if not isinstance(system, System):
        raise InputError(f"system must be a system or the name of a preset, such as 'lorenz-28', got {system!r}")
    states = simulated_states(system, steps, starts=start, dtype=dtype)
    return Trajectory(states, system.dt, system.coordinates, system.grid, system.name)


simulated = simulate  # the name in version 0.1
