"""Transport of a passive scalar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.base import Array
from lln.systems.periodic import PeriodicField, neighbours


@dataclass(frozen=True)
class AdvectionDiffusion(PeriodicField):
    """A concentration that drifts and spreads.

    Equation: ``u_t = -c u_x + nu u_xx`` on the circle [0, 2 pi), by central differences:
    ``u_j' = -c (u_{j+1} - u_{j-1}) / (2 dx) + nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2``.

    State: u at n equal points, dimensionless concentration.

    What the solution does: every Fourier mode k moves and decays on its own, as ``exp(lambda_k t)`` with
    ``lambda_k = -i c sin(k dx) / dx - 2 nu (1 - cos(k dx)) / dx^2``; from sin x + cos(2x)/2 the short mode dies out
    four times as fast as the long one. It is linear, and the mean of u is conserved.

    When it breaks: RK4 needs dt below about min(2.8 dx / c, 0.7 dx^2 / nu).

    Args:
        c: velocity.
        nu: diffusivity.
    """

    family = "advecdiff"
    conserves_mean = True
    linear = True

    points: int = 48
    c: float = 0.1
    nu: float = 0.05
    dt: float = 0.01

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        dx = self.spacing
        return (right - 2.0 * state + left) * (self.nu / dx**2) - (right - left) * (self.c / (2.0 * dx))

    def start(self) -> Array:
        """Sin x + cos(2x) / 2."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.5 * np.cos(2.0 * x))
