"""Decaying turbulence in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class DecayingTurbulence(SpectralField):
    """Vortices of an incompressible fluid that wind each other up, merge and fade.

    Equation: ``w_t = -u w_x - v w_y + nu (w_xx + w_yy)`` on the torus: Navier-Stokes for the vorticity w = v_x - u_y.
    The velocity follows from the stream function: ``psi_xx + psi_yy = -w``, ``u = psi_y``, ``v = -psi_x``.

    State: w on a grid (x, y), (n_x n_y,).

    What the solution does: vortices of the same sign merge into larger ones and draw out filaments of
    vorticity, which viscosity wipes out. Enstrophy (the mean of w^2 / 2) falls fast, energy (the mean of
    (u^2 + v^2) / 2) slowly, and in the end one pair of vortices fills the box. The mean of w is conserved; without
    viscosity so are energy and enstrophy. A start that is an eigenfunction of the Laplacian, such as Taylor and Green's
    cos x cos y, is steady but for its decay.

    When it breaks: filaments get as thin as (nu^2 / enstrophy)^(1/4), which must stay above about L / n. ETDRK4 is safe
    with steps below about 2 / (k |u|) with the highest mode kept, k = (2 pi / L) n / 3.

    Good values: nu of 0.008 on 64 x 64 and 0.002 on 128 x 128, for a root mean square of w of 2 at the start; while
    filaments form, at t of 1 to 4, the highest modes kept then hold about 2 % of the largest.

    Args:
        nu: viscosity.
    """

    family = "turbulence"
    conserves_mean = True
    channels = ("w",)
    dimensions = 2
    steps = 300
    rms = 2.0

    points: int | tuple[int, ...] = 64
    nu: float = 0.008
    length: float | tuple[float, ...] = TWO_PI
    dt: float = 0.1
    substeps: int = 2

    def symbol(self) -> Spectrum:
        """-nu |k|^2."""
        return (self.nu * self.laplacian).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-(u, v).grad w."""
        along, across = self.derivatives
        stream = self.stream(hat)
        carried = self.smooth_fields(across * stream) * self.smooth_fields(along * hat)
        carried -= self.smooth_fields(along * stream) * self.smooth_fields(across * hat)
        return -self.product(carried)

    def stream(self, hat: Spectrum) -> Spectrum:
        """The spectrum of the stream function of a vorticity; of mean zero, as only its slopes matter."""
        shrink = np.where(self.laplacian < 0, self.laplacian, -1.0)
        return np.where(self.laplacian < 0, -hat / shrink, 0.0)

    def velocity(self, state: Array) -> Array:
        """(u, v) on the grid, (..., n) -> (..., 2, *space)."""
        along, across = self.derivatives
        stream = self.stream(self.spectrum(self.split(state)[..., 0, :, :]))
        return np.stack([self.fields(across * stream), self.fields(-along * stream)], axis=-3)

    def energy(self, state: Array) -> Array:
        """The mean of (u^2 + v^2) / 2, (..., n) -> (...)."""
        total: Array = 0.5 * np.square(self.velocity(state)).sum(-3).mean((-2, -1))
        return total

    def enstrophy(self, state: Array) -> Array:
        """The mean of w^2 / 2, (..., n) -> (...)."""
        total: Array = 0.5 * np.square(state).mean(-1)
        return total

    def start(self) -> Array:
        """The random start of seed 0."""
        return self.random_start(0)
