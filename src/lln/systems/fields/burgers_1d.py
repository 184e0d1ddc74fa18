"""The viscous Burgers equation, resolved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class Burgers1D(SpectralField):
    """Steepening against viscosity, with fronts that the grid resolves (`Burgers` is the paper's, by differences).

    Equation: ``u_t = -(u^2 / 2)_x + nu u_xx`` on the circle [0, L).

    State: u at n equal points, (n,), dimensionless velocity.

    What the solution does: crests overtake troughs; after a time of about L / (2 pi |u|) fronts of width nu / |u| stand
    between ramps, drift with the mean of u, merge, and decay as 1 / t. The mean of u is conserved. Cole and Hopf turn
    it into the heat equation by ``u = -2 nu (log phi)_x``.

    When it breaks: a front has the spectrum exp(-pi nu k / |u|), with |u| half its jump; it must have died out at the
    highest mode kept, k = (2 pi / L) n / 3. At nu = 0.1, |u| = 1 and 128 points it is 2e-6 there. ETDRK4 is safe with
    steps below about 2 / (k |u|) with that k, and beyond where viscosity damps the high modes.

    Good values: nu of 0.05 and above on 128 points, 0.02 on 512.

    Args:
        nu: viscosity.
    """

    family = "burgers-1d"
    conserves_mean = True
    modes = 4
    rms = 0.7

    points: int = 128
    nu: float = 0.1
    length: float = TWO_PI
    dt: float = 0.02
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """-nu k^2."""
        return (self.nu * self.laplacian).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-(u^2 / 2)_x."""
        return np.asarray(-0.5 * self.derivatives[0] * self.product(self.smooth_fields(hat) ** 2))

    def start(self) -> Array:
        """Sin q + cos(2q) / 2 with q = 2 pi x / L."""
        (q,) = self.angles
        return self.joined(np.sin(q) + 0.5 * np.cos(2.0 * q))
