"""Transport of a passive scalar in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class AdvectionDiffusion2D(SpectralField):
    """A concentration that a steady wind carries while it spreads.

    Equation: ``u_t = -c_x u_x - c_y u_y + nu (u_xx + u_yy)`` on the torus, exact: mode k goes as
    ``exp(-i c.k t - nu |k|^2 t)``.

    State: u on a grid (x, y), (n_x n_y,).

    What the solution does: the field drifts with the wind and blurs; after the time (L / 2 pi)^2 / nu only the longest
    waves are left. It is linear, and the mean of u is conserved.

    When it breaks: never forward in time for nu > 0.

    Good values: as the preset; a trajectory of (L / 2 pi)^2 / nu at most, beyond which little is left to predict.

    Args:
        wind: (c_x, c_y).
        nu: diffusivity.
    """

    family = "advecdiff-2d"
    conserves_mean = True
    dimensions = 2
    linear = True

    points: int | tuple[int, ...] = 64
    wind: tuple[float, float] = (1.0, 0.4)
    nu: float = 0.02
    length: float | tuple[float, ...] = TWO_PI
    dt: float = 0.04
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """-i c.k - nu |k|^2."""
        along, across = self.derivatives
        return np.asarray(self.nu * self.laplacian - self.wind[0] * along - self.wind[1] * across)

    def start(self) -> Array:
        """Two puffs of unlike width and sign."""
        p, q = self.angles
        first = np.exp(6.0 * (np.cos(p - 1.5) + np.cos(q - 2.0) - 2.0))
        second = np.exp(2.0 * (np.cos(p - 4.0) + np.cos(q - 4.5) - 2.0))
        return self.joined(first - 0.7 * second)

    @property
    def symbols(self) -> Mapping[str, float]:
        """Size n, c_x, c_y and nu."""
        return {"n": self.size, "c_x": self.wind[0], "c_y": self.wind[1], "nu": self.nu}
