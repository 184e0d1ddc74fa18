"""The Allen-Cahn equation in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class AllenCahn(SpectralField):
    """Two phases, u = -1 and u = +1, and the walls between them, which shorten.

    Equation: ``u_t = nu (u_xx + u_yy) + u - u^3`` on the torus. (`ReactionDiffusion` is the paper's, on a circle.)

    State: u on a grid (x, y), (n_x n_y,): the order parameter.

    What the solution does: it descends the energy ``mean of nu |grad u|^2 / 2 + (1 - u^2)^2 / 4``. Within a few units
    of time u is -1 or +1 almost everywhere, with walls tanh(s / sqrt(2 nu)) between. Walls then move at nu times their
    curvature: a disc of radius R shrinks as R^2 = R_0^2 - 2 nu t and vanishes, and what is left grows coarser as
    sqrt(nu t) until the walls are straight or gone. Every u between -1 and 1 stays there.

    When it breaks: a wall has the spectrum exp(-pi k sqrt(nu / 2)), which must have died out at the highest mode kept,
    k = (2 pi / L) n / 3.

    Good values: nu of 0.03 and above on 64 x 64 points with L = 2 pi.

    Args:
        nu: diffusivity.
    """

    family = "allen-cahn"
    dimensions = 2
    steps = 200

    points: int | tuple[int, ...] = 64
    nu: float = 0.03
    length: float | tuple[float, ...] = TWO_PI
    dt: float = 0.1
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """1 - nu |k|^2."""
        return (1.0 + self.nu * self.laplacian).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-u^3."""
        return -self.product(self.smooth_fields(hat) ** 3)

    def start(self) -> Array:
        """Several waves that do not fit each other, between -1 and 1."""
        p, q = self.angles
        waves = np.sin(3.0 * p + np.cos(2.0 * q)) + np.cos(4.0 * q - 2.0 * np.sin(p)) + np.sin(p + 2.0 * q)
        return self.joined(np.tanh(0.5 * waves))

    def random_start(self, seed: int) -> Array:
        """The hyperbolic tangent of random modes up to 5 with root mean square 0.5."""
        return self.joined(np.tanh(0.5 * self.noise(np.random.default_rng(seed), 5)))

    def energy(self, state: Array) -> Array:
        """The free energy, which never grows, (..., n) -> (...)."""
        u = self.split(state)[..., 0, :, :]
        hat = self.spectrum(u)
        slopes = sum(self.fields(d * hat) ** 2 for d in self.derivatives)
        total: Array = (0.5 * self.nu * slopes + 0.25 * (1.0 - u**2) ** 2).mean((-2, -1))
        return total
