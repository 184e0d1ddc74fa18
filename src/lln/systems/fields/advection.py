"""Transport at a constant speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, Functional, SpectralField, Spectrum


@dataclass(frozen=True)
class Advection(SpectralField):
    """A profile that moves and keeps its shape.

    Equation: ``u_t = -c u_x`` on the circle [0, L), exact: mode k turns by ``exp(-i c k t)``.

    State: u at n equal points, (n,).

    What the solution does: ``u(x, t) = u(x - c t, 0)``. It is linear, and all moments of u, mean and mean square among
    them, are conserved. The simplest test of a surrogate: every error of phase or amplitude adds up.

    When it breaks: never; modes that the grid cannot hold are not there.

    Good values: c dt / dx should not be a whole number, or one step is a mere renumbering of the points.

    Args:
        c: speed.
    """

    family = "advection"
    conserves_mean = True
    linear = True

    points: int = 128
    c: float = 1.0
    length: float = TWO_PI
    dt: float = 0.02
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """-i c k."""
        return -self.c * self.derivatives[0]

    def start(self) -> Array:
        """A bump of width L / 15 at a third of the circle, and a gentle wave."""
        (q,) = self.angles
        return self.joined(np.exp(6.0 * (np.cos(q - 2.0) - 1.0)) + 0.3 * np.sin(q))

    def invariants(self) -> Mapping[str, Functional]:
        """The mean and the mean square of u."""
        return {**super().invariants(), "mean square": lambda state: np.square(state).mean(-1)}
