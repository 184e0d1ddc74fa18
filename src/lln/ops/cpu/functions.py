"""Elementary functions in vector arithmetic, for both precisions."""

from __future__ import annotations

from collections.abc import Sequence

from lln.ops.cpu.simd import Code, Tile
from lln.ops.grid import LOG2E

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
