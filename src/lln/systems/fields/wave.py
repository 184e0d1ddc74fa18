"""The wave equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, Functional, SpectralField, Spectrum


@dataclass(frozen=True)
class Wave(SpectralField):
    """A string that forms a ring.

    Equation: ``u_t = v``, ``v_t = c^2 u_xx`` on the circle [0, L), exact: mode k swings at ``omega = c |k|``.

    State: u, then v, each at n equal points, (2n,): displacement and velocity.

    What the solution does: a bump at rest splits into two halves that run round the ring at the speed c in opposite
    directions and rebuild it whenever they meet; after L / c everything is as it was. It is linear, and Hamiltonian:
    the energy ``mean of v^2 / 2 + c^2 u_x^2 / 2`` and the mean of v are conserved.

    When it breaks: never; a mean velocity other than zero lets the mean of u grow without bound.

    Good values: c dt / dx should not be a whole number, or one step is a mere renumbering of the points.

    Args:
        c: speed.
    """

    family = "wave"
    channels = ("u", "v")
    linear = True

    points: int = 128
    c: float = 1.0
    length: float = TWO_PI
    dt: float = 0.02
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """Zero: the two channels are coupled, so that L is a matrix for each mode and no number."""
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
