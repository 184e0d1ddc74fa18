"""Nonlinear equations on a torus: Burgers, decaying turbulence, Allen-Cahn, Gray-Scott."""

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
    """

    family = "burgers-2d"
    channels = ("u", "v")
    dimensions = 2
    steps = 200
    modes = 3
    rms = 0.7

    points: int | tuple[int, ...] = 64
    nu: float = 0.1  #: viscosity.
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
        """``u = sin p cos q + cos(q) / 2``, ``v = sin q cos p - sin(2 p) / 2``, with the angles p and q of x and y."""
        p, q = self.angles
        return self.joined(np.sin(p) * np.cos(q) + 0.5 * np.cos(q), np.cos(p) * np.sin(q) - 0.5 * np.sin(2.0 * p))


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
    """

    family = "turbulence"
    conserves_mean = True
    channels = ("w",)
    dimensions = 2
    steps = 300
    rms = 2.0

    points: int | tuple[int, ...] = 64
    nu: float = 0.008  #: viscosity.
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
    """

    family = "allen-cahn"
    dimensions = 2
    steps = 200

    points: int | tuple[int, ...] = 64
    nu: float = 0.03  #: diffusivity.
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

    When it breaks: the edges of the pattern are about 3 wide and need a spacing of 0.8; with a spacing of 1 the pattern
    is right to a few percent. The reaction is slow, so that ETDRK4 is stable at steps of several units.

    Good values: as above, steps of ETDRK4 of 2.5, and 1000 to 5000 units of time for a pattern to form.
    """

    family = "gray-scott"
    channels = ("u", "v")
    dimensions = 2
    letters = ("F", "k", "D_u", "D_v")

    points: int | tuple[int, ...] = 64
    feed: float = 0.037  #: F in the equation.
    kill: float = 0.060  #: k in the equation.
    diffusivity_u: float = 0.16  #: D_u in the equation.
    diffusivity_v: float = 0.08  #: D_v in the equation.
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
