"""One lens in vector arithmetic: the factored Gaussians of `grid.py`, their sum, its slope and their gradients.

Everything here is emitted once per tile and layer; the loops over layers, rows and blocks are in `cpu_kernels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from lln.ops.cpu.simd import Code, Tile
from lln.ops.grid import LOG2E, Grid

# 2^f = 1 + f (c1 + c2 f + ...) on [-1/2, 1/2]: the best fit in relative error, which is 2e-9. One degree less would
# err by 9e-8, more than rounding does, and the outermost Gaussian takes the sixth power of that.
EXP2 = (
    0.6931472028550453,
    0.24022647913632128,
    0.055503324711589724,
    0.009618437357427498,
    0.00133988744036809,
    0.0001535336195104794,
)

# Adding 1.5 * 2^23 rounds to an integer, which then sits in the lowest bits; 127 more is the bias of an exponent.
MAGIC = 1.5 * 2.0**23 + 127.0

# A kernel's array of constants begins with: L, kappa, gamma, its remainder, C, the clamp (of y - anchor), 2 kappa ln 2
# (of the slope) and 2 / (gamma ln 2) (from log E to an index). There follow the weights, folded with the scale, the
# anchors, and kappa times what rounding added to these.
SCALARS = 8

# tanh x = x (1 + x^2 (t1 + t2 x^2 + ...)) for |x| <= 0.625, where 1 - 2 / (1 + e^2x) would lose digits; error 4e-9.
TANH = (-0.33333282, 0.13331442, -0.05373971, 0.02063909, -0.00570499)
_TANH_LIMIT = 0.625

Layer = Callable[[int], Tile]


def polynomial(code: Code, coefficients: Sequence[float], x: Tile) -> Tile:
    """Horner's scheme, constant term first."""
    value = code.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = code.fma(value, x, code.constant(c))
    return value


def exp2(code: Code, x: Tile) -> Tile:
    """2^x for |x| < 126."""
    magic = code.constant(MAGIC)
    bits = x + magic
    f = x - (bits - magic)
    return code.fma(polynomial(code, EXP2, f), f, code.constant(1.0)) * code.power(bits)


def tanh(code: Code, x: Tile) -> Tile:
    """The hyperbolic tangent to the last digit or two."""
    one, two = code.constant(1.0), code.constant(2.0)
    limit = code.constant(40.0)  # 2^40 is infinite for our purposes
    power = code.at_least(code.at_most(x * code.constant(2.0 * LOG2E), limit), -limit)
    far = one - two / (exp2(code, power) + one)
    square = x * x
    near = code.fma(polynomial(code, TANH, square) * square, x, x)
    return code.where_less(square, code.constant(_TANH_LIMIT**2), near, far)


@dataclass(frozen=True)
class Shape:
    """The part of a grid that is compiled in: how many centres lie where around which anchor.

    Attributes:
        groups: (first, below, above) of every group.
    """

    groups: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, grid: Grid) -> Shape:
        """The shape of `grid`."""
        return cls(tuple((group.first, group.below, group.above) for group in grid.groups))

    @property
    def basis(self) -> int:
        """Number of centres K."""
        return sum(below + 1 + above for _, below, above in self.groups)


@dataclass(frozen=True)
class Factors:
    """What the Gaussians of one group are made of.

    Attributes:
        z: scaled distance to the anchor.
        prefactor: 2^(C - z^2).
        up: E, of no meaning in a group of one centre.
        down: 1 / E, likewise.
        rest: what rounding took from z; None where the slope can do without.
    """

    z: Tile
    prefactor: Tile
    up: Tile
    down: Tile
    rest: Tile | None = None


class Lens:
    """Emits lenses of one shape; reads the constants once, in front of all loops."""

    def __init__(self, code: Code, shape: Shape, constants: ir.Value) -> None:
        self.code, self.shape = code, shape
        self.length, self._kappa, self._gamma, self._gamma_low, offset, self._limit, self.twist, self._index = (
            code.splat(code.load_scalar(constants, k)) for k in range(SCALARS)
        )
        self._magic = code.constant(MAGIC)
        self._top = offset + self._magic  # exact: both are integers below 2^24
        self._slip = self._gamma * code.constant(-math.log(2.0))
        first, count = SCALARS + shape.basis, len(shape.groups)
        anchors = [code.splat(code.load_scalar(constants, first + k)) for k in range(2 * count)]
        self._anchors = list(zip(anchors[:count], anchors[count:], strict=True))

    def factors(self, y: Tile, group: int) -> Factors:
        """The factors of one group at positions y.

        The distance to the anchor is exact as a rule, and clamped where 2^(C - z^2) is zero. Scaled to z it is
        rounded, which at the end of the grid would cost as much as all the rest: the remainder is carried along.
        """
        code = self.code
        anchor, shift = self._anchors[group]
        distance = code.at_least(code.at_most(y - anchor, self._limit), -self._limit)
        z = distance * self._kappa
        _, below, above = self.shape.groups[group]
        if not (below or above):
            return Factors(z, self._prefactor(z, None), z, z)
        rest = code.exact_fma(distance, self._kappa, -z) + shift
        grouped = len(self.shape.groups) > 1  # anchors far from zero, narrow Gaussians: more to lose
        if grouped:
            rest = code.fma(self._lost(y, anchor), self._kappa, rest)
        nearest = z * self._index
        up, down, slip = self._both_powers(z, rest, nearest)
        prefactor = self._prefactor(z, (nearest, code.fma(self._slip, rest, slip)))
        return Factors(z, prefactor, up, down, rest if grouped else None)

    def _lost(self, y: Tile, anchor: Tile) -> Tile:
        """What rounding took from y - anchor where y is the smaller.

        Bounded, so that infinities (whose difference is not a number here) stay without effect.
        """
        code = self.code
        lost = y - ((y - anchor) + anchor)
        bound = self._limit * code.constant(2.0**-24)
        lost = code.where_less(lost, bound, lost, bound)
        return code.where_less(-bound, lost, lost, -bound)

    def _prefactor(self, z: Tile, correction: tuple[Tile, Tile] | None) -> Tile:
        """2^(C - z^2); zero at the clamp, where the exponent is -127.

        The i-th power of E multiplies its rounding error by i. Times the (fractional) index of the nearest centre,
        that error is taken out of the exponent here; so only the distance to that centre multiplies what is left.
        """
        code = self.code
        bits = code.exact_fma(-z, z, self._top)
        f = code.exact_fma(-z, z, self._top - bits)
        if correction is not None:
            f = code.fma(*correction, f)
        return code.exact_fma(polynomial(code, EXP2, f), f, code.constant(1.0)) * code.power(bits)

    def _both_powers(self, z: Tile, rest: Tile, nearest: Tile) -> tuple[Tile, Tile, Tile]:
        """E = 2^(gamma (z + rest)), 1 / E, and the rounding error of the greater of them, for `_prefactor`."""
        code = self.code
        bits = code.exact_fma(self._gamma, z, self._magic)
        f = code.fma(self._gamma_low, z, code.exact_fma(self._gamma, z, self._magic - bits))
        f = code.fma(self._gamma, rest, f)
        square = f * f
        even, odd = (polynomial(code, EXP2[k::2], square) for k in (0, 1))
        one = code.constant(1.0)
        rise, fall = code.fma(odd, f, even), code.fma(odd, -f, even)
        up, down = code.exact_fma(rise, f, one), code.exact_fma(fall, -f, one)
        slips = code.exact_fma(fall, f, down - one), code.exact_fma(rise, f, one - up)
        slip = code.where_less(nearest, code.constant(0.0), *slips)
        return up * code.power(bits), down * code.power(bits, negative=True), slip

    def refract(self, y: Tile, theta: Tile, layer: Layer) -> Tile:
        """The angles behind a lens, theta + s phi(y), with the K packed coefficients of the layer."""
        for group in range(len(self.shape.groups)):
            theta = self.bend(self.factors(y, group), theta, layer, group)
        return theta

    def bend(self, factors: Factors, theta: Tile, layer: Layer, group: int, back: bool = False) -> Tile:
        """The angles with what one group adds to them; or, back, without it."""
        prefactor = -factors.prefactor if back else factors.prefactor
        return self.code.fma(prefactor, self._sum(factors, layer, group), theta)

    def _sum(self, factors: Factors, layer: Layer, group: int) -> Tile:
        """Both Horner schemes of one group, without the prefactor."""
        first, below, above = self.shape.groups[group]
        total = layer(first + below + above)
        for k in range(first + below + above - 1, first + below - 1, -1):
            total = self.code.fma(total, factors.up, layer(k))
        if not below:
            return total
        lower = layer(first)
        for k in range(first + 1, first + below):
            lower = self.code.fma(lower, factors.down, layer(k))
        return self.code.fma(lower, factors.down, total)

    def gaussians(self, factors: Factors, group: int) -> Iterator[tuple[int, Tile, Tile]]:
        """(k, 2^(C - z^2) E^i, z_i - z) for every centre k of a group, each emitted when it is asked for."""
        first, below, above = self.shape.groups[group]
        anchor = first + below
        yield anchor, factors.prefactor, self._distance(factors, 0)
        for steps, power, sign in ((above, factors.up, 1), (below, factors.down, -1)):
            value = factors.prefactor
            for i in range(1, steps + 1):
                value = value * power
                yield anchor + sign * i, value, self._distance(factors, sign * i)

    def _distance(self, factors: Factors, i: int) -> Tile:
        """z_i - z without the cancellation."""
        code, half = self.code, self.code.constant(i / 2.0)
        near = code.exact_fma(self._gamma, half, -factors.z) if i else -factors.z
        if factors.rest is not None:
            near = near - factors.rest
        return code.fma(self._gamma_low, half, near) if i else near
