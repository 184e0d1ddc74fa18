"""Equal masses in a row, joined by equal springs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lln.core.errors import check_int, positive
from lln.systems.base import Array, Functional, System


@dataclass(frozen=True)
class SpringChain(System):
    """A chain of n unit masses and unit springs between two walls: the lattice wave equation.

    Equation: ``q_i' = p_i``, ``p_i' = q_{i+1} - 2 q_i + q_{i-1}`` with ``q_{-1} = q_n = 0`` at the walls.

    State: (q_0 .. q_{n-1}, p_0 .. p_{n-1}), 2n numbers: displacements, then momenta, dimensionless.

    What the solution does: the narrow bump at the middle splits into two pulses that run to the walls at about one
    site a time unit, turn over, come back, and leave a growing train of short waves behind, since the lattice is
    dispersive: mode m swings at ``omega_m = 2 sin(pi m / (2 (n + 1)))``. Nothing decays: the energy
    ``sum p^2 / 2 + sum (q_{i+1} - q_i)^2 / 2``, walls included, is conserved. It is linear, so the exact solution is
    known, and a linear map is all that a model has to learn.

    When it breaks: RK4 is stable for dt below sqrt(2) (2.83 over the highest frequency, 2).
    """

    family = "springchain"
    linear = True

    masses: int = 32  #: number of masses n.
    dt: float = 0.02  #: time step.

    def __post_init__(self) -> None:
        """Check the constants."""
        check_int("masses", self.masses, 2), positive("dt", self.dt)

    @property
    def size(self) -> int:
        """Displacements and momenta: 2n."""
        return 2 * self.masses

    @property
    def name(self) -> str:
        """`springchain-` and the number of masses."""
        return f"springchain-{self.masses}"

    def rhs(self, state: Array) -> Array:
        """f(q, p): (..., 2n) -> (..., 2n)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        slope = np.empty_like(state)
        slope[..., : self.masses] = p
        force = slope[..., self.masses :]
        np.multiply(q, -2.0, out=force)
        force[..., :-1] += q[..., 1:]
        force[..., 1:] += q[..., :-1]
        return slope

    def start(self) -> Array:
        """A bump of Gaussian shape at the middle, exp(-200 (u - 1/2)^2) with u = (i + 1)/(n + 1), at rest."""
        u = np.arange(1, self.masses + 1) / (self.masses + 1)
        return np.concatenate([np.exp(-200.0 * (u - 0.5) ** 2), np.zeros(self.masses)])

    def energy(self, state: Array) -> Array:
        """Kinetic and elastic energy, (..., 2n) -> (...)."""
        q, p = state[..., : self.masses], state[..., self.masses :]
        wall = np.zeros_like(q[..., :1])
        stretch = np.diff(q, axis=-1, prepend=wall, append=wall)
        total: Array = 0.5 * (p**2).sum(-1) + 0.5 * (stretch**2).sum(-1)
        return total

    @property
    def coordinates(self) -> tuple[str, ...]:
        """q0, q1, ..., p0, p1, ..."""
        return tuple(f"{letter}{i}" for letter in "qp" for i in range(self.masses))

    @property
    def symbols(self) -> Mapping[str, float]:
        """Size n alone; masses and springs are units."""
        return {"n": self.masses}

    def invariants(self) -> Mapping[str, Functional]:
        """The energy."""
        return {"energy": self.energy}
