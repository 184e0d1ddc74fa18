"""The Allen-Cahn equation: a bistable reaction with diffusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.base import Array
from lln.systems.periodic import PeriodicField, neighbours


@dataclass(frozen=True)
class ReactionDiffusion(PeriodicField):
    """Two phases, u = -1 and u = +1, with walls between them.

    Equation: ``u_t = nu u_xx + u - u^3`` on the circle [0, 2 pi), by central differences:
    ``u_j' = nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2 + u_j - u_j^3``.

    State: u at n equal points, dimensionless order parameter.

    What the solution does: it descends the energy ``integral of nu u_x^2 / 2 + (1 - u^2)^2 / 4``. Within a few time
    units u is close to one of the two phases almost everywhere, with walls of width sqrt(2 nu) between; the walls
    then hardly move, and every state between -1 and 1 stays there.

    When it breaks: walls need a few points each, dx below sqrt(2 nu); RK4 needs dt below about 0.7 dx^2 / nu and 1.

    Args:
        nu: diffusivity.
    """

    family = "reactiondiff"

    points: int = 48
    nu: float = 0.05
    dt: float = 0.002

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        return (right - 2.0 * state + left) * (self.nu / self.spacing**2) + state - state * state * state

    def start(self) -> Array:
        """Sin x + cos(2x) / 4."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.25 * np.cos(2.0 * x))

    def energy(self, state: Array) -> Array:
        """The free energy, which never grows, (..., n) -> (...)."""
        _, right = neighbours(state)
        slope = (right - state) / self.spacing
        total: Array = self.spacing * (0.5 * self.nu * slope**2 + 0.25 * (1.0 - state**2) ** 2).sum(-1)
        return total
