"""The equation of Fisher, Kolmogorov, Petrovsky and Piskunov."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import Array, SpectralField, Spectrum


@dataclass(frozen=True)
class FisherKPP(SpectralField):
    """A population that spreads and fills its habitat.

    Equation: ``u_t = D u_xx + r u (1 - u)`` on the circle [0, L).

    State: u at n equal points, (n,): the density as a share of what the habitat bears.

    What the solution does: u = 0 is unstable and u = 1 stable. A small patch grows, saturates and sends out fronts of
    width sqrt(D / r) on both sides. A front with a steep foot moves at 2 sqrt(D r) in the end (it gets there as
    slowly as 1 / t); one whose foot falls as exp(-s x) with s < sqrt(r / D) moves faster, at D s + r / s. When the
    fronts have met, u = 1 everywhere. Nothing is conserved; u between 0 and 1 stays there.

    When it breaks: dx must stay below sqrt(D / r). u = 0 being unstable, rounding errors grow there as exp(r t), and
    u below zero runs away to minus infinity.

    Good values: r L / sqrt(D r) of 40 and more, for fronts that have room to run.

    Args:
        diffusivity: D.
        rate: growth rate r.
    """

    family = "fisher-kpp"
    steps = 400
    letters = ("D", "r")

    points: int = 128
    diffusivity: float = 1.0
    rate: float = 1.0
    length: float = 60.0
    dt: float = 0.05
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """R - D k^2."""
        return (self.rate + self.diffusivity * self.laplacian).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-r u^2."""
        return np.asarray(-self.rate * self.product(self.smooth_fields(hat) ** 2))

    def start(self) -> Array:
        """A large patch at a third of the circle and a faint one at two thirds."""
        (q,) = self.angles
        large, faint = np.exp(30.0 * (np.cos(q - 2.0) - 1.0)), np.exp(30.0 * (np.cos(q - 4.5) - 1.0))
        return self.joined(0.8 * large + 0.02 * faint)

    def random_start(self, seed: int) -> Array:
        """Patches where a field s of four random modes is large: (1 + tanh(2 (s - 2))) / 2, between 0 and 1."""
        field = self.noise(np.random.default_rng(seed), 4)
        return self.joined(0.5 * (1.0 + np.tanh(2.0 * (field - 2.0))))
