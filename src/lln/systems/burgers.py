"""The viscous Burgers equation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.base import Array
from lln.systems.periodic import PeriodicField, neighbours


@dataclass(frozen=True)
class Burgers(PeriodicField):
    """Steepening against viscosity: the simplest model of a shock.

    Equation: ``u_t = -(u^2 / 2)_x + nu u_xx`` on the circle [0, 2 pi), in conservative form:
    ``u_j' = -(u_{j+1}^2 - u_{j-1}^2) / (4 dx) + nu (u_{j+1} - 2 u_j + u_{j-1}) / dx^2``.

    State: u at n equal points, dimensionless velocity.

    What the solution does: waves from sin x + cos(2x)/2 steepen until about t = 0.6, when fronts of width nu / |u|
    form, which then drift, merge and decay. The mean of u is conserved exactly, also by the discrete form.

    When it breaks: fronts thinner than dx (cell Reynolds number |u| dx / nu above 2) ring on the grid: at nu = 0.02 the
    presets with 32 and 48 points are under-resolved and the ringing is part of the system to be learned; the true
    front needs about 512 points. RK4 needs dt below about min(2.8 dx / |u|, 0.7 dx^2 / nu).

    Args:
        nu: viscosity.
    """

    family = "burgers"
    conserves_mean = True

    points: int = 48
    nu: float = 0.02
    dt: float = 0.001

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        left, right = neighbours(state)
        dx = self.spacing
        flux = (right * right - left * left) * (0.25 / dx)
        return (right - 2.0 * state + left) * (self.nu / dx**2) - flux

    def start(self) -> Array:
        """Sin x + cos(2x) / 2."""
        x = self.grid
        return np.asarray(np.sin(x) + 0.5 * np.cos(2.0 * x))
