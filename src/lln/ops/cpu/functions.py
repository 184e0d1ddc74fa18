"""Functions of single numbers in the kernels, in float64, to the last digit or two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llvmlite import ir

from lln.ops.cpu.lens import EXP2, polynomial
from lln.ops.cpu.simd import INT, INT32, Code, Tile
from lln.ops.grid import LOG2E

if TYPE_CHECKING:
    from lln.ops.cpu.step_kernel import StepWriter

_FARTHEST = 700.0  # of arguments: exponentials of less are zero for our purposes, of more infinite
# Pi in three pieces: a multiple of the first has no rounding error below 2^20.
_PI = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21)
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(11))  # in the square of the argument
_ROUNDING = 1.5 * 2.0**52  # adding this rounds to an integer, which the lowest bits hold
_WIDEST = 2.0  # of a remainder; larger ones come from arguments beyond all precision


def gaussian(code: Code, x: Tile) -> Tile:
    """exp(-x^2 / 2)."""
    return _power(code, code.at_most(x * x, code.constant(2 * _FARTHEST)), -0.5 * LOG2E)


def exponential(code: Code, x: Tile) -> Tile:
    """exp(x)."""
    return _power(code, _clipped(code, x, _FARTHEST), LOG2E)


def step(code: Code, x: Tile) -> Tile:
    """tanh(x), as 1 - 2 / (exp(2 x) + 1)."""
    one = code.constant(1.0)
    return one - code.constant(2.0) / (exponential(code, x + x) + one)


def kink(code: Code, x: Tile) -> Tile:
    """The absolute value of x."""
    return code.at_least(x, -x)


def reciprocal(code: Code, x: Tile) -> Tile:
    """1 / x."""
    return code.constant(1.0) / x


def saturation(code: Code, x: Tile) -> Tile:
    """The number x, clipped to -1 and 1."""
    return _clipped(code, x, 1.0)


def _clipped(code: Code, x: Tile, most: float) -> Tile:
    return code.at_least(code.at_most(x, code.constant(most)), code.constant(-most))


def _power(code: Code, x: Tile, rate: float) -> Tile:
    """2^(rate x)."""
    factor, magic = code.constant(rate), code.constant(code.magic)
    bits = code.exact_fma(x, factor, magic)
    f = code.exact_fma(x, factor, magic - bits)
    power = code.power(bits)
    return code.fma(polynomial(code, EXP2[code.precision], f) * f, power, power)


def sine(code: Code, x: Tile) -> Tile:
    """sin(x): the remainder r of a multiple k of pi, the odd polynomial of r, and the sign of k."""
    magic = code.constant(_ROUNDING)
    bits = code.exact_fma(x, code.constant(1.0 / math.pi), magic)
    multiple, rest = bits - magic, x
    for piece in _PI:
        rest = code.exact_fma(multiple, code.constant(-piece), rest)
    rest = _clipped(code, rest, _WIDEST)
    square = rest * rest
    value = code.fma(polynomial(code, _SINE[1:], square) * square, rest, rest)
    whole = ir.VectorType(INT, code.lanes)
    shift = ir.Constant(whole, [63] * code.lanes)

    def signed(part: ir.Value, odd: ir.Value) -> ir.Value:
        builder = code.builder
        flip = builder.shl(builder.bitcast(odd, whole), shift)
        return builder.bitcast(builder.xor(builder.bitcast(part, whole), flip), code.vector)

    return code.each(signed, value, bits)


_KINDS = (gaussian, sine, kink, step, exponential, reciprocal, saturation)


def write_functions(writer: StepWriter, seen: ir.Value) -> None:
    """Functions of single features, behind the features; a single start has several in a vector."""
    code, out, first = writer.code, writer.item(seen, writer.args["features"]), 0
    for kind in writer.shape.functions:
        last = writer.args[f"functions{kind}"]
        with code.loop(first, last, writer.shape.slots) as k:
            slope, shift = writer.parameter("function_slopes", k), writer.parameter("function_shifts", k)
            writer.store(_KINDS[kind](code, code.fma(slope, _features(writer, seen, k), shift)), out, k)
        first = last


def _features(step: StepWriter, seen: ir.Value, k: ir.Value) -> Tile:
    """The feature of function k, of every start; or, for a single start, those of a vector of functions."""
    code, builder, places = step.code, step.code.builder, step.args["function_places"]
    slots = [builder.gep(places, [code.plus(k, q)], source_etype=INT) for q in range(step.shape.slots)]
    items = [step.read(seen, builder.load(slot, typ=INT, align=8)) for slot in slots]
    if not step.shape.single:
        return items[0]
    vector = ir.Constant(code.vector, ir.Undefined)
    for lane, item in enumerate(items):
        vector = builder.insert_element(vector, item.parts[0], ir.Constant(INT32, lane))
    return Tile(code, [vector])
