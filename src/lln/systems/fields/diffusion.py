"""The heat equation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class Diffusion(SpectralField):
    """A profile that flattens.

    Equation: ``u_t = nu u_xx`` on the circle [0, L), exact: mode k decays as ``exp(-nu k^2 t)``.

    State: u at n equal points, (n,).

    What the solution does: fine structure goes first; after the time (L / 2 pi)^2 / nu only the longest wave is left,
    and then the mean, which is conserved. It is linear.

    When it breaks: never forward in time for nu > 0.

    Good values: a trajectory of about (L / 2 pi)^2 / nu; beyond it there is little left to predict.

    Args:
        nu: diffusivity.
    """

    family = "diffusion"
    conserves_mean = True
    linear = True
    modes = 8

    points: int = 128
    nu: float = 0.05
    length: float = TWO_PI
    dt: float = 0.02
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """-nu k^2."""
        return (self.nu * self.laplacian).astype(np.complex128)

    def start(self) -> Array:
        """Two humps of unlike width and sign."""
        (q,) = self.angles
        return self.joined(np.exp(8.0 * (np.cos(q - 2.0) - 1.0)) - 0.7 * np.exp(2.0 * (np.cos(q - 4.5) - 1.0)))
