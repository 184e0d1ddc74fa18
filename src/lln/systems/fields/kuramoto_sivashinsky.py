"""The Kuramoto-Sivashinsky equation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import Array, SpectralField, Spectrum


@dataclass(frozen=True)
class KuramotoSivashinsky(SpectralField):
    """Flame fronts and falling films: the simplest field that is chaotic in space and time.

    Equation: ``u_t = -(u^2 / 2)_x - u_xx - u_xxxx`` on the circle [0, L).

    State: u at n equal points, (n,), dimensionless slope of the front.

    What the solution does: waves longer than 2 pi grow (mode k at the rate k^2 - k^4, fastest at length 2 pi sqrt(2)),
    the nonlinear term hands their energy to short ones, which die out. At L = 22 and above it is chaotic: cells of
    length about 9 that split and merge, values within about 3.5. The number of positive Lyapunov exponents
    grows with L; at L = 22 the largest is about 0.05, at L = 60 about 0.08. The mean of u is conserved.

    When it breaks: the grid needs its highest mode kept, (2 pi / L) n / 3, at 3 or above. ETDRK4 stays finite even with
    steps of 2, so that its error is the limit; being chaotic, a trajectory is right while exp(0.08 t) times that is
    small.

    Good values: (points, L) of (64, 22) and (128, 60), dt of 0.25, and 400 steps to reach the attractor.
    """

    family = "ks"
    conserves_mean = True
    burn_in = 400
    steps = 2000
    modes = 4

    points: int = 128
    length: float = 60.0
    dt: float = 0.25
    substeps: int = 2

    def symbol(self) -> Spectrum:
        """k^2 - k^4."""
        return (-self.laplacian - self.laplacian**2).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-(u^2 / 2)_x."""
        return np.asarray(-0.5 * self.derivatives[0] * self.product(self.smooth_fields(hat) ** 2))

    def start(self) -> Array:
        """Cos q (1 + sin q) with q = 2 pi x / L."""
        (q,) = self.angles
        return self.joined(np.cos(q) * (1.0 + np.sin(q)))
