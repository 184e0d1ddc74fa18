"""The Lorenz equations of 1963."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.core.errors import finite, positive
from lln.systems.base import Array, System


@dataclass(frozen=True)
class Lorenz(System):
    """Convection in three modes: the textbook chaotic flow.

    Equation: ``x' = sigma (y - x)``, ``y' = x (rho - z) - y``, ``z' = x y - beta z``.

    State: (x, y, z), n = 3: overturning rate, horizontal and vertical temperature contrast, dimensionless.

    What the solution does: for rho = 28 it falls on the butterfly attractor (x and y within about 25, z from 1 to 48)
    and never repeats; nearby states part by a factor e every 1.1 time units, so float32 and float64 trajectories agree
    for about 17 units only. For rho = 24, just below where chaos becomes lasting (24.06) and the fixed points
    (+-sqrt(beta (rho - 1)), +-sqrt(beta (rho - 1)), rho - 1) lose their stability (24.74), chaos is a long transient:
    from (1, 1, 1) the state winds around one fixed point in slowly growing loops for 35 units and then visits both.

    When it breaks: RK4 stays on the attractor up to dt of about 0.12; at 0.15 it blows up within a few steps.
    """

    family = "lorenz"
    size = 3
    coordinates = ("x", "y", "z")

    rho: float = 28.0  #: reduced Rayleigh number.
    sigma: float = 10.0  #: Prandtl number.
    beta: float = 8.0 / 3.0  #: aspect ratio of the convection cell.
    dt: float = 0.01  #: time step.

    def __post_init__(self) -> None:
        """Check the constants."""
        finite("rho", self.rho), finite("sigma", self.sigma), finite("beta", self.beta), positive("dt", self.dt)

    @property
    def name(self) -> str:
        """`lorenz-` and rho, since all Lorenz systems have the same size."""
        return f"lorenz-{self.rho:g}"

    def rhs(self, state: Array) -> Array:
        """f(x, y, z): (..., 3) -> (..., 3).

        The order of operations is part of the system: on the attractor a different rounding is a different trajectory.
        """
        # Slices keep the last axis, so that NumPy never sees a float32 scalar and widens it to float64.
        x, y, z = state[..., 0:1], state[..., 1:2], state[..., 2:3]
        return np.concatenate([self.sigma * (y - x), x * (self.rho - z) - y, x * y - self.beta * z], axis=-1)

    def start(self) -> Array:
        """(1, 1, 1)."""
        return np.ones(3)
