"""Nonlinear equations on a circle: Burgers, Korteweg-de Vries, Kuramoto-Sivashinsky, Fisher-KPP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, Functional, SpectralField, Spectrum


@dataclass(frozen=True)
class Burgers1D(SpectralField):
    """Steepening against viscosity, with fronts that the grid resolves (`Burgers` is the paper's, by differences).

    Equation: ``u_t = -(u^2 / 2)_x + nu u_xx`` on the circle [0, L).

    State: u at n equally spaced points, (n,), dimensionless velocity.

    What the solution does: crests overtake troughs; after a time of about L / (2 pi |u|) fronts of width nu / |u| stand
    between ramps, drift with the mean of u, merge, and decay as 1 / t. The mean of u is conserved. Cole and Hopf turn
    it into the heat equation by ``u = -2 nu (log phi)_x``.

    When it breaks: a front has the spectrum exp(-pi nu k / |u|), with |u| half its jump; it must have died out at the
    highest mode kept, k = (2 pi / L) n / 3. At nu = 0.1, |u| = 1 and 128 points it is 2e-6 there. ETDRK4 is safe with
    steps below about 2 / (k |u|) with that k, and beyond where viscosity damps the high modes.

    Good values: nu of 0.05 and above on 128 points, 0.02 on 512.
    """

    family = "burgers-1d"
    conserves_mean = True
    modes = 4
    rms = 0.7

    points: int = 128
    nu: float = 0.1  #: viscosity.
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
        """``sin q + cos(2q) / 2`` with q = 2 pi x / L."""
        (q,) = self.angles
        return self.joined(np.sin(q) + 0.5 * np.cos(2.0 * q))


@dataclass(frozen=True)
class KortewegDeVries(SpectralField):
    """Long waves on shallow water, where steepening and dispersion balance in solitons.

    Equation: ``u_t = -3 (u^2)_x - u_xxx`` on the circle [0, L), that is ``u_t + 6 u u_x + u_xxx = 0``.

    State: u at n equally spaced points, (n,), dimensionless elevation.

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
        return {**super().invariants(), "mean square": lambda state: np.square(state).mean(-1), "energy": self.energy}


@dataclass(frozen=True)
class KuramotoSivashinsky(SpectralField):
    """Flame fronts and falling films: the simplest field that is chaotic in space and time.

    Equation: ``u_t = -(u^2 / 2)_x - u_xx - u_xxxx`` on the circle [0, L).

    State: u at n equally spaced points, (n,), dimensionless slope of the front.

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
        """``cos q (1 + sin q)`` with q = 2 pi x / L."""
        (q,) = self.angles
        return self.joined(np.cos(q) * (1.0 + np.sin(q)))


@dataclass(frozen=True)
class FisherKPP(SpectralField):
    """A population that spreads and fills its habitat.

    Equation: ``u_t = D u_xx + r u (1 - u)`` on the circle [0, L).

    State: u at n equally spaced points, (n,): the density as a share of what the habitat supports.

    What the solution does: u = 0 is unstable and u = 1 stable. A small patch grows, saturates and sends out fronts of
    width sqrt(D / r) on both sides. A front with a steep foot moves at 2 sqrt(D r) in the end (it gets there as
    slowly as 1 / t); one whose foot falls as exp(-s x) with s < sqrt(r / D) moves faster, at D s + r / s. When the
    fronts have met, u = 1 everywhere. Nothing is conserved; u between 0 and 1 stays there.

    When it breaks: dx must stay below sqrt(D / r). u = 0 being unstable, rounding errors grow there as exp(r t), and
    u below zero runs away to minus infinity.

    Good values: r L / sqrt(D r) of 40 and more, for fronts that have room to run.
    """

    family = "fisher-kpp"
    steps = 400
    letters = ("D", "r")

    points: int = 128
    diffusivity: float = 1.0  #: D in the equation.
    rate: float = 1.0  #: growth rate r.
    length: float = 60.0
    dt: float = 0.05
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """``r - D k^2``."""
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
