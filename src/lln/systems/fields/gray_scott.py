"""The reaction of Gray and Scott with diffusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import Array, SpectralField, Spectrum


@dataclass(frozen=True)
class GrayScott(SpectralField):
    """Two chemicals that draw spots, worms and mazes.

    Equation: ``u_t = D_u (u_xx + u_yy) - u v^2 + F (1 - u)``, ``v_t = D_v (v_xx + v_yy) + u v^2 - (F + k) v`` on the
    torus: v feeds on u and makes more of itself, u flows in at the rate F, v is taken out at F + k.

    State: u, then v, each on a grid (x, y), (2 n_x n_y,): concentrations between 0 and about 1.

    What the solution does: u = 1, v = 0 is stable, so that small v dies out. A large enough blot lives, grows and
    covers the torus with a pattern of its own wavelength; which one depends on F and k (Pearson 1993).
    With D_u = 0.16 and D_v = 0.08: F = 0.037, k = 0.060 mazes; F = 0.035, k = 0.065 spots that divide; F = 0.055,
    k = 0.062 corals; F = 0.014, k = 0.045 moving, dying spots and waves. Patterns take thousands of units of time.

    When it breaks: the edges of the pattern are about 3 wide and want a spacing of 0.8; with a spacing of 1 the pattern
    is right to a few percent. The reaction is slow, so that ETDRK4 is stable at steps of several units.

    Good values: as above, steps of ETDRK4 of 2.5, and 1000 to 5000 units of time for a pattern to form.

    Args:
        feed: F.
        kill: k.
        diffusivity_u: D_u.
        diffusivity_v: D_v.
    """

    family = "gray-scott"
    channels = ("u", "v")
    dimensions = 2
    letters = ("F", "k", "D_u", "D_v")

    points: int | tuple[int, ...] = 64
    feed: float = 0.037
    kill: float = 0.060
    diffusivity_u: float = 0.16
    diffusivity_v: float = 0.08
    length: float | tuple[float, ...] = 52.0
    dt: float = 5.0
    substeps: int = 2

    def symbol(self) -> Spectrum:
        """-D_u |k|^2 - F and -D_v |k|^2 - F - k."""
        u = self.diffusivity_u * self.laplacian - self.feed
        v = self.diffusivity_v * self.laplacian - self.feed - self.kill
        return np.stack([u, v]).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """F - u v^2 and u v^2."""
        values = self.smooth_fields(hat)
        made = self.product(values[..., 0, :, :] * values[..., 1, :, :] ** 2)
        inflow = np.zeros_like(made)
        inflow[..., 0, 0] = self.feed * float(np.prod(self.space))
        return np.stack([inflow - made, made], axis=-3)

    def start(self) -> Array:
        """Five blots of v in a bath of u, none of them opposite another."""
        p, q = self.angles
        places = ((1.2, 1.5), (4.6, 1.0), (3.1, 3.3), (1.0, 4.8), (5.0, 4.6))
        v = sum(np.exp(9.0 * (np.cos(p - a) + np.cos(q - b) - 2.0)) for a, b in places)
        return self._bath(np.asarray(v))

    def random_start(self, seed: int) -> Array:
        """Blots of v where a field of random modes up to 4 is large."""
        field = self.noise(np.random.default_rng(seed), 4)
        return self._bath(0.5 * (1.0 + np.tanh(3.0 * (field - 1.2))))

    def _bath(self, v: Array) -> Array:
        return self.joined(1.0 - 0.5 * v, 0.3 * v)
