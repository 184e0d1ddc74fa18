"""Linear equations, whose steps are exact: transport, heat, waves on a circle; a scalar in the wind on a torus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, Functional, SpectralField, Spectrum


@dataclass(frozen=True)
class Advection(SpectralField):
    """A profile that moves and keeps its shape.

    Equation: ``u_t = -c u_x`` on the circle [0, L), exact: mode k turns by ``exp(-i c k t)``.

    State: u at n equally spaced points, (n,).

    What the solution does: ``u(x, t) = u(x - c t, 0)``. It is linear, and all moments of u, mean and mean square among
    them, are conserved. The simplest test of a surrogate: every error of phase or amplitude adds up.

    When it breaks: never; modes that the grid cannot hold are not there.

    Good values: c dt / dx should not be a whole number, or one step is a mere renumbering of the points.
    """

    family = "advection"
    conserves_mean = True
    linear = True

    points: int = 128
    c: float = 1.0  #: speed.
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


@dataclass(frozen=True)
class Diffusion(SpectralField):
    """A profile that flattens.

    Equation: ``u_t = nu u_xx`` on the circle [0, L), exact: mode k decays as ``exp(-nu k^2 t)``.

    State: u at n equally spaced points, (n,).

    What the solution does: fine structure goes first; after the time (L / 2 pi)^2 / nu only the longest wave is left,
    and then the mean, which is conserved. It is linear.

    When it breaks: never forward in time for nu > 0.

    Good values: a trajectory of about (L / 2 pi)^2 / nu; beyond it there is little left to predict.
    """

    family = "diffusion"
    conserves_mean = True
    linear = True
    modes = 8

    points: int = 128
    nu: float = 0.05  #: diffusivity.
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


@dataclass(frozen=True)
class Wave(SpectralField):
    """A string that forms a ring.

    Equation: ``u_t = v``, ``v_t = c^2 u_xx`` on the circle [0, L), exact: mode k swings at ``omega = c |k|``.

    State: u, then v, each at n equally spaced points, (2n,): displacement and velocity.

    What the solution does: a bump at rest splits into two halves that run round the ring at the speed c in opposite
    directions and rebuild it whenever they meet; after L / c everything is as it was. It is linear, and Hamiltonian:
    the energy ``mean of v^2 / 2 + c^2 u_x^2 / 2`` and the mean of v are conserved.

    When it breaks: never; a mean velocity other than zero lets the mean of u grow without bound.

    Good values: c dt / dx should not be a whole number, or one step is a mere renumbering of the points.
    """

    family = "wave"
    channels = ("u", "v")
    linear = True

    points: int = 128
    c: float = 1.0  #: speed.
    length: float = TWO_PI
    dt: float = 0.02
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """Zero: the two channels are coupled, so that L is a matrix for each mode, not a number."""
        return np.zeros((1, 1), dtype=np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """The whole right-hand side: (v, c^2 u_xx)."""
        return np.stack([hat[..., 1, :], self.c**2 * self.laplacian * hat[..., 0, :]], axis=-2)

    def spectral_step(self, dt: float) -> Callable[[Spectrum], Spectrum]:
        """The exact rotation of every mode in the plane of (omega u, v)."""
        omega = abs(self.c) * self.wavenumbers[0]
        cosine, sine = np.cos(omega * dt), np.sin(omega * dt)
        share = dt * np.sinc(omega * dt / np.pi)  # sin(omega dt) / omega, and dt for the mean

        def advance(hat: Spectrum) -> Spectrum:
            u, v = hat[..., 0, :], hat[..., 1, :]
            return np.stack([cosine * u + share * v, cosine * v - omega * sine * u], axis=-2)

        return advance

    def start(self) -> Array:
        """A bump at a third of the circle, at rest."""
        (q,) = self.angles
        return self.joined(np.exp(12.0 * (np.cos(q - 2.0) - 1.0)), np.zeros_like(q))

    def energy(self, state: Array) -> Array:
        """The mean of v^2 / 2 + c^2 u_x^2 / 2, (..., 2n) -> (...)."""
        fields = self.split(state)
        # By the modes themselves, so that the highest one of an even grid counts too.
        stiff = self.fields(self.wavenumbers[0] * self.spectrum(fields[..., 0, :]))
        total: Array = 0.5 * (fields[..., 1, :] ** 2 + self.c**2 * stiff**2).mean(-1)
        return total

    @property
    def symbols(self) -> Mapping[str, float]:
        """Points n, c and L."""
        return {"n": self.space[0], "c": self.c, "L": self.length}

    def invariants(self) -> Mapping[str, Functional]:
        """The energy and the mean velocity."""
        return {"energy": self.energy, "mean velocity": lambda state: self.split(state)[..., 1, :].mean(-1)}


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
    """

    family = "advecdiff-2d"
    conserves_mean = True
    dimensions = 2
    linear = True

    points: int | tuple[int, ...] = 64
    wind: tuple[float, float] = (1.0, 0.4)  #: (c_x, c_y).
    nu: float = 0.02  #: diffusivity.
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
