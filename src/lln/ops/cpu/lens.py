"""Elementary functions, and one lens in vector arithmetic: the factored Gaussians of `grid.py`, their sum and slopes.

Everything here is emitted once per tile and layer; the loops over layers, rows and blocks are in `kernels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from lln.ops.cpu.simd import Code, Tile
from lln.ops.grid import LOG2E, Grid

# A kernel's array of constants begins with: L, kappa, gamma, its remainder, C, the clamp (of y - anchor), 2 kappa ln 2
# (of the slope) and 2 / (gamma ln 2) (from log E to an index). There follow the weights, folded with the scale, the
# anchors, and kappa times what rounding added to these.
SCALARS = 8

_FAR = 8.0  # |z_i| of one group that float32 can hold stay below

Layer = Callable[[int], Tile]

# 2^f = 1 + f (c1 + c2 f + ...) on [-1/2, 1/2]. In float32 the best fit errs by 2e-9, relative; one degree less would
# err by 9e-8, more than rounding does, and the outermost Gaussian takes the sixth power of that. In float64 the fit
# through eleven Chebyshev points errs by 2e-17; one degree less by 6e-16.
EXP2 = {
    "float32": (
        0.6931472028550453,
        0.24022647913632128,
        0.055503324711589724,
        0.009618437357427498,
        0.00133988744036809,
        0.0001535336195104794,
    ),
    "float64": (
        0.6931471805599453,
        0.24022650695910097,
        0.0555041086648216,
        0.009618129107606888,
        0.0013333558146416936,
        0.0001540353044173605,
        1.525273382983612e-05,
        1.321544258792169e-06,
        1.0178062445845774e-07,
        7.072585949269223e-09,
        4.4549605981865186e-10,
    ),
}


def polynomial(code: Code, coefficients: Sequence[float], x: Tile) -> Tile:
    """Horner's scheme, constant term first."""
    value = code.constant(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = code.fma(value, x, code.constant(c))
    return value


def tanh(code: Code, x: Tile) -> Tile:
    """The hyperbolic tangent to the last digit or two: (e^2x - 1) / (e^2x + 1).

    With 2 x log2(e) = m + f, e^2x - 1 = 2^m (2^f - 1) + (2^m - 1) has no cancellation for small x, where m = 0.
    """
    one, magic, rate = code.constant(1.0), code.constant(code.magic), code.constant(2.0 * LOG2E)
    limit = code.constant(34.0)  # 2^100 is infinite for our purposes
    x = code.at_least(code.at_most(x, limit), -limit)
    bits = code.exact_fma(x, rate, magic)
    f = code.exact_fma(x, rate, magic - bits)
    power = code.power(bits)
    grown = code.fma(power, polynomial(code, EXP2[code.precision], f) * f, power - one)
    return grown / (grown + code.constant(2.0))


@dataclass(frozen=True)
class Shape:
    """The part of a grid that is compiled in: how many centres lie where around which anchor."""

    groups: tuple[tuple[int, int, int], ...]  #: (first, below, above) of every group.
    wide: bool = False  #: whether Gaussians far from y count as much as the nearest.
    far: bool = False  #: whether centres lie so far from their anchor that rounding of z must not reach the slope.

    @classmethod
    def of(cls, grid: Grid) -> Shape:
        """The shape of `grid`."""
        groups = tuple((group.first, group.below, group.above) for group in grid.groups)
        farthest = max(above for _, _, above in groups)
        return cls(groups, grid.wide, len(groups) > 1 or abs(grid.gamma) * farthest / 2.0 > _FAR)

    @property
    def basis(self) -> int:
        """Number of centres K."""
        return sum(below + 1 + above for _, below, above in self.groups)


@dataclass(frozen=True)
class Factors:
    """What the Gaussians of one group are made of."""

    z: Tile  #: scaled distance to the anchor.
    prefactor: Tile  #: 2^(C - z^2).
    up: Tile  #: E, of no meaning in a group of one centre.
    down: Tile  #: 1 / E, likewise.
    rest: Tile | None = None  #: what rounding took from z; None where the slope can do without.


class Lens:
    """Emits lenses of one shape; reads the constants once, in front of all loops."""

    def __init__(self, code: Code, shape: Shape, constants: ir.Value) -> None:
        self.code, self.shape = code, shape
        self.length, self._kappa, self._gamma, self._gamma_low, offset, self._limit, self.twist, self._index = (
            code.splat(code.load_scalar(constants, k)) for k in range(SCALARS)
        )
        self._exp2 = EXP2[code.precision]
        self._magic = code.constant(code.magic)
        self._top = offset + self._magic  # exact: both are integers that the precision holds
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
        if self.shape.far:
            rest = code.fma(self._lost(y, anchor), self._kappa, rest)
        nearest = z * self._index
        up, down, slip = self._both_powers(z, rest, nearest)
        # In a wide grid no centre stands out, and correcting E for one of them would wrong the others.
        lost = self._slip * rest if self.shape.wide else code.fma(self._slip, rest, slip)
        prefactor = self._prefactor(z, (nearest, lost))
        return Factors(z, prefactor, up, down, rest if self.shape.far else None)

    def _lost(self, y: Tile, anchor: Tile) -> Tile:
        """What rounding took from y - anchor where y is the smaller.

        Bounded, so that infinities (whose difference is not a number here) stay without effect.
        """
        code = self.code
        lost = y - ((y - anchor) + anchor)
        bound = self._limit * code.constant(2.0**-24 if code.precision == "float32" else 2.0**-53)
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
        return code.exact_fma(polynomial(code, self._exp2, f), f, code.constant(1.0)) * code.power(bits)

    def _both_powers(self, z: Tile, rest: Tile, nearest: Tile) -> tuple[Tile, Tile, Tile]:
        """E = 2^(gamma (z + rest)), 1 / E, and the rounding error of the greater of them, for `_prefactor`."""
        code = self.code
        bits = code.exact_fma(self._gamma, z, self._magic)
        f = code.fma(self._gamma_low, z, code.exact_fma(self._gamma, z, self._magic - bits))
        f = code.fma(self._gamma, rest, f)
        square = f * f
        even, odd = (polynomial(code, self._exp2[k::2], square) for k in (0, 1))
        one = code.constant(1.0)
        rise, fall = code.fma(odd, f, even), code.fma(odd, -f, even)
        up, down = code.exact_fma(rise, f, one), code.exact_fma(fall, -f, one)
        slips = code.exact_fma(fall, f, down - one), code.exact_fma(rise, f, one - up)
        slip = code.where_less(nearest, code.constant(0.0), *slips)
        return up * code.power(bits), down * code.power(bits, negative=True), slip

    def refract(self, y: Tile, theta: Tile, layer: Layer) -> Tile:
        """The angles behind a lens, theta + s phi(y), with the K packed coefficients of the layer.

        The groups are summed before they are added to the angles, so that there is one rounding at the angles' size.
        """
        last = len(self.shape.groups) - 1
        if not last:
            return self.bend(self.factors(y, 0), theta, layer, 0)
        total = self.code.constant(0.0)
        for group in range(last + 1):
            total = self.bend(self.factors(y, group), total, layer, group)
        return theta + total

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
