"""The Korteweg-de Vries equation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import Array, Functional, SpectralField, Spectrum


@dataclass(frozen=True)
class KortewegDeVries(SpectralField):
    """Long waves on shallow water, where steepening and dispersion balance in solitons.

    Equation: ``u_t = -3 (u^2)_x - u_xxx`` on the circle [0, L), that is ``u_t + 6 u u_x + u_xxx = 0``.

    State: u at n equal points, (n,), dimensionless elevation.

    What the solution does: a soliton ``(c / 2) sech^2(sqrt(c) (x - c t) / 2)`` moves unchanged at its speed c; a tall
    one overtakes a low one, and both keep their shape and are shifted. Any smooth start breaks up into solitons and
    later returns near to itself. Nothing decays: mean, mean square (momentum) and the energy
    ``mean of u_x^2 / 2 - u^3`` are conserved.

    When it breaks: a soliton has the spectrum exp(-pi k / sqrt(c)), which must have died out at the highest mode kept,
    k = (2 pi / L) n / 3. The dispersive part is exact; the rest needs a step of ETDRK4 below about 1 / (6 |u| k).

    Good values: solitons of c up to 3 on 128 points and L = 40.
    """

    family = "kdv"
    conserves_mean = True
    modes = 3
    rms = 0.35

    points: int = 128
    length: float = 40.0
    dt: float = 0.1
    substeps: int = 10

    def symbol(self) -> Spectrum:
        """-(i k)^3 = i k^3."""
        return -(self.derivatives[0] ** 3)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-3 (u^2)_x."""
        return np.asarray(-3.0 * self.derivatives[0] * self.product(self.smooth_fields(hat) ** 2))

    def soliton(self, c: float, position: float) -> Array:
        """A soliton of speed c whose crest is at `position`, with its periodic images, (n,)."""
        (x,) = self.mesh
        total = np.zeros_like(x)
        for image in (-1, 0, 1):
            # cosh overflows far from the crest, where the soliton is zero.
            distance = np.minimum(np.abs(x - position + image * self.length), 300.0 / np.sqrt(c))
            total += 0.5 * c / np.cosh(0.5 * np.sqrt(c) * distance) ** 2
        return total

    def start(self) -> Array:
        """A soliton of speed 2 at L / 4 behind one of speed 0.7 at L / 2."""
        return self.joined(self.soliton(2.0, self.length / 4.0) + self.soliton(0.7, self.length / 2.0))

    def energy(self, state: Array) -> Array:
        """The mean of u_x^2 / 2 - u^3, (..., n) -> (...)."""
        u = self.split(state)[..., 0, :]
        slope = self.fields(self.derivatives[0] * self.spectrum(u))
        total: Array = (0.5 * slope**2 - u**3).mean(-1)
        return total

    def invariants(self) -> Mapping[str, Functional]:
        """The mean and the mean square of u, and the energy."""
        return {
            **super().invariants(),
            "mean square": lambda state: np.square(state).mean(-1),
            "energy": self.energy,
        }
