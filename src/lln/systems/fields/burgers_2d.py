"""The viscous Burgers equation for a velocity in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lln.systems.fields.spectral import TWO_PI, Array, SpectralField, Spectrum


@dataclass(frozen=True)
class Burgers2D(SpectralField):
    """A velocity that carries itself: fronts that run, meet and merge in the plane.

    Equation: ``u_t = -u u_x - v u_y + nu (u_xx + u_yy)``, ``v_t = -u v_x - v v_y + nu (v_xx + v_yy)`` on the torus.

    State: u, then v, each on a grid (x, y), (2 n_x n_y,): the two components of the velocity.

    What the solution does: fluid that comes from both sides piles up in fronts of width nu / |u|, which meet in a
    network, and everything decays. Unlike real fluids it has no pressure and is compressible. A velocity that is a
    gradient stays one, then its mean is conserved, and Cole and Hopf solve it: ``(u, v) = -2 nu grad log phi`` with phi
    a solution of the heat equation.

    When it breaks: a front has the spectrum exp(-pi nu k / |u|), with |u| half its jump, which must have died out at
    the highest mode kept, k = (2 pi / L) n / 3. ETDRK4 is safe with steps below about 2 / (k |u|).

    Good values: nu of 0.08 and above on 64 x 64 points and |u| of about 1.

    Args:
        nu: viscosity.
    """

    family = "burgers-2d"
    channels = ("u", "v")
    dimensions = 2
    steps = 200
    modes = 3
    rms = 0.7

    points: int | tuple[int, ...] = 64
    nu: float = 0.1
    length: float | tuple[float, ...] = TWO_PI
    dt: float = 0.04
    substeps: int = 1

    def symbol(self) -> Spectrum:
        """-nu |k|^2."""
        return (self.nu * self.laplacian).astype(np.complex128)

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """-(u, v).grad of each component."""
        along, across = self.derivatives
        velocity = self.smooth_fields(hat)
        carried = velocity[..., 0:1, :, :] * self.smooth_fields(along * hat)
        carried += velocity[..., 1:2, :, :] * self.smooth_fields(across * hat)
        return -self.product(carried)

    def start(self) -> Array:
        """U = sin p cos q + cos(q) / 2 and v = sin q cos p - sin(2 p) / 2, with the angles p and q of x and y."""
        p, q = self.angles
        return self.joined(np.sin(p) * np.cos(q) + 0.5 * np.cos(q), np.cos(p) * np.sin(q) - 0.5 * np.sin(2.0 * p))
