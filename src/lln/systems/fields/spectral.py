"""Fields on a periodic box by Fourier series: what the spectral equations share.

Time goes by exponential differencing of order four. For u' = L u + N(u) with L diagonal in Fourier space, variation of
constants gives ``u(t + h) = e^{hL} u(t) + integral of e^{(h - s)L} N(u(t + s)) ds``; the four-stage scheme (Cox and
Matthews 2002) approximates the integral. A stiff L, however large, then puts no limit on the step. The error falls with
the fourth power of the step once it is small against the times of the modes that matter; with longer steps of a stiff
equation (Kuramoto-Sivashinsky at 0.1 and above) rather with the third.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lln.core.errors import InputError, check_int, finite, positive
from lln.systems.base import Array, Functional, System, constants

Spectrum = NDArray[np.complexfloating[Any, Any]]

_TERMS = 20  # of the series for |z| < 1: the first one left out is below 1 / 20!


def phi(z: Spectrum) -> tuple[Spectrum, Spectrum, Spectrum]:
    """phi_1 .. phi_3 of every element: ``phi_k(z) = sum of z^j / (j + k)!``, so that phi_1(z) = (e^z - 1) / z.

    The closed forms subtract nearly equal numbers where z is small, so there the series is summed instead.
    """
    z = np.asarray(z, dtype=np.complex128)
    small = np.abs(z) < 1.0
    near, far = np.where(small, z, 0.0), np.where(small, 1.0, z)
    one = (np.exp(far) - 1.0) / far
    two = (one - 1.0) / far
    closed = (one, two, (two - 0.5) / far)
    found = []
    for order, value in enumerate(closed, start=1):
        series = np.zeros_like(z)
        for j in reversed(range(_TERMS)):
            series = series * near + 1.0 / math.factorial(j + order)
        found.append(np.where(small, series, value))
    return found[0], found[1], found[2]


def etdrk4(symbol: Spectrum, nonlinear: Callable[[Spectrum], Spectrum], step: float) -> Callable[[Spectrum], Spectrum]:
    """The map of one step h on spectra, for L = `symbol`, one number for each mode, and N = `nonlinear`."""
    z = step * np.asarray(symbol, dtype=np.complex128)
    half, full = np.exp(z / 2.0), np.exp(z)
    to_half = step / 2.0 * phi(z / 2.0)[0]
    one, two, three = phi(z)
    first = step * (one - 3.0 * two + 4.0 * three)
    middle = step * (2.0 * two - 4.0 * three)
    last = step * (4.0 * three - two)

    def advance(u: Spectrum) -> Spectrum:
        at_u = nonlinear(u)
        a = half * u + to_half * at_u
        at_a = nonlinear(a)
        b = half * u + to_half * at_a
        at_b = nonlinear(b)
        c = half * a + to_half * (2.0 * at_b - at_u)
        after: Spectrum = full * u + first * at_u + middle * (at_a + at_b) + last * nonlinear(c)
        return after

    return advance


__all__ = ["TWO_PI", "Array", "Functional", "SpectralField", "Spectrum"]  # what an equation needs
TWO_PI = 2.0 * math.pi
LEAST_POINTS = 8


class SpectralField(System):
    """Fields on a box with periodic sides, in one or two dimensions of space, by a Fourier pseudo-spectral method.

    State: the channels one after the other, and within a channel the grid in C order (x, then y):
    n = channels * prod(space). Everything is computed in float64, whatever the dtype of the state.

    An equation is split into ``u_t = L u + N(u)``: L is diagonal in Fourier space and advanced exactly, N by ETDRK4
    with products taken on the grid. Products are dealiased by the 2/3 rule: N sees and makes only modes below a third
    of the points, so that no quadratic product is aliased. Modes above that, if a start has any, follow L alone. What a
    cubic product still aliases is smaller than what the cut at a third leaves out, as long as the field is resolved.
    """

    channels: ClassVar[tuple[str, ...]] = ("u",)  #: names of the fields.
    dimensions: ClassVar[int] = 1  #: of space.
    burn_in: ClassVar[int] = 0  #: steps after which a trajectory is worth learning from.
    steps: ClassVar[int] = 500  #: a length of trajectory that shows what the system does.
    #: of the constants in the equation, in their order; () if they are their names.
    letters: ClassVar[tuple[str, ...]] = ()
    modes: ClassVar[int] = 5  #: highest Fourier mode of a random start.
    rms: ClassVar[float] = 1.0  #: root mean square of a random start.

    #: number of points along each side, one number for all or one for each, as in (n_x, n_y).
    points: int | tuple[int, ...]
    length: float | tuple[float, ...]  #: of each side, likewise; L in the equations.
    substeps: int  #: steps of ETDRK4 within one dt; without effect on linear equations, whose step is exact.

    @abstractmethod
    def symbol(self) -> Spectrum:
        """The linear part L of every mode, to be broadcast against (channels, *modes)."""

    def nonlinear(self, hat: Spectrum) -> Spectrum:
        """N of a spectrum (..., channels, *modes); zero where the equation is linear."""
        return np.zeros_like(hat)

    def random_start(self, seed: int) -> Array:
        """Another smooth start, (n,), the same field for the same seed on a grid of any resolution."""
        generator = np.random.default_rng(seed)
        return self.joined(*(self.rms * self.noise(generator, self.modes) for _ in self.channels))

    def __post_init__(self) -> None:
        """Check the grid, the steps and the constants."""
        for points in _each("points", self.points, self.dimensions):
            check_int("points", points, LEAST_POINTS)
        for length in _each("length", self.length, self.dimensions):
            positive("length", length)
        positive("dt", self.dt), check_int("substeps", self.substeps, 1)
        for name, value in self.symbols.items():
            finite(name, value)

    @property
    def space(self) -> tuple[int, ...]:
        """Number of points along each side."""
        return tuple(int(points) for points in _each("points", self.points, self.dimensions))

    @property
    def lengths(self) -> tuple[float, ...]:
        """Length of each side."""
        return tuple(float(length) for length in _each("length", self.length, self.dimensions))

    @property
    def coords(self) -> Mapping[str, Array]:
        """The points along each side, from zero; the far end is the near one again and is left out."""
        pairs = zip("xyz", self.space, self.lengths, strict=False)
        return {name: np.arange(points) * (length / points) for name, points, length in pairs}

    @property
    def mesh(self) -> tuple[Array, ...]:
        """The coordinates of every point, each (*space)."""
        return tuple(np.meshgrid(*self.coords.values(), indexing="ij"))

    @property
    def angles(self) -> tuple[Array, ...]:
        """The coordinates as angles: each side runs from 0 to 2 pi."""
        return tuple(TWO_PI * x / length for x, length in zip(self.mesh, self.lengths, strict=True))

    @property
    def grid(self) -> Array | None:
        """The points, if the state is one field on a line."""
        return self.coords["x"] if self.dimensions == 1 and len(self.channels) == 1 else None

    @property
    def size(self) -> int:
        """Channels times points."""
        return len(self.channels) * math.prod(self.space)

    @property
    def name(self) -> str:
        """Family and grid, as in `ks-128` and `gray-scott-64x64`."""
        return f"{self.family}-{'x'.join(map(str, self.space))}"

    @property
    def coordinates(self) -> tuple[str, ...]:
        """u0, u1, ..., v0, v1, ...: each channel through the grid in C order."""
        return tuple(f"{channel}{i}" for channel in self.channels for i in range(math.prod(self.space)))

    @property
    def symbols(self) -> Mapping[str, float]:
        """Size n, the constants under their letters, and on a line its length L."""
        known = constants(self)
        named = dict(zip(self.letters or known, known.values(), strict=True))
        return {"n": self.size, **named, **({"L": self.lengths[0]} if self.dimensions == 1 else {})}

    @cached_property
    def wavenumbers(self) -> tuple[Array, ...]:
        """Wave numbers k along each side, shaped to broadcast over the modes; the last side has only its k >= 0."""
        return self._along(lambda points, length: TWO_PI / length * np.fft.fftfreq(points, 1.0 / points))

    @cached_property
    def derivatives(self) -> tuple[Spectrum, ...]:
        """Multipliers i k of first derivatives; the highest mode of an even grid has no slope that the grid can see."""

        def multiplier(points: int, length: float) -> Array:
            index = np.fft.fftfreq(points, 1.0 / points)
            return TWO_PI / length * np.where(2 * np.abs(index) == points, 0.0, index)

        return tuple(1j * k for k in self._along(multiplier))

    @cached_property
    def laplacian(self) -> Array:
        """The multiplier -|k|^2, (*modes)."""
        return np.asarray(-sum(k**2 for k in self.wavenumbers), dtype=np.float64)

    @cached_property
    def kept(self) -> Array:
        """1 for the modes that the 2/3 rule keeps, else 0, (*modes)."""
        flags = self._along(lambda points, _: (3 * np.abs(np.fft.fftfreq(points, 1.0 / points)) < points).astype(float))
        return np.asarray(math.prod(flags[1:], start=flags[0]), dtype=np.float64)

    def _along(self, values: Callable[[int, float], Array]) -> tuple[Array, ...]:
        """A value for each mode of each side, shaped to broadcast over the modes of real fields."""
        found = []
        for axis, (points, length) in enumerate(zip(self.space, self.lengths, strict=True)):
            one = values(points, length)
            if axis == self.dimensions - 1:
                one = np.abs(one[: points // 2 + 1])  # an even grid's highest mode counts as -n / 2
            found.append(one.reshape(-1, *[1] * (self.dimensions - 1 - axis)))
        return tuple(found)

    def split(self, state: Array) -> Array:
        """The channels as fields: (..., n) -> (..., channels, *space), in float64."""
        return np.asarray(state, dtype=np.float64).reshape(*state.shape[:-1], len(self.channels), *self.space)

    def joined(self, *fields: Array) -> Array:
        """Fields (*space), one a channel, as one state (n,)."""
        return np.concatenate([np.broadcast_to(field, self.space).ravel() for field in fields]).astype(np.float64)

    def spectrum(self, fields: Array) -> Spectrum:
        """Fourier coefficients: (..., *space) -> (..., *modes)."""
        return np.asarray(np.fft.rfftn(fields, axes=range(-self.dimensions, 0)))

    def fields(self, hat: Spectrum) -> Array:
        """Values on the grid: (..., *modes) -> (..., *space)."""
        return np.asarray(np.fft.irfftn(hat, s=self.space, axes=range(-self.dimensions, 0)))

    def smooth_fields(self, hat: Spectrum) -> Array:
        """Values on the grid of the modes that the 2/3 rule keeps: what products are made of."""
        return self.fields(hat * self.kept)

    def product(self, fields: Array) -> Spectrum:
        """The spectrum of a product that was taken on the grid, without the modes that may be aliased."""
        return self.spectrum(fields) * self.kept

    def rhs(self, state: Array) -> Array:
        """f(u): (..., n) -> (..., n)."""
        hat = self.spectrum(self.split(state))
        slope = self.fields(self.symbol() * hat + self.nonlinear(hat))
        return slope.reshape(state.shape).astype(state.dtype)

    def spectral_step(self, dt: float) -> Callable[[Spectrum], Spectrum]:
        """The map over dt on spectra (..., channels, *modes): exact for linear equations, else ETDRK4 in substeps."""
        if self.linear:
            factor = np.exp(dt * self.symbol())
            return lambda hat: factor * hat
        once = etdrk4(self.symbol(), self.nonlinear, dt / self.substeps)

        def advance(hat: Spectrum) -> Spectrum:
            for _ in range(self.substeps):
                hat = once(hat)
            return hat

        return advance

    def propagator(self, dt: float) -> Callable[[Array], Array]:
        """One step of dt: (..., n) -> (..., n)."""
        advance = self.spectral_step(dt)

        def step(state: Array) -> Array:
            after = self.fields(advance(self.spectrum(self.split(state))))
            return after.reshape(state.shape).astype(state.dtype)

        return step

    def noise(self, generator: np.random.Generator, modes: int) -> Array:
        """A random smooth field (*space) of mean zero and mean square one.

        Its Fourier modes up to `modes` along each side have random phases and sizes. They are drawn in an order that
        does not depend on the grid, so that every grid that holds them shows the same field.
        """
        indices = [np.arange(-modes, modes + 1)] * (self.dimensions - 1) + [np.arange(modes + 1)]
        shape = tuple(len(index) for index in indices)
        real, imaginary = generator.standard_normal((2, *shape))
        radius = np.sqrt(sum(k.astype(float) ** 2 for k in np.meshgrid(*indices, indexing="ij")))
        weight = np.where((radius > 0) & (radius <= modes), 1.0, 0.0)
        hat = np.zeros((*self.space[:-1], self.space[-1] // 2 + 1), dtype=np.complex128)
        inside = [np.flatnonzero(2 * np.abs(k) < points) for k, points in zip(indices, self.space, strict=True)]
        places = [k[chosen] % points for k, chosen, points in zip(indices, inside, self.space, strict=True)]
        hat[np.ix_(*places)] = ((real + 1j * imaginary) * weight)[np.ix_(*inside)]
        field = self.fields(hat)
        return np.asarray(field / np.sqrt(np.mean(field**2)))


def _each(what: str, value: Any, dimensions: int) -> Sequence[Any]:
    """`value` for each side."""
    if not isinstance(value, (tuple, list)):
        return (value,) * dimensions
    if len(value) != dimensions:
        raise InputError(f"{what} must be one number or {dimensions}, one for each side, got {value!r}")
    return value
